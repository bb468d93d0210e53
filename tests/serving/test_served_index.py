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
from opencse.serving.projection import Method, project
from opencse.serving.served_index import ServedIndex

pytestmark = pytest.mark.anyio


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
