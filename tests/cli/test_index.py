"""`opencse index`, `nearest`, and hits as they are printed."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console
from typer.testing import CliRunner, Result

from helpers import Run, accepted, json_in, refused
from opencse.cli.app import app
from opencse.cli.passages import LINES, best_start, blocks
from opencse.commands.index import build_index
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.static import StaticEncoder
from opencse.errors import UserError
from opencse.search.stems import stems_of
from opencse.text import sample
from opencse.text.readers import Source

ROWS = """id,text,year,lang
a1,"The cat sleeps, all day",1999,en
a2,Rain falls on the roof,2003,en
a3,Der Zug ist wieder spät,2010,de
a4,the  CAT sleeps all day,,en
"""


@pytest.fixture
def built(opencse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text(ROWS, encoding="utf-8")
    named = ("--fields", "text", "--id", "id", "--metadata", "year,lang")
    out, err = accepted(opencse("index", "build", "ix", "opencse-mini", "rows.csv", *named, "--json", "built.json"))
    assert err == "read as    a table (separated by commas), UTF-8; no title, text 'text', id 'id'\n"
    assert out == "ix: 4 texts, 448 dimensions, flat\n"
    assert json_in(Path("built.json"))["info"]["columns"] == {"year": "number", "lang": "text"}
    return tmp_path


def hits(built: Path) -> list[str]:
    (asked,) = json_in(built / "q.json")["queries"]
    return [hit["id"] for hit in asked["hits"]]


@pytest.mark.slow
def test_query_with_conditions(opencse: Run, built: Path) -> None:
    into = ("--json", "q.json", "--overwrite")
    for conditions, ids in (
        ([], ["a1", "a4", "a2", "a3"]),
        (["year>=2000"], ["a2", "a3"]),
        (["year>=2000", "year<2010"], ["a2"]),
        (['lang=["de"]'], ["a3"]),
        (["year="], ["a4"]),
        (["id=a1,a3"], ["a1", "a3"]),
    ):
        where = [word for condition in conditions for word in ("--where", condition)]
        code, out, err = opencse("index", "query", "ix", "The cat sleeps, all day", *where, *into)
        assert (code, err) == (0, "")
        assert sorted(hits(built)) == sorted(ids)
        assert "cosine" in out
    assert opencse("index", "query", "ix", "cat", "-k", 1, "--threshold", 2)[0] == 0
    out, _ = accepted(opencse("index", "query", "ix", "Zug", "--hybrid", *into))
    assert "Zug (hybrid score, cosine)" in out
    assert hits(built)[0] == "a3"


@pytest.mark.slow
def test_add_delete_info_duplicates_pairs(opencse: Run, built: Path) -> None:
    Path("more.jsonl").write_text('{"text": "More.", "key": 7}\n{"text": "Yet more.", "key": "x"}\n')
    assert opencse("index", "add", "ix", "more.jsonl", "--fields", "text", "--id", "key")[1] == "ix: 2 texts added\n"
    refused(opencse("index", "add", "ix", "more.jsonl", "--fields", "text", "--id", "key"), "the id '7' exists already")
    assert opencse("index", "add", "ix", "more.jsonl", "--fields", "text", "--id", "key", "--replace")[0] == 0
    assert opencse("index", "delete", "ix", "7", "x")[1] == "ix: 2 rows deleted\n"
    assert opencse("index", "delete", "ix", "--where", "lang=de")[1] == "ix: 1 row deleted\n"
    out = opencse("index", "info", "ix", "--json", "i.json")[1]
    assert "MB of vectors, computed in float32" in out
    assert "texts      3, 3 rows; passages of at most 128 tokens" in out
    assert "year (number), lang (text)" in out
    assert json_in(Path("i.json"))["rows"] == 3
    out = opencse("index", "duplicates", "ix", "--threshold", 0.9)[1]
    assert "a1, a4" in out
    assert "1 text repeats another" in out
    opencse("index", "pairs", "ix", "-n", 2, "--json", "p.json")
    pairs = json_in(Path("p.json"))["pairs"]
    assert (pairs[0]["first"], pairs[0]["second"]) == ("a1", "a4")
    assert len(pairs) == 2


@pytest.mark.slow
def test_a_folder_of_files_is_indexed_by_section(opencse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("manual").mkdir()
    Path("manual/kettle.md").write_text(
        "# Kettles\n\nThey boil water.\n\n## Descaling\n\nUse vinegar and rinse twice.\n"
    )
    Path("manual/trains.txt").write_text("The night train to Vienna is late.\n")
    code, out, err = opencse("index", "build", "ix", "opencse-mini", "manual")
    assert (code, err) == (0, "read as    Markdown, UTF-8\nread as    a text file as one document, UTF-8\n")
    assert out == "ix: 3 texts, 448 dimensions, flat\n"
    out, _ = accepted(opencse("index", "query", "ix", "rinse with vinegar"))
    assert 0 < out.index("kettle.md#descaling") < out.index("kettle.md#kettles")
    refused(
        opencse("index", "build", "other", "opencse-mini", "manual", "--id", "name"),
        "manual: no file in it has fields (a table, JSON, XML); leave out --fields, --id, --metadata",
    )
    accepted(opencse("check", "manual"))


LONG = " ".join(f"word{number}" for number in range(200)) + " Kettles are descaled with vinegar. " + "rest " * 200


HEAD = ["#1", "0.5000", "d7", "lang=en"]


def terminal(width: int, *, is_terminal: bool = True) -> Console:
    return Console(file=io.StringIO(), width=width, force_terminal=is_terminal)


@pytest.mark.parametrize("width", [40, 200])
@pytest.mark.parametrize("text", [LONG, "深度学习很好用。" * 200, "x" * 3_000], ids=["words", "wide", "one word"])
def test_a_hit_has_about_three_lines_of_the_width(width: int, text: str) -> None:
    head, *lines = blocks(HEAD, text, terminal(width))
    assert head == "#1  0.5000  d7  lang=en"
    assert len(lines) == LINES
    assert all(line.startswith("    ") and cell_len(line) <= width for line in lines)
    assert max(cell_len(line) for line in lines) > width - 16
    assert lines[-1].endswith("…")
    assert not lines[0].endswith("…")


def test_a_short_text_and_a_full_one_are_shown_whole() -> None:
    assert list(blocks(["#1", ""], "A  cat\nsleeps.", terminal(80))) == ["#1", "    A cat sleeps."]
    shown = " ".join(line.strip() for line in list(blocks(HEAD, LONG, terminal(80), full=True))[1:])
    assert shown == " ".join(LONG.split())


def test_elsewhere_a_hit_is_a_line_with_tabs() -> None:
    (line,) = blocks(["#1", "0.5", "a\tb"], "A\ncat\tsleeps. " * 100, terminal(80, is_terminal=False))
    assert line.split("\t") == ["#1", "0.5", "a b", " ".join(["A cat sleeps."] * 100)]


def test_the_part_that_matches_is_shown() -> None:
    stems = stems_of("english")
    _, first, *more = blocks(HEAD, LONG, terminal(80), query="descaling a KETTLE", stems=stems)
    assert first.startswith("    …")
    assert "Kettles are descaled" in " ".join([first, *more])
    for query in ("word3 rest", "nothing there", ""):
        _, first, *_ = blocks(HEAD, LONG, terminal(80), query=query, stems=stems)
        assert first.startswith("    word0 word1")


def test_a_text_without_spaces_begins_near_its_matching_characters() -> None:
    text = "やかんは毎日使う道具です。" * 20 + "水垢は酢で取り除けます。" + "最後に乾かします。" * 20
    start = best_start(text, "水垢を取り除く", 60, stems_of(None))
    assert 200 < start < text.index("水垢") < start + 60


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["nearest", *map(str, arguments)], env={"COLUMNS": "150"})


def refusal_of(*arguments: object) -> str:
    result = run(*arguments)
    assert isinstance(result.exception, UserError), result.output
    return str(result.exception)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    lines = sample.TRAIN.read_text(encoding="utf-8").splitlines()[:60]
    path = tmp_path / "captions.tsv"
    path.write_text("\n".join(f"{number}.jpg\t{line}" for number, line in enumerate(lines) if line), encoding="utf-8")
    return path


@pytest.mark.slow
def test_two_models_side_by_side(corpus: Path, tiny_folder: Path, tmp_path: Path) -> None:
    queries = tmp_path / "queries.txt"
    queries.write_text("Rain falls.\n", encoding="utf-8")
    result = run(
        "opencse-mini", tiny_folder, "--corpus", corpus, "--columns", 2, "--query", "A cat sleeps.",
        "--queries", queries, "-k", 2, "--json", tmp_path / "n.json", "--device", "cpu",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "opencse-mini" in result.stdout
    assert "A cat sleeps." in result.stdout
    data = json_in(tmp_path / "n.json")
    assert [asked["query"] for asked in data["queries"]] == ["A cat sleeps.", "Rain falls."]
    assert data["source"] == str(corpus)
    for asked in data["queries"]:
        assert [len(found) for found in asked["models"].values()] == [2, 2]
        assert list(asked["models"]) == ["opencse-mini", str(tiny_folder)]


@pytest.mark.slow
def test_a_corpus_is_encoded_once(corpus: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []

    def counting(encode: Callable[..., Any]) -> Callable[..., Any]:
        def counted_encode(self: object, texts: list[str], **named: Any) -> Any:
            counted.append(len(texts))
            return encode(self, texts, **named)

        return counted_encode

    for encoder in (SentenceEncoder, StaticEncoder):
        monkeypatch.setattr(encoder, "encode", counting(encoder.encode))
    asked = ("opencse-mini", tiny_folder, "--corpus", corpus, "--columns", 2, "-q", "A cat sleeps.", "--device", "cpu")
    first = run(*asked)
    assert sum(counted) > 100
    counted.clear()
    again = run(*asked)
    assert counted == [1, 1]  # the query, by each model
    assert again.stdout == first.stdout
    counted.clear()
    assert run(*asked, "--no-cache").stdout == first.stdout
    assert sum(counted) > 100
    lines = corpus.read_text(encoding="utf-8").splitlines()
    corpus.write_text("\n".join([*lines[:-1], "x.jpg\tA cat sleeps in the sun."]), encoding="utf-8")
    assert "A cat sleeps in the sun." in run(*asked).stdout.replace("\n", " ")
    assert len(list(corpus.with_name("captions.tsv.index").iterdir())) == 2  # one for each model


@pytest.mark.slow
def test_indexes_in_place_of_a_corpus(corpus: Path, tiny_folder: Path, tmp_path: Path) -> None:
    source = Source(str(corpus), columns=("2",))
    build_index(tmp_path / "a", "opencse-mini", source, cut=False, device="cpu")
    build_index(tmp_path / "b", tiny_folder, source, cut=False, device="cpu")
    models = ("opencse-mini", tiny_folder, "-q", "A cat sleeps.", "--device", "cpu")
    both = run(*models, "--index", tmp_path / "a", "--index", tmp_path / "b")
    assert both.stdout == run(*models, "--corpus", corpus, "--columns", 2).stdout
    assert "1 index for 2 models" in refusal_of(*models, "--index", tmp_path / "a")
    assert "was built with" in refusal_of(*models, "--index", tmp_path / "b", "--index", tmp_path / "a")
    assert "give either a corpus" in refusal_of(*models)
    assert "give either a corpus" in refusal_of(*models, "--corpus", corpus, "--index", tmp_path / "a")
    build_index(tmp_path / "c", tiny_folder, ["Other."], device="cpu")
    assert "holds other texts" in refusal_of(*models, "--index", tmp_path / "a", "--index", tmp_path / "c")
