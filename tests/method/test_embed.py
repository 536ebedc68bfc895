"""The joint map of all rows, how new rows join it, and the embedding."""

from dataclasses import replace

import numpy as np
import pytest

from harmonicalign import kernel_graph
from harmonicalign.method import DEFAULT, joint_map, project
from harmonicalign.method.embed import embed, joint_neighbours, partly_projected


@pytest.fixture(scope="module")
def z():
    rng = np.random.RandomState(0)
    return [rng.randn(70, 3), rng.randn(60, 3) + 0.3]


@pytest.fixture(scope="module")
def joint(z):
    return joint_map(z, 0.5, 0)


def test_the_map_is_built_on_projected_rows(z, joint):
    assert np.array_equal(joint.coordinates, np.vstack(z)), "where rows were before is lost"
    np.testing.assert_allclose(joint.rows, project(np.vstack(z), np.vstack(z), joint.batch))
    assert joint.batch.tolist() == [0] * 70 + [1] * 60
    assert joint.graph.anisotropy == 0.5
    assert joint.graph.decay == DEFAULT.joint_decay


@pytest.mark.parametrize(("limit", "projected"), [(129, False), (130, True)])
def test_more_rows_than_the_limit_stay_where_they_are(z, limit, projected):
    config = replace(DEFAULT, tangent_rows=limit)
    found = joint_map(z, 0.5, 0, config=config)
    assert (found.places is not None) == projected
    if not projected:
        assert found.coordinates is found.rows
        assert np.array_equal(found.rows, np.vstack(z))
        new = np.vstack(z)[:3] + 0.1
        assert found.project(new) is new, "new rows are projected where fitted ones are not"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 10),  # one for twenty rows would be fewer than the least
        ({"rows_per_joint_harmonic": 5}, 26),
        ({"rows_per_joint_harmonic": 1}, 100),
        ({"rows_per_joint_harmonic": 1, "joint_harmonics_bounds": (2, 30)}, 30),
        ({"rows_per_joint_harmonic": 1, "many_rows": 129, "many_harmonics": 20}, 20),
        ({"rows_per_joint_harmonic": 1, "many_rows": 130, "many_harmonics": 20}, 100),
        ({"joint_harmonics_bounds": (500, 500)}, 129),
    ],
)
def test_number_of_harmonics(z, changes, expected):
    assert joint_map(z, 0.5, 0, config=replace(DEFAULT, **changes)).harmonics.k == expected


def test_neighbours_grow_with_the_root_of_the_rows():
    least, most = DEFAULT.joint_neighbour_bounds
    assert joint_neighbours(10) == least
    assert joint_neighbours(10**6) == most
    root = DEFAULT.joint_neighbour_root
    assert joint_neighbours(900) == round(30 / root)
    assert (
        joint_neighbours(900, replace(DEFAULT, joint_neighbour_bounds=(1, 99), joint_neighbour_root=2)) == 15
    )


def test_new_rows_stand_for_themselves(z, joint):
    new = np.random.RandomState(1).randn(8, 3)
    projected = joint.project(new)
    np.testing.assert_allclose(projected, project(new, joint.coordinates, joint.batch))
    transitions = joint.graph.extend(projected).toarray() ** DEFAULT.joining_power
    transitions /= transitions.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(joint.extend(projected), joint.harmonics.extend(transitions), atol=1e-9)
    one_by_one = np.vstack([joint.extend(joint.project(new[i : i + 1])) for i in range(8)])
    np.testing.assert_allclose(
        one_by_one, joint.extend(projected), atol=1e-4, err_msg="rows affect each other"
    )


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_rows_of_a_dataset_are_neighbours_of_each_other(z, steps):
    joint = joint_map(z, 0.5, 0, config=replace(DEFAULT, joining_steps=steps))
    new = np.random.RandomState(1).randn(30, 3)
    projected = joint.project(new, together=True)
    batch = np.concatenate([joint.batch, np.full(30, 2)])
    np.testing.assert_allclose(projected, project(new, np.vstack([joint.coordinates, new]), batch))
    own = joint.graph
    grown = kernel_graph(
        np.vstack([own.rows, projected]),
        n_neighbors=own.n_neighbors,
        max_neighbors=own.max_neighbors,
        decay=own.decay,
        thresh=own.thresh,
        anisotropy=own.anisotropy,
    )
    walk, phi = grown.transitions.toarray()[130:], joint.harmonics.extend(own.extend(projected))
    for _ in range(steps):
        phi = (walk[:, :130] @ joint.harmonics.phi + walk[:, 130:] @ phi) / joint.harmonics.eigenvalues
    np.testing.assert_allclose(joint.extend(projected, together=True), phi, atol=1e-6)


@pytest.mark.parametrize("changes", [{}, {"projected_share": 0.2}, {"coordinates_length": 3.0}])
def test_embedding_is_the_map_beside_the_coordinates(z, changes):
    config = replace(DEFAULT, **changes)
    joint = joint_map(z, 0.5, 0, config=config)
    phi, rows, places = joint.harmonics.phi, joint.rows, joint.coordinates
    found = embed(joint, 2.0, phi, places, rows)
    width = phi.shape[1]
    damped = phi * joint.harmonics.frequencies**2
    np.testing.assert_allclose(found[:, :width], damped / np.linalg.norm(damped, axis=1, keepdims=True))
    share, length = config.projected_share, config.coordinates_length
    np.testing.assert_allclose(found[:, width:], length * ((1 - share) * places + share * rows))
    np.testing.assert_allclose(found[:, width:], partly_projected(places, rows, config))
