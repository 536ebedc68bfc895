"""The stages of the default method in plain loops, one function each.

Written from what the documentation of each stage says and independent of the library, as oracles for small
inputs. Whatever number decides something is the configuration's that is passed in.
"""

import math

import numpy as np
import scipy.linalg


def distance(a, b):
    return math.sqrt(sum((u - v) ** 2 for u, v in zip(a, b, strict=True)))


def nearest(rows, row, k):
    return sorted(range(len(rows)), key=lambda j: distance(rows[j], row))[:k]


def mutual_neighbours(x, y, k, known=()):
    """Dense pairing of rows that are among each other's k nearest; `known` holds pairs of row numbers."""
    k = min(k, len(x), len(y))
    of_x, of_y = [nearest(y, row, k) for row in x], [nearest(x, row, k) for row in y]
    mutual = [(i, j) for i in range(len(x)) for j in of_x[i] if i in of_y[j]]
    middle = np.median([distance(x[i], y[j]) ** 2 for i, j in mutual])
    pairing = np.zeros((len(x), len(y)))
    for i, j in mutual:
        if not any(i == a or j == b for a, b in known):
            pairing[i, j] = math.exp(-(distance(x[i], y[j]) ** 2) / middle)
    for i, j in known:
        pairing[i, j] = 1.0
    of_x, of_y = pairing.sum(axis=1), pairing.sum(axis=0)
    for i, j in zip(*pairing.nonzero(), strict=True):
        pairing[i, j] /= math.sqrt(of_x[i] * of_y[j])
    return pairing


def shares(pairing):
    total = pairing.sum()
    return pairing.sum(axis=1) / total, pairing.sum(axis=0) / total


def ridge(x, y, penalty):
    """Coefficients of y from x with a constant that is not penalised, by augmented least squares."""
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    size = math.sqrt(penalty * x.var(axis=0).mean() * len(x))
    width = x.shape[1]
    return np.linalg.lstsq(np.r_[x, size * np.eye(width)], np.r_[y, np.zeros((width, y.shape[1]))])[0]


def component_maps(px, py, pairing, signals, config):
    """Matrix of the second dataset's map, and the means over the anchors that both are taken from."""
    mass_x, mass_y = shares(pairing)
    mean_x, mean_y = mass_x @ px, mass_y @ py
    cx, cy = px - mean_x, py - mean_y
    cross = np.zeros((px.shape[1], py.shape[1]))
    for i in range(len(px)):
        for j in range(len(py)):
            cross += pairing[i, j] / pairing.sum() * np.outer(cx[i], cy[j])
    if signals is not None:
        of_y, of_x = ridge(signals[1], cy, config.signal_ridge), ridge(signals[0], cx, config.signal_ridge)
        for i in range(len(px)):
            cross += mass_x[i] * np.outer(cx[i], signals[0][i] @ of_y) / 2
        for j in range(len(py)):
            cross += mass_y[j] * np.outer(signals[1][j] @ of_x, cy[j]) / 2
    u, _, vt = np.linalg.svd(cross, full_matrices=False)
    matrix = np.zeros((py.shape[1], px.shape[1]))
    for one, other in zip(u.T, vt, strict=True):
        spread_x = math.sqrt(sum(m * (row @ one) ** 2 for m, row in zip(mass_x, cx, strict=True)))
        spread_y = math.sqrt(sum(m * (row @ other) ** 2 for m, row in zip(mass_y, cy, strict=True)))
        gain = min(max(spread_x / spread_y, 1 / config.most_gain), config.most_gain)
        matrix += gain * np.outer(other, one)
    return matrix, mean_x, mean_y


def softened(row, typical, relative):
    """A row of typical length gets length 1; long ones keep their direction, short ones their length."""
    whole = math.sqrt(row @ row + (relative * typical) ** 2)
    return row * math.sqrt(1 + relative**2) / whole if whole > 0 else row


def directions(parts, config):
    """Rows of both datasets with softened lengths."""
    typical = np.median([math.sqrt(row @ row) for part in parts for row in part])
    return [np.array([softened(row, typical, config.soft_length) for row in part]) for part in parts]


def judge(rotation, frequencies, a, b, config):
    """Scores, energies, weights and share of the features under a rotation; all are wrong partners."""
    one, other = frequencies[:, None] * a, frequencies[:, None] * (rotation @ b)
    d = a.shape[1]
    lengths = [np.linalg.norm(one, axis=0), np.linalg.norm(other, axis=0)]

    def score(s, t):
        return one[:, s] @ other[:, t] / (lengths[0][s] * lengths[1][t])

    scores = [score(s, s) for s in range(d)]
    energy = lengths[0] * lengths[1]
    unlike = 0.0
    for s in range(d):
        wrong = [score(s, t) for t in range(d) if t != s] + [score(t, s) for t in range(d) if t != s]
        if sum(w >= scores[s] for w in wrong) > len(wrong) / 2:
            unlike += energy[s]
    share = min(1, max(0, 1 - 2 * unlike / energy.sum()))
    raised = max(0, (share - config.full_share) / (1 - config.full_share))
    weights = [max(c, 0) ** 2 for c in scores]
    weights = [w + (1 - w) * raised for w in weights]
    return np.array(scores), energy, np.array(weights), share


