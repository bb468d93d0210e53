import json
from pathlib import Path

import datasets
import huggingface_hub
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


def test_default_columns_are_the_fullest_set_there(tmp_path: Path) -> None:
    for header, row in (
        ("text,sentence", ("sen",)),
        ("sentence,anchor,positive", ("anc", "pos")),
        ("anchor,text,negative", ("tex",)),
        ("anchor,positive,negative,text", ("anc", "pos", "neg")),
    ):
        cells = ",".join(name[:3] for name in header.split(","))
        assert read(tmp_path / "a.csv", f"{header}\n{cells}\n").rows == [row]
    content = "x,one,uno\ny,two,due\n"  # by position there is no header
    assert read(tmp_path / "a.csv", content, "3,2").rows == [("uno", "one"), ("due", "two")]


def test_skipping_keeps_documents_apart(tmp_path: Path) -> None:
    texts = read(tmp_path / "a.txt", "one\n\ntwo\n\nthree\nfour\n", skip=(3, 5))
    assert (texts.rows, texts.documents) == ([("one",), ("four",)], [0, 2])


def test_line_numbers_file(tmp_path: Path) -> None:
    path = tmp_path / "skip.txt"
    path.write_text("3\n\n 12 \n3\n")
    assert read_line_numbers(path) == {3, 12}


def test_what_is_a_file_and_what_a_hub_id() -> None:
    for location, is_file in (
        ("a.txt", True),
        ("data/absent.csv.gz", True),
        ("./data/wiki", True),
        ("a/b/c", True),
        ("absent", True),
        ("owner/name", False),
    ):
        assert Source(location).is_file is is_file


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


def test_skipped_lines_are_lines_of_the_file(tmp_path: Path) -> None:
    for name, content, line, rows in (
        ("a.csv", 'text\n"two\nlines"\nfour\n"five\n5"\n', 4, [("two\nlines",), ("five\n5",)]),
        ("a.tsv", "text\none\nthree\nfour\n", 3, [("one",), ("four",)]),
        ("a.jsonl", '{"text": "a"}\n{"text": "b"}\n{"text": ""}\n{"text": "d"}\n', 3, [("a",), ("b",), ("d",)]),
    ):
        assert read(tmp_path / name, content, skip=(line,)).rows == rows


@pytest.mark.parametrize(
    ("name", "content", "columns", "column"),
    [
        ("a.tsv", "label\ttext\n1\tA cat.\n-1\tRain.\n", "label,text", "label"),
        ("a.csv", "A cat.,50 %\nRain.,1e-3\n", "1,2", "2"),
        ("a.jsonl", '{"a": "A cat.", "b": 0.5}\n', "a,b", "b"),
    ],
)
def test_scores_are_no_texts_but_texts_may_be_numbers(
    tmp_path: Path, name: str, content: str, columns: str, column: str
) -> None:
    with pytest.raises(UserError, match="choose a recipe that learns from it") as caught:
        read(tmp_path / name, content, columns)
    assert f"column {column!r} holds" in str(caught.value)
    for numbers in (
        "anchor,positive\nA cat.,9\nRain.,Snow.\n",
        "anchor,positive\n1,2\n3,4\n",
        "sentence\n1984\n2001\n",
    ):
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
    ("a.txt", "one\n", "text", ": has no columns (one text per line); leave out --columns, or give a table or JSON"),
    ("a.xyz", "one\n", None, ": unknown kind of file '.xyz'; if it is plain text, rename it to end in .txt; known:"),
    ("a.csv", "text,n\n ,2\n", None, NOTHING),
    ("a.csv", "text,n\na,1\n", "texts", ": no column 'texts' (did you mean 'text'?); columns there: text, n"),
    (
        "a.csv",
        "one,two\na,b\n",
        None,
        f": {DEFAULTS}one, two; name yours with --columns, for instance --columns one, for pairs --columns one,two, or "
        "--columns 1 (or 1,2) by",
    ),
    ("a.csv", '"first\nsentence",two\na,b\n', "first", ": no column 'first' (did you mean 'first sentence'?); col"),
    ("a.csv", "a,b\n", "3", ", line 1: 2 columns, but column 3 is requested"),
    ("a.csv", "a,b\n", "1,0", ", line 1: column positions count from 1, not 1,0"),
    ("a.csv", "\na,b\n\nc\n", "1,2", f", line 4: 1 column, but line 2 has 2; {COMMA}"),
    ("a.csv", 'text\na\n"b\n\nc\n', None, ", line 3: not valid csv (unexpected end of data); check the double quotes"),
    ("a.csv", 'text\n"a" b\n', None, ", line 2: not valid csv (',' expected after '\"'); check the double quotes"),
    ("a.tsv", "text\tn\na\t1\nb\tc\t2\n", None, ", line 3: 3 columns, but line 1 has 2; tabs separate columns"),
    ("a.tsv", "a\ta\nb\tc\n", "a", ": 2 columns are called 'a'; rename all but one"),
    ("a.jsonl", '{"text": "a"}\n{"text": \n', None, ", line 2: not valid JSON (Expecting value); one object per line"),
    ("a.jsonl", "[" * 100_000, None, ", line 1: not valid JSON ("),
    ("a.jsonl", '{"text": ' + "1" * 5_000 + "}\n", None, ", line 1: not valid JSON (Exceeds the limit"),
    ("a.jsonl", "7\n", None, ", line 1: a JSON object per line is expected, not int"),
    ("a.jsonl", '{"text": "a"}\n\n{"txt": "b"}\n', None, ", line 3: no column 'text' (did you mean 'txt'?); columns"),
    ("a.jsonl", '{"text": ["a"]}\n', None, ", line 1: column 'text' holds list, not text; correct it or name"),
    ("a.jsonl", '{"text": "\\ud800 a"}\n', None, ", line 1: column 'text' holds half of a surrogate pair, which is n"),
    ("a.parquet", "PAR1 it is not", None, ", after row 0: damaged or not a parquet file ("),
]


