"""Adapter for AnnData and MuData; results are stored for scanpy.

`align` takes one AnnData with a `batch_key`, a list or dict of AnnData, or a MuData, and writes its
results where scanpy expects them:

===================================  ====================================================================
``obsm["X_harmonic"]``               aligned coordinates
``obsp["harmonic_connectivities"]``  weights of the joint graph, in [0, 1]
``obsp["harmonic_distances"]``       its distances
``uns["harmonic"]``                  what ``neighbors_key="harmonic"`` reads; significance, settings
``obs["harmonic_confidence"]``       confidence of each row
``var["harmonic_weight"]``           weight of each variable, from 0 (does not correspond) to 1
``var["harmonic_score"]``            its agreement across the datasets
``var["harmonic_selected"]``         whether it corresponds at a false discovery rate of 5 %
===================================  ====================================================================
"""

from harmonicalign.adapters import plot
from harmonicalign.adapters.scverse._activity import gene_activity
from harmonicalign.adapters.scverse._align import align
from harmonicalign.adapters.scverse._data import UnknownNameError
from harmonicalign.adapters.scverse._features import correct, denoise, impute
from harmonicalign.adapters.scverse._integrate import harmonic_integrate
from harmonicalign.adapters.scverse._proteins import clr, protein_links
from harmonicalign.adapters.scverse._query import map_query
from harmonicalign.adapters.scverse._uses import concat, score, transfer_labels

__all__ = [
    "UnknownNameError",
    "align",
    "clr",
    "concat",
    "correct",
    "denoise",
    "gene_activity",
    "harmonic_integrate",
    "impute",
    "map_query",
    "plot",
    "protein_links",
    "score",
    "transfer_labels",
]