def confidence(parts, config):
    """Support of every row of datasets that each have as many rows as all others: all rows are the sample."""
    k, out = config.confidence_neighbours, []
    for i, rows in enumerate(parts):
        others = [row for j, part in enumerate(parts) if j != i for row in part]
        ratio = []
        for row in rows:
            own = sorted(distance(row, other) for other in rows)[1 : k + 1]
            away = sorted(distance(row, other) for other in others)[:k]
            ratio.append(np.mean(own) / np.mean(away))
        for _ in range(config.confidence_smoothing):
            ratio = [
                (r + np.mean([ratio[j] for j in nearest(rows, row, k + 1)])) / 2
                for r, row in zip(ratio, rows, strict=True)
            ]
        out.append(np.clip(ratio, 0, 1))
    return out


def alternate(problem, joint, signals):
    """Rounds from joint coordinates and signals: the pairing, matrix, weights, worth and agreements."""
    config, (x, y) = problem.config, problem.sides
    known = () if problem.known is None else list(zip(*problem.known.nonzero(), strict=True))
    share, evidence, agreements = 1.0, None, []

    def judged(pairing):
        products = problem.harmonics[0].psi.T @ pairing @ problem.harmonics[1].psi
        u, _, vt = np.linalg.svd(products)
        found = judge(u @ vt, problem.harmonics[0].frequencies, *problem.spectral, config)
        return (*found, found[1] @ np.maximum(found[0], 0) ** 4 / found[1].sum())

    def mapped():
        matrix, mean_x, mean_y = component_maps(x.components, y.components, pairing, evidence, config)
        rows = directions([x.components - mean_x, (y.components - mean_y) @ matrix], config)
        if signals is not None:
            own = directions(signals, config)
            length = math.hypot(1 - share, share)
            rows = [np.c_[(1 - share) * q, share * s] / length for q, s in zip(rows, own, strict=True)]
        return matrix, rows

    for number in range(config.n_rounds):
        for _ in range(config.n_steps):
            pairing = mutual_neighbours(*joint, config.n_anchors, known)
            _, joint = mapped()
        mass_x, mass_y = shares(pairing)
        centres = mass_x @ x.signals, mass_y @ y.signals
        _, energy, weights, share, agreement = judged(pairing)
        # As many axes as signals change no distance, so none are needed here.
        order = sorted(range(len(weights)), key=lambda s: -weights[s] * energy[s])
        enter = order[: config.most_signals]
        signals = [((s.signals - c) * weights)[:, enter] for s, c in zip((x, y), centres, strict=True)]
        significant = problem.significance.p <= config.chance
        evidence = signals if significant and number < config.signal_rounds else None
        matrix, joint = mapped()
        agreements.append(agreement)
    support = max(np.mean(c) for c in confidence(joint, config))
    return {
        "pairing": pairing,
        "matrix": matrix,
        "centres": centres,
        "weights": weights,
        "share": share,
        "support": support,
        "worth": agreement * support**config.worth_power,
        "agreements": agreements,
    }


def choose(worths, supports, offset_support, by_chance, look_alike, config):
    """Number of the learned run that is kept, or the name of the simple explanation."""
    best = max(range(len(worths)), key=lambda i: worths[i])
    if offset_support is None:
        return best
    explains = offset_support >= config.enough_support * supports[best]
    if by_chance and (explains or look_alike):
        return "doubtful offset"
    return "offset" if explains else best


def shares_met(parts, i, config):
    """Share of the other side among the rows nearest to each: of all rows but dataset i's, and of its own."""
    rows = np.vstack(parts)
    own = np.repeat([j == i for j in range(len(parts))], [len(part) for part in parts])
    met = [
        np.mean([own[j] != own[r] for j in nearest(rows, row, config.confidence_neighbours + 1)[1:]])
        for r, row in enumerate(rows)
    ]
    return np.array(met)[~own], np.array(met)[own]


