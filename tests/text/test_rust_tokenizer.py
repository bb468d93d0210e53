"""Ids without transformers: those of `Tokenizer`, at any length, on either side, from several threads."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers

from opencse.model_folder.locate import builtin_folder
from opencse.text import rust_tokenizer
from opencse.text.rust_tokenizer import RustTokenizer, padded
from opencse.text.tokenizer import Tokenizer

TEXTS = ["The kettle boils.", "", "[MASK] a \u4e2d\u6587", "one two three four five six seven " * 4]


@pytest.fixture
def rust(tiny_folder: Path) -> RustTokenizer:
    return RustTokenizer(Backend.from_file(str(tiny_folder / "tokenizer.json")))


def test_ids_and_special_tokens_are_those_of_transformers(rust: RustTokenizer, tiny_folder: Path) -> None:
    slow = Tokenizer.load(tiny_folder)
    for texts in (TEXTS, 40 * TEXTS):  # many texts are tokenised word by word
        for length in (None, 3, 8):
            ids = [row.tolist() for row in rust.encode(texts, length)]
            assert ids == [row.tolist() for row in slow.encode(texts, length)]
            assert max(map(len, ids)) == length if length else max(map(len, ids)) > 20
    assert rust.special_ids == slow.special_ids
    assert (rust.vocabulary_size, rust.special_count) == (slow.vocabulary_size, slow.special_count)
    assert rust.unknown_id == slow.unknown_id is not None
    assert rust.encode([], 8) == []
    assert slow.rust is not None
    assert rust.description() == slow.rust.description()


@pytest.mark.parametrize("count", [1, 40])
def test_texts_lose_tokens_on_the_side_that_was_chosen(tiny_folder: Path, count: int) -> None:
    backend = Backend.from_file(str(tiny_folder / "tokenizer.json"))
    whole = RustTokenizer(backend).encode(TEXTS[-1:], None)[0].tolist()
    short = RustTokenizer(backend, truncation_side="left").encode(count * TEXTS[-1:], 6)
    assert {tuple(row.tolist()) for row in short} == {(whole[0], *whole[-5:])}


def test_characters_for_each_id_shorten_a_text_before_it_is_split(tiny_folder: Path) -> None:
    backend = Backend.from_file(str(tiny_folder / "tokenizer.json"))
    plain, short = RustTokenizer(backend), RustTokenizer(backend, characters_per_id=2)
    assert (plain.longest_text(5), short.longest_text(5), short.longest_text(None)) == (None, 10, None)
    text = TEXTS[-1]
    assert short.encode([text], 5)[0].tolist() == plain.encode([text[:10]], 5)[0].tolist()
    assert short.description() != plain.description()


def test_the_unknown_token_of_a_unigram_model_is_the_named_one() -> None:
    backend = Backend(models.Unigram([("<unk>", 0.0), ("tea", -1.0)], unk_id=0))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    assert RustTokenizer(backend).unknown_id is None
    named = RustTokenizer(backend, unknown="<unk>")
    assert named.unknown_id == 0
    assert named.encode(["tea zzz"], None)[0].tolist() == [1, 0]


def test_a_copy_and_a_pickle_split_special_tokens_too(tiny_folder: Path) -> None:
    backend = Backend.from_file(str(tiny_folder / "tokenizer.json"))
    split = RustTokenizer(backend, splits_special=True)
    expected = split.encode(["a [MASK]"], None)[0].tolist()
    assert expected != RustTokenizer(backend).encode(["a [MASK]"], None)[0].tolist()
    for other in (copy.deepcopy(split), pickle.loads(pickle.dumps(split))):
        assert other.encode(["a [MASK]"], None)[0].tolist() == expected
    assert not backend.encode_special_tokens


def test_threads_with_different_lengths_do_not_disturb_each_other(rust: RustTokenizer) -> None:
    expected = {length: [row.tolist() for row in rust.encode(TEXTS, length)] for length in (3, 6, 9)}
    with ThreadPoolExecutor(6) as pool:
        lengths = [3, 6, 9] * 40
        rows = list(pool.map(lambda length: [row.tolist() for row in rust.encode(TEXTS, length)], lengths))
    assert rows == [expected[length] for length in lengths]


def test_rows_are_padded_on_the_right() -> None:
    ids, lengths = padded([np.array([], dtype=np.int32), np.array([4, 5])], pad_id=9)
    assert (ids.tolist(), lengths.tolist()) == ([[9, 9], [4, 5]], [0, 2])


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, 16),
        ({"RAYON_NUM_THREADS": "3"}, 3),
        ({"RAYON_NUM_THREADS": "0"}, 16),
        ({"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "3"}, 1),
        ({"TOKENIZERS_PARALLELISM": "true"}, 16),
    ],
)
def test_the_number_of_threads(variables: dict[str, str], expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TOKENIZERS_PARALLELISM", "RAYON_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(rust_tokenizer, "cores", lambda: 16)
    assert rust_tokenizer.threads() == expected


@pytest.mark.parametrize("count", [1, 16])
def test_many_texts_have_the_same_ids_by_words_and_by_all_cores(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of words on few cores, the library's own threads on many."""
    backend = Backend.from_file(str(builtin_folder() / "tokenizer.json"))
    texts = [f"The kettle number {n} sings; naïve Ünïcode {n % 7}." for n in range(200)]
    tokenizer = RustTokenizer(backend)
    monkeypatch.setattr(rust_tokenizer, "threads", lambda: count)
    tables: list[int] = []
    monkeypatch.setattr(RustTokenizer, "by_word", _counting(RustTokenizer.by_word, tables))
    rows = [row.tolist() for row in tokenizer.encode(texts, 9)]
    assert rows == [row.tolist() for text in texts for row in tokenizer.encode([text], 9)]
    assert len(tables) == (count == 1)


def _counting(method: Callable[[RustTokenizer], object], calls: list[int]) -> Callable[[RustTokenizer], object]:
    def counted(tokenizer: RustTokenizer) -> object:
        calls.append(1)
        return method(tokenizer)

    return counted
