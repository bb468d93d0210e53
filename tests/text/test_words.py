"""Which word an id is of: WordPiece, byte-level BPE and Unigram against a slow reference, and each word on its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from fuzzing import examples
from opencse.errors import UserError
from opencse.objective.vectors.negation import negated
from opencse.objective.views.wordnet import read_synonyms
from opencse.text import sample
from opencse.text.tokenizer import Tokenizer

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
@examples(60)
@given(text=st.text(alphabet="ab th.,'\t é\u0301\u4e2d\u00a0\u200b\U0001f600\u2581\u0120\n0", max_size=25))
def test_any_text_as_counted_character_by_character(tokenizers: dict[str, Tokenizer], kind: str, text: str) -> None:
    assert one(tokenizers[kind], text)[1] == reference(tokenizers[kind], text)


@pytest.mark.parametrize("kind", KINDS)
def test_words_as_counted_character_by_character_also_of_many_texts_and_truncated_ones(
    tokenizers: dict[str, Tokenizer], kind: str
) -> None:
    tokenizer = tokenizers[kind]
    for text, row in zip(MESSY, tokenizer.encode_words(MESSY, 12), strict=True):
        ids, words = one(tokenizer, text)
        assert words == reference(tokenizer, text)
        assert sorted(set(words[1:-1])) == list(range(len(text.split()))), "every word has an id here"
        assert row.words is not None
        assert (row.ids.tolist(), row.words.tolist()) == one(tokenizer, text, 12)
        if len(ids) > 5:
            assert one(tokenizer, text, 5)[1] == [*words[:4], -1]
    assert one(tokenizer, "")[1] == [-1, -1]
    assert tokenizer.encode_words([], 8) == []


LICENCE = "  1 This software and database is provided to you\n  2 by whom it may concern\n"
NOUN = (
    '00000010 05 n 03 dog 0 hound 1 domestic_dog 0 002 @ 00000020 n 0000 ~ 00000030 n 0000 | a dog; "a cat hound"  \n'
    "00000020 05 n 02 dog 2 Frank 0 000 | a sausage  \n"
    "00000030 05 n 01 cat 0 000 | alone  \n"
    "00000040 05 n 0a w 0 wa 0 wb 0 wc 0 wd 0 we 0 wf 0 wg 0 wh 0 wi 0 000 | ten of them  \n"
)
VERB = "00000010 30 v 02 dog 0 chase 0 001 @ 00000020 v 0000 01 + 08 00 | follow  \n"
ADJ = "00000010 00 s 03 galore(ip) 0 abounding 0 A-one 0 000 | in abundance  \n"
ADV = "00000010 02 r 02 Dog 0 dog 1 000 | one word in two cases is no synonym  \n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part, lines in {"noun": LICENCE + NOUN, "verb": VERB, "adj": ADJ, "adv": ADV}.items():
        (tmp_path / f"data.{part}").write_text(lines)
    return tmp_path


def test_synonyms_are_the_other_single_words_of_all_synsets(folder: Path) -> None:
    letters = "abcdefghi"
    assert read_synonyms(folder) == {
        "dog": ("Frank", "chase", "hound"),
        "hound": ("dog",),
        "frank": ("dog",),
        "chase": ("dog",),
        "galore": ("abounding",),
        "abounding": ("galore",),
        "w": tuple(f"w{c}" for c in letters),
        **{f"w{c}": ("w", *(f"w{other}" for other in letters if other != c)) for c in letters},
    }


def test_missing_files_and_another_format_are_refused(folder: Path) -> None:
    for line in ("what is this", "00000010 05 n zz dog 0 hound 0", "00000010 05 n 00 x"):
        (folder / "data.verb").write_text(f"{LICENCE}{VERB}{line}\n")
        with pytest.raises(UserError, match=r"data\.verb: line 4 is not in WordNet's database format"):
            read_synonyms(folder)
    (folder / "data.verb").write_text(VERB)
    (folder / "data.adj").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match=r"data\.adj: WordNet cannot be read"):
        read_synonyms(folder)
    (folder / "data.noun").unlink()
    with pytest.raises(UserError, match=r"data\.noun: WordNet cannot be read \(.*wordnet-base.*view\.wordnet"):
        read_synonyms(folder)


@pytest.mark.parametrize(
    ("text", "negation"),
    [
        ("The dog is asleep .", "The dog is not asleep ."),
        ("They will not come .", "They will come ."),
        ("He has been there .", "He has not been there ."),
        ("She wrote two books .", "She did not write two books ."),
        ("It covers the area .", "It does not cover the area ."),
        ("He cannot swim .", "He can swim ."),
        ('He said "no" .', 'He did not say "no" .'),
        ("A quiet town in the north", "Not A quiet town in the north"),
        ("", "Not "),
    ],
)
def test_rules(text: str, negation: str) -> None:
    assert negated(text) == negation
