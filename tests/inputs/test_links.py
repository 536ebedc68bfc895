"""Signals linked across two datasets."""

import numpy as np
import pytest
import scipy.sparse as sp

from harmonicalign.inputs.links import link_signals


def test_links_keep_the_best_of_each_signal():
    links = sp.csr_matrix([[5, 1, 0], [0, 2, 0], [4, 0, 0]])
    x, y = link_signals(links, np.zeros((4, 3)), np.zeros((5, 3)))
    assert list(zip(x.tolist(), y.tolist(), strict=True)) == [(0, 0), (1, 1), (2, 0)]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.ones((2, 3)), "shape"),
        (-np.ones((3, 3)), "not negative"),
        (np.zeros((3, 3)), "no link"),
        (np.full((3, 3), np.nan), "finite"),
    ],
)
def test_links_that_are_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        link_signals(bad, np.zeros((4, 3)), np.zeros((5, 3)))


def test_links_are_between_two_datasets():
    with pytest.raises(ValueError, match="two datasets"):
        link_signals(np.eye(3), *[np.zeros((4, 3))] * 3)
