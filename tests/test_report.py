import base64
import csv
import hashlib
import html
import json
import os
import re
from dataclasses import replace
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from harmonicalign import AlignmentWarning, HarmonicAlignment, load
from harmonicalign.adapters.report import layout, page, write_report
from harmonicalign.adapters.report.comparison import Comparison
from harmonicalign.adapters.report.encode import as_categories, as_numbers, as_places
from harmonicalign.adapters.report.facts import collect
from harmonicalign.adapters.verdict import (
    Evidence,
    Features,
    Finding,
    Measure,
    Pair,
    aligned_pairs,
    assess,
    assess_subject,
    judge,
    readable_p,
    subject_of,
)
from harmonicalign.adapters.verdict.subject import allot
from harmonicalign.adapters.verdict.values import is_categorical
from harmonicalign.datasets import load_digits_pair
from harmonicalign.evidence.significance import Significance
from harmonicalign.experiments import compare
from harmonicalign.metrics import knn_label_agreement, mixing_entropy


@pytest.fixture(scope="module")
def pair():
    return load_digits_pair(preserved=0.5, n_x=160, n_y=140, random_state=0)


@pytest.fixture(scope="module")
def model(pair):
    return HarmonicAlignment(random_state=0).fit([pair.x, pair.y])


@pytest.fixture(scope="module")
def facts(model, pair):
    return facts_of(model, labels={"digit": [pair.labels_x, pair.labels_y]})


def facts_of(model, max_points=100_000, **given):
    """Facts with a layout that is cut short, where the layout is not what is tested."""
    with mock.patch.multiple(layout, _EARLY=5, _LATE=5):
        return collect(assess_subject(subject_of(model, **given)), max_points=max_points)


def decoded(column, dtype=None):
    dtype = dtype or f"<u{column['bits'] // 8}"
    return np.frombuffer(base64.b64decode(column["data"]), dtype=dtype)


def values(column):
    codes = decoded(column).astype(float)
    last = 2 ** column["bits"] - 1
    out = column["low"] + (column["high"] - column["low"]) * codes / (last - 1)
    out[codes == last] = np.nan
    return out


# --- columns ----------------------------------------------------------------------------------------------


def test_numbers_survive_the_way_to_text_and_back(rng):
    given = rng.normal(size=300)
    given[5] = np.nan
    column = as_numbers(given, bits=16)
    assert np.isnan(values(column)[5])
    np.testing.assert_allclose(values(column), given, atol=np.ptp(given[given == given]) / 65000)


def test_extreme_values_are_cut_off_and_said_to_be(rng):
    given = rng.uniform(size=1000)
    given[3] = 500.0
    column = as_numbers(given)
    assert column["clipped"] == [False, True]
    assert column["high"] < 2
    assert as_numbers(given[np.arange(1000) != 3])["clipped"] == [False, False]


@pytest.mark.parametrize("given", [[3.0, 3.0], [np.nan, np.nan], [np.inf, 1.0]])
def test_numbers_without_spread_are_no_problem(given):
    column = as_numbers(given)
    assert np.isfinite([column["low"], column["high"]]).all()
    assert len(decoded(column)) == 2


def test_categories_come_in_the_order_a_reader_expects():
    column = as_categories(np.array(["day 10", "day 2", None, "day 10"], dtype=object))
    assert column["names"] == ["day 2", "day 10"]
    assert decoded(column).tolist() == [1, 0, 255, 1]


def test_labels_are_equal_whatever_their_type():
    whole, fractional = as_categories(np.array([3, 1])), as_categories(np.array([3.0, 1.0]))
    assert whole == fractional == as_categories(np.array(["3", "1"]))


def test_rare_categories_are_shown_as_one():
    given = [f"kind {i}" for i in range(100)] + ["common"] * 5
    column = as_categories(np.array(given))
    assert len(column["names"]) == 60
    assert column["names"][-1] == "42 others"
    assert "common" in column["names"]
    assert (decoded(column) == 59).sum() == 42


@pytest.mark.parametrize(
    ("given", "expected"),
    [(np.arange(10), True), (np.arange(500), False), (np.array([0.5, 1.0]), False), (np.array(["a"]), True)],
)
def test_what_counts_as_a_category(given, expected):
    assert is_categorical(given) is expected


