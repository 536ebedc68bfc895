r"""Labels and values carried from datasets that have them to one that has not, with calibrated confidence.

Everything happens in the aligned coordinates. Three ways to vote:

- "knn": the k nearest source rows of a target row vote with weights :math:`e^{-(d/ε)^2}`, ε the
  distance to the k/2-th of them.
- "diffusion": the labels spread over a graph of all rows with the source rows clamped, which is
  :math:`F_U = (I - P_{UU})^{-1} P_{UL} Y_L`: where a walk from a row first meets a labelled one.
- "svm": a linear support vector machine, one class against the rest.

Scores s become probabilities as :math:`p_c = (1 - η)\, e^{β s_c} / \sum_{c'} e^{β s_{c'}} + η / C`. The two
numbers β and η are those under which the source's own labels, each predicted without itself, are most likely.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize, nnls
from scipy.sparse.csgraph import connected_components

from harmonicalign._validation import check_integer, check_number, check_rows, random_state_from
from harmonicalign.backends import cpu
from harmonicalign.graph import kernel_graph

__all__ = ["UNASSIGNED", "LabelTransfer", "ValueTransfer", "transfer_labels", "transfer_values"]

Array = np.ndarray[Any, Any]

UNASSIGNED = "unassigned"
"""Label of rows whose confidence is below the threshold; as a source label it means missing."""

_FOLDS = 5
_MOST_CALIBRATED = 5000
"""Rows of the source that calibration looks at: enough for two numbers, whatever the source's size."""

_FLOOR = 1e-3
"""Added to votes before their logarithm is taken: a class without a vote is unlikely, not impossible."""

_SUPPORT = (0.65, 0.95)
"""Support at which a row surely is, or surely is not, of a kind the source lacks.

Measured on MNIST with digits taken out of the source: 0.67 to 0.90 for rows of those digits (median 0.73),
0.94 and more for 95 % of the others.
"""

_COMMON = 0.3
"""A row for which this share of the source's rows have their own neighbours farther away is no outlier."""

_PENALTIES = (0.2, 1.0, 5.0)
"""Values of the SVM's C that are tried; coordinates are scaled to a total variance of 2 before."""

_LARGEST = 1e100
"""Values are squared."""

_MOST_STEPS = 2000
_TOLERANCE = 1e-4


@dataclass(frozen=True)
class LabelTransfer:
    """Labels carried over to a target, and how sure they are.

    Attributes
    ----------
    labels
        Label of every target row; "unassigned" below the threshold.
    confidence
        Probability that the label is right (that of the likeliest class, also where it was not assigned).
    probabilities
        Probability of every class for every row, (n_target, n_classes). Rows sum to one, or to less
        where `support` says that the row may be of none of these classes.
    classes
        The classes, in the order of the columns of `probabilities`.
    """

    labels: Array
    confidence: Array
    probabilities: Array
    classes: Array


@dataclass(frozen=True)
class ValueTransfer:
    """Values carried over to a target, and how far off they may be.

    Attributes
    ----------
    values
        Expected value of every target row, in the shape of the source's values.
    spread
        Expected root mean square error of each of them, of the same shape; NaN where a column has
        too few known values to tell.
    """

    values: Array
    spread: Array


