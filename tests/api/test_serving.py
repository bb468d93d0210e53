"""`serve` and `label` through Python."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import opencse
from helpers import Heard, write_lines
from opencse.commands import serving
from opencse.commands.serving import KEY_VARIABLE
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.search.index import Index
from opencse.search.rows import IndexRow
from serving.harness import to


def test_keys_come_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    assert serving._keys(None) == []
    monkeypatch.setenv(KEY_VARIABLE, " secret ")
    assert serving._keys(None) == ["secret"]
    file = tmp_path / "keys.txt"
    file.write_text("# a comment\none\n\ntwo\n")
    assert serving._keys(file) == ["one", "two"]


TEXTS = [f"Water number {i} is cold in the cup of the house." for i in range(40)]


@pytest.fixture
def index(tmp_path: Path, encoder: SentenceEncoder, tiny_folder: Path) -> Path:
    """Forty texts whose ids are numbers."""
    rows = [IndexRow(text, str(i)) for i, text in enumerate(TEXTS)]
    Index.build(tmp_path / "index", rows, encoder, model=str(tiny_folder)).close()
    return tmp_path / "index"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, int]], list[Any]]:
    """Replaces the server: a person marks the text of an id as right for each query, and stops it."""
    seen: list[Any] = []

    def use(answers: dict[str, int]) -> list[Any]:
        async def person(app: Any) -> None:
            async with to(app) as client:
                state = (await client.get("/labels")).json()
                seen.append(state)
                for query in state["queries"]:
                    number = query["number"]
                    await client.post("/labels/open", json={"number": number})
                    mark = {"number": number, "id": str(answers[query["text"]]), "level": 2}
                    assert (await client.post("/labels/mark", json=mark)).status_code == 200
                    await client.post("/labels/finish", json={"number": number, "finished": True})

        def run(app: Any, listening: Any, *, grace: float, ready: Callable[[], None]) -> None:
            ready()
            asyncio.run(person(app))

        monkeypatch.setattr("opencse.serving.server.run", run)
        return seen

    return use


@pytest.mark.slow
def test_from_labels_to_evaluate_and_adapt(
    index: Path, served: Callable[..., Any], tmp_path: Path, tiny_folder: Path, encoder: SentenceEncoder
) -> None:
    queries = [f"cold water number {i} in a cup" for i in range(40)]
    answers = {query: i for i, query in enumerate(queries)}
    reporter, out = Heard(), tmp_path / "out"
    seen = served(answers)
    opencse.label(index, out, queries=queries, split=0.5, port=0, device="cpu", progress=reporter)
    assert [query["split"] for query in seen[0]["queries"]] == ["test", "dev"] * 20
    assert "40 queries added" in reporter.said
    assert any("is the page; every mark is saved in" in line and "http://127.0.0.1:" in line for line in reporter.said)
    assert f"{out}: 40 of 40 queries have a right text" in reporter.said

    scores = opencse.label_scores(index, out, device="cpu")
    assert (scores.queries, list(scores.systems)) == (40, ["vectors", "BM25", "hybrid"])
    result = opencse.evaluate(tiny_folder, suite="retrieval", data=out, device="cpu")
    score = result["out", "ndcg_at_10"]
    assert (score.n, score.extras["documents"], score.extras["without_relevant"]) == (20, 40, 0)
    tuned = opencse.tune_index(index, dev=out, device="cpu")
    assert tuned.questions == 20
    assert opencse.index_info(index).hybrid == tuned.weight

    corpus = tmp_path / "corpus.txt"
    write_lines(corpus, [*TEXTS, *(f"Another text of number {i} about houses." for i in range(60))])
    adapted = tmp_path / "adapted"
    opencse.adapt(
        corpus,
        model=tiny_folder,
        out=adapted,
        dev=out,
        device="cpu",
        settings=["training.max_steps=2"],
        progress=reporter,
    )
    assert any("20 queries among 40 documents" in line for line in reporter.said), "the dev queries alone"
    assert (adapted / "modules.json").exists() or (adapted / "config.json").exists()

    served({**answers, "another water number 9": 9})
    opencse.label(index, out, queries=["another water number 9", queries[0]], port=0, device="cpu", progress=reporter)
    assert f"{out}: continues with 40 queries, 40 of them answered" in reporter.said
    assert "1 query added" in reporter.said
    assert "50% of the queries are dev queries, the others are test queries" in reporter.said


def test_what_is_refused(index: Path, tmp_path: Path, served: Callable[..., Any]) -> None:
    served({})
    out = tmp_path / "out"
    for message, call in (
        ("query 2: the query has no letter", lambda: opencse.label(index, out, queries=["a", "?"])),
        ("is also an input", lambda: opencse.label(index, index)),
        ("is inside the input", lambda: opencse.label(index, index / "out")),
        ("no index; give the folder of one", lambda: opencse.label([], out)),
        ("no labels in it", lambda: opencse.label_scores(index, out)),
    ):  # fmt: skip
        with pytest.raises(UserError, match=message):
            call()
    assert not out.exists()
