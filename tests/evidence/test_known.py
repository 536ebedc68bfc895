import numpy as np
import pytest

from harmonicalign import HarmonicAlignment, load
from harmonicalign.evidence import known
from harmonicalign.evidence.known import signals_from_pairs
from harmonicalign.metrics import foscttm


def views(n=240, widths=(12, 7), noise=0.15, seed=0):
    """Several views of the same rows without a common column."""
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(n, 4)) * [2, 1.5, 1, 0.7]
    return [np.tanh(latent @ rng.normal(size=(4, d)) / 2) + noise * rng.normal(size=(n, d)) for d in widths]


def test_learned_signals_agree_on_rows_that_are_not_paired():
    x, y = views()
    known = np.column_stack([np.arange(30)] * 2)
    maps = signals_from_pairs([x, y], {(0, 1): known})
    sx, sy = (m.apply(d) for m, d in zip(maps, (x, y), strict=True))
    assert sx.shape == sy.shape == (240, 12 + 7)
    assert foscttm(sx[30:], sy[30:]) < 0.12
    wrong = np.column_stack([np.arange(30), np.random.default_rng(1).permutation(30)])
    maps = signals_from_pairs([x, y], {(0, 1): wrong})
    assert foscttm(maps[0].apply(x)[30:], maps[1].apply(y)[30:]) > 0.3


def test_the_order_of_the_two_datasets_does_not_matter():
    x, y = views()
    known = np.column_stack([np.arange(40), np.arange(40)])
    one = signals_from_pairs([x, y], {(0, 1): known})
    other = signals_from_pairs([x, y], {(1, 0): known[:, ::-1]})
    assert [m.weights.shape for m in other] == [m.weights.shape for m in one]
    apart = foscttm(other[0].apply(x)[40:], other[1].apply(y)[40:])
    assert apart == pytest.approx(foscttm(one[0].apply(x)[40:], one[1].apply(y)[40:]), abs=0.03)


def test_a_third_dataset_may_have_pairs_with_one_of_the_others_only():
    datasets = views(widths=(12, 7, 9))
    known = np.column_stack([np.arange(50)] * 2)
    maps = signals_from_pairs(datasets, {(0, 1): known, (2, 1): known})
    a, b, c = (m.apply(d)[50:] for m, d in zip(maps, datasets, strict=True))
    assert foscttm(a, b) < 0.15
    assert foscttm(a, c) < 0.15


def test_fit_with_known_pairs_alone(tmp_path):
    x, y = views()
    order = np.random.default_rng(3).permutation(240)
    known = np.column_stack([order[:30], np.arange(30)])
    model = HarmonicAlignment(random_state=0).fit([x, y[order]], anchors=known)
    zx, zy = model.embedding_
    assert foscttm(zx[order[30:]], zy[30:]) < 0.1
    assert model.significance_.p < 0.01
    few = model.transform(y[order][40:60] + 1e-9, dataset=1)
    assert np.linalg.norm(few - zy[40:60]) < 0.3 * np.linalg.norm(zy[40:60])
    again = load(model.save(tmp_path / "model.npz"))
    np.testing.assert_allclose(
        again.transform(x[:5] + 1e-3, dataset=0), model.transform(x[:5] + 1e-3, dataset=0)
    )
    with pytest.raises(ValueError, match="this model learned its signals: fit again"):
        model.add(x)


def test_columns_of_one_width_still_correspond():
    x, _ = views()
    known = np.column_stack([np.arange(30)] * 2)
    model = HarmonicAlignment(random_state=0).fit([x, x[::-1]], anchors=np.abs(known - [0, 239]))
    assert model.fitted_.learned is None


def test_frames_without_a_common_name_count_as_unshared():
    pd = pytest.importorskip("pandas")
    x, y = views(widths=(8, 8))
    frames = [pd.DataFrame(d).add_prefix(name) for d, name in ((x, "a"), (y, "b"))]
    known = np.column_stack([np.arange(30)] * 2)
    assert HarmonicAlignment(random_state=0).fit(frames, anchors=known).fitted_.learned is not None
    with pytest.raises(ValueError, match="no column name is shared"):
        HarmonicAlignment(random_state=0).fit(frames)


def test_columns_of_one_width_may_be_said_not_to_correspond():
    x, y = views(widths=(8, 8))
    known = np.column_stack([np.arange(40)] * 2)
    model = HarmonicAlignment(random_state=0).fit([x, y], anchors=known, signals="anchors")
    assert foscttm(model.embedding_[0][40:], model.embedding_[1][40:]) < 0.12
    with pytest.raises(ValueError, match="'anchors' with anchors=…"):
        HarmonicAlignment().fit([x, y], signals="anchors")
    with pytest.raises(ValueError, match="signals is 'pairs'"):
        HarmonicAlignment().fit([x, y], anchors=known, signals="pairs")


def test_errors_say_what_to_do():
    x, y, z = views(widths=(12, 7, 9))
    few = np.column_stack([np.arange(9)] * 2)
    with pytest.raises(ValueError, match=r"9 pairs .* at least 10 are needed .*: give more"):
        HarmonicAlignment().fit([x, y], anchors=few)
    many = np.column_stack([np.arange(30)] * 2)
    with pytest.raises(ValueError, match="do not join dataset 2 to the others"):
        HarmonicAlignment().fit([x, y, z], anchors={(0, 1): many})
    with pytest.raises(ValueError, match="or anchors=… if some rows are known to match"):
        HarmonicAlignment().fit([x, y])


def test_held_out_pairs_decide_how_many_components_count(monkeypatch):
    # Thirty directions, each of which tells a little: the first fifteen are not enough.
    rng = np.random.default_rng(0)
    latent = rng.normal(size=(400, 30))
    x, y = (latent @ rng.normal(size=(30, d)) + 3 * rng.normal(size=(400, d)) for d in (60, 40))
    pairs = {(0, 1): np.column_stack([np.arange(200)] * 2)}

    def hidden():
        maps = signals_from_pairs([x, y], pairs)
        return foscttm(maps[0].apply(x)[200:], maps[1].apply(y)[200:])

    chosen = hidden()
    monkeypatch.setattr(known, "_MORE_COMPONENTS", known._N_COMPONENTS)
    assert chosen < hidden() - 0.02


def test_found_pairs_are_used_only_where_they_help(monkeypatch):
    x, y = views(noise=0.15)
    pairs = np.column_stack([np.arange(30)] * 2)
    rounds = []
    learned = known._learned
    monkeypatch.setattr(known, "_learned", lambda *a: rounds.append(a[-1]) or learned(*a))
    signals_from_pairs([x, y], {(0, 1): pairs})
    assert rounds[-1] == known._ROUNDS
    # Where most of what a dataset holds is its own, most found pairs are wrong.
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(1000, 3))
    x, y = (
        shared @ rng.normal(size=(3, d)) * 0.7
        + rng.normal(size=(1000, 10)) @ rng.normal(size=(10, d))
        + rng.normal(size=(1000, d))
        for d in (40, 30)
    )
    signals_from_pairs([x, y], {(0, 1): np.column_stack([np.arange(100)] * 2)})
    assert rounds[-1] == 0