def transfer_labels(
    source: Any,
    labels: Any,
    target: Any,
    *,
    method: str = "knn",
    n_neighbors: int = 10,
    transitions: Any = None,
    support: Any = None,
    threshold: float | None = None,
    random_state: Any = 0,
) -> LabelTransfer:
    """Carry labels from one or several sources over to a target.

    Parameters
    ----------
    source
        Aligned coordinates of the labelled rows, or a list of such arrays, one per dataset.
    labels
        One label per source row (a list of these where `source` is a list): text, numbers or
        anything hashable. None, NaN, "" and "unassigned" mean that the row has none.
    target
        Aligned coordinates of the rows to label.
    method
        "knn", "diffusion" or "svm"; see the top of this module.
    n_neighbors
        Rows that vote ("knn"), or that set the graph's bandwidth ("diffusion" without `transitions`).
    transitions
        For "diffusion": row-stochastic matrix over the rows of all sources in their order, then those
        of the target, then any others through which labels may flow. By default that of a kernel
        graph over source and target.
    support
        How well the source supports each target row, in [0, 1], as `row_confidence` tells. For rows
        that lie far from the source it takes the probability of all classes down, from 0.95 (nothing)
        to 0.65 (all of it): those may be of a kind that the source does not have.
    threshold
        Rows whose confidence is below this are "unassigned". None assigns every row.
    random_state
        Seed of the folds and samples used for calibration.

    Returns
    -------
    transfer
        Labels, confidence, probabilities and classes.

    Examples
    --------
    >>> source = [[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]]
    >>> labels = ["low", "low", "low", "high", None, "high"]
    >>> transfer_labels(source, labels, [[0.05], [5.05]], n_neighbors=2).labels
    array(['low', 'high'], dtype='<U4')
    """
    if method not in ("knn", "diffusion", "svm"):
        raise ValueError(f"method is {method!r}; expected 'knn', 'diffusion' or 'svm'")
    n_neighbors = check_integer("n_neighbors", n_neighbors, minimum=1)
    if threshold is not None:
        threshold = check_number("threshold", threshold, minimum=0, maximum=1)
    rows, parts = _stacked(source, labels, "labels")
    classes, codes = _encoded([label for part in parts for label in _label_list(part)], len(rows))
    new = _coordinates("target", target)
    _same_width(rows, new)
    known = np.flatnonzero(codes >= 0)
    held = _held_out(codes[known], random_state_from(random_state))
    seen = _known_kind(support, rows[known], new, n_neighbors, np.sort(np.concatenate(held)))
    reached = np.ones(len(new))
    if len(classes) == 1:
        # Nothing to confuse it with: only support can speak against it.
        best, probabilities = np.zeros(len(new), dtype=np.int64), np.ones((len(new), 1))
    else:
        if method == "svm":
            scores, tested, of = _svm(rows[known], codes[known], new, len(classes), held)
        else:
            onehot = np.eye(len(classes))[codes[known]]
            if method == "knn":
                votes, tried, of = _knn(rows[known], onehot, new, n_neighbors, np.sort(np.concatenate(held)))
            else:
                matrix = _transitions(transitions, rows, new, n_neighbors)
                votes, tried, of = _diffusion(
                    matrix, known, onehot, slice(len(rows), len(rows) + len(new)), held
                )
            reached = (votes.sum(axis=1) > 0).astype(np.float64)
            scores, tested = _log_votes(votes), _log_votes(tried)
        probabilities = _calibrated(scores, tested, codes[known][of])
        best = np.argmax(scores, axis=1)
    probabilities = np.minimum(probabilities, 1) * (seen * reached)[:, None]
    confidence = probabilities.max(axis=1)
    return LabelTransfer(
        labels=_named(classes, best, None if threshold is None else confidence < threshold),
        confidence=confidence,
        probabilities=probabilities,
        classes=classes,
    )


