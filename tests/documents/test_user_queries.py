"""The user's queries score an encoder as the evaluation does."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import filled, write_collection
from opencse import SentenceEncoder
from opencse.documents.dev_choice import Dev, UserQueries
from opencse.evaluation.embedding import EmbeddingModel
from opencse.evaluation.retrieval.data import load_retrieval
from opencse.evaluation.retrieval.score import Retrieval
from opencse.ranking import Measure
from opencse.text import sample
from opencse.text.readers import Source
from opencse.training.questions import Questions


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    lines = filled(sample.TRAIN)[:200]
    queries = {f"q{n}": " ".join(lines[n].split()[:4]) for n in range(0, 200, 5)}
    judged = [(f"q{n}", f"d{n + more}", 1 + more) for n in range(0, 200, 5) for more in (0, 1)]
    return write_collection(tmp_path, {f"d{n}": line for n, line in enumerate(lines)}, queries, judged)


@pytest.mark.slow
def test_given_queries_are_judged_as_evaluation_judges_them(beir: Path) -> None:
    encoder = SentenceEncoder.load(device="cpu")
    data = load_retrieval(beir)
    record = Retrieval().evaluate(EmbeddingModel("m", encoder.encode), data)
    for metric in ("ndcg@10", "mrr@10", "recall@1"):
        wanted = record[record.tasks[0], metric.replace("@", "_at_")].value
        values = UserQueries.read(beir, Measure.parse(metric)).values(encoder)
        assert len(values) == 40
        assert values.mean() == pytest.approx(wanted)
        assert 0 < wanted < 100
    chooser = Dev.of(beir).open(Source(str(sample.TRAIN)))
    assert isinstance(chooser, Questions)
    assert chooser.left_out is None
    first = chooser.begin(encoder)
    assert first.value == pytest.approx(record[record.tasks[0], "ndcg_at_10"].value)
    assert chooser.guard is not None
    assert first.guard == pytest.approx(chooser.guard.values(encoder).mean())
