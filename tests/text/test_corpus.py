from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer as RustTokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from opencse.errors import UserError
from opencse.text import corpus as corpus_module
from opencse.text.column_prompts import ColumnPrompts
from opencse.text.corpus import text_key, tokenise
from opencse.text.readers import Source
from opencse.text.tokenizer import Tokenizer

TEXT = "The bread rises.\nA  cat sleeps\tin the sun.\n\nA cat sleeps in the sun.\n\n" + "word " * 30 + "\nThe end.\n"


@pytest.fixture
def source(tmp_path: Path) -> Source:
    path = tmp_path / "a.txt"
    path.write_text(TEXT)
    return Source(str(path))


def words(count: int) -> Tokenizer:
    """A tokenizer of ``count`` words w0, w1, ..., without special tokens; other words are w0."""
    backend = RustTokenizer(WordLevel({f"w{n}": n for n in range(count)}, unk_token="w0"))
    backend.normalizer = BertNormalizer(clean_text=True)
    backend.pre_tokenizer = WhitespaceSplit()
    fast = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="w0", pad_token="w1")  # type: ignore[no-untyped-call]
    return Tokenizer(fast)


def test_ids_offsets_keys_and_documents(source: Source, tokenizer: Tokenizer, tiny_folder: Path, cache: Path) -> None:
    corpus = tokenise(source, tokenizer, 12, cache=cache)
    direct = AutoTokenizer.from_pretrained(tiny_folder)
    texts = [" ".join(line.split()) for line in TEXT.splitlines() if line]
    ids = direct(texts, truncation=True, max_length=12)["input_ids"]
    assert [corpus.text_ids(row, 0).tolist() for row in range(5)] == ids
    assert corpus.ids.tolist() == [token for row in ids for token in row]
    assert corpus.offsets.tolist() == [0, *np.cumsum([len(row) for row in ids])]
    assert corpus.documents.tolist() == [0, 0, 1, 2, 2]
    assert (len(corpus), corpus.width, corpus.keys.shape) == (5, 1, (5, 1))
    keys = corpus.keys[:, 0].tolist()
    assert keys[1] == keys[2]
    assert len(set(keys)) == 4


def test_facts(source: Source, tokenizer: Tokenizer, cache: Path) -> None:
    corpus = tokenise(source, tokenizer, 12, cache=cache)
    facts = corpus.facts
    assert (facts.source, facts.fingerprint) == (source.location, source.fingerprint())
    assert (facts.rows, facts.width, facts.max_length) == (5, 1, 12)
    assert (facts.duplicates, facts.documents) == (1, 3)
    assert facts.tokens == np.diff(corpus.offsets).sum() == len(corpus.ids)
    uncut = sorted(len(tokenizer.hf(text)["input_ids"]) for text in TEXT.splitlines() if text)
    assert facts.at_limit == sum(length >= 12 for length in uncut) == 3
    for limit in (uncut[-1], uncut[-1] + 1):
        reached = tokenise(source, tokenizer, limit, cache=cache).facts.at_limit
        assert reached == (1 if limit == uncut[-1] else 0)


