"""Which word an id is of: WordPiece, byte-level BPE and Unigram against a slow reference, and each word on its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, ByT5Tokenizer, PreTrainedTokenizerFast

from fuzzing import examples
from opencse.errors import UserError
from opencse.text import sample
from opencse.text.tokenizer import TokenisedText, Tokenizer, _word_numbers

KINDS = ["wordpiece", "bpe", "unigram"]
MESSY = [
    "The bread rises.",
    "two  spaces and\ta tab",
    "  leading, trailing \n",
    "don't (stop) the 3.5-mile race!!!",
    "naïve Ünïcödé e\u0301clair caf\u00e9",
    "\u4e2d\u6587 words, \U0001f600\U0001f680 emoji",
    "no\u00a0break and\u2003em space",
    "zero\u200bwidth",
    "...",
    "a",
]


def wrapped(backend: Backend) -> Tokenizer:
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    return Tokenizer(PreTrainedTokenizerFast(tokenizer_object=backend, **names))  # type: ignore[no-untyped-call]


def byte_level() -> Tokenizer:
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator(sample.TRAIN.read_text().splitlines()[:1000], trainer)
    backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return wrapped(backend)


def unigram() -> Tokenizer:
    backend = Backend(models.Unigram())
    backend.normalizer = normalizers.NFKC()
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(vocab_size=400, special_tokens=special, unk_token="<unk>", show_progress=False)
    backend.train_from_iterator(sample.TRAIN.read_text().splitlines()[:1000], trainer)
    ends = [("<s>", 0), ("</s>", 2)]
    backend.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ends)
    return wrapped(backend)


@pytest.fixture(scope="module")
def tokenizers(tiny_folder: Path) -> dict[str, Tokenizer]:
    return {"wordpiece": Tokenizer.load(tiny_folder), "bpe": byte_level(), "unigram": unigram()}


def one(tokenizer: Tokenizer, text: str, max_length: int | None = None) -> tuple[list[int], list[int]]:
    """Ids and words of ``text``, the ids being those of `encode`."""
    (made,) = tokenizer.encode_words([text], max_length)
    assert made.words is not None
    assert made.ids.dtype == np.int32
    assert made.words.dtype == np.int16
    assert made.ids.shape == made.words.shape
    (plain,) = tokenizer.encode([text], max_length)
    assert made.ids.tolist() == plain.tolist()
    return made.ids.tolist(), made.words.tolist()


def reference(tokenizer: Tokenizer, text: str) -> list[int]:
    """Character by character: the word of a token's last visible character, or else of the next one in the text."""
    word_of: list[int | None] = []
    number, inside = -1, False
    for character in text:
        if character.isspace():
            inside = False
            word_of.append(None)
            continue
        number, inside = (number if inside else number + 1), True
        word_of.append(number)
    encoding = tokenizer.hf.backend_tokenizer.encode(text)
    words = []
    for (start, end), special in zip(encoding.offsets, encoding.special_tokens_mask, strict=True):
        visible = [word for word in word_of[start:end] if word is not None]
        following = [word for word in word_of[start:] if word is not None]
        words.append(-1 if special else visible[-1] if visible else following[0] if following else max(number, 0))
    first = min((word for word in words if word >= 0), default=0)
    return [word - first if word >= 0 else -1 for word in words]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", MESSY)
def test_words_as_counted_character_by_character(tokenizers: dict[str, Tokenizer], kind: str, text: str) -> None:
    ids, words = one(tokenizers[kind], text)
    assert words == reference(tokenizers[kind], text)
    assert (words[0], words[-1]) == (-1, -1)
    assert words.count(-1) == 2
    inner = words[1:-1]
    assert sorted(set(inner)) == list(range(len(text.split()))), "every word has an id here"
    assert inner == sorted(inner)
    assert len(ids) >= len(text.split()) + 2


@pytest.mark.parametrize("kind", KINDS)
@examples(60)
@given(text=st.text(alphabet="ab th.,'\t é\u0301\u4e2d\u00a0\u200b\U0001f600\u2581\u0120\n0", max_size=25))
def test_any_text_as_counted_character_by_character(tokenizers: dict[str, Tokenizer], kind: str, text: str) -> None:
    assert one(tokenizers[kind], text)[1] == reference(tokenizers[kind], text)


@pytest.mark.parametrize("kind", KINDS)
@examples(60)
@given(words=st.lists(st.text(alphabet="thecatsñ.,!'-\u4e2d7", min_size=1, max_size=8), min_size=1, max_size=8))
def test_a_word_has_the_ids_it_has_alone(tokenizers: dict[str, Tokenizer], kind: str, words: list[str]) -> None:
    """No offset is read: between single spaces, these tokenizers cut every word as if it were alone."""
    tokenizer = tokenizers[kind]
    ids, numbers = one(tokenizer, " ".join(words))
    for k, word in enumerate(words):
        alone = (" " if kind == "bpe" and k else "") + word
        expected = tokenizer.encode([alone], None)[0][1:-1].tolist()
        assert [i for i, number in zip(ids, numbers, strict=True) if number == k] == expected


