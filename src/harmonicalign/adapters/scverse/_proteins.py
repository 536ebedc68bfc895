"""Surface proteins: which genes encode what an antibody binds, and the normalisation of antibody counts."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from harmonicalign.adapters.scverse._data import examples, lookup, unknown

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["GENES_OF_ANTIGEN", "clr", "genes_of", "protein_links"]

logger = logging.getLogger("harmonicalign")

_TABLE = """
B7-H1 CD274; B7-H2 ICOSLG; B7-H3 CD276; B220 PTPRC*; CCR2 CCR2; CCR4 CCR4; CCR5 CCR5; CCR6 CCR6;
CCR7 CCR7; CD1A CD1A; CD1B CD1B; CD1C CD1C; CD1D CD1D; CD2 CD2; CD3 CD3E CD3D CD3G; CD3D CD3D; CD3E CD3E;
CD4 CD4; CD5 CD5; CD6 CD6; CD7 CD7; CD8 CD8A CD8B; CD8A CD8A; CD8B CD8B; CD9 CD9; CD10 MME; CD11A ITGAL;
CD11B ITGAM; CD11C ITGAX; CD13 ANPEP; CD14 CD14; CD16 FCGR3A FCGR3B; CD18 ITGB2; CD19 CD19; CD20 MS4A1;
CD21 CR2; CD22 CD22; CD23 FCER2; CD24 CD24; CD25 IL2RA; CD26 DPP4; CD27 CD27; CD28 CD28; CD29 ITGB1;
CD30 TNFRSF8; CD31 PECAM1; CD32 FCGR2A FCGR2B; CD33 CD33; CD34 CD34; CD35 CR1; CD36 CD36; CD37 CD37;
CD38 CD38; CD39 ENTPD1; CD40 CD40; CD40L CD40LG; CD41 ITGA2B; CD42B GP1BA; CD43 SPN; CD44 CD44;
CD45 PTPRC; CD45RA PTPRC*; CD45RB PTPRC*; CD45RO PTPRC*; CD46 CD46; CD47 CD47; CD48 CD48; CD49A ITGA1;
CD49B ITGA2; CD49D ITGA4; CD49E ITGA5; CD49F ITGA6; CD52 CD52; CD54 ICAM1; CD55 CD55; CD56 NCAM1;
CD57 B3GAT1*; CD58 CD58; CD59 CD59; CD61 ITGB3; CD62L SELL; CD62P SELP; CD63 CD63; CD64 FCGR1A;
CD66B CEACAM8; CD69 CD69; CD70 CD70; CD71 TFRC; CD72 CD72; CD73 NT5E; CD74 CD74; CD79A CD79A; CD79B CD79B;
CD80 CD80; CD81 CD81; CD82 CD82; CD83 CD83; CD84 CD84; CD85J LILRB1; CD86 CD86; CD88 C5AR1; CD90 THY1;
CD93 CD93; CD94 KLRD1; CD95 FAS; CD96 CD96; CD98 SLC3A2; CD99 CD99; CD101 CD101; CD103 ITGAE; CD105 ENG;
CD106 VCAM1; CD107A LAMP1; CD112 NECTIN2; CD115 CSF1R; CD116 CSF2RA; CD117 KIT; CD119 IFNGR1; CD122 IL2RB;
CD123 IL3RA; CD124 IL4R; CD126 IL6R; CD127 IL7R; CD130 IL6ST; CD133 PROM1; CD134 TNFRSF4; CD135 FLT3;
CD137 TNFRSF9; CD138 SDC1; CD140A PDGFRA; CD140B PDGFRB; CD141 THBD; CD146 MCAM; CD150 SLAMF1;
CD151 CD151; CD152 CTLA4; CD154 CD40LG; CD155 PVR; CD158 KIR2DL1; CD158B KIR2DL3; CD158E1 KIR3DL1;
CD161 KLRB1; CD163 CD163; CD164 CD164; CD169 SIGLEC1; CD172A SIRPA; CD177 CD177; CD183 CXCR3; CD184 CXCR4;
CD185 CXCR5; CD186 CXCR6; CD192 CCR2; CD193 CCR3; CD194 CCR4; CD195 CCR5; CD196 CCR6; CD197 CCR7;
CD200 CD200; CD201 PROCR; CD205 LY75; CD206 MRC1; CD207 CD207; CD209 CD209; CD223 LAG3; CD224 GGT1;
CD226 CD226; CD235A GYPA; CD235AB GYPA GYPB; CD244 CD244; CD252 TNFSF4; CD268 TNFRSF13C; CD270 TNFRSF14;
CD272 BTLA; CD273 PDCD1LG2; CD274 CD274; CD275 ICOSLG; CD276 CD276; CD278 ICOS; CD279 PDCD1; CD294 PTGDR2;
CD303 CLEC4C; CD304 NRP1; CD314 KLRK1; CD319 SLAMF7; CD324 CDH1; CD326 EPCAM; CD328 SIGLEC7; CD335 NCR1;
CD336 NCR2; CD337 NCR3; CD352 SLAMF6; CD357 TNFRSF18; CD366 HAVCR2; CD369 CLEC7A; CD370 CLEC9A; C-KIT KIT;
CLEC12A CLEC12A; CTLA4 CTLA4; CX3CR1 CX3CR1; CXCR3 CXCR3; CXCR4 CXCR4; CXCR5 CXCR5; EGFR EGFR;
EPCAM EPCAM; FCERIA FCER1A; FCER1A FCER1A; GITR TNFRSF18; GPR56 ADGRG1; HLA-A,B,C HLA-A HLA-B HLA-C;
HLA-ABC HLA-A HLA-B HLA-C; HLA-A2 HLA-A; HLA-DR HLA-DRA HLA-DRB1; HLA-DQ HLA-DQA1 HLA-DQB1; HLA-E HLA-E;
MHCI HLA-A HLA-B HLA-C; MHCII HLA-DRA HLA-DRB1; B2-MICROGLOBULIN B2M; ICOS ICOS; IGD IGHD; IGM IGHM;
IGGFC IGHG1 IGHG3; IGKAPPA IGKC; IGLAMBDA IGLC2 IGLC3; IL7RALPHA IL7R; INTEGRINB7 ITGB7; KLRG1 KLRG1;
LAG3 LAG3; LAMP1 LAMP1; LOX-1 OLR1; NKG2D KLRK1; NKP46 NCR1; OX40 TNFRSF4; PD-1 PDCD1; PD1 PDCD1;
PD-L1 CD274; PDL1 CD274; PD-L2 PDCD1LG2; PECAM PECAM1; SIGLEC-8 SIGLEC8; TIGIT TIGIT; TIM3 HAVCR2;
TIM-3 HAVCR2; TCRA TRAC; TCRAB TRAC TRBC1 TRBC2; TCRB TRBC1 TRBC2; TCRG TRGC1 TRGC2;
TCRGD TRGC1 TRGC2 TRDC; TCRD TRDC; TCRVA7.2 TRAV1-2; TCRVD2 TRDV2; TCRVG9 TRGV9; THY1 THY1; VEGFR2 KDR;
XCR1 XCR1
"""

_ISOFORM = 0.5
"""Weight of a link to one splice form or modification: the gene's transcripts count all of them."""

