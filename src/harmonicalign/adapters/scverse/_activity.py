"""Gene activity from open chromatin: the sum of the peaks at each gene."""

from __future__ import annotations

import gzip
import logging
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from harmonicalign._typing import Array
from harmonicalign.adapters.scverse._data import examples, require_anndata
from harmonicalign.adapters.scverse._matrix import Store, read

__all__ = ["gene_activity"]

logger = logging.getLogger("harmonicalign")

_CHROMOSOME = ("chrom", "chromosome", "seqname", "seqnames", "seqid", "chr")
_START = ("start", "chromstart", "txstart")
_END = ("end", "chromend", "txend", "stop")
_STRAND = ("strand",)
_GENE = ("gene_name", "gene", "gene_symbol", "symbol", "name", "gene_id")
_PEAK = ("peak", "peaks", "region")
_PEAK_NAME = re.compile(r"^(.+)[:_-](\d+)[-_](\d+)$")


def gene_activity(
    adata: Any, genes: Any, *, upstream: int = 2000, layer: str | None = None, names: Iterable[str] = ()
) -> Any:
    """Sum, for every gene, the peaks that overlap its body or promoter.

    Parameters
    ----------
    adata
        Cells by peaks. Coordinates are taken from columns of var (``chrom``, ``start``, ``end``), or
        else from names of the variables such as ``chr1:1000-2000`` or ``chr1_1000_2000``, and are
        counted from 0 with the end left out, as in BED files.
    genes
        Path to a GTF or GFF file (may be gzipped), or to a table; or a data frame of genes with
        columns ``chrom``, ``start``, ``end``, optionally ``strand``, and the name in ``gene_name``
        (or the index); or a data frame of pairs with columns ``peak`` and ``gene``, which assigns
        peaks to genes directly.
    upstream
        Length of the promoter: number of base pairs before the start of the gene.
    layer
        Layer to sum; by default X.
    names
        Genes to keep; by default all that have a peak.

    Returns
    -------
    activity
        AnnData of cells by genes, sparse; ``var["n_peaks"]`` is the number of peaks per gene.

    Examples
    --------
    >>> import anndata, numpy as np, pandas as pd
    >>> from harmonicalign.scverse import gene_activity
    >>> peaks = anndata.AnnData(np.array([[1.0, 2.0, 4.0]]))
    >>> peaks.var_names = ["chr1:100-200", "chr1:5000-5100", "chr2:100-200"]
    >>> genes = pd.DataFrame({"chrom": ["chr1", "chr2"], "start": [3000, 50], "end": [6000, 900]})
    >>> genes["gene_name"] = ["A", "B"]
    >>> gene_activity(peaks, genes).to_df().to_numpy()
    array([[2., 4.]])
    """
    import pandas as pd

    anndata = require_anndata()
    gene_names, matrix = _peaks_of_genes(adata, _gene_table(genes), upstream)
    wanted = set(map(str, names))
    kept = np.flatnonzero(
        (np.asarray((matrix != 0).sum(axis=0)).ravel() > 0)
        & np.array([not wanted or name in wanted for name in gene_names], dtype=bool)
    )
    if not kept.size:
        raise ValueError(
            f"genes: none of {len(gene_names)} genes ({examples(gene_names)}) has a peak of these data "
            f"({examples(adata.var_names)}); check that both use the same genome version"
        )
    matrix = matrix[:, kept]
    counts = np.asarray((matrix != 0).sum(axis=0)).ravel()
    hit = int((np.asarray((matrix != 0).sum(axis=1)).ravel() > 0).sum())
    logger.info("gene activity: %d of %d peaks lie at %d genes", hit, adata.n_vars, kept.size)
    store = Store(adata, layer, False, "X" if layer is None else f"layers[{layer!r}]")
    used = np.flatnonzero(np.diff(matrix.tocsr().indptr))
    (values,) = read(store, [None], [used])
    activity = sp.csr_matrix(sp.csr_matrix(values) @ matrix.tocsr()[used])
    var = pd.DataFrame({"n_peaks": counts}, index=[gene_names[i] for i in kept])
    return anndata.AnnData(activity, obs=pd.DataFrame(index=adata.obs_names.copy()), var=var)


def _gene_table(genes: Any) -> Any:
    """Genes as a data frame, from any accepted form."""
    import pandas as pd

    if hasattr(genes, "columns"):
        return genes
    if not isinstance(genes, str | os.PathLike):
        raise ValueError(
            f"genes is of type {type(genes).__name__}; expected the path of a GTF file, or a data frame"
        )
    path = Path(genes)
    if not path.is_file():
        raise ValueError(f"genes: there is no file {str(path)!r}")
    kind = next((s for s in reversed(path.suffixes) if s != ".gz"), "").lower()
    if kind in (".gtf", ".gff", ".gff3"):
        return _read_gtf(path)
    return pd.read_csv(path, sep="," if kind == ".csv" else "\t")


