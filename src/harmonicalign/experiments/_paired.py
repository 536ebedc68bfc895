"""Cells measured in two ways at once: data for which the true pairing is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array, Matrix, MatrixLike
from harmonicalign.experiments._data import DataError, npz_file, read_npz
from harmonicalign.experiments._runner import Plan
from harmonicalign.uses.smooth import balanced_transitions, denoise

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["SETS", "Paired", "from_files", "interleaved_digits", "load", "reduce"]


N_COMPONENTS = 100  # of the truncated SVD, as in the paper


@dataclass(frozen=True)
class Paired:
    """Rows that are the same cells, seen by two modalities.

    Attributes
    ----------
    x, y
        Each modality after its normalisation and truncated SVD: what its graph is built on.
    signals
        Columns of the two that mean the same, or None where nothing is known to.
    n_links
        How many these are.
    """

    x: Array
    y: Array
    signals: tuple[Array, Array] | None

    @property
    def n_links(self) -> int:
        """Number of columns known to correspond."""
        return 0 if self.signals is None else int(self.signals[0].shape[1])


def reduce(matrix: Matrix) -> Array:
    """Truncated SVD to 100 components, or one less than the columns where there are fewer."""
    from sklearn.decomposition import TruncatedSVD

    k = min(N_COMPONENTS, min(matrix.shape) - 1)
    return np.asarray(TruncatedSVD(k, algorithm="arpack", random_state=0).fit_transform(matrix))


def z_score(values: Matrix) -> Array:
    """Columns at mean 0 and variance 1; constant ones at 0."""
    dense = np.asarray(values.toarray() if sp.issparse(values) else values, dtype=np.float64)
    spread = dense.std(axis=0)
    return np.asarray((dense - dense.mean(axis=0)) / np.where(spread > 0, spread, 1))


def per_total(counts: MatrixLike, total: float = 1e4) -> sp.csr_matrix:
    """Counts in proportion to their row's sum."""
    matrix = sp.csr_matrix(counts, dtype=np.float64)
    depth = np.asarray(matrix.sum(axis=1)).ravel()
    return sp.csr_matrix(sp.diags_array(total / np.maximum(depth, 1)) @ matrix)


# --- the data sets ------------------------------------------------------------------------------------------

GENE_OF_PROTEIN = {
    "B220 (CD45R)": "PTPRC", "CCR7": "CCR7", "CD11b": "ITGAM", "CD11c": "ITGAX", "CD14": "CD14",
    "CD16": "FCGR3A", "CD19": "CD19", "CD2": "CD2", "CD223 (lag3)": "LAG3", "CD26 (Adenosine)": "DPP4",
    "CD27": "CD27", "CD28": "CD28", "CD3": "CD3E", "CD366 (tim3)": "HAVCR2", "CD4": "CD4", "CD44": "CD44",
    "CD45": "PTPRC", "CD5": "CD5", "CD56": "NCAM1", "CD62L": "SELL", "CD69": "CD69", "CD7": "CD7",
    "CD8": "CD8A", "CTLA4": "CTLA4", "HLA-A,B,C": "HLA-A", "IL7Ralpha (CD127)": "IL7R", "LAMP1": "LAMP1",
    "MHCII (HLA-DR)": "HLA-DRA", "PECAM (CD31)": "PECAM1", "TCRb": "TRBC1", "TCRg": "TRGC1",
}  # fmt: skip
"""The gene of every protein of the CITE-seq set that can be identified by name."""


def _cite_seq(stored: dict[str, Any], rng: np.random.RandomState) -> Paired:
    """RNA against surface proteins; genes linked to proteins by name, if seen in 5 % of the cells."""
    rows = _some(len(stored["adt"]), rng)
    counts = stored["rna"][rows]
    rna = per_total(counts).sqrt()
    log_rna = per_total(counts).log1p()
    adt = np.log1p(stored["adt"][rows].astype(np.float64))
    adt -= adt.mean(axis=1, keepdims=True)  # centred log-ratio: removes sequencing depth
    genes = {str(g).split("_")[-1]: i for i, g in enumerate(stored["genes"])}
    proteins = {str(p): i for i, p in enumerate(stored["proteins"])}
    seen = np.asarray((counts > 0).mean(axis=0)).ravel()
    links = np.array(
        [
            (genes[g], proteins[p])
            for p, g in GENE_OF_PROTEIN.items()
            if g in genes and p in proteins and seen[genes[g]] >= 0.05
        ]
    )
    return Paired(reduce(rna), reduce(adt), (z_score(log_rna[:, links[:, 0]]), z_score(adt[:, links[:, 1]])))