def test_places_keep_their_proportions():
    plane = np.array([[0.0, 0.0], [4.0, 1.0], [2.0, 0.5]])
    found = np.frombuffer(base64.b64decode(as_places(plane)["data"]), "<u2").reshape(-1, 2) / 65535
    np.testing.assert_allclose(found, plane / 4, atol=1e-4)


def test_a_share_of_every_dataset_is_shown():
    taken = allot([1_000_000, 50, 3000], 1000)
    assert sum(taken) <= 1000
    assert taken[1] == 50
    assert 83 <= taken[2] < taken[0]
    assert allot([10, 20], 1000) == [10, 20]


# --- layout -----------------------------------------------------------------------------------------------


def test_repulsion_equals_the_sum_over_all_pairs(rng):
    y = rng.normal(0, 12, (700, 2))
    apart = y[:, None] - y[None]
    kernel = 1 / (1 + (apart**2).sum(axis=2))
    np.fill_diagonal(kernel, 0)
    exact = (kernel[:, :, None] ** 2 * apart).sum(axis=1)
    push, total = layout._Repulsion()(y)
    assert np.linalg.norm(push - exact) < 0.05 * np.linalg.norm(exact)
    assert total == pytest.approx(kernel.sum(), rel=0.005)


def test_attraction_equals_the_sum_over_all_ties(rng):
    rows, y = rng.normal(size=(60, 5)).astype(np.float32), rng.normal(size=(60, 2))
    ties = layout._ties(rows)
    weights = np.zeros((60, 60))
    weights[ties.one, ties.other] = ties.strength
    weights += weights.T
    assert weights.sum() == pytest.approx(1)
    apart = y[:, None] - y[None]
    exact = (weights[:, :, None] * apart / (1 + (apart**2).sum(axis=2))[:, :, None]).sum(axis=1)
    np.testing.assert_allclose(ties.pull(y), exact, atol=1e-12)


def nearest(x, k):
    squared = ((x[:, None] - x[None]) ** 2).sum(axis=2)
    np.fill_diagonal(squared, np.inf)
    return np.argsort(squared, axis=1)[:, :k]


def kept(x, y, k=10):
    """Share of neighbours that are neighbours in the picture too."""
    a, b = nearest(x, k), nearest(y, k)
    return np.mean([len(set(p) & set(q)) / k for p, q in zip(a, b, strict=True)])


def test_neighbours_stay_neighbours(pair):
    rows = np.vstack([pair.x, pair.y])
    laid = layout.neighbour_layout(rows)
    assert kept(rows, laid) > 2 * kept(rows, layout.principal_plane(rows))
    assert kept(rows, laid) > 0.55
    np.testing.assert_array_equal(laid, layout.neighbour_layout(rows))


def test_rows_beyond_the_sample_join_it(monkeypatch, rng):
    centres = rng.normal(0, 10, (4, 8))
    groups = np.r_[np.repeat([0, 1, 2], 150), np.full(20, 3)]
    rows = centres[groups] + rng.normal(size=(470, 8))
    monkeypatch.setattr(layout, "_FIRST_ROWS", 120)
    laid = layout.neighbour_layout(rows, [450, 20])
    # The last dataset is small and far from the others; its rows must not be drawn into them.
    assert (groups[nearest(laid, 5)] == groups[:, None]).mean() > 0.98


@pytest.mark.parametrize("rows", [np.zeros((3, 2)), np.ones((40, 3)), np.arange(30.0)[:, None]])
def test_odd_rows_have_a_place(rows):
    laid = layout.neighbour_layout(rows)
    assert laid.shape == (len(rows), 2)
    assert np.isfinite(laid).all()


# --- facts ------------------------------------------------------------------------------------------------


def test_facts_are_plain_and_complete(facts, model, pair):
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    assert [d["rows"] for d in facts["datasets"]] == [160, 140]
    assert [p["title"] for p in facts["points"]["panels"]] == ["Before alignment", "After alignment"]
    for panel in facts["points"]["panels"]:
        assert [entry["name"] for entry in panel["layouts"]] == ["neighbours", "components"]
        for entry in panel["layouts"]:
            assert len(base64.b64decode(entry["data"])) == 4 * 300
    columns = {c["name"]: c for c in facts["points"]["columns"]}
    np.testing.assert_allclose(
        values(columns["confidence"]), np.concatenate(model.confidence_), atol=0.5 / 254 + 1e-9
    )
    assert columns["digit"]["names"] == [str(i) for i in range(10)]
    np.testing.assert_array_equal(decoded(columns["digit"]), np.r_[pair.labels_x, pair.labels_y])
    stages = {t["stage"]: t["seconds"] for t in facts["timings"]}
    assert stages.keys() == model.timings_.keys()
    reasons = {p["name"]: p["why"] for p in facts["parameters"]}
    assert reasons["n_neighbors"] == model.settings_.reasons["n_neighbors"]
    assert {"harmonicalign", "numpy", "Python"} <= {v["name"] for v in facts["versions"]}


