import bz2
import gzip
import json
import lzma
import os
import shutil
from pathlib import Path

import datasets
import pyarrow
import pyarrow.parquet
import pytest

from opencse.errors import UserError
from opencse.text.readers import Source, Texts, read_line_numbers


def read(path: Path, content: str | bytes, columns: str | None = None, skip: tuple[int, ...] = ()) -> Texts:
    """The texts of a file with ``content``; columns as on the command line."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return Source(str(path), tuple(columns.split(",")) if columns else None, skip_lines=frozenset(skip)).read()


def write_parquet(path: Path, columns: dict[str, list[object]]) -> Path:
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


@pytest.fixture
def dataset_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`datasets` keeps its copies in the test's own folder."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets-cache")


def write_dataset(folder: Path, rows: list[dict[str, object]]) -> Path:
    folder.mkdir()
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_txt_has_a_sentence_a_line_and_blank_lines_between_documents(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    texts = read(path, "\ufeff\r\none, 1\r\n two\t \r\n\r\n \r\nthree\r\nfour\r\n\r\nfive\r\n\r\n")
    assert texts.rows == [("one, 1",), ("two",), ("three",), ("four",), ("five",)]
    assert texts.documents == [0, 0, 1, 1, 2]
    assert (texts.width, texts.source) == (1, str(path))


def test_txt_without_blank_lines_between_has_no_documents(tmp_path: Path) -> None:
    assert read(tmp_path / "a.txt", "\n\none\ntwo\n\n").documents is None


def test_compressed_text(tmp_path: Path) -> None:
    content = "one\n\ntwo ü\n".encode()
    for suffix, pack in ((".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)):
        texts = read(tmp_path / f"a.txt{suffix}", pack(content))
        assert (texts.rows, texts.documents) == ([("one",), ("two ü",)], [0, 1])
    table = gzip.compress(b"anchor,positive\na,b\n")
    assert read(tmp_path / "a.csv.gz", table).rows == [("a", "b")]


def test_csv_has_a_header_quotes_and_line_breaks_inside_them(tmp_path: Path) -> None:
    content = '\ufeff\r\nid, anchor ,positive\r\n1,"a, ""b""","c\r\nd"\r\n\r\n,,\r\n2,e "f" g, h \r\n'
    texts = read(tmp_path / "a.csv", content)
    assert texts.rows == [('a, "b"', "c\nd"), ('e "f" g', "h")]
    assert texts.documents is None


