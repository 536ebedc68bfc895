"""The five algorithms of the paper's appendix, line by line, in plain loops.

Written from the paper and independent of the library, as the oracle for ``method="paper"``. The
slips of the printed text are settled thus: diffusion coordinates are D^-1/2 psi with D divided by
its sum, the second spectrum is the second dataset's, and pi/Y is pi/2.
"""

import math

import numpy as np


def gauss_kernel_graph(data, epsilon, exponent, anisotropy, threshold):
    n = len(data)
    weight = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            distance = math.sqrt(sum((a - b) ** 2 for a, b in zip(data[i], data[j], strict=True)))
            here = math.exp(-((distance / epsilon[i]) ** exponent))
            there = math.exp(-((distance / epsilon[j]) ** exponent))
            weight[i, j] = (here + there) / 2
            if weight[i, j] < threshold:
                weight[i, j] = 0.0
    density = [sum(weight[i]) for i in range(n)]
    for i in range(n):
        for j in range(n):
            weight[i, j] /= density[i] ** anisotropy * density[j] ** anisotropy
    degree = np.array([sum(weight[i]) for i in range(n)])
    laplacian = np.eye(n)
    for i in range(n):
        for j in range(n):
            laplacian[i, j] -= weight[i, j] / math.sqrt(degree[i] * degree[j])
    return weight, laplacian, degree


def fourier_basis(laplacian):
    values, vectors = np.linalg.eigh(np.eye(len(laplacian)) - laplacian)
    order = np.argsort(-values)
    return vectors[:, order], values[order]


def bandlimiting_weights(lx, ly, n_bands, first=0):
    def f(value, xi):
        position = n_bands * min(max(value, 0.0), 1.0) - xi
        if not -1 <= position <= 1:
            return 0.0
        return math.sin(math.pi / 2 * math.cos(math.pi / 2 * position) ** 2)

    out = np.zeros((len(lx), len(ly)))
    for i, a in enumerate(lx):
        for j, b in enumerate(ly):
            for xi in range(first, n_bands + 1):
                out[i, j] += f(a, xi) * f(b, xi)
    return out


def multi_alignment(
    datasets, signals, epsilons, t, n_bands, exponent=2, anisotropy=1, threshold=1e-4, first=0
):
    """Alg. MultiAlignment; two datasets make it Alg. HarmonicAlignment."""
    psi, lam, phi, hat = [], [], [], []
    for data, signal, epsilon in zip(datasets, signals, epsilons, strict=True):
        _, laplacian, degree = gauss_kernel_graph(data, epsilon, exponent, anisotropy, threshold)
        basis, values = fourier_basis(laplacian)
        basis, values = basis[:, 1:], values[1:]
        psi.append(basis)
        lam.append(np.clip(values, 0, None))
        phi.append(np.diag((degree / degree.sum()) ** -0.5) @ basis)
        hat.append(basis.T @ signal)
    n = len(datasets)
    blocks = [[None] * n for _ in range(n)]
    for i in range(n):
        blocks[i][i] = phi[i] @ np.diag(lam[i] ** t)
        for j in range(i + 1, n):
            weights = bandlimiting_weights(lam[i], lam[j], n_bands, first)
            c = np.zeros((len(lam[i]), len(lam[j])))
            for h in range(c.shape[0]):
                for k in range(c.shape[1]):
                    c[h, k] = weights[h, k] * np.dot(hat[i][h], hat[j][k])
            u, _, vt = np.linalg.svd(c, full_matrices=False)
            rotation = u @ vt
            blocks[i][j] = phi[i] @ rotation @ np.diag(lam[j] ** t)
            blocks[j][i] = phi[j] @ rotation.T @ np.diag(lam[i] ** t)
    return [np.hstack(row) for row in blocks]
