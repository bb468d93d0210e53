from pathlib import Path

import datasets
import pyarrow
import pyarrow.parquet
import pytest

from helpers import write_rows
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
    write_rows(folder / "train.jsonl", rows)
    return folder


def test_txt_has_a_sentence_a_line_and_blank_lines_between_documents(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    texts = read(path, "\ufeff\r\none, 1\r\n two\t \r\n\r\n \r\nthree\r\nfour\r\n\r\nfive\r\n\r\n")
    assert texts.rows == [("one, 1",), ("two",), ("three",), ("four",), ("five",)]
    assert texts.documents == [0, 0, 1, 1, 2]
    assert (texts.width, texts.source) == (1, str(path))


def test_csv_has_a_header_quotes_and_line_breaks_inside_them(tmp_path: Path) -> None:
    content = '\ufeff\r\nid, anchor ,positive\r\n1,"a, ""b""","c\r\nd"\r\n\r\n,,\r\n2,e "f" g, h \r\n'
    texts = read(tmp_path / "a.csv", content)
    assert texts.rows == [('a, "b"', "c\nd"), ('e "f" g', "h")]
    assert texts.documents is None


def test_a_quotation_mark_between_tabs_is_text_unless_the_table_is_quoted(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text('id\ttext\n1\t"Boil it.\n2\tNow wait.\n3\tServe it."\n4\tYes.\n')
    assert [row for (row,) in Source(str(path)).read().rows] == ['"Boil it.', "Now wait.", 'Serve it."', "Yes."]
    assert Source(str(path), quoted=True).read().rows == [("Boil it.\n2\tNow wait.\n3\tServe it.",), ("Yes.",)]
    assert Source(str(path)).fingerprint() != Source(str(path), quoted=True).fingerprint()
    rows = [f"{number}\tIt is number {number}.\n" for number in range(2, 30)]
    path.write_text('id\ttext\n1\t"Boil\nit."\n' + "".join(rows))
    with pytest.raises(UserError, match=r", line 2: 2|, line 3: 1 column, but line 1 has 2; .* add --quoted"):
        Source(str(path)).read()
    path.write_text('"id"\t"text"\n' + "".join(rows))
    with pytest.raises(UserError, match=r'columns there: "id", "text" \(in quotes: add --quoted\)'):
        Source(str(path)).read()


def test_parquet(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", {"n": [1, 2], "text": ["one ", "two"], "other": ["x", "y"]})
    assert Source(str(path)).read().rows == [("one",), ("two",)]
    assert Source(str(path), ("other", "text")).read().rows == [("x", "one"), ("y", "two")]
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


def test_line_numbers_file(tmp_path: Path) -> None:
    path = tmp_path / "skip.txt"
    path.write_text("3\n\n 12 \n3\n")
    assert read_line_numbers(path) == {3, 12}
    for content in ("1\ntwo\n", "1\n0\n"):
        path.write_text(content)
        with pytest.raises(UserError, match=r"skip\.txt, line 2: a line number from 1 is expected, not '"):
            read_line_numbers(path)


def test_fingerprint_is_of_content_and_reading(tmp_path: Path) -> None:
    def fingerprint(name: str, content: str = "text\none\ntwo\n", **how: object) -> str:
        path = tmp_path / name
        path.write_text(content)
        return Source(str(path), **how).fingerprint()  # type: ignore[arg-type]

    assert fingerprint("a.csv") == fingerprint("b.csv")
    assert fingerprint("a.csv", skip_lines=frozenset({2, 9})) == fingerprint("a.csv", skip_lines=frozenset({9, 2}))
    different = [fingerprint("a.csv"), fingerprint("a.csv", "text\none\ntwO\n"), fingerprint("a.tsv")]
    different += [fingerprint("a.csv", columns=(name,)) for name in ("text", "1")]
    different += [fingerprint("a.csv", skip_lines=frozenset({2}))]
    assert len(set(different)) == len(different)


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
    before = source.fingerprint()
    (tmp_path / "b" / "c.txt").write_text("five\n")
    assert Source(source.location).fingerprint() != before


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


def test_skipped_lines_are_lines_of_the_file(tmp_path: Path) -> None:
    for name, content, line, rows in (
        ("a.csv", 'text\n"two\nlines"\nfour\n"five\n5"\n', 4, [("two\nlines",), ("five\n5",)]),
        ("a.tsv", "text\none\nthree\nfour\n", 3, [("one",), ("four",)]),
        ("a.jsonl", '{"text": "a"}\n{"text": "b"}\n{"text": ""}\n{"text": "d"}\n', 3, [("a",), ("b",), ("d",)]),
    ):
        assert read(tmp_path / name, content, skip=(line,)).rows == rows


def test_scores_are_no_texts_but_texts_may_be_numbers(tmp_path: Path) -> None:
    for name, content, columns, column in (
        ("a.tsv", "label\ttext\n1\tA cat.\n-1\tRain.\n", "label,text", "label"),
        ("a.csv", "A cat.,50 %\nRain.,1e-3\n", "1,2", "2"),
    ):
        with pytest.raises(UserError, match=f"column {column!r} holds .*choose a recipe that learns from it"):
            read(tmp_path / name, content, columns)
    for numbers in ("anchor,positive\nA cat.,9\nRain.,Snow.\n", "anchor,positive\n1,2\n3,4\n", "sentence\n1984\n"):
        assert read(tmp_path / "b.csv", numbers).rows


def told(location: Path | str, columns: str | None = None, **how: object) -> str:
    """What reading complains of: one line that begins with the location."""
    source = Source(str(location), tuple(columns.split(",")) if columns else None, **how)  # type: ignore[arg-type]
    with pytest.raises(UserError) as caught:
        source.read()
    message = str(caught.value)
    assert message.startswith(str(location))
    assert "\n" not in message
    return message.removeprefix(str(location))


DEFAULTS = "none of the default columns (sentence; text; anchor, positive; anchor, positive, negative); columns there: "
NOTHING = ": no sentences in it (blank lines, a header, empty cells or skipped lines only); give at least one sentence"
COMMA = "put a text that holds a comma between double quotes"

FAULTS = [
    ("a.txt", "\n \n\t\n", None, NOTHING),
    ("a.xyz", "one\n", None, ": unknown kind of file '.xyz'; if it is plain text, rename it to end in .txt or "),
    ("a.csv", "text,n\na,1\n", "texts", ": no column 'texts' (did you mean 'text'?); columns there: text, n"),
    (
        "a.csv",
        "one,two\na,b\n",
        None,
        f": {DEFAULTS}one, two; name yours with --columns, for instance --columns one, for pairs --columns one,two, or "
        "--columns 1 (or 1,2) by",
    ),
    ("a.csv", "\na,b\n\nc\n", "1,2", f", line 4: 1 column, but line 2 has 2; {COMMA}"),
    ("a.csv", 'text\na\n"b\n\nc\n', None, ", line 3: not valid csv (unexpected end of data); check the double quotes"),
    ("a.tsv", "a\ta\nb\tc\n", "a", ": 2 columns are called 'a'; rename all but one"),
    ("a.jsonl", '{"text": "a"}\n{"text": \n', None, ", line 2: not valid JSON (Expecting value); one object per line"),
    ("a.jsonl", '{"text": "a"}\n\n{"txt": "b"}\n', None, ", line 3: no column 'text' (did you mean 'txt'?); columns"),
    ("a.jsonl", '{"text": ["a"]}\n', None, ", line 1: column 'text' is list, not text; correct it or name"),
    ("a.jsonl", '{"text": "\\ud800 a"}\n', None, ", line 1: column 'text' holds half of a surrogate pair, which is n"),
    ("a.parquet", "PAR1 it is not", None, ": damaged or not a parquet file ("),
]


def test_faults_are_reported_in_one_line(tmp_path: Path) -> None:
    for name, content, columns, message in FAULTS:
        path = tmp_path / name
        path.write_text(content, newline="")
        assert told(path, columns).startswith(message)


def test_parquet_faults(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    assert told(path) == ": no such file; check its name and folder"
    write_parquet(path, {"text": ["one"], "n": [1]})
    assert told(path, "txt") == ": no column 'txt' (did you mean 'text'?); columns there: text, n"
    assert told(path, "n").startswith(", row 1: column 'n' is int, not text; correct it or name another column")
    texts = [b"fine"] * 1_500 + [b"caf\xe9"]
    pyarrow.parquet.write_table(pyarrow.table({"text": pyarrow.array(texts).view(pyarrow.string())}), path)
    assert told(path) == ", after row 1000: not UTF-8 text (byte 0xe9); write it again in UTF-8"
