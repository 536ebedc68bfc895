"""The verdict as every command states it: in words, as JSON, and as exit code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harmonicalign.adapters.cli._session import NOT_ALIGNED, Session

__all__ = ["assessed", "conclude", "named", "say_files", "say_scores"]

_MOST = 12


def assessed(
    run: Session,
    model: Any,
    labels: dict[Any, Any] | None = None,
    column: str = "label",
    feature_names: Any = None,
) -> Any:
    """All that is stated about a model, warnings of the run included.

    Parameters
    ----------
    run
        The session.
    model
        A fitted or loaded model.
    labels
        A column of obs in the order of the model's rows, by dataset.
    column
        Its name.
    feature_names
        Names of features on both sides of links.
    """
    from harmonicalign.adapters.verdict import assess_subject, subject_of

    with run.stages.stage("verdict"):
        given = None if labels is None else {column: labels}
        return assess_subject(subject_of(model, labels=given, feature_names=feature_names), run.remarks)


def conclude(run: Session, assessment: Any, strict: bool = False, *, brief: bool = False) -> dict[str, Any]:
    """Say the verdict, and return it with the figures for the result.

    Parameters
    ----------
    run
        The session.
    assessment
        What `assessed` returned.
    strict
        Exit with a code of its own unless the verdict is "Aligned".
    brief
        Say the headline and why, without what to check, unless the verdict is bad.
    """
    verdict = assessment.verdict
    if strict and not verdict.aligned:
        run.exit_code = NOT_ALIGNED
    run.say(f"{verdict.headline}.", "bold")
    if brief and verdict.level == "good":
        run.say(f"  {verdict.sentences[0]}")
    else:
        for sentence in verdict.sentences:
            run.say(f"  {sentence}")
        if verdict.checks:
            run.say("  What to check:")
        for check in verdict.checks:
            run.say(f"    - {check}")
        if verdict.next:
            run.say(f"  {verdict.next}")
    out: dict[str, Any] = assessment.summary()
    return out


def say_scores(run: Session, scores: dict[str, float], confidence: dict[str, float]) -> None:
    """The figures for people: means over the datasets, and the confidence of each."""
    shown = {
        "mixing": "mixing (0 separate, 1 mixed at random)",
        "mixing_within_labels": "mixing within labels",
        "label_agreement": "rows with the label of their neighbours",
        "value_agreement": "values recovered from neighbours (correlation)",
        "foscttm": "rank of the true match (0 best, 0.5 chance)",
    }
    for name, text in shown.items():
        if name in scores:
            before = scores.get(f"{name}_before")
            run.say(f"  {text}: {scores[name]:.3f}" + ("" if before is None else f"; before {before:.3f}"))
    ranked = sorted(confidence.items(), key=lambda item: item[1])
    if len(ranked) <= 4:
        listed = ", ".join(f"{name} {value:.2f}" for name, value in confidence.items())
        run.say(f"  median confidence of the rows: {listed}")
    elif ranked:
        listed = ", ".join(f"{name} {value:.2f}" for name, value in ranked[:3])
        run.say(f"  median confidence of the rows: {scores['confidence']:.2f}; lowest {listed}")


def named(rows: dict[str, int]) -> str:
    """Datasets with their rows, not more than a line or two."""
    listed = [f"{name} ({n:,} rows)" for name, n in rows.items()]
    rest = len(listed) - _MOST
    return ", ".join(listed[:_MOST]) + (f", … ({rest} more)" if rest > 0 else "")


def say_files(run: Session, written: dict[str, Path]) -> None:
    """What was written where."""
    for path in written.values():
        run.say(f"  wrote {path}")
