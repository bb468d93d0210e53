"""Repetition against the rules of the paper and of the authors' code: how many, which, and where."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chisquare

from fuzzing import examples
from opencse.encoder.encoder import SentenceEncoder
from opencse.objective.registry import build as build_part
from opencse.objective.views.repetition import RepeatSubwords, RepeatWords
from opencse.text.tokenizer import TokenisedText

DRAWS = 10_000
CLS, SEP = 1, 2


class Stub(SentenceEncoder):
    """All that these views read of an encoder."""

    def __init__(self, max_length: int) -> None:
        self.__dict__["max_length"] = max_length


def view(
    cls: type[RepeatSubwords] | type[RepeatWords], room: int = 512, seed: int = 0, **chosen: Any
) -> RepeatSubwords | RepeatWords:
    made = build_part(cls.Settings.model_validate(chosen))
    assert isinstance(made, cls)
    made.begin(Stub(room), batch_size=4, seed=seed)
    return made


def text(sizes: list[int], offset: int = 10) -> TokenisedText:
    """Words of so many sub-words, all ids different, between [CLS] and [SEP]."""
    numbers = [-1, *(word for word, size in enumerate(sizes) for _ in range(size)), -1]
    ids = [CLS, *range(offset, offset + sum(sizes)), SEP]
    return TokenisedText(np.array(ids, dtype=np.int32), np.array(numbers, dtype=np.int16))


def added(made: NDArray[np.int32], given_text: TokenisedText) -> list[int]:
    """The places of the text's ids that are there twice; the rest must be there once, all in order."""
    counts = Counter(made.tolist())
    assert set(counts) == set(given_text.ids.tolist())
    assert max(counts.values()) <= 2
    return [place for place, i in enumerate(given_text.ids.tolist()) if counts[i] == 2]


def largest(kind: str, rule: str, rate: float, length: int, words: int) -> int:
    """Largest dup_len, from the paper's eq. 4 and from the description of the authors' code."""
    if rule == "paper":
        n = length - 2 if kind == "subwords" else words
        return min(n, max(2, int(rate * n)))
    if kind == "subwords":
        k = int(rate * length)
        return 0 if k <= 0 else min(10, k) - 1
    return min(10, words, max(2, int(rate * words))) - 1


MEANS = {6: (0, 1.0), 8: (0.5, 1.0), 12: (1.0, 1.5), 18: (2.0, 2.5), 32: (4.5, 4.5)}


@pytest.mark.slow
@pytest.mark.parametrize("length", [*MEANS, 3, 4])
@pytest.mark.parametrize("rule", ["reference", "paper"])
def test_how_many_subwords_are_repeated(rule: str, length: int) -> None:
    """10,000 draws at rate .32: uniform up to the rule's largest number; the means are the published rules' own."""
    sentence = text([1] * (length - 2))
    made = view(RepeatSubwords, rule=rule).positives([sentence] * DRAWS, np.random.default_rng(length))
    counts = Counter(len(ids) - length for ids in made)
    most = largest("subwords", rule, 0.32, length, length - 2)
    assert set(counts) == set(range(most + 1))
    if most:
        assert chisquare([counts[k] for k in range(most + 1)]).pvalue > 1e-3
    if length in MEANS:
        mean = sum(k * n for k, n in counts.items()) / DRAWS
        expected = MEANS[length][rule == "paper"]
        assert most / 2 == expected
        assert abs(mean - expected) <= 4 * ((most * (most + 2) / 12) / DRAWS) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize("words", [1, 2, 7, 20])
@pytest.mark.parametrize("rule", ["reference", "paper"])
def test_how_many_words_are_repeated(rule: str, words: int) -> None:
    """Words of two sub-words each: it is words that the rate is a share of."""
    sentence = text([2] * words)
    made = view(RepeatWords, rule=rule).positives([sentence] * 4_000, np.random.default_rng(words))
    counts = Counter((len(ids) - len(sentence.ids)) / 2 for ids in made)
    most = largest("words", rule, 0.32, 2 * words + 2, words)
    assert set(counts) == set(range(most + 1))
    if most:
        assert chisquare([counts[k] for k in range(most + 1)]).pvalue > 1e-3


@pytest.mark.parametrize(("cls", "kind"), [(RepeatSubwords, "subwords"), (RepeatWords, "words")])
@pytest.mark.parametrize("rule", ["reference", "paper"])
def test_a_rate_of_one(cls: type[RepeatSubwords] | type[RepeatWords], kind: str, rule: str) -> None:
    """Everything may be repeated under the paper's rule; the code stops at 9."""
    for words in (1, 2, 30):
        sentence = text([1] * words)
        made = view(cls, rate=1.0, rule=rule).positives([sentence] * 1_000, np.random.default_rng(0))
        most = largest(kind, rule, 1.0, words + 2, words)
        # Of one sub-word the code would sample two, and fail.
        assert max(len(added(ids, sentence)) for ids in made) == min(most, words)


