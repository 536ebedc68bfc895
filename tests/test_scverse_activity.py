"""Gene activity from peaks, against a plain comparison of every peak with every gene."""

import gzip

import numpy as np
import pytest
import scipy.sparse as sp

from harmonicalign.adapters import scverse

anndata = pytest.importorskip("anndata")
pd = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def genome():
    """Peaks and genes on three chromosomes, and which overlap."""
    rng = np.random.RandomState(0)
    peaks = pd.DataFrame(
        {"chrom": rng.choice(["chr1", "chr2", "chrX"], 300), "start": rng.randint(0, 200_000, 300)}
    )
    peaks["end"] = peaks["start"] + rng.randint(100, 3000, 300)
    genes = pd.DataFrame(
        {"chrom": rng.choice(["chr1", "chr2", "chrX"], 40), "start": rng.randint(3000, 200_000, 40)}
    )
    genes["end"] = genes["start"] + rng.randint(500, 20_000, 40)
    genes["strand"] = rng.choice(["+", "-"], 40)
    genes["gene_name"] = [f"G{i:02}" for i in range(40)]
    genes.loc[39, "gene_name"] = "G00"  # one gene at two places
    counts = sp.csr_matrix(rng.poisson(0.3, (25, 300)).astype(np.float32))
    truth = {}
    for gene in genes.itertuples():
        start = gene.start - (2000 if gene.strand == "+" else 0)
        end = gene.end + (2000 if gene.strand == "-" else 0)
        hit = (peaks["chrom"] == gene.chrom) & (peaks["start"] < end) & (peaks["end"] > start)
        truth[gene.gene_name] = truth.get(gene.gene_name, False) | hit.to_numpy()
    return peaks, genes, counts, {name: hit for name, hit in truth.items() if hit.any()}


def cells_by_peaks(genome, pattern="{chrom}:{start}-{end}"):
    peaks, _, counts, _ = genome
    names = [pattern.format(**row) for row in peaks.to_dict("records")]
    return anndata.AnnData(counts, var=pd.DataFrame(index=names))


def assert_activity(found, genome):
    *_, counts, truth = genome
    assert set(found.var_names) == set(truth)
    for name, hit in truth.items():
        np.testing.assert_allclose(found[:, name].X.toarray().ravel(), counts[:, hit].sum(axis=1).A1)
        assert found.var.loc[name, "n_peaks"] == hit.sum()


@pytest.mark.parametrize(
    "pattern", ["{chrom}:{start}-{end}", "{chrom}_{start}_{end}", "{chrom}-{start}-{end}"]
)
def test_peaks_by_name(genome, pattern):
    assert_activity(scverse.gene_activity(cells_by_peaks(genome, pattern), genome[1]), genome)


def test_peaks_by_columns_and_genes_by_index(genome):
    peaks, genes, counts, _ = genome
    var = peaks.rename(columns={"chrom": "Chromosome", "start": "Start", "end": "End"})
    adata = anndata.AnnData(counts, var=var.set_index(pd.Index([f"peak{i}" for i in range(300)])))
    assert_activity(scverse.gene_activity(adata, genes.set_index("gene_name")), genome)


def test_chromosomes_with_and_without_prefix(genome):
    genes = genome[1].assign(chrom=genome[1]["chrom"].str.removeprefix("chr"))
    assert_activity(scverse.gene_activity(cells_by_peaks(genome), genes), genome)


@pytest.mark.parametrize("feature", ["gene", "transcript"])
@pytest.mark.parametrize("zipped", [False, True])
def test_gtf_files(genome, tmp_path, feature, zipped):
    lines = ["#!genome-build test\n"]
    for gene in genome[1].itertuples():
        attributes = f'gene_id "E{gene.Index}"; gene_name "{gene.gene_name}"; level 2;'
        # GTF counts from 1 and includes the end.
        place = f"{gene.chrom}\ttest\t{{}}\t{gene.start + 1}\t{gene.end}\t.\t{gene.strand}\t.\t{attributes}\n"
        lines += [place.format(feature), place.format("exon")]
    path = tmp_path / ("genes.gtf.gz" if zipped else "genes.gtf")
    with gzip.open(path, "wt") if zipped else path.open("w") as file:
        file.writelines(lines)
    if feature == "transcript":  # the gene at two places is then one long one, unless its strands differ
        genome = (*genome[:3], {k: v for k, v in genome[3].items() if k != "G00"})
        found = scverse.gene_activity(cells_by_peaks(genome), path)
        assert_activity(found[:, found.var_names != "G00"], genome)
    else:
        assert_activity(scverse.gene_activity(cells_by_peaks(genome), path), genome)