def test_every_feature_of_small_data_can_be_seen(facts, pair):
    columns = {c["feature"]: c for c in facts["points"]["columns"] if c["group"] == "feature"}
    assert len(columns) == 64
    stacked = np.vstack([pair.x, pair.y])
    shown = values(columns[20])
    np.testing.assert_allclose(shown, stacked[:, 20], atol=np.ptp(stacked[:, 20]) / 254)


def test_features_that_agree_best_come_first_where_room_is_short(model, pair, monkeypatch):
    monkeypatch.setattr("harmonicalign.adapters.report.points._FEATURE_BYTES", 5 * 300)
    found = facts_of(model)["points"]["columns"]
    shown = [c["feature"] for c in found if c["group"] == "feature"]
    assert shown == np.argsort(-model.feature_scores_, kind="stable")[:5].tolist()


def test_scores_and_weights_are_those_of_the_model(facts, model):
    for name, expected in (("scores", model.feature_scores_), ("weights", model.feature_weights_)):
        found = np.frombuffer(base64.b64decode(facts["features"][name]), "<f4")
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    selected = np.frombuffer(base64.b64decode(facts["features"]["selected"]), "<u1")
    np.testing.assert_array_equal(selected.astype(bool), model.feature_selected_)


def test_matrices_are_those_of_the_alignment(facts, model):
    entry = facts["pairs"]["list"][0]
    assert [m["title"] for m in entry["matrices"]] == ["Correlation of harmonics", "Rotation"]
    rotation = entry["matrices"][1]
    found = decoded(rotation, "<i1").reshape(rotation["shape"]) / 127 * rotation["limit"]
    expected = model.alignment_.pairs[0, 1].rotation.clip(-rotation["limit"], rotation["limit"])
    np.testing.assert_allclose(found, expected, atol=rotation["limit"] / 250)


def test_measures_are_those_of_the_metrics(model, pair):
    labels = [pair.labels_x, pair.labels_y]
    found = {m.name: m for m in assess(model, labels=labels).measures}
    x, y = model.embedding_
    assert found["mixing"].after == pytest.approx(mixing_entropy([x, y], 30))
    assert found["mixing within label"].after == pytest.approx(mixing_entropy([x, y], 30, labels=labels))
    again = found["label found again, dataset 1"]
    assert again.after == pytest.approx(knn_label_agreement(x, pair.labels_x, y, pair.labels_y))
    assert again.after > again.before + 0.1


def test_labels_that_others_lack_are_left_out(model, pair):
    labels = [pair.labels_x.astype(str), pair.labels_y.astype(str)]
    labels[1][pair.labels_y == 3] = "elsewhere"
    found = {m.name: m for m in assess(model, labels=labels).measures}
    left_out = int((pair.labels_y == 3).sum())
    assert f"{left_out} without a counterpart" in found["label found again, dataset 1"].note


def test_quantities_are_followed_across_datasets(model, pair):
    ink = [pair.x.mean(axis=1), pair.y_clean.mean(axis=1)]
    found = {m.name: m for m in assess(model, labels={"ink": ink}).measures}
    again = found["ink found again, dataset 1"]
    x, y = model.embedding_
    near = np.argsort(((y[:, None] - x[None]) ** 2).sum(axis=2), axis=1)[:, :5]
    assert again.after == pytest.approx(np.corrcoef(ink[0][near].mean(axis=1), ink[1])[0, 1], abs=0.01)
    assert again.after > 0.2


def test_quantities_that_are_constant_or_known_on_one_side_only(model, pair):
    ink, flat = pair.x.mean(axis=1), np.full(140, 0.5)
    found = {m.name: m for m in assess(model, labels={"ink": [ink, flat]}).measures}
    assert found["ink found again, dataset 0"].after == 0  # what is predicted does not vary
    assert found["ink found again, dataset 1"].after == 0
    few = np.full(140, np.nan)
    few[:2] = 0.3, 0.4
    found = [m.name for m in assess(model, labels={"ink": [ink, few]}).measures]
    assert "ink found again, dataset 0" in found
    assert "ink found again, dataset 1" not in found  # two rows make no correlation