def test_rows_of_three_and_no_documents(tmp_path: Path, tokenizer: Tokenizer, cache: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("anchor,positive,negative\na,b,c\na,b,d\na, b,c\nb,a,c\n")
    corpus = tokenise(Source(str(path)), tokenizer, 8, cache=cache)
    assert (corpus.width, corpus.keys.shape, corpus.offsets.shape) == (3, (4, 3), (13,))
    assert (corpus.facts.duplicates, corpus.facts.documents) == (1, 0)
    assert corpus.documents.tolist() == [0, 0, 0, 0]
    for row, texts in enumerate(("abc", "abd", "abc", "bac")):
        for column, text in enumerate(texts):
            assert corpus.text_ids(row, column).tolist() == tokenizer.hf(text)["input_ids"]
            assert corpus.keys[row, column] == text_key(text)


def test_keys_are_the_same_everywhere_and_blind_to_white_space() -> None:
    assert text_key("A cat sleeps.") == -5577966672486710948
    assert text_key(" A\tcat \u00a0\n sleeps.") == text_key("A cat sleeps.")
    assert len({text_key(text) for text in ("A cat sleeps.", "a cat sleeps.", "A cat sleeps", "Acat sleeps.")}) == 4


def test_arrays_are_memory_mapped_and_texts_are_copies(source: Source, tokenizer: Tokenizer, cache: Path) -> None:
    corpus = tokenise(source, tokenizer, 12, cache=cache)
    for array in (corpus.ids, corpus.offsets, corpus.keys, corpus.documents):
        assert isinstance(array, np.memmap)
        assert not array.flags.writeable
    ids = corpus.text_ids(0, 0)
    assert ids.dtype == np.int32
    assert type(ids) is np.ndarray
    assert ids.flags.writeable
    ids[:] = 0
    assert corpus.text_ids(0, 0).all()


def test_the_smallest_whole_number_that_holds_the_ids(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("w1 w65535\nw2\n")
    large = words(65_537)
    small = tokenise(Source(str(path)), large, 8, cache=cache)
    assert small.ids.dtype == np.uint16
    assert small.ids.tolist() == [1, 65_535, 2]
    path.write_text("w1 w65536\nw2\n")
    wide = tokenise(Source(str(path)), large, 8, cache=cache)
    assert wide.ids.dtype == np.int32
    assert wide.ids.tolist() == [1, 65_536, 2]
    ids = wide.text_ids(0, 0)
    assert ids.tolist() == [1, 65_536]
    assert type(ids) is np.ndarray
    assert ids.flags.writeable


def test_progress_is_reported_in_rows(
    tmp_path: Path, tokenizer: Tokenizer, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("anchor,positive\n" + "".join(f"a {n},b {n}\n" for n in range(5)))
    whole = tokenise(Source(str(path)), tokenizer, 8, cache=cache)
    monkeypatch.setattr(corpus_module, "_CHUNK", 4)
    calls: list[tuple[int, int]] = []
    chunked = tokenise(
        Source(str(path)),
        tokenizer,
        8,
        cache=cache / "other",
        progress=lambda done, total: calls.append((done, total)),
    )
    assert calls == [(2, 5), (4, 5), (5, 5)]
    assert chunked.ids.tolist() == whole.ids.tolist()
    assert chunked.offsets.tolist() == whole.offsets.tolist()
    assert chunked.facts == whole.facts


def test_text_without_a_token(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("w1\n\u200b\u200b\nw2\n")
    with pytest.raises(UserError) as caught:
        tokenise(Source(str(path)), words(3), 12, cache=cache)
    assert str(caught.value) == f"{path}: the tokenizer makes no token of the text '\\u200b\\u200b'; drop it"
    assert list((cache / "corpora").iterdir()) == []


@pytest.mark.parametrize(("prompt", "own"), [("w5 w6 ", 2), ("w5 w6", 1)])
def test_a_prompt_comes_before_every_text_and_is_none_of_its_words(
    prompt: str, own: int, source: Source, tokenizer: Tokenizer, cache: Path
) -> None:
    plain = tokenise(source, tokenizer, 64, words=True, cache=cache)
    prompted = tokenise(source, tokenizer, 64, prompts=ColumnPrompts(prompt), words=True, cache=cache)
    texts = [" ".join(line.split()) for line in TEXT.splitlines() if line]
    assert [prompted.text_ids(row, 0).tolist() for row in range(5)] == [
        ids.tolist() for ids in tokenizer.encode([prompt + text for text in texts], 64)
    ]
    assert prompted.keys.tolist() == plain.keys.tolist()
    for row in range(5):
        with_prompt, without = prompted.text(row, 0).words, plain.text(row, 0).words
        assert with_prompt is not None
        assert without is not None
        assert with_prompt.max() == without.max(), "the words of the text have the numbers they had"
        assert (with_prompt == -1).sum() > (without == -1).sum()
        if own == 2:
            assert with_prompt[with_prompt >= 0].tolist() == without[without >= 0].tolist()
