"""``opencse label``: what is refused, ``--score``, and a server that is killed and started again."""

from __future__ import annotations

import json
import re
import signal
import sys
from pathlib import Path

import httpx
import pytest

from forked import Command, Forks
from helpers import Run
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.opening import load
from opencse.labelling.label_folder import LabelFolder
from opencse.labelling.pooling import PooledIndexes
from opencse.labelling.session import LabelSession
from opencse.search.index import Index


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
    code, printed, _ = opencse("label", index, "--out", out, "--score", "--json", file, "--device", "cpu")
    assert code == 0
    assert [line.split()[0] for line in printed.splitlines()[2:5]] == ["vectors", "BM25", "hybrid"]
    assert "label with its index too: opencse label INDEX INDEX --out FOLDER" in printed
    assert json.loads(file.read_text())["systems"]["BM25"]["ndcg_at_10"] == 100
    assert opencse("label", index, "--out", out, "--score", "--json", file, "--device", "cpu")[0] == 0


def test_scores_of_two_indexes(opencse: Run, index: Path, tmp_path: Path, encoder: SentenceEncoder) -> None:
    texts = [f"Water number {i} is cold." for i in range(20)]
    other, less, out = tmp_path / "sub" / "index", tmp_path / "less", tmp_path / "out"
    for folder, rows in ((other, texts), (less, texts[:19])):
        Index.build(folder, rows, load("opencse-mini"), model="opencse-mini").close()
    label_folder = LabelFolder(out)
    with (
        Index.open(index, encoder=encoder) as one,
        Index.open(other) as two,
        label_folder.opened() as labels,
    ):
        session = LabelSession(PooledIndexes({"one": one, "two": two}), label_folder, labels)
        for i in range(5):
            session.open_query(session.add(f"water number {i}"))
            session.mark(i + 1, str(i), 2)
    code, printed, _ = opencse("label", index, other, "--out", out, "--score", "--device", "cpu")
    assert code == 0
    assert f"differences are from vectors of {index}" in printed, "both folders are called index"
    assert [line.split("  ")[0] for line in printed.splitlines()[2:7]] == [
        f"vectors of {index}", f"vectors of {other}", "BM25", f"hybrid of {index}", f"hybrid of {other}",
    ]  # fmt: skip
    for arguments, message in (
        ((index, less), "index (20 texts) and less (19 texts) are not indexes of the same texts and ids"),
        ((index, index), "an index is named twice"),
        ((index, other, "--model", "opencse-mini"), "--model is the model of one index"),
    ):
        for more in (("--score",), ("--port", 0, "--no-open")):
            code, _, err = opencse("label", *arguments, "--out", out, "--device", "cpu", *more)
            assert (code, message in err.splitlines()[-1]) == (2, True), err


def test_what_is_refused(opencse: Run, index: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file.txt").write_text("mine\n")
    (tmp_path / "empty.txt").write_text("")
    for arguments, message in (
        (("--out", tmp_path / "mine"), "is not empty"),
        (("--out", ""), "--out is empty"),
        (("--out", tmp_path / "out", "--json", tmp_path / "a.json"), "--json is for scores"),
        (("--out", tmp_path / "out", "--queries", tmp_path / "missing.txt"), "missing.txt"),
        (("--out", tmp_path / "out", "--queries", tmp_path / "empty.txt"), "empty.txt"),
        (("--out", tmp_path / "out", "--split", "1.5"), "--split"),
        (("--out", tmp_path / "out", "--depth", "0"), "--depth"),
    ):
        code, _, err = opencse("label", index, *arguments, "--port", 0, "--no-open", "--device", "cpu")
        assert code == 2, arguments
        assert message in err.splitlines()[-1]
    assert (tmp_path / "mine" / "file.txt").read_text() == "mine\n"
    assert not (tmp_path / "out").exists()
    code, _, err = opencse("label", tmp_path / "nothing", "--out", tmp_path / "out")
    assert code == 2


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
def test_a_killed_server_loses_nothing(index: Path, tmp_path: Path, forked: Forks) -> None:
    (tmp_path / "asked.txt").write_text("water number 3\nwater number 4\n")
    command = ["label", "index", "--queries", "asked.txt", "--port", 0, "--no-open", "--device", "cpu"]

    def start() -> tuple[Command, str]:
        process = forked.start(*command, cwd=tmp_path)
        for line in process.stderr:
            if match := re.search(r"http://127\.0\.0\.1:\d+", line):
                return process, match[0]
        raise AssertionError(f"the server has ended with {process.wait()}")

    process, address = start()
    httpx.post(f"{address}/labels/open", json={"number": 1})
    httpx.post(f"{address}/labels/mark", json={"number": 1, "id": "3", "level": 2})
    process.kill()
    process.wait()
    qrels = tmp_path / "queries" / "qrels" / "test.tsv"
    assert qrels.read_text().splitlines()[1:] == ["query-1\t3\t2"]
    process, address = start()
    state = httpx.get(f"{address}/labels").json()
    assert [(query["text"], query["right"]) for query in state["queries"]] == [
        ("water number 3", 1), ("water number 4", 0),
    ]  # fmt: skip
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "1 of 2 queries have a right text" in err
