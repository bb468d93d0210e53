import copy
import json
import pickle
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer as RustTokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import AutoTokenizer, ByT5Tokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from opencse.errors import UserError
from opencse.text.tokenizer import Ids, Tokenizer

TEXTS = ["The bread rises.", "", "Ünïcödé [MASK] \u4e2d\u6587 " * 9, "a", "one two three four five six seven " * 12]


def transformers_ids(tokenizer: PreTrainedTokenizerBase, max_length: int | None) -> list[list[int]]:
    rows = tokenizer(TEXTS, truncation=max_length is not None, max_length=max_length)["input_ids"]
    return [list(row) for row in rows]


def lists(rows: list[Ids]) -> list[list[int]]:
    assert all(row.dtype == np.int32 for row in rows)
    return [row.tolist() for row in rows]


@pytest.fixture
def tokenizer(tiny_folder: Path) -> Tokenizer:
    return Tokenizer.load(tiny_folder)


@pytest.mark.parametrize("fast", [True, False])
def test_ids_are_those_of_transformers(
    tokenizer: Tokenizer, tiny_folder: Path, fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tokenizer.rust is not None
    if not fast:
        monkeypatch.setattr(tokenizer, "rust", None)
    direct = AutoTokenizer.from_pretrained(tiny_folder)
    for max_length in (8, None, 3, 8, 12, None):
        ids = lists(tokenizer.encode(TEXTS, max_length))
        assert ids == transformers_ids(direct, max_length)
        longest = max(len(row) for row in ids)
        assert longest > 60 if max_length is None else longest == max_length
    assert tokenizer.encode([], 8) == []


def test_ids_are_those_of_transformers_where_there_is_no_fast_backend() -> None:
    direct = ByT5Tokenizer()
    tokenizer = Tokenizer(ByT5Tokenizer())
    assert tokenizer.rust is None
    for max_length in (5, None):
        assert lists(tokenizer.encode(TEXTS, max_length)) == transformers_ids(direct, max_length)
    assert tokenizer.vocabulary_size == len(direct)


def test_texts_are_truncated_on_the_tokenizers_own_side(tiny_folder: Path) -> None:
    left = AutoTokenizer.from_pretrained(tiny_folder, truncation_side="left")
    tokenizer = Tokenizer(left)
    cut = lists(tokenizer.encode(TEXTS, 8))
    assert cut == transformers_ids(left, 8)
    assert cut != lists(Tokenizer.load(tiny_folder).encode(TEXTS, 8))


def test_special_tokens_in_the_text_are_treated_as_transformers_does(tiny_folder: Path) -> None:
    split = AutoTokenizer.from_pretrained(tiny_folder, split_special_tokens=True)
    ids = lists(Tokenizer(split).encode(TEXTS, None))
    assert ids == transformers_ids(split, None)
    assert ids != lists(Tokenizer.load(tiny_folder).encode(TEXTS, None))
    sent = pickle.loads(pickle.dumps(Tokenizer(split)))
    for texts in (TEXTS, TEXTS * 80):  # one by one, and by a table of words
        assert lists(sent.encode(texts, None)) == lists(Tokenizer(split).encode(texts, None))
    assert sent.fingerprint() == Tokenizer(split).fingerprint()


def test_threads_with_other_lengths_do_not_interfere(tokenizer: Tokenizer) -> None:
    texts = ["a long text of many words " * 20] * 8
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    ended, wrong = threading.Event(), []

    def other() -> None:
        while not ended.is_set():
            tokenizer.fingerprint()

    thread = threading.Thread(target=other)
    thread.start()
    try:
        for _ in range(200):
            wrong += [row for row in tokenizer.encode(texts, 16) if len(row) > 16]
    finally:
        ended.set()
        thread.join()
        sys.setswitchinterval(interval)
    assert not wrong


def test_nothing_set_here_leaks_into_what_is_saved(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.hf.save_pretrained(tmp_path / "before")
    tokenizer.encode(TEXTS, 4)
    tokenizer.hf.save_pretrained(tmp_path / "after")
    saved = json.loads((tmp_path / "after" / "tokenizer.json").read_text())
    assert (saved["truncation"], saved["padding"]) == (None, None)
    for file in (tmp_path / "before").iterdir():
        assert (tmp_path / "after" / file.name).read_bytes() == file.read_bytes()
    assert len(tokenizer.hf(TEXTS[-1])["input_ids"]) > 4


def test_state_of_the_given_tokenizer_does_not_matter(tokenizer: Tokenizer, tiny_folder: Path) -> None:
    used = AutoTokenizer.from_pretrained(tiny_folder)
    used(TEXTS, truncation=True, max_length=4, padding="max_length")
    assert Tokenizer(used).fingerprint() == tokenizer.fingerprint()
    assert lists(Tokenizer(used).encode(TEXTS, None)) == lists(tokenizer.encode(TEXTS, None))


def test_fingerprint_stays_and_leaves_truncation_alone(tokenizer: Tokenizer) -> None:
    before = tokenizer.fingerprint()
    ids = lists(tokenizer.encode(TEXTS, 4))
    assert tokenizer.fingerprint() == before
    assert lists(tokenizer.encode(TEXTS, 4)) == ids
    assert copy.deepcopy(tokenizer).fingerprint() == before


def test_fingerprint_differs_where_ids_could(tiny_folder: Path) -> None:
    def fingerprint(**how: object) -> str:
        return Tokenizer(AutoTokenizer.from_pretrained(tiny_folder, **how)).fingerprint()

    assert fingerprint() == fingerprint()
    more = AutoTokenizer.from_pretrained(tiny_folder)
    more.add_tokens(["doughy"])
    different = [
        fingerprint(),
        fingerprint(truncation_side="left"),
        fingerprint(split_special_tokens=True),
        Tokenizer(more).fingerprint(),
        Tokenizer(ByT5Tokenizer()).fingerprint(),
        Tokenizer(ByT5Tokenizer(extra_ids=7)).fingerprint(),
    ]
    assert len(set(different)) == len(different)
    assert Tokenizer(ByT5Tokenizer()).fingerprint() == Tokenizer(ByT5Tokenizer()).fingerprint()


def test_padding_is_on_the_right(tiny_folder: Path) -> None:
    tokenizer = Tokenizer(AutoTokenizer.from_pretrained(tiny_folder, padding_side="left"))
    tokenizer.pad_id = 9
    rows = [np.array(row, dtype=np.int32) for row in ([1], [2, 3, 4], [5, 6])]
    tokens = tokenizer.pad(rows)
    assert tokens.input_ids.tolist() == [[1, 9, 9], [2, 3, 4], [5, 6, 9]]
    assert tokens.attention_mask.tolist() == [[1, 0, 0], [1, 1, 1], [1, 1, 0]]
    assert tokens.input_ids.dtype == tokens.attention_mask.dtype == torch.int64
    assert len(tokens) == 3
    moved = tokens.to(torch.device("meta"))
    assert moved.input_ids.device.type == moved.attention_mask.device.type == "meta"


def test_padding_is_that_of_transformers(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.pad(tokenizer.encode(TEXTS, 16))
    direct = tokenizer.hf(TEXTS, truncation=True, max_length=16, padding=True, return_tensors="pt")
    assert torch.equal(tokens.input_ids, direct["input_ids"])
    assert torch.equal(tokens.attention_mask, direct["attention_mask"])


def test_folder_without_or_with_a_broken_tokenizer(tiny_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((tiny_folder / "config.json").read_bytes())
    with pytest.raises(UserError) as caught:
        Tokenizer.load(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}: the model folder has no tokenizer (looked for tokenizer.json, ")
    assert str(caught.value).endswith("save it there with tokenizer.save_pretrained(folder)")
    for content in ("{}", "{", "", "[]", '{"version": "1.0", "model": {"type": "Nope"}}'):
        (tmp_path / "tokenizer.json").write_text(content)
        with pytest.raises(UserError) as caught:
            Tokenizer.load(tmp_path)
        assert str(caught.value).startswith(f"{tmp_path}: its tokenizer cannot be loaded (")
        assert "\n" not in str(caught.value)


def test_tokenizer_without_padding_token() -> None:
    backend = RustTokenizer(WordLevel({"a": 0, "?": 1}, unk_token="?"))
    backend.pre_tokenizer = Whitespace()
    bare = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="?")  # type: ignore[no-untyped-call]
    with pytest.raises(UserError, match=r"the tokenizer has no padding token; set tokenizer\.pad_token"):
        Tokenizer(bare)
    bare.pad_token = "?"
    assert Tokenizer(bare).pad_id == 1
