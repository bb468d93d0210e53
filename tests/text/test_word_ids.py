"""The table of words gives the tokenizer's own ids, whatever the text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzzing import examples
from helpers import filled
from opencse.model_folder.locate import locate
from opencse.text import sample
from opencse.text.tokenizer import Tokenizer
from opencse.text.word_ids import WordIds

ODD = [
    "",
    " ",
    "  two  spaces ",
    "tabs\tand\nlines\r\n",
    "a\x1cb a\x00b \x7f",
    "é e\u0301 \u0301alone ÀÉÎ straße ΣΑΣ İ",
    "漢字 and漢字mixed",
    "[CLS] [SEP][MASK] x[MASK]y [mask]",
    "don't stop-me (now)!...",
    "\u00a0no-break\u2003em\u200bzero\u200d",
    "x" * 39 + " " + "x" * 41 + " " + "y" * 300,
    "word " * 500,
    "longword" * 2_000 + " end",
    "🙂🙂 👩\u200d👩",
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(locate("opencse-mini"))


def own(tokenizer: Tokenizer, texts: list[str], limit: int | None) -> list[list[int]]:
    """The tokenizer's ids, a few at a time: so it asks no table."""
    return [
        ids.tolist() for start in range(0, len(texts), 40) for ids in tokenizer.encode(texts[start : start + 40], limit)
    ]


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("limit", [None, 3, 8, 128])
def test_ids_are_the_tokenizers_own(tokenizer: Tokenizer, limit: int | None, side: str) -> None:
    texts = [*ODD, *filled(sample.TRAIN)[:600]]
    tokenizer.hf.truncation_side = side
    tokenizer = Tokenizer(tokenizer.hf)
    try:
        for _ in range(2):  # the second time from the table
            found = tokenizer.encode(texts, limit)
            assert tokenizer.rust is not None
            assert isinstance(tokenizer.rust.by_word(), WordIds)
            assert [ids.tolist() for ids in found] == own(Tokenizer(tokenizer.hf), texts, limit)
            assert all(ids.dtype == np.int32 and ids.flags.writeable for ids in found)
    finally:
        tokenizer.hf.truncation_side = "right"


@examples(150)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=3), st.integers(3, 20))
def test_any_text(texts: list[str], limit: int) -> None:
    assert ANY.rust is not None
    table = ANY.rust.by_word()
    assert table is not None
    joined = [*texts, " ".join(texts)]
    assert [ids.tolist() for ids in table.encode(joined, limit)] == own(ANY, joined, limit)


ANY = Tokenizer.load(locate("opencse-mini"))


def test_a_full_table_is_emptied(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opencse.text.word_ids._KEPT", 50)
    fresh, texts = Tokenizer(tokenizer.hf), filled(sample.TRAIN)[:200]
    for start in (0, 100):
        part = texts[start : start + 100]
        assert [ids.tolist() for ids in fresh.encode(part, 32)] == own(tokenizer, part, 32)
    assert fresh.rust is not None
    table = fresh.rust.by_word()
    assert table is not None
    assert len(table._known) < 2_000


def test_other_tokenizers_have_no_table(byte_level: Tokenizer, tiny_folder: Path) -> None:
    texts = ["some words of a text"] * 80
    byte_level.encode(texts, 16)
    assert byte_level.rust is not None
    assert byte_level.rust.by_word() is None
    spaced = Tokenizer.load(tiny_folder)
    spaced.hf.add_tokens(["two words"])
    spaced = Tokenizer(spaced.hf)
    assert [ids.tolist() for ids in spaced.encode(["of two words here"] * 80, 16)] == own(
        spaced, ["of two words here"] * 80, 16
    )
    assert spaced.rust is not None
    assert spaced.rust.by_word() is None
