import anndata as ad
import numpy as np
import pandas as pd

from harmonicalign import scverse
from harmonicalign.transfer import transfer_labels

## VIASH START
par = {
    "input_train": "resources_test/task_label_projection/cxg_immune_cell_atlas/train.h5ad",
    "input_test": "resources_test/task_label_projection/cxg_immune_cell_atlas/test.h5ad",
    "output": "output.h5ad",
}
meta = {"name": "harmonicalign"}
## VIASH END

FEWEST_CELLS = 10


def reduced(data):
    """What the alignment needs; layers that it does not would only be concatenated."""
    return ad.AnnData(
        obs=data.obs[["batch"]].astype(str),
        var=data.var[[]],
        layers={"normalized": data.layers["normalized"]},
    )


print("Read input", flush=True)
train, test = ad.read_h5ad(par["input_train"]), ad.read_h5ad(par["input_test"])
# Names of cells may occur in both files.
cells = ad.concat({"train": reduced(train), "test": reduced(test)}, label="part", index_unique="-")
variable = set(train.var_names[train.var["hvg"].astype(bool)])
cells.var["highly_variable"] = [name in variable for name in cells.var_names]

# Batches may be in one part or in both. Where there is one batch alone, the parts are aligned.
batch = cells.obs["batch" if cells.obs["batch"].nunique() > 1 else "part"].astype(str)
sizes = batch.value_counts()
cells.obs["dataset"] = batch.where(batch.map(sizes) >= FEWEST_CELLS, sizes.index[0])

print(f"Align {cells.obs['dataset'].nunique()} datasets", flush=True)
scverse.align(cells, batch_key="dataset", layer="normalized", random_state=0)

print("Transfer labels", flush=True)
known = np.asarray(cells.obs["part"] == "train")
place = cells.obsm["X_harmonic"]
found = transfer_labels(place[known], train.obs["label"].astype(str).to_numpy(), place[~known])

print("Write output", flush=True)
output = ad.AnnData(
    obs=pd.DataFrame({"label_pred": found.labels.astype(str)}, index=test.obs_names),
    uns={
        "dataset_id": test.uns["dataset_id"],
        "normalization_id": test.uns["normalization_id"],
        "method_id": meta["name"],
    },
)
output.write_h5ad(par["output"], compression="gzip")