def transfer_values(
    source: Any,
    values: Any,
    target: Any,
    *,
    method: str = "knn",
    n_neighbors: int = 10,
    transitions: Any = None,
    random_state: Any = 0,
) -> ValueTransfer:
    """Carry numbers from one or several sources over to a target.

    Parameters
    ----------
    source
        Aligned coordinates of the rows with values, or a list of such arrays, one per dataset.
    values
        A number per source row, or several columns of them (a list of these where `source` is a
        list). NaN means missing; each column is carried from the rows that have it.
    target
        Aligned coordinates of the rows to predict.
    method
        "knn" or "diffusion".
    n_neighbors, transitions, random_state
        As in `transfer_labels`.

    Returns
    -------
    transfer
        Values and their spread: the standard deviation among the rows they come from, brought by
        two numbers per column to the size of the errors made on the source itself.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 50)[:, None]
    >>> found = transfer_values(x, 3 * x[:, 0], [[0.25], [0.5]])
    >>> np.round(found.values, 1)
    array([0.8, 1.5])
    """
    if method not in ("knn", "diffusion"):
        raise ValueError(f"method is {method!r}; expected 'knn' or 'diffusion' ('svm' is for labels)")
    n_neighbors = check_integer("n_neighbors", n_neighbors, minimum=1)
    rows, parts = _stacked(source, values, "values")
    columns, flat = _value_columns(parts, len(rows))
    new = _coordinates("target", target)
    _same_width(rows, new)
    rng = random_state_from(random_state)
    matrix = _transitions(transitions, rows, new, n_neighbors) if method == "diffusion" else None
    out, spread = np.empty((2, len(new), columns.shape[1]))
    patterns, group = np.unique(~np.isnan(columns), axis=1, return_inverse=True)
    for number, present in enumerate(patterns.T):
        chosen = np.flatnonzero(group.ravel() == number)
        known = np.flatnonzero(present)
        truth = columns[np.ix_(known, chosen)]
        centre = truth.mean(axis=0)
        # First and second moments, and the weight that reached each row.
        moments = np.hstack([truth - centre, (truth - centre) ** 2, np.ones((len(known), 1))])
        held = _held_out(np.zeros(len(known), dtype=np.int64), rng)
        if matrix is None:
            found, tried, of = _knn(rows[known], moments, new, n_neighbors, np.sort(np.concatenate(held)))
        else:
            found, tried, of = _diffusion(
                matrix, known, moments, slice(len(rows), len(rows) + len(new)), held
            )
        mean, variance = _mean_and_variance(found, len(chosen))
        out[:, chosen] = mean + centre
        expected, noise = _mean_and_variance(tried, len(chosen))
        spread[:, chosen] = _calibrated_spread(variance, noise, truth[of] - centre - expected)
    return ValueTransfer(*(a[:, 0] if flat else a for a in (out, spread)))


# --- the three votes --------------------------------------------------------------------------------------


def _knn(rows: Array, signals: Array, new: Array, k: int, tested: Array) -> tuple[Array, Array, Array]:
    """Kernel-weighted means over the nearest rows: of new rows, and of the tested rows without themselves."""
    found = _weights(*cpu.nearest(rows, min(k, len(rows)), new), len(rows)) @ signals
    if len(rows) < 2:
        return found, np.empty((0, signals.shape[1])), np.empty(0, dtype=np.int64)
    k = min(k, len(rows) - 1)
    return found, _weights(*_nearest_others(rows, k, tested), len(rows)) @ signals, tested


def _nearest_others(rows: Array, k: int, chosen: Array) -> tuple[Array, Array]:
    """Nearest rows of the chosen ones, each without itself."""
    distances, indices = cpu.nearest(rows, k + 1, rows[chosen])
    other = indices != chosen[:, None]
    other[other.all(axis=1), -1] = False  # copies came first: drop the last of them instead
    return distances[other].reshape(-1, k), indices[other].reshape(-1, k)


