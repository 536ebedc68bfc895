import anndata as ad

from harmonicalign import scverse

## VIASH START
par = {
    "input": "resources_test/task_batch_integration/cxg_immune_cell_atlas/dataset.h5ad",
    "output": "output.h5ad",
}
meta = {"name": "harmonicalign"}
## VIASH END

FEWEST_CELLS = 10

print("Read input", flush=True)
data = ad.read_h5ad(par["input"])
data.var["highly_variable"] = data.var["hvg"].astype(bool)  # the name that scanpy gives it
batch = data.obs["batch"].astype(str)
sizes = batch.value_counts()
data.obs["batch"] = batch.where(batch.map(sizes) >= FEWEST_CELLS, sizes.index[0])

print(f"Align {data.obs['batch'].nunique()} batches", flush=True)
model = scverse.align(data, batch_key="batch", layer="normalized", random_state=0)
scverse.correct(data, model)

print("Write output", flush=True)
output = ad.AnnData(
    obs=data.obs[[]],
    var=data.var[[]],
    layers={"corrected_counts": data.layers["harmonic_corrected"]},
    obsm={"X_emb": data.obsm["X_harmonic"]},
    uns={
        "dataset_id": data.uns["dataset_id"],
        "normalization_id": data.uns["normalization_id"],
        "method_id": meta["name"],
    },
)
output.write_h5ad(par["output"], compression="gzip")
