import gc
import os
import pickle
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from opencse.errors import UserError
from opencse.text.corpus import tokenise
from opencse.text.files.lines import read_lines
from opencse.text.files.pipes import is_pipe
from opencse.text.readers import Source
from opencse.text.tokenizer import Tokenizer


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


def test_the_name_of_a_pipe_shows_its_format(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_text("text,n\none,1\n"))
    writer.start()
    assert Source(str(path)).read().rows == [("one",)]
    writer.join()


def test_an_unpickled_copy_reads_but_does_not_remove(spools: Path) -> None:
    with piped(b"one\n") as location:
        source = Source(location)
        source.fingerprint()
        copy = pickle.loads(pickle.dumps(source))
        assert copy.read().rows == [("one",)]
        del copy
        gc.collect()
        assert source.read().rows == [("one",)]


def test_a_pipe_is_tokenised(tiny_folder: Path, tmp_path: Path) -> None:
    with piped(b"one cat\ntwo dogs run\n") as location:
        corpus = tokenise(Source(location), Tokenizer.load(tiny_folder), 12, cache=tmp_path / "cache")
    assert (len(corpus), corpus.facts.source) == (2, location)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", ": it is empty; one sentence per line is expected"),
        ("é\nê\ncaf".encode() + b"\xe9\n", ", line 3: not UTF-8 text (byte 0xe9 at column 4)"),
        (b'{"text": "one"}\n{"text": 7}\n', ", line 2: column 'text' holds int, not text"),
        (b'{"text": "one"}\n{"text": \n', ", line 2: not valid JSON"),
        (b"\n\n", ": no sentences in it"),
    ],
)
def test_faults_name_the_pipe_and_the_line(content: bytes, message: str, spools: Path) -> None:
    with piped(content) as location, pytest.raises(UserError) as caught:
        Source(location).read()
    assert str(caught.value).startswith(location + message)
    del caught
    gc.collect()
    assert list(spools.iterdir()) == []


def test_no_room_for_what_comes_through(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    with piped(b"one\n") as location, pytest.raises(UserError, match=r"no room to keep .*; set TMPDIR"):
        Source(location).read()


def test_what_is_read_once_comes_straight_through_a_pipe() -> None:
    with piped(b"one\ntwo\n") as location:
        assert list(read_lines(Path(location))) == [(1, "one"), (2, "two")]
    with pytest.raises(UserError, match="/dev/null: the file is empty"):
        list(read_lines(Path("/dev/null")))


def test_what_is_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    assert [is_pipe(str(place)) for place in (tmp_path, tmp_path / "a.txt", "absent", "user/data", "", "a\0b")] == [
        False
    ] * 6
    assert all(is_pipe(place) for place in ("-", "/dev/stdin", "/dev/fd/63", "/dev/null"))
