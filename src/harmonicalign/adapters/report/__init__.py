"""The report: one HTML file that states whether datasets were aligned and shows the evidence.

`facts` collects what is shown, the verdict among it, and `page` combines it with the static files into one
self-contained file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from harmonicalign.adapters.report.comparison import Comparison
from harmonicalign.adapters.report.facts import collect
from harmonicalign.adapters.report.page import render, target, write_whole
from harmonicalign.adapters.verdict import Assessment, assess_subject, subject_of
from harmonicalign.inputs.validate import check_integer

__all__ = ["write_assessment", "write_report"]


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    *,
    before: Any = None,
    after: Any = None,
    labels: Any = None,
    names: Any = None,
    feature_names: Any = None,
    comparison: Any = None,
    title: str | None = None,
    max_points: int = 100_000,
    force: bool = False,
) -> Path:
    """Write a report on a fitted model: one self-contained HTML file.

    Parameters
    ----------
    model
        A fitted or loaded `HarmonicAlignment`, of one or more datasets, by either method.
    path
        File to write, ending in ``.html``. Written atomically.
    before
        Coordinates of the unaligned rows: a list by dataset, a dict by key, or one array over all
        rows. Two columns are plotted directly; more are reduced to two by t-SNE. By default the principal
        components of the signals of all datasets together.
    after
        The same for the aligned rows, for instance a UMAP; by default the aligned coordinates.
    labels
        A label or value per row, in the same forms (None for a dataset without), or a dict of such
        by name.
    names
        Names of the datasets; by default their keys.
    feature_names
        Names of the signals, where the model has not seen data frames. With links: two lists.
    comparison
        The table of `harmonicalign.experiments.compare`, or the ``.csv`` that ``harmonicalign compare --out``
        wrote, to be shown.
    title
        Heading of the report.
    max_points
        Above this many rows a sample is drawn, and the report says so.
    force
        Overwrite an existing file.

    Returns
    -------
    path
        The file written.

    Examples
    --------
    >>> from harmonicalign import HarmonicAlignment
    >>> from harmonicalign.datasets import load_digits_pair
    >>> pair = load_digits_pair(preserved=0.5, n_x=200, n_y=200, random_state=0)
    >>> model = HarmonicAlignment(random_state=0).fit([pair.x, pair.y])
    >>> write_report(model, "report.html", labels=[pair.labels_x, pair.labels_y])  # doctest: +SKIP
    PosixPath('report.html')
    """
    file = target(path, force=force)
    max_points = check_integer("max_points", max_points, minimum=100)
    others = Comparison.of(comparison)
    subject = subject_of(
        model, before=before, after=after, labels=labels, names=names, feature_names=feature_names
    )
    return write_assessment(
        assess_subject(subject), file, title=title, max_points=max_points, comparison=others, force=force
    )


def write_assessment(
    assessment: Assessment,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    max_points: int = 100_000,
    comparison: Comparison | None = None,
    force: bool = False,
) -> Path:
    """Write the report on a model that has been assessed; parameters as in `write_report`."""
    file = target(path, force=force)
    facts = collect(assessment, title=title, max_points=max_points, comparison=comparison)
    return write_whole(file, render(facts), force=force)
