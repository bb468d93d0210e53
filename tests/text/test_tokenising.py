from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from opencse.text import corpus as corpus_room
from opencse.text import tokenising
from opencse.text.corpus import Corpus, tokenise
from opencse.text.given import open_texts
from opencse.text.readers import Source
from opencse.text.tokenising import CorpusWriter, GrowingArray, Piece, Tokenising
from opencse.text.tokenizer import Tokenizer

LINES = [f"the bread number {n % 17} rises" + " again" * (n % 5) for n in range(90)]


@pytest.fixture
def source(tmp_path: Path) -> Source:
    path = tmp_path / "a.txt"
    path.write_text("\n".join(f"{line}\n" if n % 7 == 6 else line for n, line in enumerate(LINES)) + "\n")
    return Source(str(path))


@pytest.fixture
def pieces_of_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_room, "_CHUNK", 10)
    monkeypatch.setattr(tokenising, "_RECORD_EVERY", 2)


def content(folder: Path) -> dict[str, bytes]:
    (made,) = (folder / "corpora").iterdir()
    return {path.name: path.read_bytes() for path in made.iterdir()}


def test_an_array_that_grows_is_what_numpy_saves(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 9, (7, 2))
    grown = GrowingArray(tmp_path / "grown.npy", np.int64, 2)
    grown.restart()
    grown.add(rows[:3])
    grown.add(rows[3:])
    grown.close()
    np.save(tmp_path / "saved.npy", rows)
    assert (tmp_path / "grown.npy").read_bytes() == (tmp_path / "saved.npy").read_bytes()


@pytest.mark.usefixtures("pieces_of_ten")
@pytest.mark.parametrize("words", [False, True])
def test_interrupted_it_continues(
    source: Source, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: bool
) -> None:
    whole = tokenise(source, tokenizer, 9, words=words, cache=tmp_path / "whole")
    make, sizes = Tokenising.__call__, list[int]()

    def broken(work: Tokenising, rows: list[tuple[int, tuple[str, ...]]]) -> Piece:
        if len(sizes) == 5:
            raise KeyboardInterrupt
        sizes.append(len(rows))
        return make(work, rows)

    cache = tmp_path / "cache"
    monkeypatch.setattr(Tokenising, "__call__", broken)
    with pytest.raises(KeyboardInterrupt):
        tokenise(source, tokenizer, 9, words=words, cache=cache)
    (left,) = (cache / "corpora").iterdir()
    assert left.name.endswith(".tmp")  # four pieces of five are noted
    sizes.clear()
    calls: list[int] = []

    def counted(work: Tokenising, rows: list[tuple[int, tuple[str, ...]]]) -> Piece:
        sizes.append(len(rows))
        return make(work, rows)

    monkeypatch.setattr(Tokenising, "__call__", counted)
    made = tokenise(source, tokenizer, 9, words=words, cache=cache, progress=lambda done, rows: calls.append(done))
    assert sizes == [10] * 5
    assert calls == [50, 60, 70, 80, 90]
    assert made.facts == whole.facts
    assert content(cache) == content(tmp_path / "whole")


def test_what_another_process_makes_is_left_to_it(
    source: Source, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both make it at once; each in a folder of its own."""
    add, others = CorpusWriter.add, list[Corpus]()

    def slow(writing: CorpusWriter, piece: Piece, max_length: int) -> None:
        monkeypatch.setattr(CorpusWriter, "add", add)
        others.append(tokenise(source, tokenizer, 9, cache=tmp_path / "cache"))
        add(writing, piece, max_length)

    monkeypatch.setattr(CorpusWriter, "add", slow)
    made = tokenise(source, tokenizer, 9, cache=tmp_path / "cache")
    assert made.facts == others[0].facts
    assert np.array_equal(made.ids, others[0].ids)


@pytest.mark.slow
def test_several_processes_make_the_same(
    source: Source, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = tokenise(source, tokenizer, 9, cache=tmp_path / "alone")
    monkeypatch.setattr(corpus_room, "_CHUNK", 10)
    monkeypatch.setattr(corpus_room, "_SHARED", 1)
    monkeypatch.setattr(tokenising, "cores", lambda: 2)
    counts: list[int] = []
    share = tokenising._shared_out

    def counting(work: Tokenising, pieces: Iterator[tokenising.NumberedRows], count: int) -> Iterator[Piece]:
        counts.append(count)
        return share(work, pieces, count)

    monkeypatch.setattr(tokenising, "_shared_out", counting)
    several = tokenise(source, tokenizer, 9, cache=tmp_path / "several")
    assert counts == [2]
    assert several.facts == alone.facts
    assert content(tmp_path / "several") == content(tmp_path / "alone")


def test_given_texts_go_the_same_way(tokenizer: Tokenizer, tmp_path: Path, source: Source) -> None:
    given = tokenise(open_texts(LINES), tokenizer, 9, cache=tmp_path / "given")
    read = tokenise(source, tokenizer, 9, cache=tmp_path / "read")
    assert np.array_equal(given.ids, read.ids)
    assert np.array_equal(given.keys, read.keys)
    assert (given.facts.documents, read.facts.documents) == (0, 13)