def shift_towards(x, support_x, met_x, y, support_y, met_y, config):
    """Displacement of every row of y: its anchors' mean displacement, smoothed over near anchors."""
    pairing = mutual_neighbours(x, y, config.n_anchors)
    pairing = pairing * support_x[:, None] * support_y
    mass = pairing.sum(axis=0)
    anchored = [j for j in range(len(y)) if mass[j] > 0]
    moves = {j: pairing[:, j] @ x / mass[j] - y[j] for j in anchored}
    meeting = {j: pairing[:, j] @ met_x / mass[j] + met_y[j] for j in anchored}
    wide = min(max(len(y) // config.shift_share, 1), config.shift_rows)
    out = np.zeros_like(y)
    for i, row in enumerate(y):
        near = [anchored[j] for j in nearest(y[anchored], row, min(len(anchored), wide))]
        middle = np.median([distance(row, y[j]) for j in near])
        weights = [support_y[j] * math.exp(-((distance(row, y[j]) / middle) ** 2)) for j in near]
        weights = np.array(weights) / sum(weights)
        mean = sum(w * moves[j] for w, j in zip(weights, near, strict=True))
        spread = sum(w * np.sum((moves[j] - mean) ** 2) for w, j in zip(weights, near, strict=True))
        by_chance = spread * sum(weights**2) / (mean @ mean)
        met = sum(w * meeting[j] for w, j in zip(weights, near, strict=True))
        apart = min(1, max(0, config.apart * (1 - met)))
        out[i] = wide / config.shift_rows * apart * support_y[i] * max(0, 1 - by_chance) * mean
    return out


def project(row, places, n_neighbours, dimensions=None):
    """One row on the plane of its neighbours, from the eigenvectors of their covariance."""
    near = nearest(places, row, n_neighbours)
    mean = np.mean([places[j] for j in near], axis=0)
    spread = np.array([places[j] - mean for j in near])
    variances, axes = np.linalg.eigh(spread.T @ spread)
    ratio = variances * len(near) / variances.sum()
    flat = mean + axes @ (ratio**4 / (ratio**4 + 1) * (axes.T @ (row - mean)))
    if dimensions is None:
        return flat
    extends_in = 1 / max(np.sum(variances**2) / variances.sum() ** 2 - 1 / len(near), 1e-12)
    return row + min(1, dimensions / extends_in) * (flat - row)


def centre_locally(rows, batch, n_neighbours):
    """Rows less what their dataset differs in from all rows near them, beyond chance."""
    near = [nearest(rows, row, n_neighbours) for row in rows]
    apart, by_chance = np.zeros_like(rows), np.zeros(len(rows))
    for i in range(len(rows)):
        own = [j for j in near[i] if batch[j] == batch[i]]
        others = [j for j in near[i] if batch[j] != batch[i]]
        if own and others:
            apart[i] = rows[own].mean(axis=0) - rows[near[i]].mean(axis=0)
            within = sum(((rows[some] - rows[some].mean(axis=0)) ** 2).sum() for some in (own, others))
            by_chance[i] = within / (n_neighbours - 2) * (1 / len(own) - 1 / n_neighbours)
    found = sum(difference @ difference for difference in apart)
    return rows - max(0, 1 - sum(by_chance) / found) * apart if found > 0 else rows


def turn(x, y, config):
    """Rows of y turned towards x: anchors and rotation in turn; its own covariance holds it in place."""
    for _ in range(config.n_rounds * config.n_steps):
        pairing = mutual_neighbours(x, y, config.n_anchors)
        mass_x, mass_y = shares(pairing)
        mean_x, mean_y = mass_x @ x, mass_y @ y
        cross = np.zeros((x.shape[1],) * 2)
        for i in range(len(x)):
            for j in range(len(y)):
                cross += pairing[i, j] / pairing.sum() * np.outer(x[i] - mean_x, y[j] - mean_y)
        for j in range(len(y)):
            cross += config.turn_prior * mass_y[j] * np.outer(y[j] - mean_y, y[j] - mean_y)
        u, _, vt = np.linalg.svd(cross)
        y = mean_x + (y - mean_y) @ (u @ vt).T
    return y


def reliable(parts, config):
    """Centred rows, every direction scaled by a power of its reliability, before they are turned to axes."""
    total, width = sum(map(len, parts)), parts[0].shape[1]
    own, near = np.zeros((width, width)), np.zeros((width, width))
    for rows in parts:
        k = min(config.confidence_neighbours, len(rows) - 1)
        for row in rows:
            own += np.outer(row - rows.mean(axis=0), row - rows.mean(axis=0)) / total
            for j in nearest(rows, row, k + 1)[1:]:
                near += np.outer(row - rows[j], row - rows[j]) / (k * total)
    ratios, directions = scipy.linalg.eigh(near, own)
    scales = np.clip(1 - ratios / 2, 0, 1) ** config.reliability_power
    mean = np.vstack(parts).mean(axis=0)
    return [(rows - mean) @ directions @ np.diag(scales) @ np.linalg.inv(directions) for rows in parts]


def smoothed(rows, known, config, own=None):
    """Rows part of the way to the mean of their neighbours; row i is number own[i] of the known ones."""
    out = []
    for i, row in enumerate(rows):
        others = [j for j in range(len(known)) if own is None or j != own[i]]
        near = [others[j] for j in nearest(known[others], row, config.smoothing_neighbours)]
        width = distance(row, known[near[-1]])
        weights = [math.exp(-((distance(row, known[j]) / width) ** 2)) for j in near]
        mean = (row + sum(w * known[j] for w, j in zip(weights, near, strict=True))) / (1 + sum(weights))
        out.append((1 - config.smoothing) * row + config.smoothing * mean)
    return np.array(out)