@pytest.mark.slow
def test_parquet_that_unpacks_without_bound(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": ["x" * 100_000] * 1_000}), path)
    assert "unpacks to more than 100 times the file's size" in told(path)


@pytest.mark.parametrize(("cause", "asked"), [(OSError(-2, "unknown name"), 0), (TimeoutError(110, "slow"), 1)])
def test_an_unreachable_hub_is_tried_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cause: OSError, asked: int
) -> None:
    loaded = []

    def card(hub_id: str, **_: str) -> None:
        raise huggingface_hub.errors.LocalEntryNotFoundError("not here") from cause

    def load(location: str, split: str) -> None:
        loaded.append(location)
        raise ConnectionError("not there")

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", card)
    monkeypatch.setattr(datasets, "load_dataset", load)
    assert ("not there" if asked else "not here") in told("owner/name")
    assert len(loaded) == asked
    (tmp_path / "owner___name").mkdir()  # loaded before: datasets finds it without a network
    assert "not there" in told("owner/name")
    assert len(loaded) == asked + 1


@pytest.mark.parametrize(("name", "content", "columns", "message"), FAULTS)
def test_faults_are_reported_in_one_line(
    tmp_path: Path, name: str, content: str, columns: str | None, message: str
) -> None:
    path = tmp_path / name
    path.write_text(content, newline="")
    assert told(path, columns).startswith(message)


def test_parquet_faults(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    assert told(path) == ": no such file; check its name and folder"
    table = pyarrow.table({"text": [f"sentence {n}" for n in range(5_000)], "n": list(range(5_000))})
    pyarrow.parquet.write_table(table, path, compression="snappy", use_dictionary=False)
    assert told(path, "txt") == ": no column 'txt' (did you mean 'text'?); columns there: text, n"
    assert told(path, "n").startswith(", row 1: column 'n' holds int, not text; correct it or name another column")
    whole = path.read_bytes()
    path.write_bytes(whole[:200] + bytes(4_000) + whole[4_200:])
    assert told(path).endswith("; fetch it or write it again")
    texts = [b"fine"] * 1_500 + [b"caf\xe9"]
    pyarrow.parquet.write_table(pyarrow.table({"text": pyarrow.array(texts).view(pyarrow.string())}), path)
    assert told(path) == ", row 1501: column 'text' is not UTF-8 text (byte 0xe9); write it again in UTF-8"
    twice = pyarrow.Table.from_arrays([pyarrow.array(["a"]), pyarrow.array(["b"])], names=["text", "text"])
    pyarrow.parquet.write_table(twice, path)
    assert told(path) == ": 2 columns are called 'text'; rename all but one"


def test_data_set_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets-cache")
    folder = tmp_path / "set"
    folder.mkdir()
    assert ": neither a file nor a data set that could be loaded" in told(folder)
    (folder / "train.jsonl").write_text('{"text": "a", "n": 1}\n{"text": "", "n": 2}\n')
    assert "split 'test' (Unknown split" in told(folder, split="test")
    assert told(folder, "txt").endswith(f"give them as a pattern: '{folder}/*'")


def test_line_numbers_and_columns_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "skip.txt"
    for content in ("1\ntwo\n", "1\n0\n", "1\n1.5\n"):
        path.write_text(content)
        with pytest.raises(UserError, match=r"skip\.txt, line 2: a line number from 1 is expected, not '"):
            read_line_numbers(path)
    for columns in ((), ("a", "b", "c", "d")):
        with pytest.raises(UserError, match="columns given; name one"):
            Source("a.csv", columns)
