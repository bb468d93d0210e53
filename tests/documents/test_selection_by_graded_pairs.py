"""What is kept of a run: the best trained step, unless a reading of the start is better beyond chance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from opencse.evaluation import ScoredPairs
from opencse.training.selection import DevScore, GradedPairSelector, History, OwnPoolingScore, choose

GENERATOR = np.random.default_rng(0)
GOLD = GENERATOR.normal(size=150)
DEV = GradedPairSelector("pairs", ScoredPairs("pairs", GOLD, [""] * 150, [""] * 150))


def never() -> bool:
    raise AssertionError("asked although the score is above")


def always(answer: bool) -> Callable[[], bool]:
    return lambda: answer


def history(*scores: float) -> History:
    """Scores at steps 0, 10, 20, ..."""
    found = History()
    for number, score in enumerate(scores):
        found.add(10 * number, DevScore(score))
    return found


def noisy(noise: float, seed: int = 1) -> DevScore:
    """A system that follows the gold scores up to ``noise``."""
    from opencse.evaluation import spearman

    cosines = GOLD + noise * np.random.default_rng(seed).normal(size=len(GOLD))
    return DevScore(100 * spearman(cosines, GOLD), cosines=cosines)


def test_a_step_above_the_start_is_kept() -> None:
    choice = choose(history(50, 60, 55), 20, None, never)
    assert choice.kept == "best"
    assert choice.verdict == "the best model is kept (start 50.00, best 60.00 at step 10, last 55.00)"
    assert "longer training may help" in choose(history(50, 55, 60), 20, None, never).verdict


def test_ties_and_noise_do_not_go_to_the_start() -> None:
    for scores in ((50, 50), (50, 49.64)):
        choice = choose(history(*scores), 10, None, always(False))
        assert choice.kept == "best"
        assert "cannot distinguish it from the start" in choice.verdict


def test_a_real_loss_goes_to_the_start() -> None:
    choice = choose(history(50, 30), 10, None, always(True))
    assert choice.kept == "start"
    assert choice.verdict.startswith("training did not help on the dev pairs, so the start is kept unchanged (start 50")


def test_the_models_own_pooling_is_a_guard_too() -> None:
    """57.9 -> 68.6 is a gain over the start that was trained, and less than the model had with its own pooling."""
    own = OwnPoolingScore("mean", 76.2)
    choice = choose(history(57.9, 68.6), 10, own, always(True))
    assert choice.kept == "given"
    assert choice.verdict.startswith("training helped, but the model with its own pooling is better")
    assert "start 57.90, with its own pooling mean 76.20, best 68.60 at step 10" in choice.verdict
    assert choose(history(57.9, 76.1), 10, own, always(False)).kept == "best"
    assert choose(history(57.9, 76.3), 10, own, never).kept == "best"
    assert choose(history(57.9, 50.0), 10, replace(own, value=40.0), always(True)).kept == "start"
    assert choose(history(57.9, 50.0), 10, own, always(True)).verdict.startswith("training did not help, and the model")


def test_worse_means_beyond_the_chance_of_the_pairs() -> None:
    good, little_worse, bad = noisy(1.0), noisy(1.0, seed=2), noisy(3.0)
    assert good.value > little_worse.value > bad.value
    assert not DEV.worse(little_worse, good)
    assert DEV.worse(bad, good)
    assert not DEV.worse(good, bad)
    assert not DEV.worse(good, good)
