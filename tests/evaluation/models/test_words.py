from __future__ import annotations

import bz2
import gzip
import lzma
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fuzzing import examples
from opencse.errors import UserError
from opencse.evaluation.models import words as module
from opencse.evaluation.models.words import Coverage, WordVectors

GLOVE = "the 1 2 3\ndog 0.5 -1 2e-1\nThe 9 9 9\n"


def written(folder: Path, content: str, name: str = "v.txt") -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def naive(vectors: WordVectors, text: str) -> list[float]:
    total, count = [0.0] * vectors.dimension, 0
    for token in text.split():
        for form in (token, token.lower()):
            if form in vectors.words:
                row = vectors.vectors[vectors.words[form]]
                total = [a + float(b) for a, b in zip(total, row, strict=True)]
                count += 1
                break
    return [a / count for a in total] if count else total


@pytest.mark.parametrize(
    "content",
    [
        GLOVE,
        "3 3\n" + GLOVE,
        "\ufeff" + GLOVE,
        GLOVE.replace("\n", " \r\n"),
        GLOVE.replace(" ", "\t"),
        GLOVE + "\n",
        GLOVE + "dog 7 7 7\nat name 1 2 3\n",
    ],
    ids=["glove", "header", "mark", "fasttext", "tabs", "blank line", "doubled and spaced"],
)
def test_every_form_of_the_format(content: str, tmp_path: Path) -> None:
    read = WordVectors.load(written(tmp_path, content))
    assert read.words == {"the": 0, "dog": 1, "The": 2}
    assert read.vectors.dtype == np.float32
    np.testing.assert_array_equal(read.vectors, np.array([[1, 2, 3], [0.5, -1, 0.2], [9, 9, 9]], np.float32))


def test_a_doubled_word_in_the_middle_keeps_its_first_vector(tmp_path: Path) -> None:
    read = WordVectors.load(written(tmp_path, "a 1 2\na 3 4\nb 5 6\n"))
    assert (read.words, read.vectors.tolist()) == ({"a": 0, "b": 1}, [[1, 2], [5, 6]])


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)])
def test_compressed(suffix: str, pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / f"v.txt{suffix}"
    path.write_bytes(pack(GLOVE.encode()))
    assert len(WordVectors.load(path).words) == 3


def test_words_that_python_would_split(tmp_path: Path) -> None:
    """GloVe has vectors of no-break spaces and the like; they are words of one field."""
    read = WordVectors.load(written(tmp_path, "\xa0 1 2\n\x85 3 4\n\u2028 5 6\n"))
    assert list(read.words) == ["\xa0", "\x85", "\u2028"]


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("a 1 2\nb 1\n", ["line 2", "1 values where 2"]),
        ("a 1 2\nb 1 2 3\n", ["line 2", "3 values where 2"]),
        ("2 3\na 1 2 3\nb 1 2\n", ["line 3", "2 values where 3"]),
        ("a\n", ["line 1", "0 values"]),
        ("a 1 2\nb 1 x\n", ["line 2", "'x' is not a number"]),
        ("a 1 2\nb 1 nan\n", ["line 2", "not finite"]),
        ("a 1 2\n\nb inf 1\n", ["line 3", "not finite"]),
        ("a 1 1e39\n", ["line 1", "not finite"]),
        ("3 2\na 1 2\nb 1 2\n", ["promises 3 vectors, but 2 follow"]),
        ("1 2\na 1 2\nb 1 2\n", ["promises 1 vector, but 2 follow"]),
        ("5 2\n", ["holds no word vector"]),
        ("\n\n", ["holds no word vector"]),
        ("", ["is empty"]),
    ],
)
def test_faults_are_named_with_file_and_line(content: str, parts: list[str], tmp_path: Path) -> None:
    path = written(tmp_path, content)
    with pytest.raises(UserError) as caught:
        WordVectors.load(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    for part in parts:
        assert part in message


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        WordVectors.load(tmp_path / "none.txt")


def test_as_it_stands_then_lower_cased_then_left_out(tmp_path: Path) -> None:
    read = WordVectors.load(written(tmp_path, GLOVE))
    vectors, coverage = read.encode_and_count(["the Dog", "The", "THE cat", "cat", "", "the the dog"])
    expected = [[0.75, 0.5, 1.6], [9, 9, 9], [1, 2, 3], [0, 0, 0], [0, 0, 0], [2.5 / 3, 1, 6.2 / 3]]
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, np.array(expected), rtol=1e-6)
    assert coverage == Coverage(texts=6, empty=2, words=9, unknown=2)
    assert coverage == read.encode_and_count(["the Dog", "The", "THE cat", "cat", "", "the the dog"])[1]
    assert coverage.unknown_rate == pytest.approx(2 / 9)
    assert str(coverage) == "22.22% of 9 words unknown, 2 of 6 texts without a known word"
    assert read.encode_and_count([])[1].unknown_rate == 0.0
    assert read.encode([]).shape == (0, 3)


TABLE = WordVectors({"a": 0, "b": 1, "Ab": 2, "ab": 3}, np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32))


@settings(examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.sampled_from(["a", "A", "b", "Ab", "AB", "ab", "x"]), max_size=6), max_size=9))
def test_equals_naive_averages_over_any_blocks(monkeypatch: pytest.MonkeyPatch, texts: list[list[str]]) -> None:
    monkeypatch.setattr(module, "BLOCK", 2)
    lines = [" ".join(tokens) for tokens in texts]
    told: list[tuple[int, int]] = []
    vectors, coverage = TABLE.encode_and_count(lines, lambda done, total: told.append((done, total)))
    expected: NDArray[np.float64] = np.array([naive(TABLE, line) for line in lines]).reshape(-1, 5)
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    assert coverage.empty == sum(not row.any() for row in expected)
    assert coverage.unknown == sum(tokens.count("x") for tokens in texts)
    assert told == [(min(i, len(lines)), len(lines)) for i in range(2, len(lines) + 2, 2)]


def test_fast(sentences: list[str]) -> None:
    known = {word: row for row, word in enumerate(dict.fromkeys(" ".join(sentences).split()))}
    table = WordVectors(known, np.ones((len(known), 300), np.float32))
    texts = (sentences * 20)[:20_000]
    started = time.process_time()
    assert table.encode(texts).shape == (20_000, 300)
    assert time.process_time() - started < 4, "10,000 sentences a second are meant"
