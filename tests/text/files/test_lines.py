import bz2
import gc
import gzip
import lzma
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow
import pytest

from opencse.errors import UserError
from opencse.text.files.lines import (
    MAX_LINE_CHARACTERS,
    detect_encoding,
    read_lines,
    read_text,
)
from opencse.text.readers import Source

Pack = Callable[[bytes], bytes]


def zstd(content: bytes) -> bytes:
    return bytes(pyarrow.compress(content, codec="zstd", asbytes=True))


PACKERS: list[tuple[str, Pack]] = [
    (".gz", gzip.compress),
    (".xz", lzma.compress),
    (".bz2", bz2.compress),
    (".zst", zstd),
]


def told(path: Path) -> str:
    """What reading ``path`` complains of: one line that begins with its name."""
    with pytest.raises(UserError) as caught:
        list(read_lines(path))
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    return message.removeprefix(str(path))


def test_lines_are_numbered_and_freed_of_mark_and_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    odd = "two\u2028x\x85y\fz\x1cz"
    path.write_bytes(f"\ufeffé one\r\n\r\n{odd}\n three \rfour".encode())
    expected = ["é one", "", odd, " three ", "four"]
    assert list(read_lines(path)) == list(enumerate(expected, start=1))
    assert read_text(path).split("\n") == expected


@pytest.mark.parametrize(("suffix", "pack"), PACKERS)
def test_compressed_files_read_as_plain_ones_and_damaged_ones_are_refused(
    tmp_path: Path, suffix: str, pack: Pack
) -> None:
    path = tmp_path / f"a.txt{suffix.upper()}"
    path.write_bytes(pack("\ufeffone\r\nzwei ü\n".encode()))
    assert list(read_lines(path)) == [(1, "one"), (2, "zwei ü")]
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(b"plain text, not packed\n")
    assert told(path).startswith(f": damaged or not a {suffix} file (")
    packed = pack("".join(f"sentence {n}\n" for n in range(50_000)).encode())
    path.write_bytes(packed[: len(packed) // 2])
    assert told(path).endswith("; fetch it or pack it again")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"one\nbin\0ary\n", ", line 2: holds a NUL byte, so this is not UTF-8 text; give a text file in UTF-8"),
        ("one\n".encode("utf-16")[:-1], ": not UTF-16 text; convert the file to UTF-8"),
        (
            "é\nê\ncaf".encode() + b"\xe9\n",
            ", line 3: not UTF-8 text (byte 0xe9 at column 4); convert",
        ),
        (("é" * (MAX_LINE_CHARACTERS + 1)).encode(), ", line 1: more than 100,000 characters in one line; put one"),
        (b"", ": the file is empty; give a file with text in it"),
    ],
)
def test_what_is_not_lines_of_text(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    assert told(path).startswith(message)
    assert told(tmp_path) == ": is a folder; give a file"
    assert told(path / "b.txt") == ": no such file; check its name and folder"
    line = "\U0001f600" * MAX_LINE_CHARACTERS
    path.write_bytes(f"\ufeff{line}\r\nnext\n".encode())
    assert list(read_lines(path)) == [(1, line), (2, "next")]


GERMAN = "Die Zündung läuft nicht – Größe, Nässe und Öl. Können Sie die Straße nennen?"
POLISH = "Zażółć gęślą jaźń. Dzieci poszły do szkoły i powiedziały, że jest tam dziś ładnie."
RUSSIAN = "Дети пошли в школу и сказали, что сегодня там тоже хорошо."
GREEK = "Τα παιδιά πήγαν στο σχολείο και είπαν ότι είναι ωραία."
JAPANESE = "子供たちは学校に行って、今日もそこはいいと言いました。"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (GERMAN, "cp1252"),
        (POLISH, "cp1250"),
        (RUSSIAN, "cp1251"),
        (RUSSIAN, "koi8_r"),
        (JAPANESE, "shift_jis"),
        (GERMAN, "utf-8-sig"),
        (GERMAN, "utf-16"),
        (GERMAN, "utf-16-le"),
        (GERMAN, "utf-32"),
    ],
)
def test_text_is_read_as_it_was_written(tmp_path: Path, text: str, encoding: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(f"Nummer;Betreff;Text\n{text}\nthe end\n".encode(encoding))
    assert [line for _, line in read_lines(path)] == ["Nummer;Betreff;Text", text, "the end"]
    assert read_text(path).split("\n")[1] == text


def test_what_a_page_declares_counts_where_its_bytes_are_text_in_it() -> None:
    page = '<html><head><meta charset="{}"></head><body>{}</body></html>'
    assert detect_encoding([page.format("windows-1253", GREEK).encode("cp1253")]) == "cp1253"
    assert detect_encoding([page.format("iso-8859-1", GERMAN).encode("cp1252")]) == "cp1252"
    assert detect_encoding([page.format("utf-8", GERMAN).encode("cp1252")]) == "cp1252"
    assert detect_encoding([page.format("no-such", GERMAN).encode("cp1252")]) == "cp1252"


@contextmanager
def piped(content: bytes) -> Iterator[str]:
    """The name of a pipe's end as process substitution makes it, with ``content`` coming through."""
    end, begin = os.pipe()

    def write() -> None:
        with os.fdopen(begin, "wb") as stream:
            stream.write(content)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield f"/dev/fd/{end}"
    finally:
        writer.join()
        os.close(end)


@pytest.fixture(autouse=True)
def spools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where pipes are kept."""
    folder = tmp_path / "spools"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_pipe_is_read_as_often_as_needed_and_known_by_its_content(tmp_path: Path, spools: Path) -> None:
    file = tmp_path / "same.txt"
    file.write_text("one\ntwo\n")
    with piped(b"one\ntwo\n") as location:
        source = Source(location)
        assert source.is_file
        assert source.fingerprint() == Source(str(file)).fingerprint()
        assert source.read().rows == source.read().rows == [("one",), ("two",)]
        assert source.read().source == location
        assert len(list(spools.iterdir())) == 1
        del source
        gc.collect()
        assert list(spools.iterdir()) == []


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    with piped(b'{"text": "one"}\n{"text": "two"}\n') as location:
        kept = os.dup(0)
        os.dup2(int(location.rsplit("/", 1)[1]), 0)
        try:
            source = Source("-")
            assert source.name == "standard input"
            assert source.read().rows == [("one",), ("two",)]
        finally:
            os.dup2(kept, 0)
            os.close(kept)