def test_a_sample_is_drawn_of_many_rows(model, pair):
    drawn = facts_of(model, 120, labels=[pair.labels_x, pair.labels_y])["points"]
    assert 115 <= drawn["n"] <= 120
    assert drawn["total"] == 300
    rows = np.frombuffer(base64.b64decode(drawn["rows"]), "<u4")
    first, second = rows[: drawn["counts"][0]], rows[drawn["counts"][0] :]
    labels = next(c for c in drawn["columns"] if c["name"] == "label")
    np.testing.assert_array_equal(decoded(labels), np.r_[pair.labels_x[first], pair.labels_y[second]])


# --- every kind of model ----------------------------------------------------------------------------------


def without_date(facts):
    return {k: v for k, v in facts.items() if k != "created"}


def test_a_loaded_model_gives_the_same_report(model, tmp_path):
    again = load(model.save(tmp_path / "model.npz"))
    assert without_date(facts_of(again)) == without_date(facts_of(model))


def test_the_published_method_is_tested_too(pair):
    paper = HarmonicAlignment(method="paper", random_state=0).fit([pair.x, pair.y])
    found = facts_of(paper)
    assert found["pairs"]["list"][0]["p"] < 0.05
    assert [m["title"] for m in found["pairs"]["list"][0]["matrices"]][1] == "Correlation within bands"
    assert found["features"]["weights"] is None
    scores = np.frombuffer(base64.b64decode(found["features"]["scores"]), "<f4")
    assert scores[pair.preserved].mean() > scores[~pair.preserved].mean() + 0.2


def test_the_published_method_on_distances_cannot_be_tested(pair):
    """Permuting features needs features, and distances have none."""
    distances = [np.linalg.norm(d[:, None] - d[None], axis=2) for d in (pair.x[:70], pair.y[:70])]
    paper = HarmonicAlignment(method="paper", metric="distance", random_state=0).fit(distances)
    assert aligned_pairs(subject_of(paper))[0].significance is None
    found = facts_of(paper)
    assert found["verdict"]["headline"] == "Not tested: whether they are aligned is open"
    assert found["features"] is None


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_of_one_dataset_the_features_that_vary_most_are_shown(pair, form, monkeypatch):
    monkeypatch.setattr("harmonicalign.adapters.report.points._MOST_FEATURES", 5)
    with pytest.warns(AlignmentWarning, match="one dataset"):
        single = HarmonicAlignment(random_state=0).fit(form(pair.x))
    columns = facts_of(single)["points"]["columns"]
    shown = [c["feature"] for c in columns if c["group"] == "feature"]
    assert shown == np.argsort(-pair.x.var(axis=0), kind="stable")[:5].tolist()


def wide(rows):
    return np.full(len(rows), 40.0)


@pytest.mark.parametrize(
    ("given", "words"),
    [(wide, "wide"), (np.full(60, 40.0), "array of shape (60,)"), (np.random.RandomState(0), "RandomState")],
)
def test_parameters_are_told_in_words(pair, given, words):
    name = "random_state" if words == "RandomState" else "bandwidth"
    odd = HarmonicAlignment(method="paper", **{name: given}).fit([pair.x[:60], pair.y[:60]])
    told = {entry["name"]: entry["given"] for entry in facts_of(odd)["parameters"]}
    assert told[name] == words


def test_one_dataset_is_shown_without_judgement(pair):
    with pytest.warns(AlignmentWarning, match="one dataset"):
        single = HarmonicAlignment(random_state=0).fit(pair.x)
    found = facts_of(single, labels=pair.labels_x)
    assert found["verdict"]["level"] == "none"
    assert len(found["points"]["panels"]) == 1
    assert found["features"] is None
    assert found["pairs"]["list"] == []
    assert json.dumps(found, allow_nan=False)