def _weights(distances: Array, indices: Array, n: int) -> sp.csr_matrix:
    k = distances.shape[1]
    scale = distances[:, (k - 1) // 2]
    # Where half the neighbours are copies of the row, they alone count.
    ratio = distances / np.where(scale > 0, scale, 1)[:, None]
    weights = np.where(scale[:, None] > 0, np.exp(-(ratio**2)), (distances == 0).astype(np.float64))
    weights /= weights.sum(axis=1, keepdims=True)
    return sp.csr_matrix(
        (weights.ravel(), indices.ravel(), np.arange(0, weights.size + 1, k)), shape=(len(distances), n)
    )


def _diffusion(
    matrix: sp.csr_matrix, known: Array, signals: Array, target: slice, held: Sequence[Array]
) -> tuple[Array, Array, Array]:
    """What a walk expects at the first known row it meets: from the target, and from known rows held out."""
    found = _absorbed(matrix, known, signals)[target]
    if _FOLDS * sum(map(len, held)) <= len(known):
        # So small a sample can be held out at once and leaves as many known rows as a fold would.
        held = [np.concatenate(held)]
    tried, of = [np.empty((0, signals.shape[1]))], [np.empty(0, dtype=np.int64)]
    for fold in held if len(known) > 1 else []:
        rest = np.setdiff1d(np.arange(len(known)), fold)
        tried.append(_absorbed(matrix, known[rest], signals[rest])[known[fold]])
        of.append(fold)
    return found, np.vstack(tried), np.concatenate(of)


def _absorbed(matrix: sp.csr_matrix, known: Array, signals: Array) -> Array:
    """Harmonic extension of the known rows' signals; 0 where no walk reaches a known row.

    A fixed-point iteration; one more column carries the probability of having been absorbed, which
    both tells when to stop and makes up for stopping.
    """
    n = matrix.shape[0]
    unknown = np.setdiff1d(np.arange(n), known)
    inner, outer = matrix[unknown][:, unknown], matrix[unknown][:, known]
    fixed = outer @ np.hstack([signals, np.ones((len(known), 1))])
    current, change = fixed, np.inf
    pieces = connected_components(matrix, directed=False)[1]
    reachable = np.isin(pieces[unknown], pieces[known])
    for _ in range(_MOST_STEPS):
        if change <= _TOLERANCE and (current[reachable, -1] > 0).all():
            break
        following = inner @ current + fixed
        # Mass only grows, and its growth bounds that of every class.
        change = float(np.max(following[:, -1] - current[:, -1], initial=0.0))
        current = following
    mass = current[:, -1:]
    reached = mass > 0
    out = np.empty((n, signals.shape[1]))
    out[known] = signals
    out[unknown] = np.divide(current[:, :-1], mass, out=np.zeros_like(current[:, :-1]), where=reached)
    return out


def _svm(
    rows: Array, codes: Array, new: Array, n_classes: int, held: Sequence[Array]
) -> tuple[Array, Array, Array]:
    """Decision values of new rows and of held-out rows; C is the one that does best on the latter."""
    centre = rows.mean(axis=0)
    scale = float(np.sqrt(np.var(rows, axis=0).sum() / 2)) or 1.0
    rows, new = (rows - centre) / scale, (new - centre) / scale
    of = np.concatenate(held)
    trials: list[tuple[float, float, Array]] = []
    for penalty in _PENALTIES:
        tried = []
        for fold in held:
            # Beyond the calibration sample nothing is gained by training on more.
            rest = np.setdiff1d(of, fold)
            tried.append(_decision(rows[rest], codes[rest], rows[fold], n_classes, penalty))
        scores = np.vstack(tried)
        trials.append((_fit_scale(scores, codes[of])[0], penalty, scores))
    _, penalty, tested = min(trials, key=lambda trial: trial[:2])
    return _decision(rows, codes, new, n_classes, penalty), tested, of


def _decision(rows: Array, codes: Array, new: Array, n_classes: int, penalty: float) -> Array:
    """One column of decision values per class; classes without a row get a clear no."""
    from sklearn.svm import LinearSVC

    present = np.unique(codes)
    if len(present) < 2:
        values = np.ones((len(new), len(present)))
    else:
        # The primal solver draws nothing, but without a seed it would advance the global generator.
        machine = LinearSVC(C=penalty, dual=False, max_iter=5000, random_state=0)
        values = machine.fit(rows, codes).decision_function(new)
        values = np.c_[-values, values] if values.ndim == 1 else values
    out = np.repeat(np.minimum(values.min(axis=1, initial=0.0), -1.0)[:, None], n_classes, axis=1)
    out[:, present] = values
    return out


# --- calibration ------------------------------------------------------------------------------------------


def _held_out(codes: Array, rng: np.random.RandomState) -> list[Array]:
    """Folds of (a sample of) the rows, each with its share of every class."""
    sample = rng.permutation(len(codes))[:_MOST_CALIBRATED]
    sample = sample[np.argsort(codes[sample], kind="stable")]
    folds = min(_FOLDS, len(sample))
    return [np.sort(sample[i::folds]) for i in range(folds)]


def _log_votes(votes: Array) -> Array:
    return np.asarray(np.log(votes + _FLOOR))


def _calibrated(scores: Array, tested: Array, truth: Array) -> Array:
    """Probabilities from scores, by the scale that suits the tested rows best."""
    _, beta, eta = _fit_scale(tested, truth)
    return _probabilities(scores, beta, eta)


def _probabilities(scores: Array, beta: float, eta: float) -> Array:
    p = np.exp(beta * (scores - scores.max(axis=1, keepdims=True)))
    p *= (1 - eta) / p.sum(axis=1, keepdims=True)
    p += eta / scores.shape[1]
    return np.asarray(p)


def _fit_scale(scores: Array, truth: Array) -> tuple[float, float, float]:
    """β and η under which the truth is likeliest, and its mean negative log likelihood with them.

    Two imagined rows, one a sure hit and one a sure miss, keep both finite where the source makes no mistake.
    """
    n, n_classes = scores.shape
    at = (np.arange(n), truth)

    def loss(x: Array) -> float:
        beta, eta = _bounded(x)
        likelihood = _probabilities(scores, beta, eta)[at]
        imagined = np.log(eta / n_classes) + np.log(1 - eta)
        return float(-(np.log(likelihood).sum() + imagined) / (n + 2))

    best = minimize(loss, np.array([0.0, -3.0]), method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-7})
    beta, eta = _bounded(best.x)
    return float(best.fun), beta, eta


