"""A small model behind the server, in this process and on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from opencse.encoder.encoder import SentenceEncoder
from opencse.search.index import Index
from opencse.search.rows import IndexRow
from opencse.serving.app import create_app
from opencse.serving.requests import Limits
from opencse.serving.service import Service
from serving.harness import short, to

Serve = Callable[..., FastAPI]


@pytest.fixture
def model(sharp_folder: Path) -> SentenceEncoder:
    """The one that is served."""
    return SentenceEncoder.load(sharp_folder, device="cpu")


@pytest.fixture(scope="session")
def offline(sharp_folder: Path) -> SentenceEncoder:
    """Another copy of it, to compare with."""
    return SentenceEncoder.load(sharp_folder, device="cpu")


@pytest.fixture(scope="session")
def index_folder(tmp_path_factory: pytest.TempPathFactory, offline: SentenceEncoder, sentences: list[str]) -> Path:
    """An index of 120 sentences, with a column."""
    folder = tmp_path_factory.mktemp("index") / "of-sentences"
    distinct = short(sentences, offline)[:120]
    Index.build(folder, [IndexRow(text, f"s{i}", {"half": i % 2}) for i, text in enumerate(distinct)], offline).close()
    return folder


@pytest.fixture
def serve(model: SentenceEncoder, index_folder: Path) -> Iterator[Callable[..., FastAPI]]:
    """Makes applications of the tiny model and its index; ``indexed=False`` without the index."""
    made: list[Service] = []

    def make(*, indexed: bool = True, limits: Limits | None = None, cut: bool = True, **app: object) -> FastAPI:
        indexes = {"tiny": Index.open(index_folder, encoder=model)} if indexed else {}
        made.append(Service({"tiny": model}, indexes, limits=limits, cut=cut))
        return create_app(made[-1], **app)  # type: ignore[arg-type]

    yield make
    for service in made:
        service.close()


@pytest.fixture
def anyio_backend() -> str:
    """The event loop of the tests."""
    return "asyncio"


@pytest.fixture
async def client(serve: Serve) -> AsyncIterator[httpx.AsyncClient]:
    """Speaks to an application of its own."""
    async with to(serve()) as client:
        yield client
