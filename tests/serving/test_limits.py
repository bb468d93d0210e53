"""Limits of requests, options and files that the server keeps."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
import pytest
from fastapi import FastAPI

from opencse.encoder.encoder import SentenceEncoder
from opencse.search.index import Index
from opencse.serving.app import create_app
from opencse.serving.service import Service
from serving.harness import to


def asked(app: FastAPI, path: str, body: object) -> httpx.Response:
    async def ask() -> httpx.Response:
        async with to(app) as client, asyncio.timeout(60):
            return await client.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})

    return asyncio.run(ask())


@pytest.mark.slow
def test_a_missing_or_replaced_index_is_not_searched(
    model: SentenceEncoder, index_folder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "secret-place" / "index"
    shutil.copytree(index_folder, folder)
    service = Service({"tiny": model}, {"tiny": Index.open(folder, encoder=model)})
    app = create_app(service)
    try:

        def search() -> httpx.Response:
            return asked(app, "/search", {"query": "a", "k": 1})

        before = search()
        assert before.status_code == 200
        away = tmp_path / "away"
        folder.rename(away)
        for _ in range(2):
            gone = search()
            assert gone.status_code == 503
            assert gone.json()["error"]["code"] == "index_outdated"
            assert "secret-place" not in gone.text
            assert str(tmp_path) not in gone.text
        shutil.copytree(away, folder)
        assert search().json() == before.json(), "it answers again when the index is back"

        shutil.rmtree(folder)
        with Index.build(folder, ["Only this one."], model) as other:
            assert other.info().rows == 1
        assert search().json()["data"][0]["hits"][0]["text"] == "Only this one."

        (folder / "index.json").write_text("{}")
        damaged = search()
        assert damaged.status_code == 503
        assert str(tmp_path) not in damaged.text
    finally:
        service.close()


@pytest.mark.slow
def test_a_huge_text_is_tokenised_from_its_beginning_only(
    serve: Callable[..., FastAPI], offline: SentenceEncoder
) -> None:
    status = Path("/proc/self/status")
    if not status.is_file():
        pytest.skip("the memory of this process is read from /proc")

    def resident() -> float:
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024

    app = serve(indexed=False)
    words = "the dog barks at 12 trees "
    huge = words * (4_000_000 // len(words))
    expected = offline.encode([words * 200])[0]
    asked(app, "/v1/embeddings", {"input": words * 1_000})
    before = resident()
    for _ in range(2):
        answer = asked(app, "/v1/embeddings", {"input": huge})
        assert answer.status_code == 200
        assert answer.json()["truncated"] == [0]
    assert resident() - before < 120
    assert np.allclose(answer.json()["data"][0]["embedding"], expected, atol=1e-5)
    refused = asked(app, "/v1/embeddings", {"input": huge, "truncate": False})
    assert refused.json()["error"]["code"] == "context_length_exceeded"


@pytest.mark.slow
def test_long_texts_of_any_kind_have_the_vector_of_encode(
    serve: Callable[..., FastAPI], offline: SentenceEncoder
) -> None:
    app = serve(indexed=False)
    for text in (" " * 40_000 + "a dog barks", "x" * 40_000 + " dog", "\u6771" * 40_000, "dog " * 20_000):
        answer = asked(app, "/v1/embeddings", {"input": text}).json()
        assert np.allclose(answer["data"][0]["embedding"], offline.encode([text])[0], atol=1e-5)
        whole = len(offline.tokenizer.encode([text], None)[0])
        assert answer["truncated"] == ([0] if whole > offline.max_length else [])