def test_several_datasets_have_a_pair_for_each_that_joined(pair, monkeypatch):
    given = {"x": pair.x, "y": pair.y, "clean": pair.y_clean[:90]}
    labels = {"x": pair.labels_x, "clean": pair.labels_y[:90]}
    several = HarmonicAlignment(random_state=0).fit(given)
    found = facts_of(several, labels=labels)
    assert [d["name"] for d in found["datasets"]] == ["x", "y", "clean"]
    assert len(found["pairs"]["list"]) == 2
    assert all("matrices" in entry for entry in found["pairs"]["list"])
    monkeypatch.setattr("harmonicalign.adapters.report.facts._MOST_MATRICES", 1)
    few = facts_of(several, names={"x": "the first"})
    assert ["matrices" in entry for entry in few["pairs"]["list"]] == [True, False]
    assert [d["name"] for d in few["datasets"]] == ["the first", "y", "clean"]
    assert found["title"] == "Alignment of x, y and clean"
    codes = decoded(next(c for c in found["points"]["columns"] if c["name"] == "label"))
    assert (codes[160:300] == 255).all()
    assert (codes[:160] < 10).all()
    named = [m["name"] for m in found["measures"]["list"]]
    assert "Label found again, x" in named
    assert "Label found again, y" not in named


def test_a_dataset_that_was_added_is_part_of_the_report(pair):
    grown = HarmonicAlignment(random_state=0).fit([pair.x, pair.y])
    grown.add(pair.y_clean[:80], key="new")
    found = facts_of(grown)
    assert found["points"]["counts"] == [160, 140, 80]
    assert len(found["datasets"][2]["histogram"]) == 25


def test_rows_of_a_stacked_matrix_keep_their_numbers(pair):
    order = np.random.RandomState(1).permutation(300)
    rows = np.vstack([pair.x, pair.y])[order]
    batch = np.repeat(["u", "v"], [160, 140])[order]
    labels = np.r_[pair.labels_x, pair.labels_y][order]
    stacked = HarmonicAlignment(random_state=0).fit(rows, batch=batch)
    drawn = facts_of(stacked, labels=labels)["points"]
    numbers = np.frombuffer(base64.b64decode(drawn["rows"]), "<u4")
    assert (batch[numbers] == np.repeat(["u", "v"], [160, 140])).all()
    codes = decoded(next(c for c in drawn["columns"] if c["name"] == "label"))
    np.testing.assert_array_equal(codes, labels[numbers])


def test_sparse_rows_and_named_columns(pair):
    names = [f"gene {i}" for i in range(64)]
    named = HarmonicAlignment(random_state=0).fit([pd.DataFrame(d, columns=names) for d in (pair.x, pair.y)])
    assert facts_of(named)["features"]["names"] == names
    sparse = HarmonicAlignment(random_state=0).fit([sp.csr_matrix(pair.x), sp.csr_matrix(pair.y)])
    dense = HarmonicAlignment(random_state=0).fit([pair.x, pair.y])
    shown = [
        {c["feature"]: values(c) for c in facts_of(m)["points"]["columns"] if "feature" in c}
        for m in (sparse, dense)
    ]
    np.testing.assert_allclose(shown[0][20], shown[1][20], atol=1e-9)


def test_links_are_named_by_both_ends(pair):
    linked = HarmonicAlignment(random_state=0).fit([pair.x, pair.y[:, ::-1]], links=np.eye(64)[:, ::-1])
    assert subject_of(linked).feature_names[0] == "feature 0 – feature 63"
    ends = [[f"gene {i}" for i in range(64)], [f"protein {i}" for i in range(64)]]
    assert subject_of(linked, feature_names=ends).feature_names[2] == "gene 2 – protein 61"
    assert facts_of(linked)["verdict"]["level"] == "good"


def test_distances_have_no_columns_to_show(pair):
    distances = [np.linalg.norm(d[:, None] - d[None], axis=2) for d in (pair.x[:80], pair.y[:80])]
    found = HarmonicAlignment(metric="distance", random_state=0).fit(
        distances, signals=[pair.x[:80], pair.y[:80]]
    )
    assert len(facts_of(found)["points"]["panels"]) == 2
    with pytest.warns(AlignmentWarning, match="one dataset"):
        alone = HarmonicAlignment(metric="distance", random_state=0).fit(distances[0])
    drawn = facts_of(alone)["points"]
    assert [c["group"] for c in drawn["columns"]] == []


# --- what is given with the model -------------------------------------------------------------------------