def test_pairs_of_peak_and_gene_and_tables_in_files(genome, tmp_path):
    adata = cells_by_peaks(genome)
    pairs = pd.DataFrame(
        [(adata.var_names[i], name) for name, hit in genome[3].items() for i in np.flatnonzero(hit)],
        columns=["peak", "gene"],
    )
    assert_activity(scverse.gene_activity(adata, pairs), genome)
    pairs.to_csv(tmp_path / "pairs.csv", index=False)
    assert_activity(scverse.gene_activity(adata, tmp_path / "pairs.csv"), genome)
    genome[1].to_csv(tmp_path / "genes.tsv", index=False, sep="\t")
    assert_activity(scverse.gene_activity(adata, str(tmp_path / "genes.tsv")), genome)
    some = scverse.gene_activity(adata, pairs, names=["G01", "G02", "unheard of"])
    assert set(some.var_names) == {"G01", "G02"} & set(genome[3])


def test_peaks_without_a_place_are_left_out(genome, caplog):
    adata = cells_by_peaks(genome)
    adata.var_names = [*adata.var_names[:-2], "scaffold", "unplaced"]
    found = scverse.gene_activity(adata, genome[1])
    assert "2 names without a position are left out: scaffold, unplaced" in caplog.text
    counted = found.var["n_peaks"].sum()
    assert counted == sum(hit[:-2].sum() for hit in genome[3].values())


def test_bad_genes_and_peaks(genome, tmp_path):
    adata, genes = cells_by_peaks(genome), genome[1]
    for value, message in [
        (tmp_path / "none.gtf", "there is no file"),
        (7, "genes is of type int"),
        (genes[["chrom", "start"]], "expected chrom, start and end"),
        (genes.assign(chrom="chr9"), "none of 39 genes .* has a peak"),
    ]:
        with pytest.raises(ValueError, match=message):
            scverse.gene_activity(adata, value)
    (tmp_path / "empty.gtf").write_text("# nothing\n")
    with pytest.raises(ValueError, match="has no line of a gene"):
        scverse.gene_activity(adata, tmp_path / "empty.gtf")
    (tmp_path / "nameless.gtf").write_text('chr1\tx\tgene\t1\t900\t.\t+\t.\tgene_type "lncRNA";\n')
    with pytest.raises(ValueError, match="has no line of a gene"):
        scverse.gene_activity(adata, tmp_path / "nameless.gtf")
    adata.var_names = [f"peak{i}" for i in range(300)]
    with pytest.raises(ValueError, match="'peak0' do not tell where a peak lies"):
        scverse.gene_activity(adata, genes)


def test_chromatin_is_aligned_through_gene_activity(caplog):
    rng = np.random.RandomState(0)
    kinds, program = rng.randint(6, size=260), np.exp(rng.normal(0, 1.2, (6, 80)))
    rna = anndata.AnnData(sp.csr_matrix(rng.poisson(program[kinds[:140]]).astype(np.float32)))
    rna.var_names = [f"G{i}" for i in range(80)]
    # Two peaks at every gene, open where the gene is active, and some at none.
    open_ = np.hstack([np.repeat(program[kinds[140:]], 2, axis=1), np.full((120, 40), 0.5)])
    atac = anndata.AnnData(sp.csr_matrix(rng.poisson(open_).astype(np.float32)))
    atac.var_names = [f"chr1:{10_000 * i}-{10_000 * i + 500}" for i in range(200)]
    rna.obs["kind"], atac.obs["kind"] = kinds[:140].astype(str), kinds[140:].astype(str)
    genes = pd.DataFrame(
        {"chrom": "chr1", "start": 20_000 * np.arange(80), "end": 20_000 * np.arange(80) + 15_000}
    )
    genes.index = rna.var_names
    data = {"rna": rna, "atac": atac}
    model = scverse.align(data, peaks="atac", genes=genes, normalize=True)
    assert model.significance_.p < 0.01
    assert scverse.score(data, model, "kind")["label_agreement"] > 0.8
    assert "built on single peaks" in caplog.text
    assert "harmonic_weight" in rna.var
    assert "harmonic_weight" not in atac.var  # its signals are genes, which var has no place for
    assert list(atac.uns["harmonic"]["signals"]["name"]) == model.signal_names_
    assert len(atac.uns["harmonic"]["input"]["represented"]) == 200
    with pytest.raises(ValueError, match="links or gene activity; impute predicts"):
        scverse.correct(data, model)
    with pytest.raises(ValueError, match="map_query needs variables, but the reference was aligned through"):
        scverse.map_query(rna[:20].copy(), model, reference=data, dataset="atac")
    caplog.clear()
    atac.obsm["lsi"] = np.log1p(atac.X.toarray()) @ rng.randn(200, 20)
    again = scverse.align(data, peaks="atac", genes=genes, normalize=True, use_rep={"atac": "lsi"})
    assert "built on single peaks" not in caplog.text  # a reduction was given
    assert again.fitted_.inputs.datasets[1].shape == (120, 20)
    scverse.impute(data, again, source="rna", target="atac", variables=["G0"])
    assert "G0" in atac.obsm["harmonic_imputed"]
