"""The ways to rank the documents of a task: names, ties, and the keyword index that is counted once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from opencse.evaluation.models.opening import open_model
from opencse.evaluation.retrieval.data import RetrievalTask
from opencse.evaluation.retrieval.rankers import ByBoth, ByKeywords, ByVectors, evenly
from opencse.evaluation.retrieval.score import Retrieval
from opencse.modules.similarity import Similarity
from vectors_of_texts import numbers

TASK = RetrievalTask("toy", ["a", "b", "c"], ["1 0", "4 4", "0 1"], ["q"], ["1 0.5"], [{0: 1}], 0)


def test_names_say_what_ranks() -> None:
    assert ByVectors().name(Similarity.DOT) == "dot"
    assert ByVectors(Similarity.COSINE).name(Similarity.DOT) == "cosine"
    assert ByKeywords().name(Similarity.DOT) == "BM25"
    assert ByBoth(0.3).name(Similarity.COSINE) == "0.3 cosine + 0.7 BM25"


def test_vectors_are_compared_by_the_models_function_or_another() -> None:
    embedded = Retrieval().embed(open_model(numbers), [TASK])
    assert list(ByVectors(Similarity.DOT).first(TASK, embedded, 2)) == [[1, 0]]
    cosine = list(ByVectors().first(TASK, embedded, 3))
    assert cosine == list(ByVectors(Similarity.COSINE).first(TASK, embedded, 3))
    assert cosine[0][2] == 2


def test_a_task_without_queries_has_no_ranking() -> None:
    task = replace(TASK, query_ids=[], queries=[], judged=[])
    embedded = Retrieval().embed(open_model(numbers), [TASK])
    assert list(ByKeywords().first(task, embedded, 3)) == []
    assert list(ByBoth(0.5).first(task, embedded, 3)) == []


@pytest.mark.parametrize(("count", "most"), [(0, 3), (3, 3), (4, 3), (10, 3), (10, 1)])
def test_some_rows_are_evenly_spread(count: int, most: int) -> None:
    rows = evenly(range(count), most)
    assert len(rows) == min(count, most, len(rows))
    assert rows[:1] == [0][:count]
    assert len(set(np.diff(rows).tolist())) <= 1