GENES_OF_ANTIGEN: dict[str, tuple[tuple[str, float], ...]] = {
    words[0]: tuple((gene.rstrip("*"), _ISOFORM if gene.endswith("*") else 1.0) for gene in words[1:])
    for words in (entry.split() for entry in _TABLE.split(";"))
}
"""Human genes of what antibodies bind, under the names that panels use, with the weight of each link."""

_AROUND = re.compile(
    r"^(?:ADT|AB|ANTI|HU|HUMAN|MOUSE|MS|PROTEIN|PROT|CITE)[-_.:\s]+"
    r"|[-_.\s]+(?:TOTALSEQ.*|TOTALA|TOTALB|TOTALC|ADT|AB|PROT|PROTEIN|(?:ADT_)?[ACGT]{10,})$"
)
_GENOME = re.compile(r"^(?:GRCH3[78]|GRCM3[89]|HG19|HG38|MM10|MM39)_+")
_GREEK = str.maketrans({"α": "A", "β": "B", "γ": "G", "δ": "D", "κ": "KAPPA", "λ": "LAMBDA", "ε": "E"})


def genes_of(protein: str) -> tuple[tuple[str, float], ...]:
    """Genes and weights of an antibody by its name; empty where the name is unknown or a control's.

    Parameters
    ----------
    protein
        For example "CD3", "anti-human CD8a", "CD279 (PD-1)", "CD45RA-TotalSeqB".
    """
    whole = _plain(protein)
    outside, inside = re.sub(r"\(.*?\)", " ", whole), re.findall(r"\((.*?)\)", whole)
    for name in [whole, outside, *inside, *re.split(r"[/|]", outside)]:
        for form in (_plain(name), re.sub(r"[\s_]+", "", _plain(name))):
            if form in GENES_OF_ANTIGEN:
                return GENES_OF_ANTIGEN[form]
    return ()


