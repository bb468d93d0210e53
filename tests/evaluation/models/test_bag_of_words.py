from __future__ import annotations

import math
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import spearmanr

from opencse.errors import UserError
from opencse.evaluation import cosine_of_rows, load_sts
from opencse.evaluation.models.bag_of_words import BagOfWords


def exact_cosine(first: str, second: str) -> float:
    u, v = (Counter(text.lower().split()) for text in (first, second))
    dot = sum(u[word] * v[word] for word in u)
    squares = sum(x * x for x in u.values()) * sum(x * x for x in v.values())
    return dot / math.sqrt(squares) if squares else 0.0


def cosines(bag: BagOfWords, first: Sequence[str], second: Sequence[str]) -> NDArray[np.float64]:
    return cosine_of_rows(bag.encode(first), bag.encode(second))


def test_known_answers() -> None:
    first = ["a dog runs", "A Dog runs", "a a b", "a b", "", "a dog"]
    second = ["a dog sleeps", "a dog RUNS", "a b b", "c d", "a", "dog a"]
    found = cosines(BagOfWords(), first, second)
    np.testing.assert_allclose(found, [2 / 3, 1, 4 / 5, 0, 0, 1], atol=1e-12)
    assert found.tolist()[1] == 1.0


def test_most_pairs_are_exact_and_the_others_within_the_stated_error(sentences: list[str]) -> None:
    first, second = sentences[:400], [sentences[i + (i % 3)] for i in range(400)]
    exact = np.array([exact_cosine(a, b) for a, b in zip(first, second, strict=True)])
    assert ((exact > 0.05) & (exact < 0.95)).sum() > 100
    error = np.abs(cosines(BagOfWords(), first, second) - exact)
    assert (error < 1e-6).mean() > 0.9
    assert np.sqrt((error**2).mean()) < 0.022
    assert np.median(np.abs(cosines(BagOfWords(columns=64), first, second) - exact)) > 0.01, "few columns do collide"


def test_the_error_is_unbiased_with_the_stated_variance() -> None:
    """Over many words as hash functions: the same two bags, each time with other names for the words."""
    columns = 32
    bag = BagOfWords(columns=columns)
    estimates = []
    for trial in range(2000):
        name = [f"{trial}-{i}" for i in range(12)]
        x, y = bag.encode([" ".join(name[:8]), " ".join(name[4:])])
        estimates.append(float(x @ y) / 8)
    assert np.mean(estimates) == pytest.approx(0.5, abs=0.02)
    assert np.var(estimates) <= (1 + 0.25) / columns * 1.15
    assert np.var(estimates) >= 0.5 / columns, "not vacuous"


def test_shape_and_refusal() -> None:
    assert BagOfWords().encode([]).shape == (0, 4096)
    assert BagOfWords(columns=7).encode(["a b", ""]).shape == (2, 7)
    assert not BagOfWords().encode([" "]).any()
    assert BagOfWords().encode(["a"]).dtype == np.float32
    with pytest.raises(UserError, match="at least 1 column"):
        BagOfWords(columns=0)


@pytest.mark.slow
def test_the_same_in_another_process_and_in_another_call() -> None:
    words = "from opencse.evaluation.models.bag_of_words import BagOfWords as B"
    program = f"{words}; print(B().encode(['x dog é'])[0].nonzero()[0])"
    there = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert there.strip() == str(BagOfWords().encode(["b c", "x dog é"])[1].nonzero()[0])


def test_on_real_data_the_scores_are_those_of_exact_cosines(shared_data: Path) -> None:
    for key in ("stsb", "sts16"):
        parts = load_sts(shared_data / "sts", [key]).tasks[key].parts
        first = [text for part in parts for text in part.first]
        second = [text for part in parts for text in part.second]
        gold = np.concatenate([part.scores for part in parts])
        exact = [exact_cosine(a, b) for a, b in zip(first, second, strict=True)]
        hashed = cosines(BagOfWords(), first, second)
        wanted = 100 * spearmanr(np.round(exact, 12), gold).statistic
        assert wanted > 30
        assert 100 * spearmanr(np.round(hashed, 6), gold).statistic == pytest.approx(wanted, abs=0.1)
