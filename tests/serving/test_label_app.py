"""The application of `opencse label`: its routes, what it refuses, and what it saves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from helpers import json_in
from opencse.encoder.encoder import SentenceEncoder
from opencse.labelling.labels import LabelFolder
from opencse.labelling.pooling import PooledIndexes
from opencse.labelling.session import LabelSession
from opencse.search.index import Index
from opencse.serving.label_app import create_label_app
from serving.harness import LOCAL, require_parameters_refused, to

pytestmark = pytest.mark.anyio


@pytest.fixture
def app(index_folder: Path, model: SentenceEncoder, tmp_path: Path) -> Iterator[FastAPI]:
    """An application that saves in ``tmp_path / "out"``."""
    folder = LabelFolder(tmp_path / "out")
    with Index.open(index_folder, encoder=model) as index, folder.opened() as labels:
        yield create_label_app(
            LabelSession(PooledIndexes({"index": index}), folder, labels), indexes=["my-index"], models=["tiny"]
        )


async def test_a_query_from_typing_to_the_files(app: FastAPI, tmp_path: Path) -> None:
    async with to(app) as client:
        before = (await client.get("/labels")).json()
        assert (before["queries"], before["answered"], before["target"], before["documents"]) == ([], 0, 20, 120)
        added = (await client.post("/labels/add", json={"text": " two  words "})).json()
        assert added["number"] == 1
        assert added["state"]["queries"][0]["text"] == "two words"
        assert (await client.post("/labels/add", json={"text": "TWO WORDS"})).json()["number"] == 1
        query = (await client.post("/labels/open", json={"number": 1})).json()["query"]
        assert 10 <= len(query["texts"]) <= 30
        assert all(text["level"] is None and text["text"] for text in query["texts"])
        first, second = (text["id"] for text in query["texts"][:2])
        state = (await client.post("/labels/mark", json={"number": 1, "id": first, "level": 2})).json()["state"]
        assert (state["answered"], state["queries"][0]["right"]) == (1, 1)
        qrels = tmp_path / "out" / "qrels" / "test.tsv"
        assert qrels.read_text() == f"query-id\tcorpus-id\tscore\nquery-1\t{first}\t2\n"
        await client.post("/labels/mark", json={"number": 1, "id": second, "level": 1})
        await client.post("/labels/finish", json={"number": 1, "finished": True})
        levels = [line.split("\t")[2] for line in qrels.read_text().splitlines()[1:]]
        assert sorted(levels, reverse=True) == ["2", "1", *["0"] * (len(query["texts"]) - 2)]
        await client.post("/labels/mark", json={"number": 1, "id": second, "level": None})
        assert qrels.read_text().count("\t0\n") == len(query["texts"]) - 1
        text = await client.get("/labels/text", params={"id": first})
        assert text.json()["text"] == next(one["text"] for one in query["texts"] if one["id"] == first)
        assert (await client.get("/labels/scores")).json()["systems"] == {}
        await client.post("/labels/edit", json={"number": 1, "text": "other words"})
        assert json_in(tmp_path / "out" / "queries.jsonl")["text"] == "other words"
        state = (await client.post("/labels/delete", json={"number": 1})).json()["state"]
        assert state["queries"] == []
        assert not qrels.exists()


async def test_what_is_refused(app: FastAPI) -> None:
    async with to(app) as client:
        await client.post("/labels/add", json={"text": "one"})
        for path, body, status in (
            ("add", {"text": "  ?! "}, 400), ("add", {}, 400),
            ("add", {"text": "a", "more": 1}, 400), ("add", {"text": "a" * 70_000}, 413), ("open", {"number": 2}, 400),
            ("mark", {"number": 1, "id": "s0", "level": 3}, 400), ("mark", {"number": 1, "id": "x", "level": 2}, 400),
            ("edit", {"number": 1, "text": ""}, 400), ("delete", {"number": 9}, 400),
        ):  # fmt: skip
            answer = await client.post(f"/labels/{path}", json=body)
            assert answer.status_code == status, (path, body, answer.text)
            assert answer.json()["error"]["message"]
        assert (await client.get("/labels/text", params={"id": "missing"})).status_code == 400
        assert len((await client.get("/labels")).json()["queries"]) == 1


async def test_pages_of_other_sites_change_nothing(app: FastAPI) -> None:
    body = {"text": "one"}
    async with to(app) as client:
        assert (await client.post("/labels/add", json=body, headers={"Host": "evil.example"})).status_code == 421
        other = await client.post("/labels/add", json=body, headers={"Origin": "https://evil.example"})
        assert (other.status_code, other.json()["error"]["code"]) == (403, "foreign_origin")
        assert (await client.post("/labels/add", json=body, headers={"Origin": "null"})).status_code == 403
        plain = await client.post("/labels/add", content=json.dumps(body), headers={"Content-Type": "text/plain"})
        assert plain.status_code == 415
        assert (await client.get("/labels")).json()["queries"] == []
        assert (await client.post("/labels/add", json=body, headers={"Origin": "http://127.0.0.1"})).status_code == 200


async def test_other_users_of_the_machine_see_and_mark_nothing(app: FastAPI) -> None:
    def client(**cookies: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=LOCAL, cookies=cookies)

    async with client() as stranger:
        for path in ("/", "/labels", "/labels/text?id=s0", "/page/label.js", "/nope", "/openapi.json"):
            for given in ("", "token=wrong", f"token={app.state.token}x", "token=%ff%00"):
                answer = await stranger.get(f"{path}{'&' if '?' in path else '?'}{given}")
                assert (answer.status_code, "set-cookie" in answer.headers) == (403, False), (path, given)
        assert (await stranger.post("/labels/add", json={"text": "one"})).status_code == 403
    async with client() as person:
        first = await person.get("/", params={"token": app.state.token})
        assert first.status_code == 200
        (name,) = person.cookies
        assert all(part in first.headers["set-cookie"] for part in ("HttpOnly", "SameSite=Strict", "Path=/"))
        assert (await person.post("/labels/add", json={"text": "one"})).status_code == 200
        assert len((await person.get("/labels")).json()["queries"]) == 1
    async with client(**{name: "wrong"}) as stranger:
        assert (await stranger.get("/labels")).status_code == 403


async def test_unknown_parameters_are_refused_by_every_route(app: FastAPI) -> None:
    await require_parameters_refused(app)