def _cortex(stored: dict[str, Any], rng: np.random.RandomState) -> Paired:
    """RNA against chromatin; gene activity is the sum over the peaks at a gene.

    With 83 ATAC counts a cell, single values are mostly zeros: both sides are smoothed over their own graph
    first, which uses nothing of the pairing.
    """
    rows = _some(stored["rna"].shape[0], rng)
    rna, atac = stored["rna"][rows], stored["atac"][rows].astype(np.float64)
    x, y = reduce(per_total(rna).sqrt()), reduce(per_total(atac).log1p())
    activity = per_total(atac @ stored["gene_by_region"].T.astype(np.float64)).log1p()
    genes = per_total(rna).log1p()
    kept = np.flatnonzero(
        (np.asarray((genes > 0).mean(axis=0)).ravel() > 0.02)
        & (np.asarray((activity > 0).mean(axis=0)).ravel() > 0.02)
    )
    smooth = [
        denoise(signal[:, kept].toarray(), balanced_transitions([place])).values
        for signal, place in ((genes, x), (activity, y))
    ]
    return Paired(x, y, (z_score(smooth[0]), z_score(smooth[1])))


def _scgem(stored: dict[str, Any], rng: np.random.RandomState) -> Paired:
    """Expression against methylation; a gene and a locus of the same name are taken to correspond."""
    rows = _some(len(stored["X_expr"]), rng)
    expression, methylation = stored["X_expr"][rows], stored["X_meth"][rows].astype(np.float64)
    loci = [str(name).upper() for name in stored["loci_meth"]]
    links = [
        (i, loci.index(g)) for i, name in enumerate(stored["genes_expr"]) if (g := str(name).upper()) in loci
    ]
    signals = (z_score(expression[:, [i for i, _ in links]]), z_score(methylation[:, [j for _, j in links]]))
    return Paired(reduce(expression), reduce(methylation), signals if links else None)


def _a549(stored: dict[str, Any], rng: np.random.RandomState) -> Paired:
    """RNA against chromatin of one treated line; already normalised, and without gene positions."""
    rows = _some(stored["rna"].shape[0], rng)
    return Paired(reduce(stored["rna"][rows]), reduce(stored["atac"][rows].log1p()), None)


def _snare_lines(stored: dict[str, Any], rng: np.random.RandomState) -> Paired:
    """Four cell lines, as principal components and topics: no feature has a name."""
    rows = _some(len(stored["X_rna"]), rng)
    unit = [
        v / np.linalg.norm(v, axis=1, keepdims=True) for v in (stored["X_rna"][rows], stored["X_atac"][rows])
    ]
    return Paired(unit[0], unit[1], None)


def _some(n: int, rng: np.random.RandomState) -> Array:
    """Nine tenths of the rows, at most 2,000, in random order."""
    return rng.permutation(n)[: min(2000, int(0.9 * n))]


SETS: dict[str, tuple[str, tuple[str, ...], Callable[[dict[str, Any], np.random.RandomState], Paired]]] = {
    "CITE-seq": (
        "citeseq_citefuse/citeseq_citefuse.npz",
        ("rna_data", "adt", "genes", "proteins"),
        _cite_seq,
    ),
    "SNARE-seq cortex": (
        "snare_mouse_cortex/snare_mouse_cortex.npz",
        ("rna_data", "atac_data", "gene_by_region_data"),
        _cortex,
    ),
    "scGEM": ("scgem/scgem.npz", ("X_expr", "X_meth", "genes_expr", "loci_meth"), _scgem),
    "sci-CAR A549": ("scicar_a549/scicar_a549_scai.npz", ("rna_data", "atac_data"), _a549),
    "SNARE-seq lines": ("snare_cellline/snare_cellline.npz", ("X_rna", "X_atac"), _snare_lines),
}
"""File of a data set, the arrays it must hold, and how it is prepared."""

_WHERE = (
    "the paired sets are GSE126310 (CITE-seq, with CiteFuse), GSE126074 (SNARE-seq), GSE117089 (sci-CAR, "
    "with scAI) and SRP077853 (scGEM, with UnionCom); or name any paired data: data=FILE.h5mu, or two h5ad "
    "files with the same cells, on the command line --data FILE"
)


def there(plan: Plan) -> list[str]:
    """Data sets whose files are available."""
    found, first = [], None
    for name, (relative, _, _) in SETS.items():
        try:
            npz_file(plan, relative, _WHERE)
        except DataError as error:
            first = first or error
        else:
            found.append(name)
    if not found and first is not None:
        raise first
    for name in found:
        relative, wanted, _ = SETS[name]
        file = npz_file(plan, relative, _WHERE)
        with np.load(file, allow_pickle=False) as stored:
            lacking = [key for key in wanted if key not in stored.files]
        if lacking:
            raise DataError(f"{file} lacks the arrays {', '.join(lacking)}; {_WHERE}")
    return found


