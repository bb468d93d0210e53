"""What a cosine means: densities, random pairs, thresholds, and the calibration in a model's folder."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import gaussian_kde

from fuzzing import examples
from opencse.analysis.bias import densities
from opencse.analysis.calibration import Calibration, at_precision, best_f1, calibrate, labels, random_pairs
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import fingerprint
from opencse.errors import UserError
from opencse.evaluation import ScoredPairs, cosine_of_rows, read_scored_pairs
from opencse.text import sample


@pytest.fixture(scope="module")
def pairs() -> ScoredPairs:
    whole = read_scored_pairs(sample.DEV)
    return ScoredPairs("dev", whole.scores[:40], whole.first[:40], whole.second[:40])


def test_it_is_made_of_its_parts(encoder: SentenceEncoder, pairs: ScoredPairs, sentences: list[str]) -> None:
    texts = sentences[:30]
    found = calibrate(encoder, [*texts, *texts[:9]], labelled=pairs, cut=3.0, precision=0.4, corpus="c", resamples=9)
    assert found.model == fingerprint(encoder)
    assert found.random_pairs == random_pairs(encoder.encode(texts))
    cosines, alike = cosine_of_rows(encoder.encode(pairs.first), encoder.encode(pairs.second)), pairs.scores >= 3
    assert found.best_f1 is not None
    assert found.best_f1.f1 == best_f1(cosines, alike, resamples=9).f1
    assert found.at_precision is not None
    assert found.at_precision.recall == at_precision(cosines, alike, 0.4, resamples=9).recall
    plain = calibrate(encoder, texts, limit=10)
    assert (plain.best_f1, plain.at_precision, plain.random_pairs.texts) == (None, None, 10)
    assert plain.random_pairs != calibrate(encoder, texts, limit=10, seed=1).random_pairs


def test_it_is_kept_in_the_folder_and_refused_for_another_model(
    encoder: SentenceEncoder, sentences: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    assert Calibration.load(folder) is None
    encoder.save(folder)
    assert Calibration.load(folder) is None
    made = calibrate(encoder, sentences[:12])
    made.save(folder)
    assert Calibration.load(folder) == made
    assert Calibration.load(folder, encoder) == made
    other = SentenceEncoder.load(folder, device="cpu", pooling="cls")
    with pytest.raises(UserError, match=r"calibration.json: was made for a model of other weights or settings") as told:
        Calibration.load(folder, other)
    assert "\n" not in str(told.value)
    with torch.no_grad():
        next(encoder.backbone.parameters())[5, 3] += 1e-3
    encoder.save(folder)
    with pytest.raises(UserError, match=f"hash {made.model}, this one's is {fingerprint(encoder)}"):
        Calibration.load(folder)


def test_labels_are_zeros_and_ones_or_scores_with_a_cut(pairs: ScoredPairs) -> None:
    binary = ScoredPairs("b", np.array([0.0, 1, 1]), ["a"] * 3, ["b"] * 3)
    assert labels(binary).tolist() == [False, True, True]
    graded = ScoredPairs("g", np.array([0.0, 1, 3.5]), ["a"] * 3, ["b"] * 3)
    assert labels(graded, 1.0).tolist() == [False, True, True]
    assert labels(graded, 1.1).tolist() == [False, False, True]
    with pytest.raises(UserError, match=r"^g, pair 3: its score is 3.5, not a label 0 or 1; give the cut"):
        labels(graded)
    for cut in (0.0, 3.6):
        with pytest.raises(UserError, match=r"leaves pairs of one kind \(scores are 0 to 3.5\)"):
            labels(graded, cut)


def graded(n: int = 300) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rng = np.random.default_rng(0)
    gold = np.round(rng.uniform(0, 5, n) * 5) / 5
    return np.tanh(gold / 5 + 0.3 * rng.normal(size=n)), gold


def test_density_is_scipys() -> None:
    cosines, gold = graded()
    found = densities(cosines, gold)
    assert found.grid == pytest.approx([k / 100 - 1 for k in range(201)])
    assert [(g.lower, g.upper) for g in found.groups] == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
    for number, group in enumerate(found.groups):
        inside = cosines[(gold >= number) & ((gold < number + 1) | (number == 4))]
        assert group.n == len(inside) > 30
        assert group.density == pytest.approx(gaussian_kde(inside)(np.array(found.grid)), rel=1e-9, abs=1e-12)
        assert group.density is not None
        assert 0.9 < sum(group.density) * 0.01 < 1.01


Labelled = tuple[NDArray[np.float64], NDArray[np.bool_]]


def labelled(n: int = 120, *, ties: bool = False, seed: int = 0) -> Labelled:
    rng = np.random.default_rng(seed)
    alike = rng.random(n) < 0.4
    alike[:2] = True, False
    cosines = np.tanh(rng.normal(0.3 + 0.5 * alike, 0.4))
    return np.asarray(np.round(cosines, 1) if ties else cosines, dtype=np.float64), alike


def counts(cosines: list[float], alike: list[bool], threshold: float) -> tuple[int, int]:
    called = [label for cosine, label in zip(cosines, alike, strict=True) if cosine >= threshold]
    return sum(called), len(called)


def naive(cosines: list[float], alike: list[bool], wanted: float | None = None) -> float | None:
    """The cut below the distinct cosine that is best, the highest of equals, by trying each."""
    best, chosen = -1.0, None
    levels = sorted(set(cosines), reverse=True)
    for place, level in enumerate(levels):
        hits, called = counts(cosines, alike, level)
        value = 2 * hits / (called + sum(alike)) if wanted is None else hits * (hits / called >= wanted)
        if value > best and hits:
            best, chosen = value, place
    if chosen is None:
        return None
    return levels[chosen] if chosen + 1 == len(levels) else (levels[chosen] + levels[chosen + 1]) / 2


def test_no_rounding_pushes_a_precision_below_the_wanted_one() -> None:
    # 11/20 is what 0.55 reads as: no rounding may push it below the wanted precision.
    levels, twenty = np.linspace(1, 0, 20), np.arange(20) < 11
    exact = at_precision(levels, twenty[::-1].copy(), 0.55, resamples=1)
    assert exact.precision == 0.55
    assert exact.recall == 1


def test_interval_is_of_naive_resamples() -> None:
    cosines, alike = labelled(60, ties=True)
    found = best_f1(cosines, alike, resamples=100, seed=7)
    rng = np.random.default_rng(7)
    places = []
    for _ in range(100):
        drawn = rng.integers(0, 60, size=60)
        place = naive(cosines[drawn].tolist(), alike[drawn].tolist())
        places.append(math.inf if place is None else place)
    places.sort()
    assert found.interval == pytest.approx((places[2], places[97]), abs=1e-15)  # 99 * 0.025 = 2.475, down; up
    assert found.interval is not None
    assert found.interval[0] < found.cosine < found.interval[1]


@examples(30)
@given(st.integers(2, 25), st.integers(0, 999), st.floats(0.05, 1))
def test_any_labels(n: int, seed: int, wanted: float) -> None:
    cosines, alike = labelled(n, ties=True, seed=seed)
    rows = cosines.tolist(), alike.tolist()
    assert best_f1(cosines, alike, resamples=2).cosine == pytest.approx(naive(*rows), abs=1e-15)
    expected = naive(*rows, wanted)
    highest = max(hits / called for hits, called in (counts(*rows, level) for level in rows[0]))
    if highest < wanted:
        with pytest.raises(UserError, match=f"the highest is {highest:.3f}"):
            at_precision(cosines, alike, wanted, resamples=2)
    else:
        found = at_precision(cosines, alike, wanted, resamples=2)
        assert found.cosine == pytest.approx(expected, abs=1e-15)
        hits, called = counts(*rows, found.cosine)
        assert (found.precision, found.recall) == pytest.approx((hits / called, hits / alike.sum()))
        assert found.precision >= wanted