def test_given_places_are_drawn_as_they_are(model, rng):
    before, after = rng.normal(size=(300, 2)), [rng.normal(size=(160, 2)), rng.normal(size=(140, 2))]
    panels = facts_of(model, before=before, after=after)["points"]["panels"]
    assert [[entry["name"] for entry in p["layouts"]] for p in panels] == [["as given"]] * 2
    found = np.frombuffer(base64.b64decode(panels[0]["layouts"][0]["data"]), "<u2").reshape(-1, 2)
    np.testing.assert_allclose(np.corrcoef(found[:, 0], before[:, 0])[0, 1], 1, atol=1e-6)


def test_wide_coordinates_are_laid_out(model, rng):
    before = [rng.normal(size=(160, 9)), rng.normal(size=(140, 9))]
    panel = facts_of(model, before=before)["points"]["panels"][0]
    assert [entry["name"] for entry in panel["layouts"]] == ["neighbours", "components"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"labels": [np.zeros(3), np.zeros(140)]}, "labels has 3 entries for dataset 0, which has 160 rows"),
        ({"labels": np.zeros(17)}, "labels has 17 entries; give one array for each of the 2 datasets"),
        ({"labels": {"kind": {"who": np.zeros(160)}}}, "labels 'kind' names 'who'"),
        ({"labels": [np.zeros((160, 2)), None]}, r"shape \(160, 2\); give one label per row"),
        ({"labels": [None, None]}, "no dataset with labels"),
        ({"before": [np.zeros((160, 2)), np.zeros((140, 3))]}, r"before has 2 and 3 column\(s\)"),
        ({"before": [np.zeros((160, 2)), None]}, "before lacks the rows of a dataset"),
        ({"before": np.full((300, 2), np.nan)}, "contains 320 NaN"),
        ({"names": ["a"]}, "names has 1 entries; there are 2 datasets"),
        ({"feature_names": ["a"]}, "feature_names has 1 entries; the signals have 64 columns"),
    ],
)
def test_what_does_not_fit_is_refused(model, given, message):
    with pytest.raises(ValueError, match=message):
        subject_of(model, **given)


def test_a_model_must_be_fitted(tmp_path):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        write_report(HarmonicAlignment(), tmp_path / "report.html")


# --- verdict ----------------------------------------------------------------------------------------------


def proof(p, z=5.0):
    return Pair(0, 1, None, Significance(z=z, p=p, observed=1.0, null=np.zeros(30)))


def labelled(before, after):
    return Measure("found", "label:type", "", before, after)


SURE = [np.full(50, 0.95), np.full(50, 0.9)]


@pytest.mark.parametrize(
    ("pairs", "found", "confidence", "level", "headline"),
    [
        ([proof(1e-8)], [], SURE, "good", "Aligned"),
        ([proof(0.004)], [], SURE, "doubtful", "Probably aligned"),
        ([proof(0.004)], [labelled(0.2, 0.8)], SURE, "good", "Aligned"),
        ([proof(0.6, 0.1)], [], SURE, "bad", "Not aligned: no better than chance"),
        ([proof(0.1, 1.3)], [labelled(0.2, 0.9)], SURE, "doubtful", "Not shown to be better than chance"),
        ([proof(1e-8)], [labelled(0.9, 0.6)], SURE, "doubtful", "Aligned, with doubts"),
        (
            [proof(1e-8)],
            [Measure("mixing", "mixing", "", 0.0, 0.1)],
            SURE,
            "doubtful",
            "Aligned, with doubts",
        ),
        ([proof(1e-8)], [], [np.full(9, 0.4), np.full(9, 0.9)], "doubtful", "Aligned, with doubts"),
        ([proof(1e-8)], [], [np.full(9, 0.72), np.full(9, 0.9)], "good", "Aligned"),
        ([Pair(0, 1, None, None)], [], SURE, "doubtful", "Not tested: whether they are aligned is open"),
        ([proof(1e-8), proof(0.7, 0.0)], [], SURE, "bad", "Not aligned: no better than chance"),
    ],
)
def test_evidence_is_weighed(pairs, found, confidence, level, headline):
    names = ["one", "other"]
    verdict = judge(Evidence(names, pairs, None, found, confidence))
    assert (verdict.level, verdict.headline) == (level, headline)
    assert level == "good" or verdict.checks


def test_columns_that_go_opposite_ways_are_not_aligned():
    test = replace(proof(1e-8).significance, opposed=True)
    verdict = judge(Evidence(["one", "other"], [Pair(0, 1, None, test)], None, [], SURE))
    assert (verdict.level, verdict.aligned) == ("bad", False)
    assert verdict.headline == "Probably not aligned: columns run opposite ways"
    assert "opposite signs (one and other)" in " ".join(verdict.sentences)
    assert verdict.checks[0].startswith("Negate the columns of one dataset")