def protein_links(rna: Any, adt: Any, *, symbols: str | None = None) -> pd.DataFrame:
    """Links from genes to the surface proteins that they encode, for `align`.

    Parameters
    ----------
    rna, adt
        AnnData of RNA and of antibody counts; or lists of their variables' names. Names of antibodies may
        carry what vendors put around them. Genes are matched whatever their case, so most genes of mice too.
    symbols
        Column of ``rna.var`` that holds gene symbols, where var_names are other identifiers.

    Returns
    -------
    links
        Columns gene, protein and weight, in the names of the data. A complex of several genes has a link to
        each; a splice form has half the weight. Pass it on as ``align([rna, adt], links=links)``.

    Examples
    --------
    >>> from harmonicalign.adapters import scverse
    >>> scverse.protein_links(["CD3E", "PTPRC", "ACTB"], ["CD3", "CD45RA", "IgG1"])
        gene protein  weight
    0   CD3E     CD3     1.0
    1  PTPRC  CD45RA     0.5
    """
    import pandas as pd

    genes, proteins = _names(rna), _names(adt)
    shown = genes
    if symbols is not None:
        if not hasattr(rna, "var"):
            raise ValueError("symbols names a column of rna.var, but rna is a list of names; drop it")
        shown = [str(symbol) for symbol in lookup("rna.var", rna.var, symbols)]
    known: dict[str, str] = {}
    for symbol, name in zip(shown, genes, strict=True):
        known.setdefault(_GENOME.sub("", symbol.upper()), name)
    found = {protein: genes_of(protein) for protein in proteins}
    rows = [
        (known[gene], protein, weight)
        for protein, encoded in found.items()
        for gene, weight in encoded
        if gene in known
    ]
    linked = {protein for _, protein, _ in rows}
    if not rows:
        raise ValueError(
            f"no protein has a known gene among those of rna (proteins: {examples(proteins)}; genes: "
            f"{examples(shown)}); are the two the right way round, and are gene symbols in symbols=…?"
        )
    logger.info(
        "%d of %d proteins are linked to genes; the others: %s",
        len(linked),
        len(proteins),
        examples((p for p in proteins if p not in linked), 10),
    )
    return pd.DataFrame(rows, columns=["gene", "protein", "weight"])


def clr(adata: Any, *, layer: str | None = None, key_added: str | None = None, copy: bool = False) -> Any:
    """Centred log-ratio of antibody counts: ``log(1 + x)`` less its mean over the proteins of each cell.

    Parameters
    ----------
    adata
        AnnData of antibody counts.
    layer
        Where the counts are; by default X.
    key_added
        Layer for the result; by default it replaces the counts.
    copy
        Return a changed copy.
    """
    if copy:
        adata = adata.copy()
    counts = adata.X if layer is None else lookup("layers", adata.layers, layer)
    if counts is None:
        raise unknown("adata", "X", adata.layers.keys())
    values = np.asarray(counts.toarray() if sp.issparse(counts) else counts, dtype=np.float32)
    if values.size and not values.min() >= 0:
        raise ValueError(
            f"clr expects counts, but there are negative numbers or NaN (least: {np.min(values):g}); name "
            "the layer that has counts"
        )
    logs = np.log1p(values)
    result = logs - logs.mean(axis=1, keepdims=True)
    if key_added is not None:
        adata.layers[key_added] = result
    elif layer is not None:
        adata.layers[layer] = result
    else:
        adata.X = result
    return adata if copy else None


def _plain(name: str) -> str:
    """A name in capitals without what vendors put around it."""
    text = str(name).translate(_GREEK).upper().strip()
    while (shorter := _AROUND.sub("", text).strip()) != text and shorter:
        text = shorter
    return text


def _names(data: Any) -> list[str]:
    names: Sequence[Any] = data.var_names if hasattr(data, "var_names") else data
    return [str(name) for name in names]