@pytest.mark.parametrize("cls", [RepeatSubwords, RepeatWords])
@pytest.mark.parametrize("rule", ["reference", "paper"])
def test_every_position_is_as_likely(cls: type[RepeatSubwords] | type[RepeatWords], rule: str) -> None:
    """All but the special tokens; the code never repeats the last word."""
    sentence = text([1] * 14)
    made = view(cls, rate=0.5, rule=rule).positives([sentence] * 4_000, np.random.default_rng(5))
    counts = Counter(place for ids in made for place in added(ids, sentence))
    last = 13 if (cls, rule) == (RepeatWords, "reference") else 14
    assert sorted(counts) == list(range(1, last + 1))
    assert chisquare([counts[place] for place in range(1, last + 1)]).pvalue > 1e-3
    # Each draw is one of places, not a run of neighbours or the same ones for all.
    pairs = Counter(tuple(places) for ids in made if len(places := added(ids, sentence)) == 2)
    assert len(pairs) == last * (last - 1) // 2


sizes_of_words = st.lists(st.integers(1, 3), max_size=12)


@given(sizes_of_words, st.floats(0.05, 1), st.integers(0, 99), st.sampled_from(["paper", "reference"]))
@examples(150)
def test_a_chosen_subword_stands_twice_in_place(sizes: list[int], rate: float, seed: int, rule: str) -> None:
    sentence = text(sizes)
    made = view(RepeatSubwords, rate=rate, rule=rule).positives([sentence], np.random.default_rng(seed))[0]
    twice = added(made, sentence)
    expected = [i for place, i in enumerate(sentence.ids.tolist()) for _ in range(2 if place in twice else 1)]
    assert made.tolist() == expected
    assert {0, len(sentence.ids) - 1}.isdisjoint(twice)


@given(sizes_of_words, st.floats(0.05, 1), st.integers(0, 99), st.sampled_from(["paper", "reference"]))
@examples(150)
def test_a_repeated_word_occurs_twice_with_all_its_ids(sizes: list[int], rate: float, seed: int, rule: str) -> None:
    sentence = text(sizes)
    made = view(RepeatWords, rate=rate, rule=rule).positives([sentence], np.random.default_rng(seed))[0]
    twice = added(made, sentence)
    assert sentence.words is not None
    chosen = {int(sentence.words[place]) for place in twice}
    expected = [CLS]
    at = 10
    for word, size in enumerate(sizes):
        expected += list(range(at, at + size)) * (2 if word in chosen else 1)
        at += size
    assert made.tolist() == [*expected, SEP]


@pytest.mark.parametrize("cls", [RepeatSubwords, RepeatWords])
def test_the_room_is_shared_by_as_many_as_fit(cls: type[RepeatSubwords] | type[RepeatWords]) -> None:
    sentence = text([2] * 10)
    gains = Counter(
        len(ids) - 22 for ids in view(cls, room=27, rate=1.0).positives([sentence] * 500, np.random.default_rng(0))
    )
    assert set(gains) == ({0, 1, 2, 3, 4, 5} if cls is RepeatSubwords else {0, 2, 4})


@pytest.mark.parametrize("cls", [RepeatSubwords, RepeatWords])
def test_scarce_room_favours_no_place(cls: type[RepeatSubwords] | type[RepeatWords]) -> None:
    sentence = text([1] * 8)
    made = view(cls, room=11, rate=1.0).positives([sentence] * 3_000, np.random.default_rng(2))
    counts = Counter(place for ids in made for place in added(ids, sentence))
    assert max(len(ids) for ids in made) == 11
    assert chisquare([counts[place] for place in range(1, 9)]).pvalue > 1e-3


@pytest.mark.parametrize("cls", [RepeatSubwords, RepeatWords])
def test_once_is_the_same_for_a_text_at_every_step(cls: type[RepeatSubwords] | type[RepeatWords]) -> None:
    texts = [text([1] * 12, offset=100 * i) for i in range(1, 1_001)]
    once = view(cls, seed=4, redraw="once")
    random = np.random.default_rng(1)
    first = [ids.tolist() for ids in once.positives(texts, random)]
    assert random.random() == np.random.default_rng(1).random()  # the step's draws are not used up
    again = view(cls, seed=4, redraw="once").positives(texts[::-1], np.random.default_rng(2))[::-1]
    assert [ids.tolist() for ids in again] == first
    other_seed = view(cls, seed=5, redraw="once").positives(texts, np.random.default_rng(1))
    same = sum(a == b.tolist() for a, b in zip(first, other_seed, strict=True))
    assert same < 500  # mostly those with nothing repeated
    each_step = view(cls, seed=4).positives(texts, np.random.default_rng(1))
    assert sum(a == b.tolist() for a, b in zip(first, each_step, strict=True)) < 500
    # The texts' draws are independent of each other and follow the rule.
    counts = Counter(len(ids) - 14 for ids in first)
    assert chisquare([counts[k] for k in range(4)]).pvalue > 1e-3
    places = Counter(place for ids, t in zip(first, texts, strict=True) for place in added(np.array(ids), t))
    assert chisquare([places[place] for place in range(1, 13)]).pvalue > 1e-3


def test_the_defaults_are_the_papers() -> None:
    for cls in (RepeatSubwords, RepeatWords):
        chosen = cls.Settings()
        assert (chosen.rate, chosen.rule, chosen.redraw) == (0.32, "paper", "step")
