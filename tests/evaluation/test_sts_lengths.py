"""STS of pairs of similar and of different length, against loops over the pairs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import spearmanr

from opencse.evaluation import (
    TASKS,
    EmbeddingModel,
    ScoredPairs,
    Sts,
    StsData,
    StsResult,
    TaskPairs,
)
from opencse.evaluation.sts.score import length_split

WORDS = ("cat", "dog", "rain", "sun", "tree", "house", "red")


def encode(texts: Sequence[str]) -> NDArray[np.float64]:
    """Counts of words, each with its own weight."""
    return np.array([[text.split().count(word) * (1 + n / 7) + 0.01 for n, word in enumerate(WORDS)] for text in texts])


def evaluate_sts(data: StsData) -> StsResult:
    return Sts().evaluate(EmbeddingModel("words", encode), data).record


def random_pairs(name: str, n: int, seed: int) -> ScoredPairs:
    random = np.random.default_rng(seed)

    def sentence() -> str:
        return "  ".join(random.choice(WORDS, size=random.integers(1, 10)))

    return ScoredPairs(
        name, random.integers(0, 11, n) / 2, [sentence() for _ in range(n)], [sentence() for _ in range(n)]
    )


def naive(parts: Sequence[ScoredPairs]) -> dict[bool, tuple[float, int]]:
    """Whether the lengths differ by more than 3 -> Spearman and n, pair by pair."""
    halves: dict[bool, tuple[list[float], list[float]]] = {False: ([], []), True: ([], [])}
    for part in parts:
        for gold, one, two in zip(part.scores.tolist(), part.first, part.second, strict=True):
            u, v = encode([one, two])
            cosine = round(float(u @ v / np.sqrt((u @ u) * (v @ v))), 12)
            difference = len(one.split("  ")) - len(two.split("  "))
            half = halves[difference > 3 or difference < -3]
            half[0].append(cosine)
            half[1].append(gold)
    return {key: (100 * float(spearmanr(*half).statistic), len(half[0])) for key, half in halves.items()}


def test_split_of_a_task_equals_a_loop_over_its_subsets() -> None:
    task = TASKS["sts13"]
    parts = tuple(random_pairs(name, 40, seed) for seed, name in enumerate(task.subsets))
    score = evaluate_sts(StsData("here", "raw", {"sts13": TaskPairs(task, parts)})).sts.tasks["sts13"]
    assert score.by_length is not None
    expected = naive(parts)
    for half, over in ((score.by_length.up_to_3, False), (score.by_length.over_3, True)):
        assert half.spearman == pytest.approx(expected[over][0], abs=1e-9)
        assert half.n == expected[over][1] > 20
    assert score.by_length.up_to_3.n + score.by_length.over_3.n == score.n == 120
    assert len({score.by_length.up_to_3.spearman, score.by_length.over_3.spearman, score.spearman.all}) == 3


def test_three_words_are_similar_and_four_are_not_on_either_side() -> None:
    first = ["a", "a", "a b c d", "a b c d e", "a", "a b c d e f"]
    second = ["a b c d", "a\tb\nc  d e", "a", "a", "a", "a"]
    cosines = np.array([0.1, 0.5, 0.2, 0.6, 0.3, 0.4])
    gold = np.array([1.0, 5.0, 2.0, 4.0, 3.0, 3.0])
    split = length_split(cosines, gold, first, second)
    assert split is not None
    assert split.up_to_3.spearman == pytest.approx(100)
    # Left: cosines 0.5, 0.6, 0.4 for gold 5, 4, 3, that is ranks 2, 3, 1 for 3, 2, 1.
    assert split.over_3.spearman == pytest.approx(50)
    assert split.up_to_3.n == split.over_3.n == 3


@pytest.mark.parametrize(
    ("second", "gold"),
    [
        (["a", "a", "a", "a"], [1.0, 2.0, 3.0, 4.0]),  # none differs
        (["a", "a", "a", "a b c d e"], [1.0, 2.0, 3.0, 4.0]),  # one alone
        (["a", "a", "a b c d e", "a b c d e"], [1.0, 2.0, 4.0, 4.0]),  # one gold score on one side
        (["a", "a", "a b c d e", "a b c d e"], [1.0, 1.0, 3.0, 4.0]),  # and on the other
    ],
)
def test_no_split_where_a_half_has_no_correlation(second: list[str], gold: list[float]) -> None:
    assert length_split(np.array([0.1, 0.2, 0.3, 0.4]), np.array(gold), ["a"] * 4, second) is None


def test_results_written_before_are_still_read(tmp_path: Path) -> None:
    parts = (random_pairs("test", 60, 5),)
    result = evaluate_sts(StsData("here", "raw", {"stsb": TaskPairs(TASKS["stsb"], parts)}))
    result.write_json(tmp_path / "new.json")
    assert StsResult.read_json(tmp_path / "new.json") == result
    data = json.loads((tmp_path / "new.json").read_text(encoding="utf-8"))
    assert set(data["sts"]["stsb"].pop("by_length")) == {"up_to_3", "over_3"}
    (tmp_path / "old.json").write_text(json.dumps(data), encoding="utf-8")
    old = StsResult.read_json(tmp_path / "old.json").sts.tasks["stsb"]
    assert old == result.sts.tasks["stsb"].model_copy(update={"by_length": None})