def test_csv_by_position_has_no_header(tmp_path: Path) -> None:
    content = "x,one,uno\ny,two,due\n"
    assert read(tmp_path / "a.csv", content, "3,2").rows == [("uno", "one"), ("due", "two")]
    assert read(tmp_path / "a.csv", content, "2").rows == [("one",), ("two",)]


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.txt"])
def test_a_quotation_mark_between_tabs_is_text_unless_the_table_is_quoted(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text('id\ttext\n1\t"Boil it.\n2\tNow wait.\n3\tServe it."\n4\tYes.\n')
    assert [row for (row,) in Source(str(path)).read().rows] == ['"Boil it.', "Now wait.", 'Serve it."', "Yes."]
    assert Source(str(path), quoted=True).read().rows == [("Boil it.\n2\tNow wait.\n3\tServe it.",), ("Yes.",)]
    assert Source(str(path)).fingerprint() != Source(str(path), quoted=True).fingerprint()
    rows = [f"{number}\tIt is number {number}.\n" for number in range(2, 30)]
    path.write_text('id\ttext\n1\t"Boil\nit."\n' + "".join(rows))
    with pytest.raises(UserError, match=r", line 2: 2|, line 3: 1 column, but line 1 has 2; .* add --quoted"):
        Source(str(path)).read()
    assert Source(str(path), quoted=True).read().rows[:2] == [("Boil\nit.",), ("It is number 2.",)]
    path.write_text('"id"\t"text"\n' + "".join(rows))
    with pytest.raises(UserError, match=r'columns there: "id", "text" \(in quotes: add --quoted\)'):
        Source(str(path)).read()


def test_jsonl_has_named_columns_in_any_order(tmp_path: Path) -> None:
    content = '{"positive": "b", "anchor": "a", "n": 1}\n\n{"anchor": "c \\u00e9\\nx", "positive": "d"}'
    assert read(tmp_path / "a.jsonl", content).rows == [("a", "b"), ("c é\nx", "d")]


def test_parquet(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", {"n": [1, 2], "text": ["one ", "two"], "other": ["x", "y"]})
    assert Source(str(path)).read().rows == [("one",), ("two",)]
    assert Source(str(path), ("other", "text")).read().rows == [("x", "one"), ("y", "two")]
    with pytest.raises(UserError, match="the column 'text' is named twice"):
        Source(str(path), ("text", "text"))
    assert Source(str(path), skip_lines=frozenset({1})).read().rows == [("two",)]


@pytest.mark.usefixtures("dataset_cache")
def test_data_set_of_a_folder(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"anchor": f"a{n} ", "positive": f"p{n}", "n": n} for n in range(2_500)]
    folder = write_dataset(tmp_path / "pairs", rows)
    source = Source(str(folder), skip_lines=frozenset({2}))
    texts = source.read()
    assert len(texts.rows) == 2_499
    assert texts.rows[:2] == [("a0", "p0"), ("a2", "p2")]
    assert texts.rows[-1] == ("a2499", "p2499")
    assert (texts.documents, texts.source) == (None, f"{folder} [train]")
    assert not source.is_file
    part = Source(str(folder), ("positive",), split="train[:3]").read()
    assert part.rows == [("p0",), ("p1",), ("p2",)]


@pytest.mark.parametrize(
    ("header", "chosen"),
    [
        ("text,sentence", 1),
        ("label,text", 1),
        ("sentence,anchor,positive", 2),
        ("anchor,text,negative", 1),
        ("anchor,positive,negative,text", 3),
    ],
)
def test_default_columns_are_the_fullest_set_there(tmp_path: Path, header: str, chosen: int) -> None:
    names = header.split(",")
    texts = read(tmp_path / "a.csv", f"{header}\n{','.join(name[:3] for name in names)}\n")
    wanted = {1: ("sen",) if "sentence" in names else ("tex",), 2: ("anc", "pos"), 3: ("anc", "pos", "neg")}
    assert texts.rows == [wanted[chosen]]
    assert texts.width == chosen


@pytest.mark.parametrize(
    ("name", "content", "rows"),
    [
        ("a.txt", "one\n\ntwo\nthree\n", [("one",), ("three",)]),
        ("a.csv", 'text\n"two\nlines"\nfour\n"five\n5"\n', [("two\nlines",), ("five\n5",)]),
        ("a.tsv", "text\none\nthree\nfour\n", [("one",), ("four",)]),
        ("a.jsonl", '{"text": "a"}\n{"text": "b"}\n{"text": ""}\n{"text": "d"}\n', [("a",), ("b",), ("d",)]),
    ],
)
def test_skipped_lines_are_lines_of_the_file(
    tmp_path: Path, name: str, content: str, rows: list[tuple[str, ...]]
) -> None:
    skip = {"a.txt": 3, "a.csv": 4, "a.tsv": 3, "a.jsonl": 3}[name]
    assert read(tmp_path / name, content, skip=(skip,)).rows == rows


def test_skipping_keeps_documents_apart(tmp_path: Path) -> None:
    texts = read(tmp_path / "a.txt", "one\n\ntwo\n\nthree\nfour\n", skip=(3, 5))
    assert (texts.rows, texts.documents) == ([("one",), ("four",)], [0, 2])


def test_line_numbers_file(tmp_path: Path) -> None:
    path = tmp_path / "skip.txt"
    path.write_text("3\n\n 12 \n3\n")
    assert read_line_numbers(path) == {3, 12}


@pytest.mark.parametrize(
    ("location", "is_file"),
    [
        ("a.txt", True),
        ("data/absent.csv.gz", True),
        ("./data/wiki", True),
        ("/data/wiki", True),
        ("a/b/c", True),
        ("absent", True),
        ("owner/name", False),
    ],
)
def test_what_is_a_file_and_what_a_hub_id(location: str, is_file: bool) -> None:
    assert Source(location).is_file is is_file


def test_a_folder_is_a_data_set_and_a_file_with_any_name_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owner").mkdir()
    (tmp_path / "owner" / "name").write_text("x")
    assert Source("owner/name").is_file
    assert not Source("owner").is_file


def test_fingerprint_is_of_content_and_reading(tmp_path: Path) -> None:
    def fingerprint(name: str, content: str = "text\none\ntwo\n", **how: object) -> str:
        path = tmp_path / name
        path.write_text(content)
        return Source(str(path), **how).fingerprint()  # type: ignore[arg-type]

    assert fingerprint("a.csv") == fingerprint("b.csv")
    assert fingerprint("a.csv", skip_lines=frozenset({2, 9})) == fingerprint("a.csv", skip_lines=frozenset({9, 2}))
    different = [
        fingerprint("a.csv"),
        fingerprint("a.csv", "text\none\ntwO\n"),
        fingerprint("a.csv", columns=("text",)),
        fingerprint("a.csv", columns=("1",)),
        fingerprint("a.csv", skip_lines=frozenset({2})),
        fingerprint("a.tsv"),
        fingerprint("a.txt"),
    ]
    assert len(set(different)) == len(different)


@pytest.mark.usefixtures("dataset_cache")
def test_fingerprint_of_a_data_set_is_of_its_rows(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"text": "one", "n": 1}, {"text": "two", "n": 2}]
    folder = write_dataset(tmp_path / "one", rows)
    first = Source(str(folder)).fingerprint()
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    os.utime(copy / "train.jsonl", (1, 1))
    assert Source(str(copy)).fingerprint() == first
    other = write_dataset(tmp_path / "other", [rows[0], {"text": "twO", "n": 2}])
    assert Source(str(other)).fingerprint() != first
    assert Source(str(folder), skip_lines=frozenset({1})).fingerprint() != first
    assert Source(str(folder), split="train[:1]").fingerprint() != first


