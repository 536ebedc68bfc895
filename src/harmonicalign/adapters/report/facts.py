"""All facts of a report as one structure of plain lists, numbers and text."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from datetime import UTC, datetime
from typing import Any

import numpy as np

from harmonicalign._typing import Array
from harmonicalign._version import __version__
from harmonicalign.adapters.report.comparison import Comparison
from harmonicalign.adapters.report.encode import base64_of
from harmonicalign.adapters.report.points import drawn_points
from harmonicalign.adapters.verdict import (
    LOW_CONFIDENCE,
    Assessment,
    Features,
    Measure,
    Pair,
    Subject,
    percent,
    readable_p,
    tight,
    weakest,
)
from harmonicalign.paper.align import calibrate
from harmonicalign.paper.bands import itersine_windows

__all__ = ["collect"]


_BINS = 25
_MOST_MATRICES = 12
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "faiss-cpu", "threadpoolctl")
_OPTIONAL = {"torch": "torch", "anndata": "anndata", "mudata": "mudata", "scanpy": "scanpy", "dask": "dask"}

_EXPLANATIONS = {
    "offset": "the columns correspond up to an offset",
    "doubtful offset": "nothing beyond chance was found; of an offset, the share 1 − p³ was taken off",
    "units": "the columns correspond up to an offset and a unit each",
    "columns": "some columns correspond, found from the columns",
    "harmonics": "some columns correspond, found from the harmonics",
    "relations": "some columns correspond, found from their relations to each other",
    "again": "some columns correspond, found by restarting from learned weights",
    "anchors": "from the known pairs",
}


def collect(
    assessment: Assessment,
    *,
    title: str | None = None,
    max_points: int = 100_000,
    comparison: Comparison | None = None,
) -> dict[str, Any]:
    """Gather everything a report shows; the result can be written as JSON."""
    subject, pairs, features = assessment.subject, assessment.pairs, assessment.features
    found, confidence = assessment.measures, assessment.confidence
    model = subject.model
    several = len(subject.sizes) > 1
    return {
        "title": title or _default_title(subject),
        "created": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "method": "paper" if several and model.method == "paper" else "default" if several else "single",
        "verdict": assessment.verdict.summary(),
        "figures": _figures(assessment),
        "datasets": _datasets(subject, confidence),
        "lowConfidence": LOW_CONFIDENCE,
        "points": drawn_points(subject, features, confidence, max_points),
        "measures": {"rows": assessment.n_measured, "list": [_measure(m) for m in found]},
        "features": _features(subject, features),
        "spectra": _spectra(subject),
        "pairs": _pairs(subject, pairs),
        "comparison": (comparison or Comparison()).facts(),
        "parameters": _parameters(model),
        "timings": [{"stage": k, "seconds": round(float(v), 4)} for k, v in model.timings_.items()],
        "versions": _versions(),
    }


def _default_title(subject: Subject) -> str:
    if len(subject.names) == 1:
        return f"{subject.names[0]}: diffusion map"
    shown = subject.names if len(subject.names) <= 3 else [*subject.names[:2], "…"]
    return "Alignment of " + ", ".join(shown[:-1]) + f" and {shown[-1]}".replace("and …", "…")


def _figures(assessment: Assessment) -> list[dict[str, Any]]:
    """Key figures shown beside the verdict."""
    out = []
    features, confidence = assessment.features, assessment.confidence
    test = weakest(assessment.pairs)
    if test is not None:
        which = "" if len(assessment.pairs) == 1 else "weakest pair, "
        out.append(
            {
                "name": "Significance",
                "value": tight(f"z = {test.z:.1f}"),
                "note": f"{which}{tight('p = ')}{readable_p(test.p)}",
            }
        )
    if features is not None:
        out.append(
            {
                "name": "Corresponding features",
                "value": f"{int(features.selected.sum()):,}",
                "note": f"of {len(features.selected):,}",
            }
        )
    groups: dict[str, list[Measure]] = {}
    for m in assessment.measures:
        if not m.group.startswith("within"):
            groups.setdefault(m.group, []).append(m)
    for group, members in groups.items():
        kind, _, name = group.partition(":")
        before = [m.before for m in members if m.before is not None]
        after = float(np.mean([m.after for m in members]))
        style = percent if kind == "label" else "{:.2f}".format
        out.append(
            {
                "name": {"mixing": "Mixing", "label": f"Own {name} found again"}.get(
                    kind, f"Own {name} found again, correlation"
                ),
                "value": style(after),
                "note": f"{style(float(np.mean(before)))} before" if before else "after alignment",
            }
        )
    if confidence is not None:
        pooled = np.concatenate(confidence)
        low = float((pooled < LOW_CONFIDENCE).mean())
        out.append(
            {
                "name": "Median confidence",
                "value": f"{np.median(pooled):.2f}",
                "note": f"{percent(low)} of rows below {LOW_CONFIDENCE}",
            }
        )
    return out


def _datasets(subject: Subject, confidence: list[Array] | None) -> list[dict[str, Any]]:
    edges = np.linspace(0, 1, _BINS + 1)
    widths = [d.shape[1] for d in subject.model.fitted_.inputs.datasets]
    out = []
    for i, (name, n) in enumerate(zip(subject.names, subject.sizes, strict=True)):
        entry: dict[str, Any] = {"name": name, "rows": n, "columns": int(widths[i])}
        if confidence is not None:
            values = confidence[i]
            entry["median"] = _number(np.median(values))
            entry["low"] = _number((values < LOW_CONFIDENCE).mean())
            entry["histogram"] = [_number(v) for v in np.histogram(values, edges)[0] / len(values)]
        out.append(entry)
    return out


def _measure(m: Measure) -> dict[str, Any]:
    return {
        "name": m.name[:1].upper() + m.name[1:],
        "kind": m.group.partition(":")[0],
        "note": m.note,
        "before": None if m.before is None else _number(m.before),
        "after": _number(m.after),
    }


def _features(subject: Subject, features: Features | None) -> dict[str, Any] | None:
    if features is None:
        return None
    names = subject.feature_names or [f"feature {j}" for j in range(len(features.scores))]
    return {
        "names": names,
        "scores": base64_of(features.scores, "<f4"),
        "p": base64_of(features.p_values, "<f4"),
        "selected": base64_of(features.selected, "<u1"),
        "weights": None if features.weights is None else base64_of(features.weights, "<f4"),
    }


def _spectra(subject: Subject) -> dict[str, Any]:
    """Frequencies and the windows that determine which are compared."""
    settings, found = subject.model.settings_, subject.model.harmonics_
    # The default calibrates frequencies during alignment; the published method before it, if at all.
    default = subject.model.model_.method == "refined"
    grid = np.linspace(0, 1, 201)
    windows = itersine_windows(grid, settings.n_bands)
    return {
        "bands": int(settings.n_bands),
        "windows": [[_number(v, 3) for v in row] for row in windows],
        "datasets": [[_number(v) for v in h.frequencies] for h in (calibrate(found) if default else found)],
        "calibrated": default or (len(found) > 1 and bool(settings.calibrate)),
    }


def _pairs(subject: Subject, pairs: list[Pair]) -> dict[str, Any]:
    """Tests of all pairs; matrices of the first few."""
    listed = []
    for number, pair in enumerate(pairs):
        entry: dict[str, Any] = {"one": pair.one, "other": pair.other}
        if pair.significance is not None:
            test = pair.significance
            entry.update(
                z=_number(test.z),
                p=float(test.p),
                readable=readable_p(test.p),
                observed=_number(test.observed),
            )
            entry["null"] = [_number(v) for v in test.null]
        if pair.support is not None:
            entry["support"] = _number(pair.support)
            entry["explanation"] = _EXPLANATIONS.get(pair.start or "", pair.start)
        if number < _MOST_MATRICES:
            found = pair.alignment
            entry["matrices"] = [_matrix("Correlation of harmonics", found.products)]
            # The default method correlates within bands from the start.
            if (found.band_weights != 1).any():
                entry["matrices"].append(_matrix("Correlation within bands", found.correlation))
            entry["matrices"].append(_matrix("Rotation", found.rotation))
        listed.append(entry)
    total = len(subject.model.alignment_.pairs) if len(subject.sizes) > 1 else 0
    return {"list": listed, "total": total}


def _matrix(title: str, values: Array) -> dict[str, Any]:
    """A matrix in 255 steps around zero; the top half percent may be cut off so that the rest shows."""
    size = np.abs(values)
    limit = float(np.quantile(size[size > 0], 0.995)) if size.any() else 1.0
    steps = np.rint(np.clip(values / limit, -1, 1) * 127)
    return {
        "title": title,
        "shape": list(values.shape),
        "limit": limit,
        "clipped": bool(size.max() > 1.01 * limit) if size.size else False,
        "data": base64_of(steps, "<i1"),
    }


def _parameters(model: Any) -> list[dict[str, str]]:
    """Parameters as given, as used, and why."""
    settings = model.settings_
    out = []
    for name, given in sorted(
        model.get_params(deep=False).items(), key=lambda item: item[0] not in settings.reasons
    ):
        used = _in_words(getattr(settings, name)) if hasattr(settings, name) else ""
        out.append(
            {
                "name": name,
                "given": _in_words(given),
                "used": used,
                "why": settings.reasons.get(name, ""),
            }
        )
    return out


def _in_words(value: Any) -> str:
    if isinstance(value, list | tuple) and value and all(v == value[0] for v in value):
        return _in_words(value[0])
    if isinstance(value, list | tuple):
        shown = [_in_words(v) for v in value[:8]]
        return ", ".join(shown) + (", …" if len(value) > 8 else "")
    if isinstance(value, float | np.floating):
        return f"{value:g}"
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool | int | np.integer | np.bool_):
        return str(value)
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape}"
    return type(value).__name__ if not callable(value) else getattr(value, "__name__", type(value).__name__)


def _versions() -> list[dict[str, str]]:
    out = [
        {"name": "harmonicalign", "version": __version__},
        {"name": "Python", "version": platform.python_version()},
    ]
    loaded = [package for module, package in _OPTIONAL.items() if module in sys.modules]
    for package in (*_LIBRARIES, *loaded):
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
        out.append({"name": package, "version": version})
    out.append({"name": "system", "version": f"{platform.system()} {platform.machine()}"})
    return out


def _number(value: Any, digits: int = 5) -> float:
    """A float short enough for text; JSON has no NaN, and none is expected here."""
    return float(f"{float(value):.{digits}g}")
