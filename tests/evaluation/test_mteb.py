"""MTEB's own code, on pairs given to it here, finds what ours finds; nothing is fetched."""

from __future__ import annotations

import importlib.util
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.evaluation import ScoredPairs, cosine_of_rows, read_scored_pairs
from opencse.evaluation.models.mteb import MtebEncoder
from opencse.modules.prompts import Prompts
from opencse.text import sample
from scores import spearman_of

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:The task 'STSBenchmark' is superseded")]
needs_mteb = pytest.mark.skipif(importlib.util.find_spec("mteb") is None, reason="mteb is not installed")


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    return SentenceEncoder.load(device="cpu")


@pytest.fixture
def tiny(tiny_encoder: SentenceEncoder) -> SentenceEncoder:
    return tiny_encoder.twin()


def mteb_spearman(model: MtebEncoder, pairs: ScoredPairs) -> float:
    """STSBenchmark's task as MTEB defines it, on these pairs."""
    import mteb
    from datasets import Dataset
    from mteb.tasks.sts.eng.sts_benchmark_sts import STSBenchmarkSTS

    task = STSBenchmarkSTS()
    columns = {"sentence1": pairs.first, "sentence2": pairs.second, "score": pairs.scores.tolist()}
    task.dataset = {"test": Dataset.from_dict(columns)}
    task.data_loaded = True
    result = mteb.evaluate(model, tasks=[task], cache=None, co2_tracker=False, show_progress_bar=False)
    assert (result.model_name, result.model_revision) == (model.mteb_model_meta.name, model.mteb_model_meta.revision)
    scores = result.task_results[0].scores["test"][0]
    assert scores["spearman"] == pytest.approx(scores["cosine_spearman"], abs=1e-6)
    assert scores["main_score"] == scores["cosine_spearman"]
    return 100 * float(scores["cosine_spearman"])


def without_equal_vectors(pairs: ScoredPairs, encoder: SentenceEncoder) -> ScoredPairs:
    """MTEB's float32 cosines tear ties at 1 apart, at random."""
    cosines = cosine_of_rows(encoder.encode(pairs.first), encoder.encode(pairs.second))
    kept = np.flatnonzero(cosines < 1 - 1e-5).tolist()
    assert len(pairs) - 10 < len(kept) < len(pairs)
    first, second = [pairs.first[i] for i in kept], [pairs.second[i] for i in kept]
    return ScoredPairs("kept", pairs.scores[kept], first, second)


@needs_mteb
def test_sts_by_mteb_equals_ours(encoder: SentenceEncoder) -> None:
    pairs = without_equal_vectors(read_scored_pairs(sample.DEV), encoder)
    ours = spearman_of(encoder.encode, pairs)
    assert mteb_spearman(MtebEncoder(encoder), pairs) == pytest.approx(ours, abs=1e-4)
    assert 20 < ours < 100


@pytest.mark.parametrize(("kind", "prompt"), [("query", "query: "), ("document", "passage: "), (None, "text: ")])
def test_queries_and_documents_are_read_with_their_prompts(
    kind: str | None, prompt: str, tiny: SentenceEncoder
) -> None:
    class PromptType(StrEnum):
        query = "query"
        document = "document"

    model = object.__new__(MtebEncoder)
    model.encoder = tiny.twin()
    model.encoder.prompts = Prompts({"query": "query: ", "document": "passage: ", "other": "text: "}, "other")
    texts = ["A cat sleeps.", "Rain."]
    batches: Any = [{"text": texts}]
    type_: Any = None if kind is None else PromptType(kind)
    about: Any = None
    vectors = model.encode(batches, task_metadata=about, hf_split="test", hf_subset="default", prompt_type=type_)
    assert np.array_equal(vectors, tiny.encode(texts, prompt=prompt))


@needs_mteb
def test_names(tiny: SentenceEncoder, tmp_path: Path) -> None:
    assert MtebEncoder(tiny).mteb_model_meta.name == "opencse/BertModel"
    tiny.save(tmp_path / "mine")
    assert MtebEncoder(tmp_path / "mine", device="cpu").mteb_model_meta.name == "opencse/mine"
    assert MtebEncoder(tiny, "v1", name="a/b").mteb_model_meta.revision == "v1"
    with pytest.raises(UserError, match="organisation/model"):
        MtebEncoder(tiny, name="ab")
