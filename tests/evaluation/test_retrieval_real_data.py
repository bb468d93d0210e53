"""SciFact as it is, by a bag of words; trec_eval judges the same ranking where it is installed."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from opencse.evaluation.embedding import EmbeddingModel, distinct, embed
from opencse.evaluation.retrieval.data import RetrievalTask, load_retrieval
from opencse.evaluation.retrieval.score import Retrieval

pytestmark = pytest.mark.slow

WIDTH = 512


def bag_of_words(texts: Sequence[str]) -> NDArray[np.float32]:
    vectors = np.zeros((len(texts), WIDTH), dtype=np.float32)
    for row, text in enumerate(texts):
        for word in set(text.lower().split()):
            vectors[row, zlib.crc32(word.encode()) % WIDTH] += 1 / len(word) if len(word) < 5 else 1
    return vectors


def by_trec_eval(task: RetrievalTask) -> dict[str, float]:
    pytrec_eval: Any = pytest.importorskip("pytrec_eval")
    embedded = embed(bag_of_words, distinct([task.queries, task.documents]))
    queries = embedded.vectors[embedded.rows(task.queries)].astype(np.float64)
    documents = embedded.vectors[embedded.rows(task.documents)].astype(np.float64)
    cosines = queries @ documents.T / np.linalg.norm(queries, axis=1)[:, None] / np.linalg.norm(documents, axis=1)
    run, qrels = {}, {}
    for key, row, levels in zip(task.query_ids, cosines, task.judged, strict=True):
        best = np.argsort(-row, kind="stable")[:100]
        run[key] = {task.document_ids[place]: float(-rank) for rank, place in enumerate(best)}
        qrels[key] = {task.document_ids[place]: level for place, level in levels.items()}
    scores = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "map_cut.10", "recall.1,10,100"}).evaluate(run)
    names = ("ndcg_cut_10", "map_cut_10", "recall_1", "recall_10", "recall_100")
    means = {name: 100 * sum(score[name] for score in scores.values()) / len(scores) for name in names}
    return {name.replace("cut_", "at_").replace("recall_", "recall_at_"): mean for name, mean in means.items()}


def test_scifact(shared_data: Path) -> None:
    folder = shared_data / "retrieval" / "scifact"
    if not folder.is_dir():
        pytest.skip("SciFact is not here")
    data = load_retrieval(folder)
    task = data.tasks["scifact"]
    assert (len(task.documents), len(task.queries), task.without_relevant) == (5183, 300, 0)
    assert sum(len(levels) for levels in task.judged) == 339
    score = Retrieval().evaluate(EmbeddingModel("m", bag_of_words), data).record.retrieval["scifact"]
    assert 10 < score.ndcg_at_10 < score.recall_at_100
    for name, value in by_trec_eval(task).items():
        assert getattr(score, name) == pytest.approx(value, abs=1e-6), name