def _bounded(x: Array) -> tuple[float, float]:
    """β in [e⁻⁵, e⁵] and η in (0, 1) from two free numbers."""
    return float(np.exp(np.clip(x[0], -5, 5))), float(1 / (1 + np.exp(-np.clip(x[1], -15, 15))))


def _known_kind(support: Any, rows: Array, new: Array, k: int, tested: Array) -> Array:
    """Probability that a row is of a kind that the source has.

    A row must both lack support and lie farther from the source than the source's rows from each other:
    support alone also falls where one dataset is merely denser than the other.
    """
    n = len(new)
    if support is None:
        return np.ones(n)
    values = np.asarray(support, dtype=np.float64)
    if values.shape != (n,):
        raise ValueError(f"support has shape {values.shape} but target has {n} rows; pass one number per row")
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError("support must lie between 0 and 1")
    low, high = _SUPPORT
    factor = np.clip((values - low) / (high - low), 0, 1)
    if len(rows) > 1:
        k = min(k, len(rows) - 1)
        own = np.sort(_nearest_others(rows, k, tested)[0].mean(axis=1))
        distance = cpu.nearest(rows, k, new)[0].mean(axis=1)
        farther = 1 - np.searchsorted(own, distance) / len(own)
        factor = np.maximum(factor, np.minimum(farther / _COMMON, 1))
    return np.asarray(factor)


def _mean_and_variance(moments: Array, n_columns: int) -> tuple[Array, Array]:
    """Mean and variance under the weights; rows that no weight reached get the overall mean."""
    mean, square, mass = moments[:, :n_columns], moments[:, n_columns:-1], moments[:, -1:]
    return mean, np.where(mass > 0, np.maximum(square - mean**2, 0), np.inf)


def _calibrated_spread(variance: Array, tested: Array, errors: Array) -> Array:
    """√(a · variance + b) with a, b ≥ 0 per column that suit the errors of the tested rows best."""
    out = np.full(variance.shape, np.nan)
    for j in range(variance.shape[1]):
        usable = np.isfinite(tested[:, j])
        if usable.sum() > 1:
            reached = np.isfinite(variance[:, j])
            a, b = _variance_law(tested[usable, j], errors[usable, j] ** 2)
            out[reached, j] = np.sqrt(a * variance[reached, j] + b)
    return out


