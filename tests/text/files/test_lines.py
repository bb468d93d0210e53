import bz2
import gzip
import lzma
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pyarrow
import pytest

from opencse.errors import UserError, reason
from opencse.text.files.lines import MAX_LINE_CHARACTERS, UNPACKED_FREELY, read_blocks, read_lines, read_text, suffix_of

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
def test_compressed_files_read_as_plain_ones(tmp_path: Path, suffix: str, pack: Pack) -> None:
    path = tmp_path / f"a.txt{suffix.upper()}"
    path.write_bytes(pack("\ufeffone\r\nzwei ü\n".encode()))
    assert list(read_lines(path)) == [(1, "one"), (2, "zwei ü")]


@pytest.mark.parametrize(("suffix", "pack"), PACKERS)
def test_damaged_archives(tmp_path: Path, suffix: str, pack: Pack) -> None:
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(b"plain text, not packed\n")
    assert told(path).startswith(f": damaged or not a {suffix} file (")
    packed = pack("".join(f"sentence {n}\n" for n in range(50_000)).encode())
    path.write_bytes(packed[: len(packed) // 2])
    assert told(path).endswith("; fetch it or pack it again")
    if suffix == ".zst":  # whose checksum is optional
        return
    middle = len(packed) // 2
    path.write_bytes(packed[:middle] + bytes(64) + packed[middle + 64 :])
    assert "damaged or not a" in told(path)


@pytest.mark.parametrize(("suffix", "pack"), PACKERS[:3])
@pytest.mark.parametrize("read", [read_lines, read_blocks])
def test_damage_is_named_with_the_last_line_that_can_be_unpacked(
    tmp_path: Path, suffix: str, pack: Pack, read: Callable[[Path], Iterator[object]]
) -> None:
    """Readers take blocks of many lines, and fail before the lines that could be unpacked are all read."""
    random = Random(0)
    lines = [" ".join(str(random.random()) for _ in range(4)) + "\n" for _ in range(3_000)]
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(pack("".join(lines).encode())[:-10])
    with pytest.raises(UserError, match=r", after line (\d+): damaged or not") as caught:
        list(read(path))
    if suffix != ".bz2":  # which unpacks in blocks of up to 900,000 bytes
        assert re.search(r"after line (2999|3000):", str(caught.value))
    path.write_bytes(pack("".join(lines[:1_000]).encode()) + pack("".join(lines[1_000:]).encode())[:20])
    with pytest.raises(UserError, match=", after line 1000: damaged or not") as caught:
        list(read(path))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"one\nbin\0ary\n", ", line 2: holds a NUL byte, so this is not UTF-8 text; give a text file in UTF-8"),
        (b"\0" * 2_000_000, ", line 1: holds a NUL byte"),
        ("one\n".encode("utf-16")[:-1], ", line 1: not UTF-16 text; convert the file to UTF-8"),
        (b"one\n\xe9\n", ", line 2: not UTF-8 text (byte 0xe9 at column 1); convert the file to UTF-8"),
        ("é\nê\ncaf".encode() + b"\xe9\n", ", line 3: not UTF-8 text (byte 0xe9 at column 4)"),
        (b"\xef\xbb\xbfcaf\xe9 au lait\n", ", line 1: not UTF-8 text (byte 0xe9 at column 4)"),
        (b"one\n" + b"x" * 1_000_000, ", line 2: more than 100,000 characters in one line; put one sentence on each"),
        (("é" * (MAX_LINE_CHARACTERS + 1)).encode(), ", line 1: more than 100,000 characters"),
        (b"", ": the file is empty; give a file with text in it"),
    ],
)
def test_what_is_not_lines_of_text(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    assert told(path).startswith(message)


def test_the_longest_line_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    line = "\U0001f600" * MAX_LINE_CHARACTERS
    path.write_bytes(f"\ufeff{line}\r\nnext\n".encode())
    assert list(read_lines(path)) == [(1, line), (2, "next")]


def test_missing_file_folder_and_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(tmp_path / "absent.txt") == ": no such file; check its name and folder"
    assert told(tmp_path) == ": is a folder; give a file"
    path = tmp_path / "a.txt"
    path.write_text("one\n")
    assert told(path / "b.txt") == ": no such file; check its name and folder"
    assert told(tmp_path / ("x" * 300)).startswith(": cannot be read (")

    def refuse(path: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert told(path) == ": cannot be read ([Errno 13] Permission denied)"


@pytest.mark.parametrize(
    ("name", "suffix"),
    [("a.csv", ".csv"), ("A.CSV.GZ", ".csv"), ("a.b.txt.xz", ".txt"), ("a.gz", ""), ("a", ""), ("a.md", ".md")],
)
def test_the_suffix_before_the_compression_is_the_format(name: str, suffix: str) -> None:
    assert suffix_of(Path(name)) == suffix


def test_reason_is_one_line() -> None:
    assert reason(ValueError("\n first \nsecond")) == "first"
    assert reason(ValueError()) == "ValueError"


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "pack"), PACKERS)
def test_what_grows_without_bound_when_unpacked_is_refused(tmp_path: Path, suffix: str, pack: Pack) -> None:
    path = tmp_path / f"a.txt{suffix}"
    line, most = b"a" * 65_535 + b"\n", UNPACKED_FREELY // 65_536
    path.write_bytes(pack(line * most))
    assert sum(1 for _ in read_lines(path)) == most
    path.write_bytes(pack(line * 16 * most))
    told_of = told(path)
    number = int(told_of.split(":")[0].removeprefix(", line "))
    assert number * 65_536 <= max(UNPACKED_FREELY, 100 * path.stat().st_size) + 65_536 < 16 * most * 65_536
    assert told_of == (
        f", line {number}: unpacks to more than 100 times its {path.stat().st_size:,} bytes, which text hardly does; "
        "if this is intended, unpack it and give the plain file"
    )


def test_text_that_packs_well_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    lines = "".join(f"the same long sentence but for number {n}, over and over again\n" for n in range(75_000))
    path.write_bytes(gzip.compress(lines.encode()))
    assert len(lines) > UNPACKED_FREELY
    assert sum(1 for _ in read_lines(path)) == 75_000
