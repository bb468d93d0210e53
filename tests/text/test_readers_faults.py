from pathlib import Path

import datasets
import huggingface_hub
import pyarrow
import pyarrow.parquet
import pytest

from opencse.errors import UserError
from opencse.text.readers import Source, read_line_numbers


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
    ("a.txt", "", None, ": the file is empty; give a file with text in it"),
    ("a.txt", "\n \n\t\n", None, NOTHING),
    ("a.txt", "one\n", "text", ": has no columns (one text per line); leave out --columns, or give a table or JSON"),
    ("a.txt", "one\nb\0\n", None, ", line 2: holds a NUL byte"),
    ("a.txt", "x" * 1_000_000, None, ", line 1: more than 100,000 characters in one line; put one sentence on each"),
    (
        "a.xyz",
        "one\n",
        None,
        ": unknown kind of file '.xyz'; if it is plain text, rename it to end in .txt; known:",
    ),
    ("a.doc", "one\n", None, ": .doc files are not read; save it as .docx"),
    ("a.gz", "one\n", None, ": unknown kind of file ''; if it is plain text, rename it to end in .txt; known: .txt"),
    ("a.csv", "text\n", None, NOTHING),
    ("a.csv", "\n,\n", None, NOTHING),
    ("a.csv", "text,n\na,1\n", "texts", ": no column 'texts' (did you mean 'text'?); columns there: text, n"),
    ("a.csv", "text,n\na,1\n", "text,zzz", ": no column 'zzz'; columns there: text, n"),
    (
        "a.csv",
        "one,two\na,b\n",
        None,
        f": {DEFAULTS}one, two; name yours with --columns, for instance --columns one, for pairs --columns one,two, or "
        "--columns 1 (or 1,2) by",
    ),
    ("a.csv", '"first\nsentence",two\na,b\n', None, f": {DEFAULTS}first sentence, two; name yours with --columns,"),
    ("a.csv", '"first\nsentence",two\na,b\n', "first", ": no column 'first' (did you mean 'first sentence'?); col"),
    ("a.csv", "a,b\n", "3", ", line 1: 2 columns, but column 3 is requested"),
    ("a.csv", "a,b\n", "1,0", ", line 1: column positions count from 1, not 1,0"),
    ("a.csv", "text,n\na,1\nb\n", None, f", line 3: 1 column, but line 1 has 2; {COMMA}"),
    ("a.csv", "text\na\nWell, well\n", None, f", line 3: 2 columns, but line 1 has 1; {COMMA}"),
    ("a.csv", "\na,b\n\nc\n", "1,2", f", line 4: 1 column, but line 2 has 2; {COMMA}"),
    ("a.csv", "text,n\n ,2\n", None, NOTHING),
    ("a.csv", 'text\na\n"b\n\nc\n', None, ", line 3: not valid csv (unexpected end of data); check the double quotes"),
    ("a.csv", 'text,n\n"a\nb","""c\nd ""\n', None, ", line 3: not valid csv (unexpected end of data)"),
    ("a.csv", 'text\n"a" b\n', None, ", line 2: not valid csv (',' expected after '\"'); check the double quotes"),
    (
        "a.tsv",
        "text\tn\na\t1\nb\n",
        None,
        ", line 3: 1 column, but line 1 has 2; tabs separate columns and quotation marks are text; correct",
    ),
    ("a.tsv", "text\tn\na\t1\nb\tc\t2\n", None, ", line 3: 3 columns, but line 1 has 2; tabs separate columns"),
    (
        "a.tsv",
        "anchor\tpositiv\na\tb\n",
        "anchor,positive",
        ": no column 'positive' (did you mean 'positiv'?); columns",
    ),
    ("a.tsv", "anchor\tpositive\na\t \n", None, NOTHING),
    ("a.jsonl", '{"text": "a"}\n{"text": \n', None, ", line 2: not valid JSON (Expecting value); one object per line"),
    ("a.jsonl", "[" * 100_000, None, ", line 1: not valid JSON ("),
    ("a.jsonl", '{"text": ' + "1" * 5_000 + "}\n", None, ", line 1: not valid JSON (Exceeds the limit"),
    ("a.jsonl", "7\n", None, ", line 1: a JSON object per line is expected, not int"),
    ("a.jsonl", "{}\n", None, f", line 1: {DEFAULTS}none; name yours with --columns"),
    ("a.jsonl", '{"txt": "a"}\n', "text", ", line 1: no column 'text' (did you mean 'txt'?); columns there: txt"),
    ("a.jsonl", '{"text": "a"}\n\n{"txt": "b"}\n', None, ", line 3: no column 'text' (did you mean 'txt'?); columns"),
    (
        "a.jsonl",
        '{"text": "a"}\n{"text": 7}\n',
        None,
        ", line 2: column 'text' holds int, not text; correct it or name",
    ),
    ("a.jsonl", '{"text": ["a"]}\n', None, ", line 1: column 'text' holds list, not text"),
    ("a.jsonl", '{"text": null}\n{"text": " "}\n', None, NOTHING),
    ("a.jsonl", '{"text": "\\ud800 a"}\n', None, ", line 1: column 'text' holds half of a surrogate pair, which is n"),
    ("a.csv", "text,n,text\na,1,b\n", None, ": 2 columns are called 'text'; rename all but one"),
    ("a.tsv", "a\ta\nb\tc\n", "a", ": 2 columns are called 'a'; rename all but one"),
    ("a.parquet", "PAR1 it is not", None, ", after row 0: damaged or not a parquet file ("),
]


