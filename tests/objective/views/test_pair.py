"""The pair view: a row with its columns."""

from __future__ import annotations

import numpy as np
import pytest

from opencse.errors import UserError
from opencse.objective.registry import build as build_part
from opencse.objective.views.pair import Pair
from toy_documents import DOCUMENTS, corpus_of


@pytest.mark.parametrize("width", [2, 3])
def test_a_pair_is_a_row_with_its_columns(width: int) -> None:
    made = build_part(Pair.Settings()).examples(corpus_of([0] * 3, width), np.random.default_rng(0))
    assert made.tolist() == [[[row, column] for column in range(width)] for row in range(3)]


def test_the_pair_view_refuses_sentences() -> None:
    with pytest.raises(UserError, match=r"^toy\.txt: the pair view needs two or three texts per row, .*--columns"):
        build_part(Pair.Settings()).examples(corpus_of(DOCUMENTS), np.random.default_rng(0))