def _read_gtf(path: Path) -> Any:
    """Lines of genes of a GTF or GFF3 file; where it has none, the extent of the transcripts of each."""
    import pandas as pd

    found: dict[str, list[tuple[Any, ...]]] = {"gene": [], "transcript": []}
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        for line in lines:
            fields = line.rstrip("\n").split("\t")
            if line.startswith("#") or len(fields) < 9 or fields[2] not in found:
                continue
            attributes = dict(re.findall(r'(\w+)[ =]"?([^";]+)"?', fields[8]))
            name = attributes.get("gene_name") or attributes.get("Name") or attributes.get("gene_id")
            if name:
                # GTF counts from 1 and includes the end.
                place = (fields[0], int(fields[3]) - 1, int(fields[4]), fields[6])
                found[fields[2]].append((name, *place))
    rows = found["gene"] or found["transcript"]
    if not rows:
        raise ValueError(f"genes: {str(path)!r} has no line of a gene that gives its name")
    table = pd.DataFrame(rows, columns=["gene_name", "chrom", "start", "end", "strand"])
    if found["gene"]:
        return table
    grouped = table.groupby(["gene_name", "chrom", "strand"], sort=False, as_index=False)
    return grouped.agg({"start": "min", "end": "max"})


def _peaks_of_genes(adata: Any, genes: Any, upstream: int) -> tuple[list[str], Any]:
    """Names of the genes, and the sparse matrix (peaks by genes) that assigns peaks to genes."""
    name_column, peak_column = _column(genes, _GENE), _column(genes, _PEAK)
    names = np.asarray(genes.index if name_column is None else genes[name_column]).astype(str)
    unique, code = np.unique(names, return_inverse=True)
    if peak_column is not None:
        number = {str(name): i for i, name in enumerate(adata.var_names)}
        row = np.array([number.get(str(p), -1) for p in genes[peak_column]])
        column = code
    else:
        row, column = _overlaps(_peak_places(adata), _gene_places(genes, upstream))
        column = code[column]
    known = row >= 0
    matrix = sp.csr_matrix(
        (np.ones(int(known.sum())), (row[known], column[known])), shape=(adata.n_vars, len(unique))
    )
    matrix.data[:] = 1  # a peak at two transcripts of a gene is still one peak
    return unique.tolist(), matrix.tocsc()


def _column(table: Any, candidates: tuple[str, ...]) -> Any:
    """The first of the candidate columns that a table has, whatever their case; None if it has none."""
    by_name = {str(c).lower(): c for c in table.columns}
    return next((by_name[c] for c in candidates if c in by_name), None)


Places = tuple[Array, Array, Array]  # chromosome, start, end


def _places(table: Any) -> Places | None:
    columns = [_column(table, candidates) for candidates in (_CHROMOSOME, _START, _END)]
    if any(c is None for c in columns):
        return None
    chromosome, start, end = (np.asarray(table[c]) for c in columns)
    return chromosome.astype(str), start.astype(np.int64), end.astype(np.int64)


def _peak_places(adata: Any) -> Places:
    places = _places(adata.var)
    if places is not None:
        return places
    matches = [_PEAK_NAME.match(str(name)) for name in adata.var_names]
    lost = [str(name) for name, m in zip(adata.var_names, matches, strict=True) if m is None]
    if len(lost) == len(matches):
        raise ValueError(
            f"peaks: var has no columns chrom, start and end, and names such as {lost[0]!r} do not tell "
            "where a peak lies; expected for example 'chr1:1000-2000'"
        )
    if lost:
        logger.warning("peaks: %d names without a position are left out: %s", len(lost), examples(lost))
    parts = [m.groups() if m else ("", "0", "0") for m in matches]
    chromosome, start, end = zip(*parts, strict=True)
    return np.array(chromosome), np.array(start, dtype=np.int64), np.array(end, dtype=np.int64)


def _gene_places(genes: Any, upstream: int) -> Places:
    places = _places(genes)
    if places is None:
        raise ValueError(
            f"genes has the columns {examples(genes.columns, 8)}; expected chrom, start and end (and strand "
            "and gene_name), or peak and gene"
        )
    chromosome, start, end = places
    strand = _column(genes, _STRAND)
    reverse = np.zeros(len(start), dtype=bool) if strand is None else np.asarray(genes[strand]) == "-"
    return chromosome, np.where(reverse, start, start - upstream), np.where(reverse, end + upstream, end)


def _overlaps(peaks: Places, genes: Places) -> tuple[Array, Array]:
    """Numbers of the peaks and genes that overlap, pair by pair."""
    if not set(peaks[0]) & set(genes[0]):
        # "chr1" in one and "1" in the other is the most common reason.
        peaks, genes = ((np.char.replace(p[0], "chr", ""), p[1], p[2]) for p in (peaks, genes))
    rows, columns = [], []
    for chromosome in np.intersect1d(peaks[0], genes[0]):
        p, g = np.flatnonzero(peaks[0] == chromosome), np.flatnonzero(genes[0] == chromosome)
        p = p[np.argsort(peaks[1][p], kind="stable")]
        start, end = peaks[1][p], peaks[2][p]
        # Peaks that start before the gene's end, and late enough that one could reach its start.
        first = np.searchsorted(start, genes[1][g] - int((end - start).max()))
        last = np.searchsorted(start, genes[2][g])
        size = np.maximum(last - first, 0)
        gene = np.repeat(np.arange(len(g)), size)
        peak = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size) + first[gene]
        inside = end[peak] > genes[1][g][gene]
        rows.append(p[peak[inside]])
        columns.append(g[gene[inside]])
    empty = [np.empty(0, dtype=np.int64)]
    return np.concatenate(rows or empty), np.concatenate(columns or empty)
