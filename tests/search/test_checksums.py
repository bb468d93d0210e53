"""Damage: changed vectors are detected by queries; intact indexes answer even on a full disk."""

from __future__ import annotations

import contextlib
import resource
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.search.index import Index
from opencse.search.rows import IndexRow

ROWS = [
    IndexRow(f"Text number {number} about the {number % 7} trains.", f"t{number}", {"n": -0.0}) for number in range(30)
]


@pytest.fixture
def folder(tmp_path: Path, mini: SentenceEncoder) -> Path:
    """An index with words, to which rows were added, and from which one was deleted."""
    with Index.build(tmp_path / "i", ROWS[:20], mini) as index:
        index.add(ROWS[20:])
        index.delete(["t5"])
        index.search(["trains"], 3, hybrid=True)
    return tmp_path / "i"


def one(folder: Path, pattern: str) -> Path:
    (path,) = [path for path in folder.glob(pattern) if path.is_file()]
    return path


def change(path: Path, at: int, content: bytes) -> None:
    with path.open("r+b") as stream:
        stream.seek(at)
        before = stream.read(len(content))
        stream.seek(at)
        stream.write(content if content != before else bytes(255 - value for value in content))


def asked(folder: Path, mini: SentenceEncoder, *, hybrid: bool = False) -> list[str]:
    with Index.open(folder, encoder=mini) as index:
        return [hit.id for hit in index.search(["trains"], 30, hybrid=hybrid)[0]]


def test_changed_vectors_are_noticed(folder: Path, mini: SentenceEncoder) -> None:
    with Index.open(folder, encoder=mini) as index:
        index.search(["trains"])
        index.add(["Another text."])  # what was verified before is not read again
        index.search(["trains"])
    path = one(folder, "vectors-*.f32")
    whole = path.read_bytes()
    for row in (0, 7, 29, 30):
        change(path, row * 448 * 4, b"\x41")
        with pytest.raises(UserError, match=r"damaged .*is not as it was written"):
            asked(folder, mini)
        path.write_bytes(whole)


def test_a_changed_database_is_refused_in_a_line_or_answers(folder: Path, mini: SentenceEncoder) -> None:
    path = one(folder, "rows-*.sqlite")
    whole = path.read_bytes()
    for at in range(0, len(whole), 512):
        change(path, at, b"\0" * 512)
        with contextlib.suppress(UserError):
            asked(folder, mini)
        path.write_bytes(whole)
    assert len(asked(folder, mini)) == 29


@contextlib.contextmanager
def nothing_can_be_written() -> Iterator[None]:
    """No file can grow, as on a full disk; SQLite hears of it as an error of the disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("hybrid", [False, True])
def test_a_sound_index_answers_where_nothing_can_be_written(folder: Path, mini: SentenceEncoder, hybrid: bool) -> None:
    before = asked(folder, mini, hybrid=hybrid)
    with nothing_can_be_written():
        assert asked(folder, mini, hybrid=hybrid) == before
    held = sqlite3.connect(one(folder, "rows-*.sqlite"))  # so that SQLite's log stays
    held.execute("BEGIN")
    held.execute("SELECT 1 FROM rows").fetchone()
    with Index.open(folder, encoder=mini) as index:
        index.delete(["t3"])
    with nothing_can_be_written():
        assert sorted(asked(folder, mini, hybrid=hybrid)) == sorted(name for name in before if name != "t3")
        with Index.open(folder, encoder=mini) as index, pytest.raises(UserError, match=r"cannot be (written|read now)"):
            index.add(["More text."])
    held.close()
    assert len(asked(folder, mini)) == 28