def _variance_law(variance: Array, squares: Array) -> tuple[float, float]:
    """The a, b ≥ 0 of ``squares ≈ a · variance + b``, each row weighted by how precisely it should hold.

    A squared error scatters in proportion to its expectation, so plain least squares would hear the
    noisiest rows alone.
    """
    scale = float(squares.mean())
    if scale == 0:
        return 0.0, 0.0
    design = np.c_[variance / scale, np.ones(len(variance))]
    expected = np.ones(len(variance))
    for _ in range(20):
        law = nnls(design / expected[:, None], squares / scale / expected)[0]
        # No row may become so precise that it alone decides.
        expected = np.maximum(design @ law, 1e-3)
    law *= float(np.mean(squares / scale / expected))
    return float(law[0]), float(law[1] * scale)


# --- inputs and outputs -----------------------------------------------------------------------------------


def _coordinates(name: str, x: Any) -> Array:
    if sp.issparse(x):
        raise ValueError(f"{name} is sparse; pass the aligned coordinates")
    return np.asarray(check_rows(name, x), dtype=np.float64)


def _same_width(rows: Array, new: Array) -> None:
    if rows.shape[1] != new.shape[1]:
        raise ValueError(
            f"target has {new.shape[1]} columns but source has {rows.shape[1]}; "
            "pass the aligned coordinates of both"
        )


def _stacked(source: Any, given: Any, name: str) -> tuple[Array, list[Any]]:
    """Rows of all sources below each other, and what was given for each of them."""
    if not (isinstance(source, list | tuple) and len(source) and np.ndim(source[0]) == 2):
        rows = [_coordinates("source", source)]
        parts = [given]
    else:
        if not isinstance(given, list | tuple) or len(given) != len(source):
            found = f"{len(given)} of them" if isinstance(given, list | tuple) else type(given).__name__
            raise ValueError(f"source is a list of {len(source)} datasets; {name} must be too, found {found}")
        rows = [_coordinates(f"source[{i}]", x) for i, x in enumerate(source)]
        parts = list(given)
    for i, (x, part) in enumerate(zip(rows, parts, strict=True)):
        where = f"[{i}]" if len(rows) > 1 else ""
        if x.shape[1] != rows[0].shape[1]:
            raise ValueError(
                f"source{where} has {x.shape[1]} columns but source[0] has {rows[0].shape[1]}; "
                "pass the aligned coordinates"
            )
        size = _length(part)
        if size != len(x):
            found = "one value" if size is None else f"{size} rows"
            raise ValueError(
                f"{name}{where} has {found} but source{where} has {len(x)} rows; pass one per row"
            )
    return np.vstack(rows), parts


def _length(part: Any) -> int | None:
    """Number of rows of anything that has rows."""
    if hasattr(part, "shape"):
        return int(part.shape[0]) if len(part.shape) else None
    return len(part) if hasattr(part, "__len__") and not isinstance(part, str) else None


def _label_list(part: Any) -> list[Any]:
    if isinstance(part, list | tuple):
        return [v.item() if isinstance(v, np.generic) else v for v in part]
    array = np.asarray(part)
    if array.ndim != 1:
        raise ValueError(f"labels has shape {array.shape}; pass one label per row, not a table")
    return list(array.tolist())


def _missing(label: Any) -> bool:
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(label, str):
        return not label.strip() or label == UNASSIGNED
    return isinstance(label, float) and label != label


