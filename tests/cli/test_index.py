"""``opencse index``: what each command prints and writes, and what it refuses in a line."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

import opencse as public
from helpers import Run
from opencse.cli.index import index
from opencse.text import sample

pytestmark = pytest.mark.slow


FUNCTIONS = {
    "build": "build_index", "add": "add_to_index", "delete": "delete_from_index", "query": "query_index",
    "info": "index_info", "pairs": "index_pairs", "duplicates": "index_duplicates", "negatives": "index_negatives",
    "export": "export_index", "check": "check_index", "tune": "tune_index",
}  # fmt: skip
OTHERWISE = {"texts": "queries", **dict.fromkeys(
    ("count", "first", "last", "ceiling", "floor", "same", "pick", "seed"), "how")}  # fmt: skip
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
    code, out, err = opencse("index", "build", "ix", "opencse-mini", "rows.csv", *named, "--json", "built.json")
    assert code == 0
    assert err == "read as    a table (separated by commas), UTF-8; no title, text 'text', id 'id'\n"
    assert out == "ix: 4 texts, 448 dimensions, flat\n"
    assert json.loads(Path("built.json").read_text())["info"]["columns"] == {"year": "number", "lang": "text"}
    return tmp_path


def test_every_command_has_its_function() -> None:
    commands = {one.callback.__name__: one.callback for one in index.registered_commands if one.callback}
    assert commands.keys() == FUNCTIONS.keys()
    for name, command in commands.items():
        known = inspect.signature(getattr(public, FUNCTIONS[name])).parameters
        refused = {"columns"} if name in ("build", "add") else set()
        for option in inspect.signature(command).parameters.keys() - {"json_file", "full"} - refused:
            assert OTHERWISE.get(option, option) in known, (name, option)
        source = inspect.getsource(command)
        assert f"{FUNCTIONS[name]}(" in source


def hits(built: Path) -> list[str]:
    (asked,) = json.loads((built / "q.json").read_text(encoding="utf-8"))["queries"]
    return [hit["id"] for hit in asked["hits"]]


def test_query_with_conditions(opencse: Run, built: Path) -> None:
    for conditions, ids in (
        ([], ["a1", "a4", "a2", "a3"]),
        (["year>=2000"], ["a2", "a3"]),
        (["year>=2000", "year<2010"], ["a2"]),
        (["lang=de,fr"], ["a3"]),
        (["lang!=en"], ["a3"]),
        (['lang=["de"]'], ["a3"]),
        (["year="], ["a4"]),
        (["id=a1,a3"], ["a1", "a3"]),
    ):
        where = [word for condition in conditions for word in ("--where", condition)]
        code, out, err = opencse("index", "query", "ix", "The cat sleeps, all day", *where, "--json", "q.json")
        assert (code, err) == (0, "")
        assert sorted(hits(built)) == sorted(ids)
        assert "cosine" in out
    assert opencse("index", "query", "ix", "cat", "-k", 1, "--threshold", 2)[0] == 0
    code, out, _ = opencse("index", "query", "ix", "Zug", "--hybrid", "--json", "q.json")
    assert code == 0
    assert "Zug (hybrid score, cosine)" in out
    assert hits(built)[0] == "a3"


def test_add_delete_info_duplicates_pairs(opencse: Run, built: Path) -> None:
    Path("more.jsonl").write_text('{"text": "More.", "key": 7}\n{"text": "Yet more.", "key": "x"}\n')
    assert opencse("index", "add", "ix", "more.jsonl", "--fields", "text", "--id", "key")[1] == "ix: 2 texts added\n"
    code, _, err = opencse("index", "add", "ix", "more.jsonl", "--fields", "text", "--id", "key")
    assert code == 2
    assert "the id '7' exists already" in err
    assert opencse("index", "add", "ix", "more.jsonl", "--fields", "text", "--id", "key", "--replace")[0] == 0
    assert opencse("index", "delete", "ix", "7", "x")[1] == "ix: 2 rows deleted\n"
    assert opencse("index", "delete", "ix", "--where", "lang=de")[1] == "ix: 1 row deleted\n"
    out = opencse("index", "info", "ix", "--json", "i.json")[1]
    assert "MB of vectors, computed in float32" in out
    assert "texts      3, 3 rows; passages of at most 128 tokens" in out
    assert "year (number), lang (text)" in out
    assert json.loads(Path("i.json").read_text())["rows"] == 3
    out = opencse("index", "duplicates", "ix", "--threshold", 0.9)[1]
    assert "a1, a4" in out
    assert "1 text repeats another" in out
    opencse("index", "pairs", "ix", "-n", 2, "--json", "p.json")
    pairs = json.loads(Path("p.json").read_text(encoding="utf-8"))["pairs"]
    assert (pairs[0]["first"], pairs[0]["second"]) == ("a1", "a4")
    assert len(pairs) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("build", "ix", "opencse-mini", "rows.csv", "--fields", "text"), "holds an index"),
        (("build", "new", "opencse-mini", "rows.csv", "--fields", "txt"), "no column 'txt'"),
        (("build", "new", "opencse-mini", "rows.csv", "--fields", "text", "--metadata", "yaer"), "no column 'yaer'"),
        (
            ("build", "new", "opencse-mini", "rows.csv", "--fields", "text", "--metadata", "id"),
            "is no metadata",
        ),
        (("build", "new", "opencse-mini", "none.csv"), "no such file"),
        (
            ("build", "new", "opencse-mini", "rows.csv", "--fields", "text", "--kind", "tree"),
            "Invalid value for '--kind': 'tree' is not one of 'flat', 'hnsw', 'ivfpq'",
        ),
        (("build", "new", "opencse-mini", "rows.csv", "--fields", "text", "--kind", "ivfpq"), "use --kind flat"),
        (("build", "new", "opencse-mini", "rows.csv", "--fields", "text", "--overlap", 500), "overlap 500"),
        (("build", "rows.csv", "opencse-mini", "rows.csv", "--fields", "text"), "is also an input"),
        (("query", "nowhere", "x"), "holds no index"),
        (("query", "ix"), "no query"),
        (("query", "ix", " "), "a query is blank"),
        (("query", "ix", "x", "--where", "colour=red"), "unknown column 'colour'"),
        (("query", "ix", "x", "--where", "year"), "a condition is COLUMN=VALUE"),
        (("query", "ix", "x", "--where", "year>1", "--where", "year>2"), "given twice"),
        (("query", "ix", "x", "--where", "year>abc"), "the column holds numbers, and 'abc' is none"),
        (("query", "ix", "x", "--hybrid", "--threshold", 0.5), "no threshold"),
        (("delete", "ix"), "give either ids or conditions"),
        (("delete", "ix", "a9"), "no row has the id 'a9'"),
        (("pairs", "nowhere"), "holds no index"),
        (("duplicates", "ix", "--threshold", 3), "cosine above 0"),
        (("negatives", "ix", "rows.csv", "--out", "x.jsonl"), "query and positive"),
        (("export", "ix", "redis", "x"), "unknown store 'redis'"),
    ],
)
def test_bad_input_is_one_line(opencse: Run, built: Path, arguments: tuple[object, ...], message: str) -> None:
    code, _, err = opencse("index", *arguments)
    assert code == 2
    assert message in err
    assert len([line for line in err.splitlines() if not line.startswith("read as ")]) == 1
    assert not (built / "new" / "index.json").exists()


def test_negatives_of_a_file(opencse: Run, built: Path) -> None:
    lines = [line for line in sample.TRAIN.read_text(encoding="utf-8").splitlines() if line][:60]
    Path("pairs.tsv").write_text("\n".join(["anchor\tpositive", *(f"{line[:-1]}\t{line}" for line in lines)]))
    assert opencse("index", "build", "s", "opencse-mini", "pairs.tsv", "--fields", "positive")[0] == 0
    code, out, err = opencse("index", "negatives", "s", "pairs.tsv", "--out", "t.jsonl", "--count", 2)
    assert (code, err) == (0, "")
    assert out.startswith("t.jsonl: 1")
    first = json.loads(Path("t.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert first.keys() == {"anchor", "positive", "negative"}
    assert first["negative"] in lines


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
    code, out, err = opencse("index", "query", "ix", "rinse with vinegar")
    assert code == 0, err
    assert 0 < out.index("kettle.md#descaling") < out.index("kettle.md#kettles")
    code, _, err = opencse("index", "build", "other", "opencse-mini", "manual", "--id", "name")
    assert code == 2
    assert "manual: no file in it has fields (a table, JSON, XML); leave out --fields, --id, --metadata" in err
    code, _, err = opencse("check", "manual")
    assert code == 0, err


def test_documents_in_beirs_layout_keep_their_ids(
    opencse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("beir").mkdir()
    lines = [{"_id": "d7", "title": "Kettles", "text": "They boil water."}, {"_id": "d9", "text": "Trains are late."}]
    Path("beir/corpus.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert opencse("index", "build", "ix", "opencse-mini", "beir")[0] == 0
    _, out, _ = opencse("index", "query", "ix", "hot water")
    assert out.index("d7") < out.index("d9")
    assert "Kettles" in out


def test_the_weight_of_hybrid_search_is_tuned_and_named(opencse: Run, tmp_path: Path) -> None:
    lines = [line for line in sample.TRAIN.read_text(encoding="utf-8").splitlines() if line][:160]
    texts = [f"{one} {other}" for one, other in zip(lines[::2], lines[1::2], strict=True)]
    (tmp_path / "texts.txt").write_text("\n".join(texts), encoding="utf-8")
    index = tmp_path / "tuned"
    assert opencse("index", "build", index, "opencse-mini", tmp_path / "texts.txt")[0] == 0
    code, stdout, err = opencse("index", "tune", index, "--json", tmp_path / "tuned.json")
    assert code == 0, err
    record = json.loads((tmp_path / "tuned.json").read_text())
    weight = f"weight of the vectors {record['weight']:.2f} ({record['source']})"
    assert weight in stdout
    assert weight in opencse("index", "info", index)[1]
    assert weight in opencse("index", "query", index, "a man", "--hybrid")[2]


def test_add_reads_a_file_as_the_build_did(opencse: Run, built: Path) -> None:
    Path("more.csv").write_text("id,text,year\na1,A new first text,2020\n", encoding="utf-8")
    assert "read with  --fields text --id id\n" in opencse("index", "info", "ix")[1]
    assert "the id 'a1' exists already" in opencse("index", "add", "ix", "more.csv")[2]
    assert opencse("index", "add", "ix", "more.csv", "--replace")[:2] == (0, "ix: 1 text added\n")
    Path("other.csv").write_text("name,body\nx,Rain\n", encoding="utf-8")
    code, _, err = opencse("index", "add", "ix", "other.csv")
    assert code == 2
    assert "ix was built with --fields text --id id: name those of this text with --fields" in err
    assert opencse("index", "add", "ix", "other.csv", "--fields", "body")[0] == 0
