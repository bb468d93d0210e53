"""The pair view: a row with its columns."""

from __future__ import annotations

import numpy as np
import pytest

from opencse.errors import UserError
from opencse.objective.registry import build as build_part
from opencse.objective.views.pair import Pair
from opencse.text.corpus import Corpus, CorpusFacts

# Rows of four documents: 0-4, 5, 6-7 and 8-10.
DOCUMENTS = [0, 0, 0, 0, 0, 1, 2, 2, 3, 3, 3]


def corpus(documents: list[int], width: int = 1) -> Corpus:
    texts = len(documents) * width
    facts = CorpusFacts("toy.txt", "", len(documents), width, texts, 0, 0, len(set(documents)), 8)
    keys = np.arange(texts, dtype=np.int64).reshape(-1, width)
    return Corpus(np.arange(texts), np.arange(texts + 1), keys, np.asarray(documents, dtype=np.int32), facts)


@pytest.mark.parametrize("width", [2, 3])
def test_a_pair_is_a_row_with_its_columns(width: int) -> None:
    made = build_part(Pair.Settings()).examples(corpus([0] * 3, width), np.random.default_rng(0))
    assert made.tolist() == [[[row, column] for column in range(width)] for row in range(3)]


def test_the_pair_view_refuses_sentences() -> None:
    with pytest.raises(UserError, match=r"^toy\.txt: the pair view needs two or three texts per row, .*--columns"):
        build_part(Pair.Settings()).examples(corpus(DOCUMENTS), np.random.default_rng(0))