@pytest.mark.parametrize(("name", "content", "columns", "message"), FAULTS)
def test_faults_are_reported_in_one_line(
    tmp_path: Path, name: str, content: str, columns: str | None, message: str
) -> None:
    path = tmp_path / name
    path.write_text(content, newline="")
    assert told(path, columns).startswith(message)


def test_missing_file_and_folder_instead_of_file(tmp_path: Path) -> None:
    assert told(tmp_path / "absent.txt") == ": no such file; check its name and folder"
    assert told("absent") == ": no such file; check its name and folder"
    folder = tmp_path / "folder.txt"
    folder.mkdir()
    assert told(folder) == ": is a folder; give a file"
    with pytest.raises(UserError, match="no such file"):
        Source(str(tmp_path / "absent.txt")).fingerprint()


def test_file_that_stops_being_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\n")

    def refuse(path: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UserError, match=r"a\.txt: cannot be read \(\[Errno 13\] Permission denied\)"):
        Source(str(path)).fingerprint()


def test_nothing_left_after_skipping(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\n")
    assert told(path, skip_lines=frozenset({1})) == NOTHING


def test_not_utf_8_names_line_byte_and_fix(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("text\nZürich\n".encode() + b"caf\xe9\n")
    assert told(path).startswith(", line 3: not UTF-8 text (byte 0xe9 at column 4); convert the file to UTF-8")


def test_parquet_faults(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pyarrow.table({"text": [f"sentence {n}" for n in range(5_000)], "n": list(range(5_000))})
    pyarrow.parquet.write_table(table, path, compression="snappy", use_dictionary=False)
    assert told(path, "txt") == ": no column 'txt' (did you mean 'text'?); columns there: text, n"
    assert told(path, "n").startswith(", row 1: column 'n' holds int, not text; correct it or name another column")
    whole = path.read_bytes()
    path.write_bytes(whole[:200] + bytes(4_000) + whole[4_200:])
    assert ": damaged or not a parquet file (" in told(path)
    path.write_bytes(whole[:-100])
    assert told(path).endswith("; fetch it or write it again")


def test_parquet_that_is_not_utf_8_or_names_a_column_twice(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    texts = [b"fine"] * 1_500 + [b"caf\xe9"]
    pyarrow.parquet.write_table(pyarrow.table({"text": pyarrow.array(texts).view(pyarrow.string())}), path)
    assert told(path) == ", row 1501: column 'text' is not UTF-8 text (byte 0xe9); write it again in UTF-8"
    twice = pyarrow.Table.from_arrays([pyarrow.array(["a"]), pyarrow.array(["b"])], names=["text", "text"])
    pyarrow.parquet.write_table(twice, path)
    assert told(path) == ": 2 columns are called 'text'; rename all but one"
    assert told(path, "text") == ": 2 columns are called 'text'; rename all but one"


def test_parquet_that_unpacks_without_bound(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": ["x" * 100_000] * 1_000}), path)
    assert "unpacks to more than 100 times the file's size" in told(path)


def test_hub_id_that_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(location: str, split: str) -> None:
        raise ConnectionError(f"no way to {location}\nsecond line")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: None)
    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    assert told("owner/name") == (
        ": neither a file nor a data set that could be loaded, split 'train' (no way to owner/name); "
        "give a file (text, a table, JSON, ...), a folder of such files, or a data set of the Hub"
    )


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


def test_data_set_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets-cache")
    folder = tmp_path / "set"
    folder.mkdir()
    assert ": neither a file nor a data set that could be loaded" in told(folder)
    (folder / "train.jsonl").write_text('{"text": "a", "n": 1}\n{"text": "", "n": 2}\n')
    assert "split 'test' (Unknown split" in told(folder, split="test")
    assert Source(str(folder)).read().rows == [("a",)]
    pattern = f"give them as a pattern: '{folder}/*'"
    message = told(folder, "txt")
    assert message.startswith(": no column 'txt' (did you mean 'text'?); columns there: text, n; if files are not ")
    assert message.endswith(pattern)
    assert told(folder, "n").startswith(", row 1: column 'n' holds int, not text")


@pytest.mark.parametrize("columns", [(), ("a", "b", "c", "d")])
def test_one_to_three_columns(columns: tuple[str, ...]) -> None:
    with pytest.raises(UserError, match="columns given; name one"):
        Source("a.csv", columns)


@pytest.mark.parametrize("content", ["1\ntwo\n", "1\n0\n", "1\n-2\n", "1\n1.5\n"])
def test_line_numbers_that_are_none(tmp_path: Path, content: str) -> None:
    path = tmp_path / "skip.txt"
    path.write_text(content)
    with pytest.raises(UserError, match=r"skip\.txt, line 2: a line number from 1 is expected, not '"):
        read_line_numbers(path)
