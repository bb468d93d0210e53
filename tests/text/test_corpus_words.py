"""The words of a corpus in the cache."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from transformers import ByT5Tokenizer

from corpora import TEXT, folders, repaired, same
from opencse.errors import UserError
from opencse.text import corpus as corpus_room
from opencse.text.corpus import Corpus, tokenise
from opencse.text.readers import Source
from opencse.text.tokenizer import Tokenizer


def with_words(corpus: Corpus) -> np.ndarray:
    assert corpus.words is not None
    return corpus.words


def test_words_are_a_corpus_of_their_own(
    source: Source, tokenizer: Tokenizer, cache: Path, request: pytest.FixtureRequest
) -> None:
    plain = tokenise(source, tokenizer, 12, cache=cache)
    made = tokenise(source, tokenizer, 12, words=True, cache=cache)
    assert same(made, plain)
    assert plain.words is None
    assert plain.text(0, 0).words is None
    assert len(folders(cache)) == 2
    assert isinstance(with_words(made), np.memmap)
    assert with_words(made).dtype == np.int16
    assert with_words(made).shape == made.ids.shape
    request.getfixturevalue("no_reading")
    again = tokenise(source, tokenizer, 12, words=True, cache=cache)
    assert np.array_equal(with_words(again), with_words(made))
    assert tokenise(source, tokenizer, 12, cache=cache).words is None


def test_words_of_each_text(source: Source, tokenizer: Tokenizer, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_room, "_CHUNK", 2)
    made = tokenise(source, tokenizer, 12, words=True, cache=cache)
    lines = [line for line in TEXT.splitlines() if line]
    assert len(made) == len(lines) == 5
    for row, expected in enumerate(tokenizer.encode_words(lines, 12)):
        text = made.text(row, 0)
        assert text.words is not None
        assert expected.words is not None
        assert text.ids.tolist() == expected.ids.tolist() == made.text_ids(row, 0).tolist()
        assert text.words.tolist() == expected.words.tolist()
        text.words[:] = 0  # a copy: the corpus stays as it is
    assert with_words(made).max() > 1


@pytest.mark.parametrize("name", ["words.npy", "ids.npy"])
def test_damaged_words_are_made_again(source: Source, tokenizer: Tokenizer, cache: Path, name: str) -> None:
    tokenise(source, tokenizer, 12, words=True, cache=cache)
    (folder,) = folders(cache)
    first = tokenise(source, tokenizer, 12, words=True, cache=cache / "other")
    whole = (folder / "words.npy").read_bytes()
    for damage in (b"", b"{}", (folder / name).read_bytes()[:-1], None):
        (folder / name).unlink()
        if damage is not None:
            (folder / name).write_bytes(damage)
        made = repaired(source, tokenizer, cache, words=True)
        assert same(made, first)
        assert np.array_equal(with_words(made), with_words(first))
        assert (folder / "words.npy").read_bytes() == whole
    assert folders(cache) == [folder]


def test_words_of_each_text_of_a_row(tokenizer: Tokenizer, cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("anchor\tpositive\nthe cat\ta dog runs far\nit rains\tso it is wet outside\n")
    made = tokenise(Source(str(path)), tokenizer, 16, words=True, cache=cache)
    for row, column, text in ((0, 0, "the cat"), (0, 1, "a dog runs far"), (1, 1, "so it is wet outside")):
        (expected,) = tokenizer.encode_words([text], 16)
        found = made.text(row, column)
        assert found.words is not None
        assert expected.words is not None
        assert found.ids.tolist() == expected.ids.tolist()
        assert found.words.tolist() == expected.words.tolist()


def test_words_that_another_process_finished_first(
    source: Source, tokenizer: Tokenizer, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def late(path: Path, target: Path) -> Path:
        shutil.copytree(path, target)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", late)
    assert len(with_words(tokenise(source, tokenizer, 12, words=True, cache=cache))) > 5


def test_words_need_a_tokenizer_that_can_tell(source: Source, cache: Path) -> None:
    with pytest.raises(UserError, match="does not tell which word an id is of"):
        tokenise(source, Tokenizer(ByT5Tokenizer()), 12, words=True, cache=cache)
    assert folders(cache) == []
