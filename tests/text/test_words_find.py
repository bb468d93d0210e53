"""Where the words of a text are among its ids."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzzing import examples
from opencse.text.tokenizer import Tokenizer
from opencse.text.words import FUNCTION_WORDS, find_words

around = st.integers(0, 2)


@given(st.lists(st.integers(1, 4), max_size=8), around, around, st.integers(1, 3), st.integers(0, 5))
@examples(60)
def test_words_are_the_runs_of_equal_numbers(sizes: list[int], before: int, after: int, step: int, first: int) -> None:
    """Any number of special tokens around them; numbers may begin anywhere and leave some out."""
    numbers = [-1] * before
    index = [-1] * before
    spans = []
    for word, size in enumerate(sizes):
        spans.append((len(numbers), len(numbers) + size))
        numbers += [first + step * word] * size
        index += [word] * size
    numbers += [-1] * after
    index += [-1] * after
    words = find_words(np.array(numbers, dtype=np.int16))
    assert len(words) == len(sizes)
    assert words.index.tolist() == index
    assert list(zip(words.starts.tolist(), words.ends.tolist(), strict=True)) == spans
    assert words.sizes.tolist() == sizes
    for word in range(len(sizes)):
        assert words.ids_of(np.array([word])).tolist() == [i == word for i in index]
    assert not words.ids_of(np.array([], dtype=np.int64)).any()
    assert words.ids_of(np.arange(len(sizes))).tolist() == [i >= 0 for i in index]


def test_function_words_are_distinct_lower_case_words() -> None:
    assert len(set(FUNCTION_WORDS)) == len(FUNCTION_WORDS) > 100
    assert all(word.isalpha() and word.islower() for word in FUNCTION_WORDS)
    assert {"the", "of", "and", "is"} < set(FUNCTION_WORDS)
    assert not {"dog", "man", "good", "play"} & set(FUNCTION_WORDS)


@pytest.mark.parametrize("limit", [None, 6])
def test_words_of_tokenised_text(tiny_folder: Path, limit: int | None) -> None:
    tokenizer = Tokenizer.load(tiny_folder)
    made = tokenizer.encode_words(["the xylophonist, of course"], limit)[0]
    assert made.words is not None
    words = find_words(made.words)
    spelt = [
        str(tokenizer.hf.decode(made.ids[s:e])).replace(" ", "") for s, e in zip(words.starts, words.ends, strict=True)
    ]
    assert spelt == (["the", "xylophonist,", "of", "course"] if limit is None else ["the", "xyl"])
    assert (words.starts[0], words.ends[-1]) == (1, len(made.ids) - 1)