def test_only_the_verdict_aligned_is_called_aligned():
    assert judge(Evidence(["a", "b"], [proof(1e-8)], None, [], SURE)).aligned is True
    assert judge(Evidence(["a", "b"], [proof(0.004)], None, [], SURE)).aligned is None
    assert judge(Evidence(["a", "b"], [proof(0.6)], None, [], SURE)).aligned is False


def test_warnings_of_the_run_are_repeated_and_change_nothing():
    plain = judge(Evidence(["a", "b"], [proof(1e-8)], None, [labelled(0.5, 0.9)], SURE))
    warned = judge(Evidence(["a", "b"], [proof(1e-8)], None, [labelled(0.5, 0.9)], SURE, ["beware of x"]))
    assert (warned.level, warned.headline) == (plain.level, plain.headline)
    assert warned.checks == [*plain.checks, "The run warned: beware of x"]


def test_a_finding_has_a_known_level():
    with pytest.raises(ValueError, match="level is 'odd'; expected one of note, good, doubtful, bad"):
        Finding("odd")


def test_of_several_datasets_those_that_fail_are_named():
    failed = Pair(0, 2, None, proof(0.7, 0.0).significance)
    verdict = judge(Evidence(["one", "other", "third"], [proof(1e-8), failed], None, [], [*SURE, SURE[0]]))
    assert verdict.level == "bad"
    assert verdict.checks[0].startswith("The pairs that fail: one and third. Leave those datasets out")


def test_lonely_rows_are_pointed_out():
    confidence = [np.full(100, 0.95), np.r_[np.full(90, 0.95), np.full(10, 0.2)]]
    verdict = judge(Evidence(["one", "other"], [proof(1e-8)], None, [labelled(0.5, 0.9)], confidence))
    assert verdict.level == "good"
    assert verdict.checks == [
        text for text in verdict.checks if text.startswith("10\u00a0% of the rows of other")
    ]


def test_lonely_rows_of_many_datasets_are_one_point():
    names = [f"d{i}" for i in range(10)]
    confidence = [np.r_[np.full(90, 0.95), np.full(10, 0.2)] for _ in names]
    verdict = judge(Evidence(names, [proof(1e-8)], None, [labelled(0.5, 0.9)], confidence))
    (check,) = [text for text in verdict.checks if "confidence below" in text]
    assert "rows of d4; 5 more have" in check


def test_features_are_counted_without_a_contradiction():
    some = Features(np.zeros(4), np.ones(4), np.array([True, False, True, False]), None)
    sentences = " ".join(judge(Evidence(["a", "b"], [proof(1e-8)], some, [], SURE)).sentences)
    assert "2 of 4 features can be shown to correspond, each by itself." in sentences
    few = Features(np.zeros(200), np.ones(200), np.arange(200) < 2, None)
    sentences = " ".join(judge(Evidence(["a", "b"], [proof(1e-8)], few, [], SURE)).sentences)
    assert "2 of 200 features" in sentences
    assert "all of them together" in sentences
    sentences = " ".join(judge(Evidence(["a", "b"], [proof(0.6)], few, [], SURE)).sentences)
    assert "all of them together" not in sentences  # the test was not passed


def test_an_alignment_of_unrelated_columns_is_called_that(pair):
    wrong = load_digits_pair(preserved=0.0, n_x=160, n_y=140, random_state=0)
    with pytest.warns(AlignmentWarning):
        unrelated = HarmonicAlignment(random_state=0).fit([wrong.x, wrong.y])
    verdict = facts_of(unrelated)["verdict"]
    assert verdict["level"] == "bad"
    assert "PCA" in verdict["checks"][0]


def test_too_few_columns_cannot_be_tested(pair):
    with pytest.warns(AlignmentWarning):
        narrow = HarmonicAlignment(random_state=0).fit([pair.x[:, 20:22], pair.y_clean[:, 20:22]])
    assert aligned_pairs(subject_of(narrow))[0].significance is None
    assert facts_of(narrow)["verdict"]["headline"] == "Not tested: whether they are aligned is open"


