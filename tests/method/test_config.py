"""Every number of the method in one place, documented, immutable and honoured."""

from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest
from two_sides import side

from harmonicalign.evidence.config import EVIDENCE, EvidenceConfig, constants
from harmonicalign.method import DEFAULT, MethodConfig, align_pair, embed, joint_space, locally_shifted


@pytest.mark.parametrize("config", [EVIDENCE, DEFAULT])
def test_every_constant_says_what_it_does_and_where_it_was_measured(config):
    documented = constants(config)
    # Hypotheses that a user adds are no constant.
    assert [c.name for c in documented] == [
        f.name for f in fields(config) if f.name not in ("hypotheses", "anchor_weight")
    ]
    for c in documented:
        assert c.does.strip(), f"{c.name} does not say what it does"
        assert c.measured.strip(), f"{c.name} does not say where it was measured"
        assert c.value == getattr(config, c.name)
        assert isinstance(c.tried, tuple), f"{c.name}: values tried must be a tuple"
        assert c.value not in c.tried, f"{c.name}: {c.value} is in force, and so no other value to try"


def test_the_default_is_what_is_in_force():
    assert MethodConfig() == DEFAULT
    assert EvidenceConfig() == EVIDENCE
    for f in fields(EVIDENCE):
        assert getattr(DEFAULT, f.name) == getattr(EVIDENCE, f.name), f"{f.name} differs within the method"


def test_a_config_is_replaced_and_not_changed():
    changed = replace(DEFAULT, n_anchors=5)
    assert (changed.n_anchors, DEFAULT.n_anchors) == (5, MethodConfig().n_anchors)
    assert replace(changed, n_anchors=DEFAULT.n_anchors) == DEFAULT
    assert replace(DEFAULT, apart=DEFAULT.apart + 1) != DEFAULT
    with pytest.raises(FrozenInstanceError):
        DEFAULT.n_anchors = 5


def test_an_unknown_field_is_refused():
    with pytest.raises(TypeError, match="n_anchor"):
        replace(DEFAULT, n_anchor=5)
    with pytest.raises(TypeError, match="n_anchor"):
        MethodConfig(n_anchor=5)


@pytest.fixture(scope="module")
def pair():
    """Two small datasets, some of whose signals correspond, and their alignment."""
    rng = np.random.RandomState(0)
    latent = rng.randn(90, 3) * [3, 2, 1]
    signals = np.c_[latent, latent**2, rng.randn(90, 2)]
    sides = side(latent[:50], signals[:50], k=8), side(latent[50:] + 1, signals[50:] + 2, k=8)
    once = replace(DEFAULT, left_out=("offset", "relations"), chance=1.0)
    return sides, once, align_pair(*sides, once)


@pytest.mark.parametrize(
    "changes",
    [
        {"n_rounds": 1},
        {"n_steps": 1},
        {"n_anchors": 5},
        {"most_signals": 4},
        {"left_out": ("harmonics", "offset")},
        {"signal_rounds": 0},
        {"n_components": 3},
        {"full_share": 0.3},
        {"wrong_partners": 3},
        {"worth_power": 1.0},
        {"confidence_neighbours": 3},
        {"confidence_smoothing": 0},
        {"enough_support": 0.0, "left_out": ()},
        {"permutations": 10},
        {"chance": 0.0},
        {"most_gain": 1.0},
        {"signal_ridge": 10.0},
    ],
    ids=lambda changes: "+".join(changes),
)
def test_the_alignment_of_a_pair_goes_by_the_config(pair, changes):
    sides, config, before = pair
    found = align_pair(*sides, replace(config, **changes))

    def outcome(run):
        return (
            run.start,
            run.worth,
            run.support,
            run.correspondence.share,
            run.significance.z,
            run.maps[1].matrix.sum(),
            run.correspondence.p_values.sum(),
        )

    assert outcome(found) != outcome(before), f"{changes} changes nothing"


def place(config, pair, own_columns):
    (one, other), _, found = pair
    sides = one, replace(other, signals=other.signals + 5)  # there is something left to shift
    space = joint_space(sides, [-1, 0], [0, 1], {1: found}, own_columns=own_columns, config=config)
    space = locally_shifted(space, sides, {1: found}, config=config)
    return [space.place(i, s.components, s.signals) for i, s in enumerate(sides)]


@pytest.mark.parametrize(
    "changes",
    [
        {"balance_power": 1.0},
        {"shift_rounds": 0},
        {"shift_rows": 50},
        {"shift_share": 2},
        {"shift_places": 1},
        {"apart": 1.0},
        {"tangent_neighbours": 10},
        {"confidence_neighbours": 5},
        {"reliability_power": 1.0},
        {"soft_length": 0.0},
        {"canonical_components": 2},
        {"predicted_share": 0.0},
        {"modality_balance": 0.8},
        {"modality_length": 2.0},
        {"n_components": 3},
        {"reference_rows": 20},
        {"n_anchors": 5},
    ],
    ids=lambda changes: "+".join(changes),
)
def test_the_joint_space_goes_by_the_config(pair, changes):
    own = not any(name.startswith(("modality", "canonical", "predicted")) for name in changes)
    before, after = place(DEFAULT, pair, own), place(replace(DEFAULT, **changes), pair, own)
    assert any(not np.array_equal(a, b) for a, b in zip(before, after, strict=True)), f"{changes}: no change"


@pytest.mark.parametrize(
    "changes",
    [
        {"tangent_rows": 0},
        {"tangent_neighbours": 10},
        {"smoothing": 0.0},
        {"smoothing": 1.0},
        {"smoothing_neighbours": 3},
    ],
    ids=lambda changes: "+".join(changes),
)
def test_the_embedding_goes_by_the_config(rng, changes):
    z = [rng.randn(60, 3), rng.randn(50, 3)]
    before, after = (embed(z, 3, config=c).coordinates for c in (DEFAULT, replace(DEFAULT, **changes)))
    assert not np.array_equal(before, after), f"{changes} changes nothing"


def test_numbers_without_meaning_are_refused():
    for name in ("n_rounds", "n_steps", "n_anchors", "shift_places"):
        with pytest.raises(ValueError, match=f"^{name} is 0; it must be at least 1$"):
            replace(DEFAULT, **{name: 0})


def test_what_only_a_fit_uses_is_not_kept_for_placing():
    config = replace(DEFAULT, hypotheses=("one",), anchor_weight=np.exp, n_anchors=7)
    assert config.for_placing() == replace(DEFAULT, n_anchors=7)