def load(plan: Plan, name: str, seed: int) -> Paired:
    """A prepared data set: a random part of its rows, row i of both modalities the same cell."""
    relative, _, make = SETS[name]
    return make(read_npz(npz_file(plan, relative, _WHERE)), np.random.RandomState(seed))


# --- two sensors, without any download ----------------------------------------------------------------------


def interleaved_digits(seed: int, n: int = 400) -> Paired:
    """Digits as two sensors see them: one the even pixels, the other the odd ones, each with its own gain.

    No pixel is in both, but the brightness of the same block of 2 × 2 pixels means the same. The gains give
    the two sensors different principal components.

    Parameters
    ----------
    seed
        Chooses the rows.
    n
        Their number.
    """
    from sklearn.datasets import load_digits

    images = load_digits().images[np.random.RandomState(seed).permutation(1797)[:n]] / 16
    even = np.indices((8, 8)).sum(axis=0) % 2 == 0

    def blocks(seen: Array) -> Array:
        part = np.where(seen, images, 0).reshape(n, 4, 2, 4, 2).sum(axis=(2, 4))
        return z_score(part.reshape(n, 16))

    gains = np.exp(np.random.RandomState(0).normal(0, 1.2, int((~even).sum())))
    return Paired(reduce(images[:, even]), reduce(images[:, ~even] * gains), (blocks(even), blocks(~even)))


# --- files of the user --------------------------------------------------------------------------------------


def from_files(paths: tuple[str, ...], seed: int | None) -> Paired:
    """Two modalities of the same cells, from one h5mu file or two h5ad files.

    Counts are normalised as in the paper, square root for the first and logarithm for the second; other
    values are taken as they are. Signals are the features whose names both have; peaks whose ``.var`` names a
    gene (``gene``, ``gene_name`` or ``nearest_gene``) are summed by it.

    Parameters
    ----------
    paths
        The files.
    seed
        Chooses the rows; None takes all, at most 2,000 (for a check).
    """
    first, second = _modalities(paths)
    shared = [name for name in first.obs_names if name in set(second.obs_names)]
    if len(shared) < 30:
        raise DataError(
            f"{' and '.join(paths)}: the two modalities share {len(shared)} cells by name, 30 are needed; "
            "paired data have the same obs_names in both"
        )
    rows = _some(len(shared), np.random.RandomState(seed or 0))
    chosen = [shared[i] for i in rows]
    x, y = first[chosen], second[chosen]
    signals = None
    named = [(_by_gene(x), _is_count(x.X)), (_by_gene(y), _is_count(y.X))]
    common = sorted(set(named[0][0][1]) & set(named[1][0][1]))
    if len(common) >= 2:
        values = []
        for (matrix, genes), counts in named:
            place = {gene: j for j, gene in enumerate(genes)}
            columns = sp.csr_matrix(matrix)[:, [place[gene] for gene in common]]
            values.append(z_score(per_total(columns).log1p() if counts else columns))
        signals = (values[0], values[1])
    ready = [
        reduce(per_total(x.X).sqrt() if _is_count(x.X) else sp.csr_matrix(x.X, dtype=np.float64)),
        reduce(per_total(y.X).log1p() if _is_count(y.X) else sp.csr_matrix(y.X, dtype=np.float64)),
    ]
    return Paired(ready[0], ready[1], signals)


def _modalities(paths: tuple[str, ...]) -> tuple[Any, Any]:
    from harmonicalign.adapters import io

    for path in paths:
        if not Path(path).exists():
            raise DataError(f"{path} does not exist; {_WHERE}")
    try:
        found = [io.read(path) for path in paths]
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{' and '.join(paths)} cannot be read ({error}); {_WHERE}") from error
    found = [table for one in found for table in (one.mod.values() if hasattr(one, "mod") else [one])]
    if len(found) != 2:
        raise DataError(
            f"{' and '.join(paths)}: {len(found)} modalities were found, two are needed; {_WHERE}"
        )
    return found[0], found[1]


def _is_count(values: Matrix) -> bool:
    data = values.data if sp.issparse(values) else np.asarray(values)
    some = np.asarray(data).ravel()[:100_000]
    return bool(some.size and (some >= 0).all() and (some == np.round(some)).all())


def _by_gene(table: AnnData) -> tuple[Matrix, list[str]]:
    """Values by gene name: of peaks the sum over those of each gene, else the columns as they are."""
    column = next((c for c in ("gene", "gene_name", "nearest_gene") if c in table.var), None)
    if column is None:
        return table.X, [str(name).upper() for name in table.var_names]
    names = table.var[column].astype(str).str.upper().to_numpy()
    genes, code = np.unique(names, return_inverse=True)
    gather = sp.csr_matrix((np.ones(len(code)), (np.arange(len(code)), code)), shape=(len(code), len(genes)))
    return sp.csr_matrix(table.X) @ gather, genes.tolist()