def test_the_tokenizers_do_split_words_into_pieces(tokenizers: dict[str, Tokenizer]) -> None:
    """Guards the tests above: pieces, lone space marks and attached punctuation all occur."""
    for tokenizer in tokenizers.values():
        ids, words = one(tokenizer, "Unbelievably (so).")
        assert words.count(0) > 1
        assert words.count(1) > 1
        assert len(ids) > 6
    marks = {
        kind: [tokenizers[kind].hf.convert_ids_to_tokens(i) for i in one(tokenizers[kind], "x  \u4e2d  ")[0]]
        for kind in KINDS
    }
    assert marks["bpe"].count("\u0120") >= 3
    assert marks["unigram"].count("\u2581") >= 3


def test_a_lone_mark_of_a_words_beginning_is_of_that_word(tokenizers: dict[str, Tokenizer]) -> None:
    for kind, mark in (("bpe", "\u0120"), ("unigram", "\u2581")):
        ids, words = one(tokenizers[kind], "an \u4e2d")
        tokens = tokenizers[kind].hf.convert_ids_to_tokens(ids)
        at = len(tokens) - 1 - tokens[::-1].index(mark)
        assert words[at] == words[at + 1] == 1


@pytest.mark.parametrize("kind", KINDS)
def test_texts_without_words(tokenizers: dict[str, Tokenizer], kind: str) -> None:
    assert one(tokenizers[kind], "")[1] == [-1, -1]
    ids, words = one(tokenizers[kind], " \t ")
    assert words == [-1, *[0] * (len(ids) - 2), -1]
    assert tokenizers[kind].encode_words([], 8) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limit", [3, 5, 9])
def test_cut_texts(tokenizers: dict[str, Tokenizer], kind: str, limit: int) -> None:
    text = "the  house (of) cards, it seems, falls down"
    whole = one(tokenizers[kind], text)[1]
    ids, words = one(tokenizers[kind], text, limit)
    assert len(ids) == limit < len(whole)
    assert words == [*whole[: limit - 1], -1]
    assert one(tokenizers[kind], text)[1] == whole, "the limit does not stay"


def test_words_of_a_text_truncated_on_its_left_count_from_its_first_one(tiny_folder: Path) -> None:
    tokenizer = Tokenizer(AutoTokenizer.from_pretrained(tiny_folder, truncation_side="left"))
    assert one(tokenizer, "a b c dog e", 5)[1] == [-1, 0, 1, 2, -1]
    assert one(tokenizer, "the " * 40_000 + "\u4e2d\u6587 end", 6)[1] == [-1, 0, 1, 1, 2, -1]


def test_special_tokens_in_the_text_are_words(tokenizers: dict[str, Tokenizer]) -> None:
    ids, words = one(tokenizers["wordpiece"], "a [MASK] b")
    assert ids[2] == tokenizers["wordpiece"].hf.mask_token_id
    assert words == [-1, 0, 1, 2, -1]


def test_many_texts_at_once(tokenizers: dict[str, Tokenizer]) -> None:
    for tokenizer in tokenizers.values():
        made = tokenizer.encode_words(MESSY, 12)
        assert len(made) == len(MESSY)
        for text, row in zip(MESSY, made, strict=True):
            assert isinstance(row, TokenisedText)
            assert row.words is not None
            assert (row.ids.tolist(), row.words.tolist()) == one(tokenizer, text, 12)


def test_a_mark_at_the_end_of_a_word_is_of_that_word() -> None:
    """Tokenizers that put the white space after a word: the last visible character tells."""
    assert _word_numbers("ab cd ", [(0, 3), (3, 6)], [0, 0]).tolist() == [0, 1]


def test_tokens_over_several_words_are_of_the_last() -> None:
    assert _word_numbers("ab cd ef", [(0, 4), (4, 5), (5, 8)], [0, 0, 0]).tolist() == [0, 0, 1]


def test_tokens_of_no_width() -> None:
    spans = [(0, 0), (1, 1), (2, 2), (3, 3), (5, 5)]
    assert _word_numbers("ab cd", spans, [0] * 5).tolist() == [0, 0, 1, 1, 1]


def slow() -> Tokenizer:
    return Tokenizer(ByT5Tokenizer())


@pytest.mark.parametrize("make", [slow])
def test_a_tokenizer_that_cannot_tell_is_refused(make: Callable[[], Tokenizer]) -> None:
    with pytest.raises(UserError) as caught:
        make().encode_words(["a"], None)
    assert str(caught.value).startswith("ByT5Tokenizer: this tokenizer does not tell which word an id is of")
    assert "\n" not in str(caught.value)
