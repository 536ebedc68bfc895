"""Cases on arrays: whole fits with all their uses, and the stages by themselves."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from matrices import any_matrix, clean_rows, contained, contained_alike, pair_of_rows
from verdict import Violation, check_finite

import harmonicalign as ha
from harmonicalign.inputs.frames import Named
from harmonicalign.inputs.validate import check_data
from harmonicalign.paper.reduction import reduce_rows

__all__ = ["fit_case", "stage_case"]

Rng = np.random.Generator

_HOSTILE = [
    0,
    -1,
    1,
    2,
    3,
    7,
    1.5,
    1e-12,
    1e300,
    float("nan"),
    float("inf"),
    -0.0,
    10**9,
    10**30,
    "auto",
    "x",
    "",
    None,
    True,
    np.int64(4),
    np.float32(0.5),
    np.nan,
    [],
    [1, 2],
    {},
    1j,
    b"3",
    np.array(3),
    np.array([1.0, 2.0]),
]
_NAMES = [
    "method",
    "n_neighbors",
    "n_pca",
    "n_harmonics",
    "n_bands",
    "t",
    "calibrate",
    "n_landmarks",
    "frame",
    "signal_pca",
    "first_band",
    "bandwidth",
    "decay",
    "thresh",
    "anisotropy",
    "max_neighbors",
    "metric",
    "device",
    "random_state",
    "verbose",
]
_SENSIBLE: dict[str, list[Any]] = {
    "method": ["paper", "refined"],
    "n_neighbors": [1, 2, 5, 30],
    "n_pca": [1, 2, 10, None],
    "n_harmonics": [1, 2, 5, None],
    "n_bands": [1, 2, 5, 40],
    "t": [0, 0.5, 1, 3, 1000],
    "calibrate": [True, False],
    "n_landmarks": [10, 15, 40],
    "frame": ["common", "blocks"],
    "signal_pca": [1, 3, 100],
    "first_band": [0, 1],
    "bandwidth": [0.1, 1, 100.0, 1e-200, 1e200, lambda rows: np.ones(len(rows))],
    "decay": [0.5, 1, 2, 40],
    "thresh": [0, 1e-4, 0.4],
    "anisotropy": [0, 0.3, 1],
    "max_neighbors": [1, 3, 10, None],
    "metric": ["euclidean"],
    "random_state": [0, 7, np.random.RandomState(0), np.random.default_rng(0)],
}


def parameters(rng: Rng) -> dict[str, Any]:
    """Parameters of an estimator: mostly sensible, some hostile."""
    out: dict[str, Any] = {"random_state": int(rng.integers(2**31))}
    for name in _NAMES:
        draw = rng.random()
        if draw < 0.08 and name in _SENSIBLE:
            out[name] = _SENSIBLE[name][rng.integers(len(_SENSIBLE[name]))]
        elif draw < 0.086:
            out[name] = _HOSTILE[rng.integers(len(_HOSTILE))]
    out.pop("verbose", None)
    return out


def fit_case(rng: Rng) -> str:
    """Fit datasets, then use the model in some way."""
    estimator = ha.HarmonicAlignment(**parameters(rng))
    x, options = _inputs(rng)
    estimator.fit(x, **options)
    _check_fit(estimator)
    uses = [_transform, _transfer, _correct, _denoise, _impute, _add, _save, _attributes, _again]
    use = uses[rng.integers(len(uses))]
    use(rng, estimator, x, options)
    return use.__name__.strip("_")


def _inputs(rng: Rng) -> tuple[Any, dict[str, Any]]:
    """Datasets in any of the accepted forms, or something else."""
    draw = rng.random()
    options: dict[str, Any] = {}
    n_sets = int(rng.choice([2, 2, 2, 2, 2, 2, 3, 4]))
    if draw < 0.06:
        return any_matrix(rng), options
    if draw < 0.12:
        return [any_matrix(rng) for _ in range(int(rng.integers(0, 4)))], options
    parts = pair_of_rows(rng, n_sets)
    if draw < 0.3:
        stacked = np.vstack(parts)
        labels = np.repeat(np.arange(n_sets), [len(p) for p in parts])
        order = rng.permutation(len(labels))
        batch: Any = labels[order]
        kind = rng.integers(6)
        if kind == 0:
            batch = np.asarray(["ctl", "trt", "x", "ü"])[batch]
        elif kind == 1:
            batch = batch.astype(object)
            if rng.random() < 0.5:
                batch[0] = None
        elif kind == 2:
            batch = batch[:-1]
        elif kind == 3:
            batch = batch.astype(float)
            if rng.random() < 0.5:
                batch[0] = np.nan
        return contained(rng, stacked[order]), {"batch": batch}
    if draw < 0.42:
        return {f"d{i}": p for i, p in enumerate(contained_alike(rng, parts))}, options
    if draw < 0.55:  # signals of their own
        shared = int(rng.integers(1, 8))
        signals = contained_alike(rng, [clean_rows(rng, len(p), shared) for p in parts])
        if rng.random() < 0.2:
            signals = signals[:-1]
        return [contained(rng, p) for p in parts], {"signals": signals}
    if draw < 0.65 and n_sets == 2:
        m = int(rng.integers(0, 12))
        pairs: Any = np.stack([rng.integers(0, len(p), m) for p in parts], axis=1)
        if rng.random() < 0.3:
            oddities: list[Any] = [
                pairs + 50,
                -pairs,
                pairs.astype(float),
                pairs.ravel(),
                [],
                None,
                "ab",
                [[0, 0], [0, 1]],
                {(0, 1): pairs},
                {(0, 5): pairs},
                {0: pairs},
                [[0, 1, 2]],
                [(0, None)],
            ]
            pairs = oddities[rng.integers(len(oddities))]
        return parts, {"anchors": pairs}
    if draw < 0.75 and n_sets == 2:
        other = clean_rows(rng, len(parts[1]), int(rng.integers(1, 9)))
        links: Any = (rng.random((parts[0].shape[1], other.shape[1])) < 0.3) * rng.random()
        if rng.random() < 0.3:
            bad: list[Any] = [
                links.T,
                -links - 1,
                links * np.nan,
                "a",
                None,
                links.astype(str),
                links.ravel(),
                links * 1e300,
                [[]],
            ]
            links = bad[rng.integers(len(bad))]
        return [parts[0], other], {"links": links}
    return contained_alike(rng, parts), options


def _check_fit(estimator: Any) -> None:
    check_finite("embedding_", estimator.embedding_)
    for z, data in zip(estimator.embedding_, estimator.fitted_.inputs.datasets, strict=True):
        if z.shape[0] != data.shape[0]:
            raise Violation(f"embedding has {z.shape[0]} rows for {data.shape[0]}")
    if hasattr(estimator, "feature_weights_"):
        check_finite("feature_weights_", estimator.feature_weights_)
        check_finite("feature_scores_", estimator.feature_scores_)
        test = estimator.significance_
        check_finite("significance_", [test.z, test.p])
        if not 0 <= test.p <= 1 or not 0 <= estimator.share_ <= 1:
            raise Violation(f"p = {test.p}, share = {estimator.share_}")
        if np.abs(estimator.feature_scores_).max(initial=0) > 1 + 1e-6:
            raise Violation("feature_scores_ beyond 1")


def _transform(rng: Rng, estimator: Any, x: Any, options: Any) -> None:
    i = int(rng.integers(len(estimator.keys_)))
    d = estimator.fitted_.inputs.datasets[i].shape[1]
    new = any_matrix(rng, d=d if rng.random() < 0.9 else None)
    signals = None
    published = estimator.model_.method == "paper"  # it takes no signals of new rows
    if (estimator.fitted_.signals_given and not published) or rng.random() < 0.05:
        n = np.shape(new)[0] if hasattr(new, "shape") and len(np.shape(new)) else 3
        signals = clean_rows(rng, n, estimator.fitted_.inputs.signals[i].shape[1])
    key = estimator.keys_[i] if rng.random() < 0.9 else rng.choice([-1, 99])
    check_finite("transform", estimator.transform(new, dataset=key, signals=signals))


def _again(rng: Rng, estimator: Any, x: Any, options: Any) -> None:
    """Rows of the fit keep their coordinates."""
    for i, key in enumerate(estimator.keys_):
        rows = estimator.fitted_.inputs.datasets[i]
        signals = None
        apart = estimator.fitted_.signals_given or estimator.fitted_.links is not None
        if apart and estimator.model_.method != "paper":
            signals = estimator.fitted_.inputs.signals[i]
            if estimator.signal_names_ is not None:  # these are in the order of the model
                signals = Named(signals, estimator.signal_names_)
        out = np.asarray(estimator.transform(rows, dataset=key, signals=signals))
        check_finite("transform", out)
        if not np.array_equal(out, estimator.embedding_[i]):
            raise Violation("rows of the fit moved on transform")


def _labels(rng: Rng, n: int) -> Any:
    choices: list[Any] = [
        rng.integers(0, 3, n),
        rng.choice(["a", "b", "c"], n),
        rng.standard_normal(n),
        np.zeros(n),
        np.zeros(n, int),
        rng.standard_normal((n, 2)),
        np.array([None] * n),
        rng.choice(["a", None], n),
        rng.integers(0, 3, n)[:-1],
        rng.standard_normal(n) * 1e300,
        np.full(n, np.nan),
        np.arange(n),
        rng.integers(0, 2, n).astype(bool),
        [],
        "abc",
    ]
    return choices[rng.integers(len(choices))]


def _transfer(rng: Rng, estimator: Any, x: Any, options: Any) -> None:
    if len(estimator.keys_) < 2:
        return
    labels = _labels(rng, len(estimator.embedding_[0]))
    method = rng.choice(["knn", "diffusion", "svm", "what"], p=[0.4, 0.3, 0.28, 0.02])
    threshold = [None, 0.5, 2.0, "x"][rng.choice(4, p=[0.6, 0.3, 0.05, 0.05])]
    found = estimator.transfer(
        labels, source=estimator.keys_[0], target=estimator.keys_[1], method=str(method), threshold=threshold
    )
    for name in ("confidence", "probabilities", "values", "error", "errors"):
        if hasattr(found, name):
            check_finite(name, getattr(found, name))


def _correct(rng: Rng, estimator: Any, x: Any, options: Any) -> None:
    draw = rng.random()
    given = {} if draw < 0.7 else {"n_clusters": [0, 1, 3, "x", 10**6][rng.integers(5)]}
    check_finite("correct", estimator.correct(estimator.keys_[0], **given).values)


def _denoise(rng: Rng, estimator: Any, x: Any, options: Any) -> None:
    n = sum(map(len, estimator.embedding_))
    values = any_matrix(rng, n=n if rng.random() < 0.9 else None)
    t = ["auto", 0, 1, 3, -1, 1.5, "x", 10**9][rng.choice(8, p=[0.4, 0.1, 0.2, 0.1, 0.05, 0.05, 0.05, 0.05])]
    found = estimator.denoise(values, t=t)
    check_finite("denoise", found.values)


def _impute(rng: Rng, estimator: Any, x: Any, options: Any) -> None:
    if len(estimator.keys_) < 2:
        return
    values = any_matrix(rng, n=len(estimator.embedding_[0]) if rng.random() < 0.9 else None)
    k = [15, 1, 0, 10**6, "x"][rng.choice(5, p=[0.7, 0.1, 0.1, 0.05, 0.05])]
    found = estimator.impute(values, source=estimator.keys_[0], target=estimator.keys_[1], n_neighbors=k)
    check_finite("impute", [found.values, found.rmse])


def _add(rng: Rng, estimator: Any, x: Any, options: Any) -> None:
    d = estimator.fitted_.inputs.datasets[0].shape[1]
    new = any_matrix(rng, d=d if rng.random() < 0.9 else None)
    if not hasattr(estimator, "feature_weights_"):
        return
    signals = None
    if estimator.fitted_.signals_given:
        n = np.shape(new)[0] if hasattr(new, "shape") and len(np.shape(new)) else 3
        signals = clean_rows(rng, n, estimator.fitted_.inputs.signals[0].shape[1])
    check_finite("add", estimator.add(new, signals=signals))
    check_finite("confidence_", estimator.confidence_)


def _save(rng: Rng, estimator: Any, x: Any, options: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = estimator.save(Path(folder) / "model.npz")
        again = ha.load(path)
        left = [p.name for p in Path(folder).iterdir()]
    if left != ["model.npz"]:
        raise Violation(f"stray files {left}")
    for a, b in zip(estimator.embedding_, again.embedding_, strict=True):
        if not np.array_equal(a, b):
            raise Violation("a loaded model differs")


def _attributes(rng: Rng, estimator: Any, x: Any, options: Any) -> None:
    check_finite("confidence_", estimator.confidence_)
    for c in estimator.confidence_:
        if c.min(initial=0) < 0 or c.max(initial=0) > 1:
            raise Violation("confidence beyond [0, 1]")
    check_finite("joint_", [estimator.joint_.harmonics.psi, estimator.joint_.harmonics.eigenvalues])
    for h in estimator.harmonics_:
        check_finite("harmonics_", [h.psi, h.eigenvalues, h.phi])
        if np.abs(h.psi.T @ h.psi - np.eye(h.k)).max(initial=0) > 1e-4:
            raise Violation("harmonics are not orthonormal")


def stage_case(rng: Rng) -> str:
    """One or two stages with hostile arguments."""
    return _STAGES[rng.integers(len(_STAGES))](rng)


def _choose(rng: Rng, name: str, default: Any) -> Any:
    draw = rng.random()
    if draw < 0.06:
        return _HOSTILE[rng.integers(len(_HOSTILE))]
    if draw < 0.4:
        return _SENSIBLE[name][rng.integers(len(_SENSIBLE[name]))]
    return default


def _graph(rng: Rng) -> str:
    metric = rng.choice(["euclidean", "distance", "affinity"], p=[0.7, 0.15, 0.15])
    x = any_matrix(rng)
    if metric != "euclidean" and rng.random() < 0.9:
        square = np.abs(clean_rows(rng, n := int(rng.integers(1, 30)), n))
        with np.errstate(over="ignore"):
            square = (square / 2 + square.T / 2).clip(0, 1e307)
        if metric == "distance":
            np.fill_diagonal(square, 0)
        x = contained(rng, square)
    options = {
        name: _choose(rng, name, default)
        for name, default in {
            "n_neighbors": 3,
            "bandwidth": "knn",
            "decay": 2.0,
            "thresh": 1e-4,
            "anisotropy": 1.0,
            "max_neighbors": None,
        }.items()
    }
    graph = ha.kernel_graph(x, metric=str(metric), **options)
    check_finite("kernel", graph.kernel)
    check_finite("degrees", [graph.degrees, graph.density])
    if (graph.degrees <= 0).any():
        raise Violation("a row has no degree")
    found = ha.harmonics(graph, int(rng.integers(1, graph.n_rows)) if rng.random() < 0.7 else None)
    check_finite("harmonics", [found.psi, found.eigenvalues, found.phi])
    if np.abs(found.psi.T @ found.psi - np.eye(found.k)).max(initial=0) > 1e-6:
        raise Violation("harmonics are not orthonormal")
    if graph.rows is not None:
        extended = graph.extend(any_matrix(rng, d=graph.rows.shape[1]))
        check_finite("extend", extended)
        if extended.shape[0] and np.abs(np.asarray(extended.sum(axis=1)) - 1).max() > 1e-9:
            raise Violation("transitions do not sum to one")
        check_finite("nystroem", found.extend(extended))
    return "graph"


def _bands(rng: Rng) -> str:
    def values() -> Any:
        k = int(rng.integers(0, 12))
        kinds: list[Any] = [
            rng.random(k),
            np.ones(k),
            np.zeros(k),
            np.linspace(-0.1, 1.1, k),
            np.full(k, 0.5),
            np.full(k, np.nan),
            rng.random((k, 2)),
            "x",
            None,
        ]
        return kinds[rng.choice(len(kinds), p=[0.4, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05])]

    out = ha.bandlimiting_weights(
        values(), values(), _choose(rng, "n_bands", 8), _choose(rng, "first_band", 0)
    )
    check_finite("weights", out)
    return "bands"


def _align(rng: Rng) -> str:
    parts = pair_of_rows(rng, 2)
    found = [ha.harmonics(ha.kernel_graph(p, n_neighbors=2)) for p in parts]
    if rng.random() < 0.5:
        found = list(ha.calibrate(found))
    signals = [
        any_matrix(rng, n=len(p), d=int(rng.integers(1, 5))) if rng.random() < 0.5 else p for p in parts
    ]
    weights = None if rng.random() < 0.7 else clean_rows(rng, 1, parts[0].shape[1])[0]
    alignment = ha.align(
        *found,
        *signals,
        n_bands=_choose(rng, "n_bands", 8),
        first_band=_choose(rng, "first_band", 0),
        feature_weights=weights,
        complete=bool(rng.random() < 0.5),
    )
    check_finite("rotation", [alignment.rotation, alignment.singular_values])
    size = np.linalg.svd(alignment.rotation, compute_uv=False)
    if size.max(initial=0) > 1 + 1e-8:
        raise Violation("the rotation stretches")
    return "align"


def _joint(rng: Rng) -> str:
    parts = pair_of_rows(rng, int(rng.integers(1, 4)))
    joint = ha.joint_geometry(
        parts, n_harmonics=int(rng.integers(1, 40)), n_neighbors=int(rng.integers(1, 12))
    )
    check_finite("joint", [joint.harmonics.psi, joint.harmonics.eigenvalues])
    return "joint"


def _reduce(rng: Rng) -> str:
    x = check_data("x", clean_rows(rng, int(rng.integers(3, 60)), int(rng.integers(1, 40))))
    width = int(rng.integers(1, max(2, min(x.shape))))
    if width >= min(x.shape):
        width = None  # type: ignore[assignment]
    reduction, rows = reduce_rows(x, width, 0)
    check_finite("components", rows)
    again = reduction.apply(x)
    check_finite("applied", again)
    scale = float(np.abs(rows).max(initial=0))
    if scale and float(np.abs(again / scale - rows / scale).max(initial=0)) > 1e-6:
        raise Violation("the reduction of the same rows differs")
    return "reduce"


_STAGES = [_graph, _graph, _graph, _bands, _align, _align, _joint, _reduce]
