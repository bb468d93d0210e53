"""`opencse serve`, `label` and `questions`."""

from __future__ import annotations

import importlib.util
import json
import re
import signal
import socket
import sys
from pathlib import Path

import httpx
import pytest

from chat_servers import ChatRule
from forked import Command, Forks
from helpers import Run, accepted, json_in, refused, write_lines
from opencse.commands import serving
from opencse.encoder.encoder import SentenceEncoder
from opencse.labelling.labels import LabelFolder
from opencse.labelling.pooling import PooledIndexes
from opencse.labelling.session import LabelSession
from opencse.search.index import Index


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(serving.KEY_VARIABLE, raising=False)


def not_served(run: Run, *arguments: object) -> str:
    return refused(run("serve", *arguments, "--device", "cpu"))


def test_a_port_in_use(opencse: Run, tiny_folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port {port} of 127.0.0.1 cannot be listened on" in not_served(opencse, tiny_folder, "--port", port)


def test_hosts_that_are_none(opencse: Run, tiny_folder: Path) -> None:
    for host in ("", "a" * 300, "192.0.2.1"):
        assert "opencse: " in not_served(opencse, tiny_folder, "--port", 0, "--host", host)


def test_keys_that_are_none(opencse: Run, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keys"
    assert "No such file" in not_served(opencse, tiny_folder, "--port", 0, "--api-key-file", file)
    for content in ("", "# only a comment\n", "two words\n", "ключ\n"):
        file.write_text(content, encoding="utf-8")
        assert "API key" in not_served(opencse, tiny_folder, "--port", 0, "--api-key-file", file)
    monkeypatch.setenv(serving.KEY_VARIABLE, " ")
    assert serving.KEY_VARIABLE in not_served(opencse, tiny_folder, "--port", 0)


def test_models_and_indexes_that_do_not_go_together(
    opencse: Run, tiny_folder: Path, encoder: SentenceEncoder, tmp_path: Path
) -> None:
    Index.build(tmp_path / "index", ["One.", "Two."], encoder).close()
    assert "would be called" in not_served(opencse, tiny_folder, tiny_folder, "--port", 0)
    assert "1 name for 2 models" in not_served(opencse, tiny_folder, "opencse-mini", "--name", "a", "--port", 0)
    assert "built with" in not_served(opencse, "opencse-mini", "--index", tmp_path / "index", "--port", 0)
    assert "missing" in not_served(opencse, tiny_folder, "--index", tmp_path / "missing", "--port", 0)
    twice = ["--index", tmp_path / "index"] * 2
    assert "has an index already" in not_served(opencse, tiny_folder, *twice, "--port", 0)
    assert "./missing" in not_served(opencse, "./missing", "--port", 0)
    for option, value in (("--port", 70_000), ("--port", "x"), ("--max-texts", 0), ("--too-long", "keep")):
        assert option in not_served(opencse, tiny_folder, option, value)


def test_a_missing_extra_is_named(opencse: Run, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    missing = "uvicorn"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == missing else find(name, *rest))
    assert 'needs uvicorn; pip install "opencse[serve]"' in not_served(opencse, tiny_folder)


@pytest.fixture
def index(tmp_path: Path, encoder: SentenceEncoder, tiny_folder: Path) -> Path:
    texts = [f"Water number {i} is cold." for i in range(20)]
    Index.build(tmp_path / "index", texts, encoder, model=str(tiny_folder)).close()
    return tmp_path / "index"


def test_scores(opencse: Run, index: Path, tmp_path: Path, encoder: SentenceEncoder) -> None:
    out, file = tmp_path / "out", tmp_path / "scores.json"
    code, _, err = opencse("label", index, "--out", out, "--score")
    assert (code, "no labels in it" in err) == (2, True)
    folder = LabelFolder(out)
    with Index.open(index, encoder=encoder) as opened, folder.opened() as labels:
        session = LabelSession(PooledIndexes({"index": opened}), folder, labels)
        for i in range(5):
            session.open_query(session.add(f"water number {i}"))
            session.mark(i + 1, str(i), 2)
    printed, _ = accepted(opencse("label", index, "--out", out, "--score", "--json", file, "--device", "cpu"))
    assert [line.split()[0] for line in printed.splitlines()[2:5]] == ["vectors", "BM25", "hybrid"]
    assert "label with its index too: opencse label INDEX INDEX --out FOLDER" in printed
    assert json_in(file)["systems"]["BM25"]["ndcg_at_10"] == 100
    assert opencse("label", index, "--out", out, "--score", "--json", file, "--device", "cpu")[0] == 2
    assert opencse("label", index, "--out", out, "--score", "--json", file, "--overwrite", "--device", "cpu")[0] == 0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
def test_a_killed_server_loses_nothing(index: Path, tmp_path: Path, forked: Forks) -> None:
    (tmp_path / "asked.txt").write_text("water number 3\nwater number 4\n")
    command = ["label", "index", "--queries", "asked.txt", "--port", 0, "--no-open", "--device", "cpu"]

    def start() -> tuple[Command, httpx.Client]:
        process = forked.start(*command, cwd=tmp_path)
        for line in process.stderr:
            if match := re.search(r"(http://127\.0\.0\.1:\d+)/\?token=(\S+)", line):
                return process, httpx.Client(base_url=match[1], params={"token": match[2]})
        raise AssertionError(f"the server has ended with {process.wait()}")

    process, page = start()
    page.post("/labels/open", json={"number": 1})
    page.post("/labels/mark", json={"number": 1, "id": "3", "level": 2})
    process.kill()
    process.wait()
    qrels = tmp_path / "queries" / "qrels" / "test.tsv"
    assert qrels.read_text().splitlines()[1:] == ["query-1\t3\t2"]
    process, page = start()
    state = page.get("/labels").json()
    assert [(query["text"], query["right"]) for query in state["queries"]] == [
        ("water number 3", 1), ("water number 4", 0),
    ]  # fmt: skip
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "1 of 2 queries have a right text" in err


TEXTS = ["Vinegar removes the limescale of years from a kettle.", "Snow fell on the hills where the children played."]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "docs.txt"
    write_lines(path, TEXTS)
    return path


def test_questions_are_written_and_what_follows_is_said(
    opencse: Run, rule: ChatRule, corpus: Path, tmp_path: Path
) -> None:
    out = tmp_path / "my pairs.jsonl"
    command = ["questions", corpus, "--endpoint", rule.url, "--model", "rule", "--out", out, "--per-document", "2"]
    stdout, stderr = accepted(opencse(*command, "--body", '{"top_p": 0.5, "temperature": null}'))
    assert "requests   2, for 2 questions each" in stderr
    assert f"opencse adapt {corpus} --questions '{out}' --out my-model" in stdout
    assert {json.loads(line)["answer"] for line in out.read_text().splitlines()} == set(TEXTS)
    assert rule.bodies[0]["top_p"] == 0.5
    assert "temperature" not in rule.bodies[0]
