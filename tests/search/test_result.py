"""Results of a search behave like lists, and say what their scores are."""

from __future__ import annotations

import pytest

from opencse.errors import UserError
from opencse.search.index import Index
from opencse.search.result import SearchResult


def test_a_result_is_a_list_with_its_score_and_language(index: Index) -> None:
    result = index.search(["A cat sleeps."], 2)
    assert isinstance(result, SearchResult)
    assert result == [list(result[0])]
    assert (result.score, result.language) == ("cosine", index.info().language)
    assert index.search(["cat"], 2, hybrid=True).score == "hybrid score"


def test_info_describes_the_index(index: Index) -> None:
    index.delete(["n0"])
    info = index.info()
    assert (info.rows, info.documents, info.dimension, info.kind) == (4, 4, 448, "flat")
    assert info.columns == {"length": "number"}
    assert info.megabytes == pytest.approx(4e-6 * 5 * 448)  # the deleted row's vector is still in the file
    with pytest.raises(UserError, match="unknown column 'size'"):
        index.search(["cat"], where=["size=3"])