def _encoded(labels: list[Any], n: int) -> tuple[Array, Array]:
    """The classes, sorted where they can be, and the number of every row's class (−1: none)."""
    try:
        found = {label: None for label in labels if not _missing(label)}
    except TypeError as error:
        raise ValueError(f"labels must be hashable, such as text or numbers ({error})") from error
    if not found:
        raise ValueError(f"labels: all {n} source rows are unlabelled; there is nothing to transfer")
    names = list(found)
    try:
        names.sort()
    except TypeError:
        names.sort(key=lambda label: (type(label).__name__, str(label)))
    number = {label: i for i, label in enumerate(names)}
    codes = np.array([-1 if _missing(label) else number[label] for label in labels], dtype=np.int64)
    return _array_of(names), codes


def _array_of(names: list[Any]) -> Array:
    """A plain array of one kind (text, whole numbers, numbers, truth values), else one of objects."""
    if any(all(isinstance(v, kind) for v in names) for kind in (str, bool)) or all(
        isinstance(v, int | float) and not isinstance(v, bool) for v in names
    ):
        return np.asarray(names)
    out = np.empty(len(names), dtype=object)
    out[:] = names
    return out


def _named(classes: Array, best: Array, unsure: Array | None) -> Array:
    labels = classes[best]
    if unsure is None:
        return np.asarray(labels)
    # Numbers and a word share no plain type, whether or not any row turned out unsure.
    width = f"<U{max(len(UNASSIGNED), labels.dtype.itemsize // 4)}" if labels.dtype.kind == "U" else object
    labels = labels.astype(width)
    labels[unsure] = UNASSIGNED
    return np.asarray(labels)


def _value_columns(parts: list[Any], n: int) -> tuple[Array, bool]:
    """Values of all sources as columns, and whether they came as one plain column."""
    tables = []
    for part in parts:
        part = part.toarray() if sp.issparse(part) else part
        try:
            table = np.asarray(part, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"values must be numbers ({error}); use transfer_labels for labels") from error
        if table.ndim > 2 or np.isinf(table).any():
            problem = f"shape {table.shape}" if table.ndim > 2 else "infinite entries"
            raise ValueError(f"values has {problem}; pass finite numbers, one or several columns of them")
        if np.nanmax(np.abs(table), initial=0) > _LARGEST:
            raise ValueError(f"values reach beyond {_LARGEST:g}, where their squares overflow; divide them")
        tables.append(table)
    if len({t.shape[1:] for t in tables}) > 1:
        raise ValueError(f"values of the sources differ in columns: {[t.shape[1:] for t in tables]}")
    flat = tables[0].ndim == 1
    columns = np.concatenate(tables).reshape(n, -1)
    empty = np.flatnonzero(np.isnan(columns).all(axis=0))
    if empty.size or not columns.shape[1]:
        which = f"column {empty[0]} is missing in all rows" if columns.shape[1] else "there is no column"
        raise ValueError(f"values: {which}; there is nothing to transfer")
    return columns, flat


def _transitions(given: Any, rows: Array, new: Array, n_neighbors: int) -> sp.csr_matrix:
    """The walk over source, target and possibly more rows, checked or made."""
    n = len(rows) + len(new)
    if given is None:
        if n < 3:
            raise ValueError(f"source and target have {n} rows together; diffusion needs three or more")
        graph = kernel_graph(
            np.vstack([rows, new]), n_neighbors=min(n_neighbors, n - 1), max_neighbors=3 * n_neighbors
        )
        return sp.csr_matrix(graph.transitions)
    matrix = sp.csr_matrix(given, dtype=np.float64)
    if matrix.shape[0] != matrix.shape[1] or matrix.shape[0] < n:
        raise ValueError(
            f"transitions has shape {matrix.shape}; it must be square with a row for each of the {len(rows)} "
            f"source rows, then the {len(new)} target rows (which must not be the same rows), then any others"
        )
    sums = np.asarray(matrix.sum(axis=1)).ravel()
    if not np.isfinite(matrix.data).all() or (matrix.data < 0).any() or np.abs(sums - 1).max() > 1e-6:
        raise ValueError("transitions must hold probabilities: no entry negative, every row with sum 1")
    return matrix
