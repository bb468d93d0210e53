"""Crop and word deletion: how many words stay, and which."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from fuzzing import examples
from opencse.objective.views.base import ChangesTokens
from opencse.objective.views.deletion import Crop, DeleteOneWord, DeleteWords
from opencse.text.tokenizer import TokenisedText

CLS, SEP = 1, 2


def text(sizes: list[int]) -> TokenisedText:
    """Words of so many sub-words, all ids different, between [CLS] and [SEP]."""
    numbers = [-1, *(word for word, size in enumerate(sizes) for _ in range(size)), -1]
    ids = [CLS, *range(10, 10 + sum(sizes)), SEP]
    return TokenisedText(np.array(ids, dtype=np.int32), np.array(numbers, dtype=np.int16))


def kept(view: ChangesTokens, sizes: list[int], seed: int) -> list[int]:
    """The words that are left; each must be whole, in order, between the special tokens."""
    sentence = text(sizes)
    assert sentence.words is not None
    made = view.positives([sentence], np.random.default_rng(seed))[0].tolist()
    words = sorted({int(sentence.words[sentence.ids.tolist().index(i)]) for i in made} - {-1})
    expected = [i for i, w in zip(sentence.ids.tolist(), sentence.words.tolist(), strict=True) if w in {-1, *words}]
    assert made == expected
    return words


some_words = st.lists(st.integers(1, 3), min_size=1, max_size=25)


@given(some_words, st.sampled_from([0.1, 0.2, 0.3, 0.5, 0.99]), st.integers(0, 999))
@examples(200)
def test_a_crop_is_a_run_of_words(sizes: list[int], rate: float, seed: int) -> None:
    left = kept(Crop(Crop.Settings(rate=rate)), sizes, seed)
    assert left == list(range(left[0], left[0] + len(left)))
    n = len(sizes)
    assert len(left) == max(1, round((1 - rate) * n))
    assert abs(len(left) - (1 - rate) * n) <= 0.5 or len(left) == 1


@given(some_words, st.sampled_from([0.1, 0.2, 0.3, 0.5, 0.99]), st.integers(0, 999))
@examples(200)
def test_a_share_of_the_words_is_deleted(sizes: list[int], rate: float, seed: int) -> None:
    n = len(sizes)
    assert len(kept(DeleteWords(DeleteWords.Settings(rate=rate)), sizes, seed)) == max(1, n - round(rate * n))


@given(some_words, st.integers(0, 999))
@examples(100)
def test_one_word_is_deleted(sizes: list[int], seed: int) -> None:
    left = kept(DeleteOneWord(DeleteOneWord.Settings()), sizes, seed)
    assert len(left) == max(1, len(sizes) - 1)


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.3])
def test_ten_words_as_in_table_1(rate: float) -> None:
    lengths = {
        len(kept(view, [1] * 10, seed))
        for seed in range(10)
        for view in (Crop(Crop.Settings(rate=rate)), DeleteWords(DeleteWords.Settings(rate=rate)))
    }
    assert lengths == {round(10 - 10 * rate)}


def test_the_place_of_a_crop_is_uniform() -> None:
    sentence, view = text([2] * 10), Crop(Crop.Settings(rate=0.3))
    made = view.positives([sentence] * 4_000, np.random.default_rng(0))
    starts = Counter((int(ids[1]) - 10) // 2 for ids in made)
    assert sorted(starts) == [0, 1, 2, 3]
    assert chisquare([starts[k] for k in range(4)]).pvalue > 1e-3


@pytest.mark.parametrize("view", [DeleteWords(DeleteWords.Settings(rate=0.3)), DeleteOneWord(DeleteOneWord.Settings())])
def test_every_word_is_as_likely_to_be_deleted(view: ChangesTokens) -> None:
    sentence = text([1] * 8)
    made = view.positives([sentence] * 4_000, np.random.default_rng(0))
    gone = [tuple(sorted(set(range(10, 18)) - set(ids.tolist()))) for ids in made]
    size = 1 if isinstance(view, DeleteOneWord) else 2
    assert {len(words) for words in gone} == {size}
    counts = Counter(word for words in gone for word in words)
    assert sorted(counts) == list(range(10, 18))
    assert chisquare([counts[word] for word in range(10, 18)]).pvalue > 1e-3
    assert len(set(gone)) == (8 if size == 1 else 28)


def test_the_defaults_are_the_mildest_of_table_1() -> None:
    assert Crop.Settings().rate == DeleteWords.Settings().rate == 0.1


@given(some_words, st.integers(0, 999))
@examples(100)
def test_each_word_is_left_out_by_itself_and_one_stays(sizes: list[int], seed: int) -> None:
    view = DeleteWords(DeleteWords.Settings(rate=0.6, draw="each"))
    assert 1 <= len(kept(view, sizes, seed)) <= len(sizes)
    always = DeleteWords(DeleteWords.Settings(rate=0.9999999, draw="each"))
    assert len(kept(always, sizes, seed)) == 1


def test_each_word_is_left_out_at_the_rate() -> None:
    view = DeleteWords(DeleteWords.Settings(rate=0.6, draw="each"))
    counts = [len(kept(view, [1] * 30, seed)) for seed in range(300)]
    assert abs(np.mean(counts) - 12) < 0.5
    assert np.std(counts) > 2, "an exact share would have no spread"


@pytest.mark.parametrize("sides", ["positives", "anchors", "both"])
def test_the_words_of_either_side_are_left_out(sides: str) -> None:
    view = DeleteWords(DeleteWords.Settings.model_validate({"rate": 0.5, "sides": sides}))
    sentence = text([1] * 10)
    lengths = {
        "positives": len(view.positives([sentence], np.random.default_rng(0))[0]),
        "anchors": len(view.changed_anchors([sentence], np.random.default_rng(0))[0]),
    }
    assert lengths == {side: 7 if sides in (side, "both") else 12 for side in ("positives", "anchors")}
