import csv
import re
from pathlib import Path

import anndata as ad
import numpy as np
import scipy.sparse as sp

from harmonicalign import HarmonicAlignment, scverse

## VIASH START
par = {
    "input_mod1": "resources_test/common/scicar_cell_lines/dataset_mod1.h5ad",
    "input_mod2": "resources_test/common/scicar_cell_lines/dataset_mod2.h5ad",
    "output_mod1": "output_mod1.h5ad",
    "output_mod2": "output_mod2.h5ad",
    "links": None,
    "genes": None,
}
meta = {"functionality_name": "harmonicalign", "resources_dir": "."}
## VIASH END

FEWEST_LINKS = 3


def names_of(data):
    """Gene symbols where the file has them, without the genome that some references put before them."""
    names = data.var.get("feature_name", data.var_names)  # names of variables are often identifiers
    return [re.sub(r"^(hg19|hg38|mm10|mm39|GRCh3[78]|GRCm3[89])_+", "", str(name)) for name in names]


def read_links(path):
    with Path(path).open(newline="") as file:
        return [(row[0], row[1], float(row[2]) if len(row) > 2 else 1.0) for row in csv.reader(file) if row]


def short(name):
    """A protein's name without what is added to it: "CD223 (lag3)", "anti-CD3", "CD4_TotalSeqB"."""
    name = re.sub(r"^anti[-_ ](human|mouse)?[-_ ]?", "", name, flags=re.IGNORECASE)
    return re.split(r"[ _(]|-[12]$|-prot", name)[0].casefold()


def by_protein(genes, proteins):
    """Links from genes to the proteins that they encode, from the table that comes with the component."""
    with (Path(meta["resources_dir"]) / "protein_genes.csv").open(newline="") as file:
        gene_of = {short(row["protein"]): row["gene"] for row in csv.DictReader(file)}
    number = {gene.upper(): i for i, gene in enumerate(genes)}
    found = [(number.get(gene_of.get(short(p), p.upper())), j) for j, p in enumerate(proteins)]
    return [(i, j, 1.0) for i, j in found if i is not None]


def related(first, second):
    """Triples (feature of the first, feature of the second, weight), by the first way that finds any."""
    one, two = names_of(first), names_of(second)
    if par.get("links"):
        rows, columns = ({name: i for i, name in enumerate(names)} for names in (one, two))
        table = read_links(par["links"])
        return [(rows[a], columns[b], w) for a, b, w in table if a in rows and b in columns]
    number = {name.upper(): i for i, name in enumerate(one)}
    same = [(number[name.upper()], j, 1.0) for j, name in enumerate(two) if name.upper() in number]
    proteins = by_protein(one, two)
    return same if len(same) >= len(proteins) else proteins


def standardised(data, columns):
    """Columns of the normalised layer with mean 0 and variance 1: a gene and its protein differ in units."""
    values = sp.csc_matrix(data.layers["normalized"])[:, columns].toarray()
    spread = values.std(axis=0)
    return (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1)


print("Read input", flush=True)
mods = [ad.read_h5ad(par[f"input_mod{i}"]) for i in (1, 2)]
compared = list(mods)
if par.get("genes"):
    genes = set(names_of(mods[0]))
    activity = scverse.gene_activity(mods[1], par["genes"], layer="counts", names=genes)
    depth = np.asarray(activity.X.sum(axis=1)).ravel()
    activity.layers["normalized"] = (sp.diags(1e4 / np.maximum(depth, 1)) @ activity.X).log1p()
    compared[1] = activity

links = related(*compared)
if len(links) < FEWEST_LINKS:
    raise ValueError(
        f"{len(links)} features of the two modalities are related by name (for example "
        f"{names_of(compared[0])[0]!r} and {names_of(compared[1])[0]!r}), and at least {FEWEST_LINKS} are "
        "needed. Give a table with --links, or, for peaks, the genes with --genes. The SVDs in "
        'obsm["X_svd"] were made apart: their columns do not correspond and are not compared.'
    )

print(f"Align by {len(links)} related features", flush=True)
rows, columns = np.unique([i for i, _, _ in links]), np.unique([j for _, j, _ in links])
table = np.zeros((len(rows), len(columns)))
for i, j, weight in links:
    table[np.searchsorted(rows, i), np.searchsorted(columns, j)] = weight
model = HarmonicAlignment(random_state=0).fit(
    [data.obsm["X_svd"] for data in mods],
    signals=[standardised(compared[0], rows), standardised(compared[1], columns)],
    links=table,
)
print(f"Against permuted features: p = {model.significance_.p:.2g}", flush=True)

print("Write output", flush=True)
for i, data in enumerate(mods):
    data.obsm["integrated"] = model.embedding_[i]
    data.uns["method_id"] = meta["functionality_name"]
    data.write_h5ad(par[f"output_mod{i + 1}"], compression="gzip")
