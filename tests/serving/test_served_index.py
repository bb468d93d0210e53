"""A served index: searches with vectors of shared batches, and a map that is kept until the index changes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from opencse.arrays import Floats
from opencse.encoder.encoder import SentenceEncoder
from opencse.ranking import PreparedVectors
from opencse.search.index import Index
from opencse.serving import served_index
from opencse.serving.limits import Limits
from opencse.serving.metrics import Metrics
from opencse.serving.projection import Method, project
from opencse.serving.served_index import ServedIndex
from opencse.serving.served_model import ServedModel

pytestmark = pytest.mark.anyio


async def test_searches_and_examples(model: SentenceEncoder, index_folder: Path, offline: SentenceEncoder) -> None:
    with Index.open(index_folder, encoder=offline) as index:
        texts = [hit.text for hit in index.rows()]
        expected = index.search([texts[5]], 3)
        served, encoder = ServedIndex(index, 50), ServedModel("tiny", model, Limits(), Metrics())
        tokens = await encoder.read([texts[5]], prompt="", truncate=True)
        hits = await served.search(
            encoder, [texts[5]], tokens, 3, threshold=None, where=None, hybrid=False, hybrid_weight=None
        )
        assert [hit.id for hit in hits[0]] == [hit.id for hit in expected[0]]
        examples = await served.examples(3)
        assert set(examples) <= set(texts)
        assert len(examples) == 3
        served.close()
        encoder.close()
        assert not served.alive


async def test_a_map_is_computed_once_per_version(
    model: SentenceEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[int] = []

    def counted(vectors: PreparedVectors, method: Method) -> Floats:
        computed.append(len(vectors))
        return project(vectors, method)

    monkeypatch.setattr(served_index, "project", counted)
    with Index.build(tmp_path / "i", ["Snow fell.", "Tea?", "A kettle."], model) as index:
        served = ServedIndex(index, 50)
        first, second = await asyncio.gather(served.map("pca"), served.map("pca"))
        assert first is second
        assert [point.text for point in first.points] == ["Snow fell.", "Tea?", "A kettle."]
        index.add(["Rain."])
        assert len((await served.map("pca")).points) == 4
        assert computed == [3, 4]
        served.close()
