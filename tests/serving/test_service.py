"""Models and indexes of a server, by name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.search.index import Index
from opencse.serving.errors import ApiError
from opencse.serving.limits import Limits
from opencse.serving.service import Service


@pytest.fixture
def service(model: SentenceEncoder, apart_folder: Path, index_folder: Path) -> Iterator[Service]:
    """Two models, the second of which has an index."""
    other = SentenceEncoder.load(apart_folder, device="cpu")
    indexes = {"second": Index.open(index_folder, encoder=other)}
    service = Service({"first": model, "second": other}, indexes, limits=Limits(hits=7))
    yield service
    service.close()


def test_models_and_indexes_are_found_by_name(service: Service) -> None:
    assert service.model(None).name == "first"
    assert service.model("second").name == "second"
    model, index = service.index(None)
    assert (model.name, index) == ("second", service.indexes["second"])
    with pytest.raises(ApiError, match="no model 'secnd' is served") as caught:
        service.model("secnd")
    assert "second" in caught.value.message
    assert (caught.value.status, caught.value.code) == (404, "model_not_found")
    with pytest.raises(ApiError, match="opencse index build") as caught:
        service.index("first")
    assert caught.value.code == "no_index"


def test_the_description_for_the_page(service: Service) -> None:
    info = asyncio.run(service.info())
    assert [(model["id"], model["index"]) for model in info["models"]] == [
        ("first", None),
        ("second", {"documents": 120, "rows": 120, "kind": "flat", "columns": ["half"]}),
    ]
    assert info["limits"]["hits"] == 7
    assert 1 <= len(info["examples"]) <= 3


def test_all_threads_end_on_closing(service: Service) -> None:
    assert service.alive
    service.close()
    assert not service.alive
