import numpy as np
import pytest
import scipy.sparse as sp

from harmonicalign import HarmonicAlignment, load
from harmonicalign.evidence.hub import signals_from_links
from harmonicalign.metrics import foscttm


def test_a_feature_of_the_hub_is_the_weighted_mean_of_its_relatives():
    to_first = np.array([[1.0, 0, 0], [3, 2, 0]])
    to_third = sp.csr_matrix([[1.0, 1], [0, 1], [0, 0]])
    first, hub, third = signals_from_links({(0, 1): to_first, (1, 2): to_third}, [2, 3, 2])
    np.testing.assert_allclose(first.apply(np.array([[4.0, 8.0]])), [[7, 8]])
    np.testing.assert_allclose(hub.apply(np.array([[1.0, 2.0, 3.0]])), [[1, 2]])
    # Column j of what reaches the hub's feature j: its relatives in the third dataset.
    np.testing.assert_allclose(third.apply(np.array([[4.0, 8.0]])), [[6, 8]])
    np.testing.assert_allclose(third.apply(sp.csr_matrix([[4.0, 8.0]])), [[6, 8]])


def test_links_reach_the_hub_through_another_dataset():
    ones = np.eye(3)
    maps = signals_from_links({(0, 1): ones, (1, 2): ones[::-1], (2, 3): ones[::-1]}, [3] * 4)
    rows = np.array([[1.0, 2, 3]])
    assert [m.apply(rows).tolist()[0] for m in maps] in (
        [[1, 2, 3], [1, 2, 3], [3, 2, 1], [1, 2, 3]],
        [[3, 2, 1], [3, 2, 1], [1, 2, 3], [3, 2, 1]],
    )


def three():
    rng = np.random.default_rng(0)
    latent = rng.normal(size=(200, 4)) * [2, 1.5, 1, 0.7]
    values = np.tanh(latent @ rng.normal(size=(4, 20)) / 2) + 0.15 * rng.normal(size=(200, 20))
    orders = [rng.permutation(20) for _ in range(2)]
    return [values[:, orders[0]], values, values[:, orders[1]][:, :15]], orders


def test_a_third_dataset_linked_to_one_of_the_others_only(tmp_path):
    (x, y, z), (first, third) = three()
    links = {("x", "y"): np.eye(20)[first], ("z", "y"): np.eye(20)[third[:15]]}
    shuffled = {"x": x, "y": y[::-1], "z": z}
    model = HarmonicAlignment(random_state=0).fit(shuffled, links=links)
    zx, zy, zz = model.embedding_
    assert foscttm(zx, zy[::-1]) < 0.05
    assert foscttm(zx, zz) < 0.05
    again = load(model.save(tmp_path / "model.npz"))
    np.testing.assert_allclose(
        again.transform(z[:5] + 1e-3, dataset="z"), model.transform(z[:5] + 1e-3, dataset="z")
    )


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ({(0, 1): np.eye(20)}, "do not join dataset 2 to the others"),
        ({(0, 1): np.eye(20), (1, 2): np.eye(20)}, r"links of 1 and 2 has shape \(20, 20\)"),
        ({(0, 1): -np.eye(20), (1, 2): np.eye(20, 15)}, "finite numbers that are not negative"),
        ({(0, 1): np.eye(20)[:, :], (1, 5): np.eye(20, 15)}, "links names 5"),
        ({0: np.eye(20)}, "expected two datasets"),
        ({(0, 1): np.eye(20), (1, 0): np.eye(20)}, "twice; give one matrix"),
        (
            {(0, 1): np.eye(20) * (np.arange(20) == 0), (1, 2): np.eye(20, 15)},
            "1 features of dataset 1 have relatives",
        ),
    ],
)
def test_links_that_are_refused(links, message):
    with pytest.raises(ValueError, match=message):
        HarmonicAlignment().fit(three()[0], links=links)
