"""Retrieval as a whole: the measures of rankings by known vectors, against loops over all documents."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from helpers import record_of
from opencse.errors import UserError
from opencse.evaluation.retrieval.data import RetrievalData, RetrievalTask
from opencse.evaluation.retrieval.score import Retrieval, RetrievalResult
from opencse.modules.similarity import Similarity
from vectors_of_texts import numbers

evaluate_retrieval = partial(record_of, Retrieval)
"""The record of a plain function of texts."""


MEASURES = ("ndcg_at_10", "mrr_at_10", "map_at_10", "recall_at_1", "recall_at_10", "recall_at_100")


def task_of(documents: dict[str, str], queries: dict[str, str], judged: list[dict[int, int]]) -> RetrievalTask:
    return RetrievalTask(
        "toy", list(documents), list(documents.values()), list(queries), list(queries.values()), judged, 0
    )


def judge(*tasks: RetrievalTask, similarity: Similarity = Similarity.COSINE) -> RetrievalResult:
    data = RetrievalData("here", "raw", {f"{task.name}{n or ''}": task for n, task in enumerate(tasks)})
    return evaluate_retrieval(numbers, data, similarity=similarity)


def random_task(seed: int) -> RetrievalTask:
    """130 documents and 9 queries; one document is a query, three are equal."""
    random = np.random.default_rng(seed)

    def vector() -> str:
        return " ".join(f"{value:.6f}" for value in random.normal(size=4))

    queries = {f"q{number}": vector() for number in range(9)}
    documents = {(f"q{number}" if number < 4 else f"d{number}"): vector() for number in range(130)}
    documents["d40"] = documents["d41"] = documents["d99"]
    documents["q1"] = queries["q1"]  # would come first, were it not left out
    judged = [
        {
            int(place): int(level)
            for place, level in zip(random.permutation(130)[:12], random.integers(0, 4, 12), strict=True)
        }
        | {99: 1}
        for _ in queries
    ]
    return replace(task_of(documents, queries, judged), own_documents={"q1": 1})


def naive(task: RetrievalTask, similarity: Similarity) -> dict[str, float]:
    sums = dict.fromkeys(MEASURES, 0.0)
    for key, query, levels in zip(task.query_ids, task.queries, task.judged, strict=True):
        q = [float(part) for part in query.split()]
        scored = []
        for place, text in enumerate(task.documents):
            d = [float(part) for part in text.split()]
            score = sum(a * b for a, b in zip(q, d, strict=True))
            if similarity == "cosine":
                score /= math.sqrt(sum(a * a for a in q)) * math.sqrt(sum(b * b for b in d))
            if place != task.own_documents.get(key) or levels.get(place, 0) > 0:
                scored.append((-score, place))
        ranked = [place for _, place in sorted(scored)]
        relevant = {place for place, level in levels.items() if level > 0}
        gain = sum(levels.get(place, 0) / math.log2(rank + 2) for rank, place in enumerate(ranked[:10]))
        best = sorted(levels.values(), reverse=True)[:10]
        sums["ndcg_at_10"] += gain / sum(level / math.log2(rank + 2) for rank, level in enumerate(best))
        ranks = [rank for rank, place in enumerate(ranked[:10], start=1) if place in relevant]
        sums["mrr_at_10"] += 1 / ranks[0] if ranks else 0
        sums["map_at_10"] += sum((hit + 1) / rank for hit, rank in enumerate(ranks)) / len(relevant)
        for k in (1, 10, 100):
            sums[f"recall_at_{k}"] += len(relevant & set(ranked[:k])) / len(relevant)
    return {name: 100 * value / len(task.queries) for name, value in sums.items()}


@pytest.mark.parametrize("similarity", [Similarity.COSINE, Similarity.DOT])
@pytest.mark.parametrize("seed", range(4))
def test_measures_equal_a_loop_over_all_documents(similarity: Similarity, seed: int) -> None:
    task = random_task(seed)
    score = judge(task, similarity=similarity).retrieval["toy"]
    expected = naive(task, similarity)
    assert score.measures() == pytest.approx(expected, abs=1e-9)
    assert 0 < expected["ndcg_at_10"] < 100
    assert 0 < expected["recall_at_100"] < 100
    assert (score.queries, score.documents, score.without_relevant) == (9, 130, 0)


def test_worked_by_hand() -> None:
    # Cosines to (1, 0): a 1, b about 0.99, c 0. Relevant: b (1) and c (2).
    task = task_of({"a": "2 0", "b": "1 0.1", "c": "0 1"}, {"q": "1 0"}, [{1: 1, 2: 2}])
    score = judge(task).retrieval["toy"]
    assert score.ndcg_at_10 == pytest.approx(
        100 * (1 / math.log2(3) + 2 / math.log2(4)) / (2 / math.log2(2) + 1 / math.log2(3))
    )
    assert score.mrr_at_10 == pytest.approx(50)
    assert score.map_at_10 == pytest.approx(100 * (1 / 2 + 2 / 3) / 2)
    assert (score.recall_at_1, score.recall_at_10, score.recall_at_100) == (0, 100, 100)


def test_a_hundred_others_are_ranked_beside_the_own_document() -> None:
    angles = np.linspace(0, 1, 101)
    documents = {f"d{number}": f"{np.cos(a):.9f} {np.sin(a):.9f}" for number, a in enumerate(angles)}
    task = task_of(documents, {"q": "1 0"}, [{100: 1}])
    assert judge(task).retrieval["toy"].recall_at_100 == 0
    assert judge(replace(task, own_documents={"q": 0})).retrieval["toy"].recall_at_100 == 100


def test_equal_documents_are_ranked_in_corpus_order() -> None:
    documents = {f"d{number}": "1 1" for number in range(30)}
    for place in (0, 1, 9, 10):
        score = judge(task_of(documents, {"q": "1 0"}, [{place: 1}])).retrieval["toy"]
        assert score.mrr_at_10 == pytest.approx(100 / (place + 1) if place < 10 else 0)


def test_encode_is_called_once_on_distinct_texts() -> None:
    calls: list[list[str]] = []

    def encode(texts: Sequence[str]) -> NDArray[np.float64]:
        calls.append(list(texts))
        return numbers(texts)

    task = task_of({"a": "1 0", "b": "1 0", "c": "0 1"}, {"q": "0 1"}, [{0: 1}])
    lines: list[str] = []
    evaluate_retrieval(encode, RetrievalData("x", "raw", {"toy": task}), progress=lines.append)
    assert calls == [["0 1", "1 0"]]
    assert lines[0] == "retrieval: m on toy from x, text raw"
    assert "nDCG@10" in lines[-1]
    assert "over 1 query, 3 documents" in lines[-1]


def test_what_is_left_out_or_empty_is_told() -> None:
    task = RetrievalTask("toy", ["a", "b"], ["x", ""], ["q"], ["y"], [{0: 1}], 2)
    lines: list[str] = []
    result = evaluate_retrieval(
        lambda texts: np.eye(3)[: len(texts)], RetrievalData("x", "raw", {"toy": task}), progress=lines.append
    )
    assert lines[-1].endswith(
        "1 query, 2 documents; 2 more queries have no relevant document and are left out; 1 document is empty"
    )
    assert result.retrieval["toy"].without_relevant == 2


def test_vectors_that_are_not_finite_are_told() -> None:
    task = task_of({"a": "nan 0"}, {"q": "0 1"}, [{0: 1}])
    with pytest.raises(UserError, match="NaN or infinite"):
        judge(task)


@pytest.fixture
def two() -> RetrievalResult:
    return judge(random_task(0), random_task(1))


def test_the_result_read_back_is_the_same(two: RetrievalResult, tmp_path: Path) -> None:
    two.write_json(tmp_path / "r.json")
    assert RetrievalResult.read_json(tmp_path / "r.json") == two
    data = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    counts = {"queries", "without_relevant", "documents", "copies", "identical_ids", "similarity"}
    counts |= {"ranked_by", "intervals", "by_query", "judged_at_10"}
    assert set(data["retrieval"]["toy"]) == {*MEASURES, *counts}
    assert data["data"]["sha256"].keys() == {"toy", "toy1"}
    assert (data["split"], data["similarity"], data["data"]["text"]) == ("test", "cosine", "raw")


def test_values_are_flat(two: RetrievalResult) -> None:
    values = two.values()
    names = {f"retrieval.{name}.{measure}" for name in ("toy", "toy1") for measure in MEASURES}
    assert values.keys() == names | {"retrieval.average"}
    first, second = values["retrieval.toy.ndcg_at_10"], values["retrieval.toy1.ndcg_at_10"]
    assert first != second
    assert values["retrieval.average"] == pytest.approx((first + second) / 2)
    assert values["retrieval.toy.recall_at_10"] == two.retrieval["toy"].recall_at_10


def rendered(table: Table) -> list[str]:
    console = Console(width=170, force_terminal=False)
    with console.capture() as capture:
        console.print(table)
    return capture.get().splitlines()


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("│").split("│")]


def test_table_has_a_row_a_model_and_data_set(two: RetrievalResult) -> None:
    lines = rendered(Retrieval.table({"[b]one": two, "two": judge(random_task(0), similarity=Similarity.DOT)}))
    assert "Retrieval (test; ranked by cosine, dot), x 100" in lines[0]
    score = two.retrieval["toy1"]
    row = next(line for line in lines if "toy1" in line)
    low, high = score.intervals["ndcg_at_10"] or (0, 0)
    first, *others = (f"{value:.2f}" for value in score.measures().values())
    assert cells(row) == ["[b]one", "toy1", f"{first} ±{(high - low) / 2:.1f}", *others]
    assert "toy1: 9 queries, 130 documents" in " ".join(" ".join(lines).split())
    averages = [cells(line) for line in lines if "average" in line]
    assert averages == [["[b]one", "average", f"{two.average:.2f}", "-", "-", "-", "-", "-"]]
    assert sum("two" in line for line in lines) == 1


def test_hits_that_nobody_judged_are_reported_where_the_models_differ_in_them() -> None:
    """Labels of one model's hits are unfair to another: its right texts count as not relevant."""

    def farthest_first(texts: Sequence[str]) -> NDArray[np.float64]:
        vectors = numbers(texts)
        return np.where(vectors[:, 1:] == 0, vectors, -vectors)  # the query is the only one with a 0

    documents = {f"d{number}": f"{number} 1" for number in range(40)}
    labels = {**dict.fromkeys(range(30, 40), 0), 39: 1}
    task = task_of(documents, {"q": "1 0"}, [labels])
    data = RetrievalData("here", "raw", {"toy": task})
    one = evaluate_retrieval(numbers, data)
    other = evaluate_retrieval(farthest_first, data)
    assert one.retrieval["toy"].judged_at_10 == 1
    assert other.retrieval["toy"].judged_at_10 == 0
    shown = " ".join(" ".join(rendered(Retrieval.table({"one": one, "other": other}))).split())
    assert "toy: judged of the first 10 hits: one 100%, other 0%; the others count as not relevant" in shown
    assert "judged of" not in " ".join(rendered(Retrieval.table({"one": one, "again": one})))
    relevant_only = evaluate_retrieval(numbers, RetrievalData("here", "raw", {"toy": replace(task, judged=[{39: 1}])}))
    assert relevant_only.retrieval["toy"].judged_at_10 is None
    assert "judged of" not in " ".join(rendered(Retrieval.table({"one": one, "other": relevant_only})))
