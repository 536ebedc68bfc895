import anndata as ad
import numpy as np
import scipy.sparse as sp

from harmonicalign import scverse

## VIASH START
par = {
    "input": "resources_test/task_cyto_batch_integration/mouse_spleen_flow_cytometry_subset/censored_split1.h5ad",
    "output": "output.h5ad",
}
meta = {"name": "harmonicalign"}
## VIASH END

print("Read input", flush=True)
data = ad.read_h5ad(par["input"])
markers = np.flatnonzero(data.var["to_correct"].astype(bool))
measured = data.layers["preprocessed"]
measured = measured.toarray() if sp.issparse(measured) else np.array(measured)

print(f"Align by {len(markers)} markers", flush=True)
values = measured[:, markers].astype(np.float64)
spread = values.std(axis=0)
# One scale for all batches: markers differ in their range, and batches must keep what they differ in.
scaled = (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1)
corrected = ad.AnnData(
    obs=data.obs[["batch"]].astype(str),
    var=data.var.iloc[markers][[]],
    layers={"scaled": scaled, "measured": values},
)
model = scverse.align(corrected, batch_key="batch", layer="scaled", n_vars="all", random_state=0)
reference = min(corrected.obs["batch"])
scverse.correct(corrected, model, reference=reference, layer="measured", layer_added="integrated")

print("Write output", flush=True)
measured[:, markers] = corrected.layers["integrated"]
output = ad.AnnData(
    obs=data.obs[[]],
    var=data.var[[]],
    layers={"integrated": measured},
    uns={
        "dataset_id": data.uns["dataset_id"],
        "method_id": meta["name"],
        "parameters": {"reference": reference},
    },
)
output.write_h5ad(par["output"], compression="gzip")