@pytest.mark.parametrize(
    ("p", "text"), [(0.0312, "0.031"), (1.0, "1"), (4.2e-7, "4\u00a0×\u00a010⁻⁷"), (0.0, "below 10⁻⁹⁹")]
)
def test_probabilities_are_written_as_people_do(p, text):
    assert readable_p(p) == text


# --- file -------------------------------------------------------------------------------------------------


HOSTILE = '</script><script>alert(1)</script><!--<img src=x onerror="alert(2)">&amp;\u2028'


def test_the_file_holds_the_facts_and_nothing_foreign(model, pair, tmp_path):
    names = [HOSTILE, "b"]
    labels = {HOSTILE: [np.full(160, HOSTILE), pair.labels_y.astype(str)]}
    path = write_report(
        model,
        tmp_path / "report.html",
        names=names,
        labels=labels,
        title=HOSTILE,
        feature_names=[HOSTILE] * 64,
    )
    text = path.read_text(encoding="utf-8")
    assert text.count("<script") == 3
    assert text.count("</script") == 3
    assert "<img" not in text
    assert html.escape(HOSTILE) in text
    stored = json.loads(re.search(r'id="facts">(.*?)</script>', text, re.S)[1])
    assert stored["title"] == HOSTILE
    assert stored["features"]["names"] == [HOSTILE] * 64
    # The only address is the name of SVG's vocabulary.
    assert set(re.findall(r"https?://[^\s\"'`<>)]+", text)) == {"http://www.w3.org/2000/svg"}


def test_the_policy_names_exactly_what_may_run(facts):
    text = page.render(facts)
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1])
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy

    def digest(code):
        return "sha256-" + base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()

    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    style = re.search(r"<style>(.*?)</style>", text, re.S)[1]
    assert len(scripts) == 2
    for code in (*scripts, style):
        assert f"'{digest(code)}'" in policy


def test_a_file_that_is_there_stays(model, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="force=True"):
        write_report(model, path)
    assert path.read_text() == "mine"
    assert write_report(model, path, force=True) == path
    assert path.read_text().startswith("<!doctype html>")


def test_a_file_that_appears_meanwhile_stays(facts, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    monkeypatch.setattr(os, "fsync", lambda handle: path.write_text("theirs"))
    with pytest.raises(FileExistsError, match="appeared meanwhile; nothing was overwritten"):
        page.write_whole(path, page.render(facts), force=False)
    assert path.read_text() == "theirs"
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize(("name", "error"), [("report.txt", ValueError), ("folder.html", IsADirectoryError)])
def test_places_that_cannot_be_written_are_refused_first(model, tmp_path, name, error):
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(error):
        write_report(model, tmp_path / name)


def test_nothing_half_written_remains(facts, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("mine")

    def fail(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        page.write_whole(path, page.render(facts), force=True)
    assert path.read_text() == "mine"
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_folders_are_made_and_odd_titles_are_no_problem(model, tmp_path):
    path = write_report(model, tmp_path / "deep" / "er" / "report.html", title="half \ud800 a pair")
    assert path.is_file()


# --- other methods ------------------------------------------------------------------------------------------


def test_a_comparison_is_shown(model, pair, tmp_path):
    labels = [pair.labels_x, pair.labels_y]
    table = compare([pair.x, pair.y], labels, ["none", "harmonicalign"])
    shown = collect(assess_subject(subject_of(model)), comparison=Comparison.of(table))["comparison"]
    assert [row["method"] for row in shown["rows"]] == ["none", "harmonicalign"]
    assert "columns" not in shown["columns"]
    assert shown["rows"][1]["label_agreement"] == pytest.approx(table[1]["label_agreement"], rel=1e-3)
    assert shown["rows"][0]["p"] is None
    file = tmp_path / "methods.csv"
    with file.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(table[0]))
        writer.writeheader()
        writer.writerows(table)
    assert Comparison.of(file).facts() == shown
    page = write_report(model, tmp_path / "with.html", comparison=file).read_text()
    assert '"method":"none"' in page


def test_without_a_comparison_the_command_is_named(facts):
    assert facts["comparison"]["rows"] == []
    assert facts["comparison"]["command"].startswith("harmonicalign compare")


@pytest.mark.parametrize("given", [[], [1], [{"name": "none"}], "nowhere.csv"])
def test_what_is_no_comparison_is_refused(model, tmp_path, given):
    with pytest.raises((ValueError, FileNotFoundError), match="comparison"):
        write_report(model, tmp_path / "no.html", comparison=given)
