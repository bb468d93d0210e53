"""Limits of requests, options and files that the server keeps."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
import pytest
from fastapi import FastAPI

from helpers import Run
from opencse.api.serving import serve
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.search.index import Index
from opencse.serving.app import create_app
from opencse.serving.limits import Limits
from opencse.serving.service import Service
from serving.harness import to

NAN, INF = float("nan"), float("inf")


def asked(app: FastAPI, path: str, body: object) -> httpx.Response:
    async def ask() -> httpx.Response:
        async with to(app) as client, asyncio.timeout(60):
            return await client.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})

    return asyncio.run(ask())


def test_limits_and_options_are_numbers_in_their_range(opencse: Run) -> None:
    for value in (0, -1, NAN, INF, True, "5", None):
        with pytest.raises(UserError, match="texts is a number above 0"):
            Limits(texts=value)  # type: ignore[arg-type]
    for option, value in (("grace", NAN), ("max_body", 0), ("max_texts", -1), ("max_waiting", 10**400)):
        with pytest.raises(UserError, match=f"{option} is (a finite number|at least 1)"):
            serve("opencse-mini", port=0, **{option: value})  # type: ignore[arg-type]
    for option, value in (("--grace", "1e400"), ("--max-body", "x"), ("--port", "-1")):
        code, out, err = opencse("serve", "there-is-no-such-model", option, value)
        assert (code, out, len(err.strip().splitlines())) == (2, "", 1), err


@pytest.mark.parametrize(
    ("path", "body", "refused"),
    [
        ("/v1/embeddings", {"input": ""}, True),
        ("/v1/embeddings", {"input": []}, True),
        ("/v1/embeddings", {"input": ["a", ""]}, True),
        ("/v1/embeddings", {"input": [[5], []]}, True),
        ("/v1/embeddings", {"input": " "}, False),
        ("/search", {"query": ""}, True),
        ("/search", {"query": ["a", ""]}, True),
        ("/similarity", {"texts": []}, True),
        ("/similarity", {"texts": ["a"], "others": [""]}, True),
        ("/similarity", {"texts": ["a", "b"]}, False),
    ],
)
def test_empty_input_is_refused(serve: Callable[..., FastAPI], path: str, body: object, refused: bool) -> None:
    answer = asked(serve(), path, body)
    assert answer.status_code == (400 if refused else 200), answer.text
    if refused:
        assert answer.json()["error"]["type"] == "invalid_request_error"


def deep(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.slow
@pytest.mark.parametrize(
    "where",
    [
        {"half": deep(3)},
        {"half": deep(90)},
        {"half": {"=": {"=": 1}}},
        {"half": {">=": [1]}},
        {"half": 2**70},
        {"half": -(2**63) - 1},
        {"half": [2**64, 1]},
        {"half": {"<": 10**300}},
        {"half": 1e308},
        {"half": "\x00"},
        {"half": "\ud800"},
        {"half": list(range(50_000))},
        {f"column{number}": number for number in range(2_000)},
        {"half": {operator * 50: 1 for operator in "=<>!"}},
        {"id": "s1' OR 1=1 --"},
        {"a/b": 1},
    ],
    ids=lambda where: str(where)[:30],
)
def test_conditions_of_any_kind(serve: Callable[..., FastAPI], where: dict[str, object]) -> None:
    answer = asked(serve(), "/search", {"query": "a", "where": where})
    assert answer.status_code in (200, 400), answer.text
    if answer.status_code == 400:
        assert len(answer.text) < 1_000


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
@pytest.mark.parametrize("value", [b"\xff\xfe", b"a\x00b", b"\xed\xa0\x80"])
def test_odd_bytes_in_the_database_of_an_index(
    opencse: Run, model: SentenceEncoder, index_folder: Path, tmp_path: Path, value: bytes
) -> None:
    folder = tmp_path / "index"
    shutil.copytree(index_folder, folder)
    for database in folder.glob("rows-*.sqlite"):
        with sqlite3.connect(database) as db:
            db.execute("UPDATE rows SET text = CAST(? AS TEXT)", [value])
        db.close()
    service = Service({"tiny": model}, {"tiny": Index.open(folder, encoder=model)})
    try:
        answer = asked(create_app(service), "/search", {"query": "a", "k": 3})
        assert answer.status_code in (200, 503), answer.text
        assert str(tmp_path) not in answer.text
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
@pytest.mark.parametrize(
    "text",
    [
        " " * 40_000 + "a dog barks",
        "x" * 40_000 + " dog",
        "\u6771" * 40_000,
        "a" * 40_000,
        "dog " * 20_000,
        "dog\n" * 9,
    ],
    ids=["blanks", "one word", "no spaces", "letters", "words", "short"],
)
def test_long_texts_of_any_kind_have_the_vector_of_encode(
    serve: Callable[..., FastAPI], offline: SentenceEncoder, text: str
) -> None:
    answer = asked(serve(indexed=False), "/v1/embeddings", {"input": text}).json()
    assert np.allclose(answer["data"][0]["embedding"], offline.encode([text])[0], atol=1e-5)
    whole = len(offline.tokenizer.encode([text], None)[0])
    assert answer["truncated"] == ([0] if whole > offline.max_length else [])