def test_files_of_a_pattern_are_one_text(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "a.txt").write_text("one\ntwo\n\nthree\n")
    (tmp_path / "b" / "c.txt").write_text("four\n")
    (tmp_path / "b" / "d.txt").write_text("\nfive\n\n\nsix\n")
    (tmp_path / "b" / "e.csv").write_text("text\nno\n")
    source = Source(str(tmp_path / "**" / "*.txt"))
    read = source.read()
    assert [row[0] for row in read.rows] == ["one", "two", "three", "four", "five", "six"]
    assert read.documents == [0, 0, 1, 2, 3, 4]
    assert [record.number for record, _ in source.examples()] == [1, 2, 3, 4, 5, 6]
    assert (source.unit, source.name) == ("row", source.location)
    assert [record.values for record in source.records(None)] == list(read.rows)
    before = source.fingerprint()
    (tmp_path / "b" / "c.txt").write_text("five\n")
    assert Source(source.location).fingerprint() != before
    assert Source(str(tmp_path / "a.tx?")).read().rows == Source(str(tmp_path / "a.txt")).read().rows


def test_tables_of_a_pattern(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text(f"anchor,positive\n{name}1,{name}2\n")
    read = Source(str(tmp_path / "*.csv")).read()
    assert (read.rows, read.documents) == ([("a1", "a2"), ("b1", "b2")], None)
    (tmp_path / "c.csv").write_text("text\none\n")
    with pytest.raises(UserError, match=r"c\.csv: 1 text per row, but 2 in the files before it"):
        Source(str(tmp_path / "*.csv")).read()


def test_patterns_that_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\xff")
    (tmp_path / "b[1].txt").write_text("one\n")
    with pytest.raises(UserError, match="no file has such a name"):
        Source(str(tmp_path / "*.csv")).read()
    with pytest.raises(UserError, match="no common numbers"):
        Source(str(tmp_path / "*.txt"), skip_lines=frozenset({1})).read()
    assert Source(str(tmp_path / "b[1].txt")).unit == "line"  # a file of that very name
    (tmp_path / "a.txt").write_bytes(b"one\n\xff\n")
    with pytest.raises(UserError, match=r"a\.txt, line 2: not UTF-8"):
        Source(str(tmp_path / "*.txt")).read()


def test_rows_of_a_table_next_to_running_text_are_documents(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("One.\nTwo.\n\nThree.\n")
    (tmp_path / "b.csv").write_text("sentence\nFour.\nFive.\n")
    (tmp_path / "c.txt").write_text("Six.\nSeven.\n")
    assert Source(str(tmp_path / "[abc].*")).read().documents == [0, 0, 1, 2, 3, 4, 4]
    assert Source(str(tmp_path / "[ab].*")).read().documents == [0, 0, 1, 2, 3]
    (tmp_path / "d.csv").write_text("sentence\nEight.\n")
    assert Source(str(tmp_path / "[bd].csv")).read().documents is None


@pytest.mark.parametrize(
    ("name", "content", "columns", "column"),
    [
        (
            "a.csv",
            "sentence1,sentence2,score\nA cat.,A dog.,0.5\nRain.,Snow.,3\n",
            "sentence1,sentence2,score",
            "score",
        ),
        ("a.tsv", "label\ttext\n1\tA cat.\n-1\tRain.\n", "label,text", "label"),
        ("a.csv", "A cat.,50 %\nRain.,1e-3\n", "1,2", "2"),
        ("a.jsonl", '{"anchor": "A cat.", "positive": "1.5"}\n', None, "positive"),
        ("a.jsonl", '{"a": "A cat.", "b": 0.5}\n', "a,b", "b"),
    ],
)
def test_scores_are_no_texts(tmp_path: Path, name: str, content: str, columns: str | None, column: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match="choose a recipe that learns from it") as caught:
        Source(str(tmp_path / name), tuple(columns.split(",")) if columns else None).read()
    assert f"column {column!r} holds" in str(caught.value)


@pytest.mark.parametrize(
    "content",
    ["anchor,positive\nA cat.,9\nRain.,Snow.\n", "anchor,positive\n1,2\n3,4\n", "sentence\n1984\n2001\n"],
    ids=["some", "all", "one column"],
)
def test_texts_may_be_numbers(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.csv").write_text(content, encoding="utf-8")
    assert Source(str(tmp_path / "a.csv")).read().rows
