"""Small single-cell data for tests: counts with cell types and batch effects, and their logarithms."""

import anndata
import numpy as np
import pandas as pd
import scipy.sparse as sp

N_GENES = 60


def counts(n, batch, *, types=(0, 1, 2, 3), seed=None):
    """Counts of a batch: a mixture of programmes, genes caught differently from batch to batch."""
    profiles = np.random.RandomState(42).gamma(0.4, 1, (6, N_GENES))
    rng = np.random.RandomState(batch if seed is None else seed)
    kind = rng.choice(types, n)
    effect = np.exp(np.random.RandomState(1000 + batch).normal(0, 0.4, N_GENES))
    rate = (profiles[kind] + rng.dirichlet(np.ones(6) * 0.5, n) @ profiles) * effect
    rate *= rng.lognormal(6.5, 0.3, n)[:, None] / rate.sum(axis=1, keepdims=True)
    data = anndata.AnnData(
        sp.csr_matrix(rng.poisson(rate).astype(np.float32)),
        obs=pd.DataFrame(
            {"kind": pd.Categorical([f"kind {k}" for k in kind])}, index=[f"b{batch}c{i}" for i in range(n)]
        ),
        var=pd.DataFrame(
            {"gene_ids": [f"ENSG{i:011d}" for i in range(N_GENES)]}, index=[f"GEN{i}" for i in range(N_GENES)]
        ),
    )
    return data


def logged(data):
    """The same as logarithms of equal totals."""
    out = data.copy()
    dense = out.X.toarray()
    out.X = sp.csr_matrix(np.log1p(1e4 * dense / dense.sum(axis=1, keepdims=True)).astype(np.float32))
    return out
