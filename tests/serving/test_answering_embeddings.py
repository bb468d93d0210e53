"""``POST /v1/embeddings``: inputs, answers, and vectors equal to those of `encode`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from opencse.encoder.encoder import SentenceEncoder
from opencse.modules.prompts import Prompts, Role
from opencse.serving.requests import Limits
from serving.conftest import Serve
from serving.harness import to

pytestmark = pytest.mark.anyio
CLOSE = 1e-5


def vectors_of(answer: httpx.Response) -> NDArray[np.float32]:
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert told["object"] == "list"
    assert [one["index"] for one in told["data"]] == list(range(len(told["data"])))
    return np.array([one["embedding"] for one in told["data"]], dtype=np.float32)


def error_of(answer: httpx.Response) -> dict[str, Any]:
    told: dict[str, Any] = answer.json()["error"]
    assert set(told) == {"message", "type", "param", "code"}
    assert told["message"]
    assert "\n" not in told["message"]
    return told


async def ask(client: httpx.AsyncClient, given: object, **more: object) -> httpx.Response:
    return await client.post("/v1/embeddings", json={"input": given, "model": "tiny", **more})


async def test_texts_and_ids_have_the_vectors_of_encode(client: httpx.AsyncClient, offline: SentenceEncoder) -> None:
    texts = ["The kettle boils.", " ", "Snow fell on the roof all night, and nobody saw it."]
    expected = offline.encode(texts)
    assert np.abs(expected[0] - expected[2]).max() > 0.1  # texts differ here
    ids = [row.tolist() for row in offline.tokenize(texts)]
    answer = await ask(client, texts)
    assert np.abs(vectors_of(answer) - expected).max() < CLOSE
    assert answer.json()["usage"] == {"prompt_tokens": sum(map(len, ids)), "total_tokens": sum(map(len, ids))}
    assert answer.json()["model"] == "tiny"
    assert np.abs(vectors_of(await ask(client, texts[0])) - expected[:1]).max() < CLOSE
    assert np.abs(vectors_of(await ask(client, ids)) - expected).max() < CLOSE
    assert np.abs(vectors_of(await ask(client, ids[2])) - expected[2:]).max() < CLOSE
    for begin, end in ((1, -1), (1, None), (0, -1)):  # without special tokens, as clients of OpenAI's send them
        bare = [row[begin:end] for row in (ids[0], ids[2])]
        assert np.abs(vectors_of(await ask(client, bare)) - expected[[0, 2]]).max() < CLOSE


async def test_vectors_are_truncated_and_normalised(client: httpx.AsyncClient, offline: SentenceEncoder) -> None:
    made = vectors_of(await ask(client, ["One.", "Two."], dimensions=7))
    expected = offline.encode(["One.", "Two."])[:, :7]
    assert np.abs(made - expected / np.linalg.norm(expected, axis=1, keepdims=True)).max() < CLOSE
    for wrong in (33, 0, -1, 10**30, "7", 7.5, True):
        assert error_of(refused := await ask(client, "One.", dimensions=wrong))["param"] == "dimensions"
        assert refused.status_code == 400


async def test_long_texts_are_truncated_and_listed_or_refused(serve: Serve, offline: SentenceEncoder) -> None:
    long, fits = "the " * 200, "the " * 62
    assert len(offline.tokenize([fits])[0]) == offline.max_length == 64
    ids = offline.tokenizer.encode([long], None)[0].tolist()
    async with to(serve()) as client:
        answer = await ask(client, ["One.", long, fits])
        assert answer.json()["truncated"] == [1]
        assert np.abs(vectors_of(answer) - offline.encode(["One.", long, fits])).max() < CLOSE
        refused = await ask(client, ["One.", long], truncate=False)
        assert refused.status_code == 400
        assert "input 1 has at least 202 tokens" in error_of(refused)["message"]
        assert error_of(refused)["code"] == "context_length_exceeded"
        for given in (ids, ids[1:-1]):
            answer = await ask(client, [given])
            assert answer.json()["truncated"] == [0]
            assert np.abs(vectors_of(answer) - offline.encode([long])).max() < CLOSE
    async with to(serve(cut=False)) as client:
        assert (await ask(client, [ids])).status_code == 400
        assert (await ask(client, [long], truncate=True)).json()["truncated"] == [0]
        assert (await ask(client, [fits])).json()["truncated"] == []


async def test_other_inputs_are_refused(client: httpx.AsyncClient) -> None:
    wrong: list[object] = [
        None,
        [],
        [[]],
        "\ud800",
        ["a", 1],
        ["a", ""],
        [1, 2.5],
        [True],
        [[1], []],
        [["a"]],
        {"a": 1},
    ]
    for given in [*wrong, [-1], [10**30], [[1], [10_000]]]:
        body = json.dumps({"input": given, "model": "tiny"})
        answer = await client.post("/v1/embeddings", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 400, given
        assert error_of(answer)["type"] == "invalid_request_error"


async def test_what_is_too_much_is_refused(serve: Serve) -> None:
    async with to(serve(limits=Limits(body_bytes=1_000, texts=3))) as client:
        assert (await ask(client, ["a"] * 3)).status_code == 200
        assert error_of(await ask(client, ["a"] * 4))["code"] == "too_many_texts"
        long = await ask(client, "a" * 1_000)
        assert (long.status_code, error_of(long)["code"]) == (413, "body_too_long")

        async def slices() -> Any:
            for _ in range(20):
                yield b" " * 100

        unannounced = await client.post(
            "/v1/embeddings", content=slices(), headers={"Content-Type": "application/json"}
        )
        assert unannounced.status_code == 413


@pytest.mark.slow
async def test_every_request_gets_its_own_vectors(client: httpx.AsyncClient, offline: SentenceEncoder) -> None:
    """Many at a time, of many sizes: nothing is lost, nothing is mixed up."""
    words = ["snow", "kettle", "river", "stone", "bread", "cloud", "lamp", "horse", "garden", "letter"]
    asked = [
        [f"{words[i % 10]} {words[j % 7]} {' '.join(words[: (i + j) % 9])} {i}" for j in range(1 + i % 13)]
        for i in range(150)
    ]
    answers = await asyncio.gather(*(ask(client, texts) for texts in asked))
    for texts, answer in zip(asked, answers, strict=True):
        assert np.abs(vectors_of(answer) - offline.encode(texts)).max() < CLOSE
    batches = (await client.get("/metrics")).text
    assert f'opencse_texts_total{{model="tiny"}} {float(sum(map(len, asked)))}' in batches
    (count,) = [line for line in batches.splitlines() if line.startswith("opencse_batch_texts_count")]
    assert float(count.split()[-1]) < len(asked), "no two requests ever shared a batch"


async def test_texts_are_read_as_what_they_are_said_to_be(
    serve: Serve, model: SentenceEncoder, offline: SentenceEncoder
) -> None:
    model.prompts = Prompts({"query": "query: ", "document": "passage: ", "other": "text: "}, "other")
    texts = ["The kettle boils.", "the " * 80]
    async with to(serve(indexed=False)) as client:
        for kind, role in (
            ("query", Role.QUERY),
            ("search_query", Role.QUERY),
            ("passage", Role.DOCUMENT),
            (None, Role.PLAIN),
        ):
            prompt = model.prompts.of(role)
            answer = await ask(client, texts, input_type=kind)
            assert np.abs(vectors_of(answer) - offline.encode(texts, prompt=prompt)).max() < CLOSE
            assert answer.json()["truncated"] == [1]
            assert answer.json()["usage"]["prompt_tokens"] == sum(map(len, offline.tokenize(texts, prompt)))
        assert error_of(await ask(client, "One.", input_type="queries"))["param"] == "input_type"
        assert "token ids get no prompt" in error_of(await ask(client, [[5, 6]], input_type="query"))["message"]
