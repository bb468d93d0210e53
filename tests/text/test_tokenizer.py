from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from transformers import AutoTokenizer, ByT5Tokenizer, PreTrainedTokenizerBase

from fuzzing import examples
from helpers import filled
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.locate import locate
from opencse.text import sample
from opencse.text.rust_tokenizer import RustTokenizer, WordIds
from opencse.text.template import Template
from opencse.text.tokenizer import Ids, Tokenizer

TEXTS = ["The bread rises.", "", "Ünïcödé [MASK] \u4e2d\u6587 " * 9, "a", "one two three four five six seven " * 12]


def transformers_ids(tokenizer: PreTrainedTokenizerBase, max_length: int | None) -> list[list[int]]:
    rows = tokenizer(TEXTS, truncation=max_length is not None, max_length=max_length)["input_ids"]
    return [list(row) for row in rows]


def lists(rows: list[Ids]) -> list[list[int]]:
    assert all(row.dtype == np.int32 for row in rows)
    return [row.tolist() for row in rows]


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


def test_fingerprint_differs_where_ids_could(tiny_folder: Path) -> None:
    def fingerprint(**how: object) -> str:
        return Tokenizer(AutoTokenizer.from_pretrained(tiny_folder, **how)).fingerprint()

    assert fingerprint() == fingerprint()
    different = [fingerprint(), fingerprint(truncation_side="left"), fingerprint(split_special_tokens=True)]
    different += [Tokenizer(ByT5Tokenizer(extra_ids=n)).fingerprint() for n in (7, 125)]
    assert len(set(different)) == len(different)


def test_padding_is_on_the_right(tiny_folder: Path) -> None:
    tokenizer = Tokenizer(AutoTokenizer.from_pretrained(tiny_folder, padding_side="left"))
    tokenizer.pad_id = 9
    tokens = tokenizer.pad([np.array(row, dtype=np.int32) for row in ([1], [2, 3, 4], [5, 6])])
    assert tokens.input_ids.tolist() == [[1, 9, 9], [2, 3, 4], [5, 6, 9]]
    assert tokens.attention_mask.tolist() == [[1, 0, 0], [1, 1, 1], [1, 1, 0]]


def test_folder_without_or_with_a_broken_tokenizer(tiny_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((tiny_folder / "config.json").read_bytes())
    with pytest.raises(UserError, match=r"the model folder has no tokenizer .*save it there with tokenizer.save_pret"):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(UserError, match="its tokenizer cannot be loaded"):
        Tokenizer.load(tmp_path)


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


def test_threads_with_different_lengths_do_not_disturb_each_other(rust: RustTokenizer) -> None:
    expected = {length: [row.tolist() for row in rust.encode(TEXTS, length)] for length in (3, 6, 9)}
    with ThreadPoolExecutor(6) as pool:
        lengths = [3, 6, 9] * 40
        rows = list(pool.map(lambda length: [row.tolist() for row in rust.encode(TEXTS, length)], lengths))
    assert rows == [expected[length] for length in lengths]


ODD = [
    "  two  spaces ",
    "tabs\tand\nlines\r\n",
    "a\x1cb a\x00b \x7f",
    "é e\u0301 \u0301alone ÀÉÎ straße ΣΑΣ İ",
    "漢字 and漢字mixed",
    "[CLS] [SEP][MASK] x[MASK]y [mask]",
    "don't stop-me (now)!...",
    "\u00a0no-break\u2003em\u200bzero\u200d",
    "x" * 39 + " " + "x" * 41 + " " + "y" * 300,
    "longword" * 2_000 + " end",
    "🙂🙂 👩\u200d👩",
]


@pytest.fixture(scope="module")
def built_in() -> Tokenizer:
    return Tokenizer.load(locate("opencse-mini"))


def own(built_in: Tokenizer, texts: list[str], limit: int | None) -> list[list[int]]:
    """The tokenizer's ids, a few at a time: so it asks no table."""
    return [
        ids.tolist() for start in range(0, len(texts), 40) for ids in built_in.encode(texts[start : start + 40], limit)
    ]


@pytest.mark.parametrize(("side", "limit"), [("right", None), ("left", 3), ("right", 8), ("left", 128)])
def test_ids_are_the_tokenizers_own(built_in: Tokenizer, limit: int | None, side: str) -> None:
    texts = [*ODD, *filled(sample.TRAIN)[:600]]
    built_in.hf.truncation_side = side
    built_in = Tokenizer(built_in.hf)
    try:
        for _ in range(2):  # the second time from the table
            found = built_in.encode(texts, limit)
            assert built_in.rust is not None
            assert isinstance(built_in.rust.by_word(), WordIds)
            assert [ids.tolist() for ids in found] == own(Tokenizer(built_in.hf), texts, limit)
            assert all(ids.dtype == np.int32 and ids.flags.writeable for ids in found)
    finally:
        built_in.hf.truncation_side = "right"


@examples(150)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=3), st.integers(3, 20))
def test_any_text(texts: list[str], limit: int) -> None:
    assert ANY.rust is not None
    table = ANY.rust.by_word()
    assert table is not None
    joined = [*texts, " ".join(texts)]
    assert [ids.tolist() for ids in table.encode(joined, limit)] == own(ANY, joined, limit)


ANY = Tokenizer.load(locate("opencse-mini"))


TEMPLATE = 'a text of "{text}" is {mask}.'


@pytest.fixture
def templated(tiny_encoder: SentenceEncoder) -> Tokenizer:
    return Tokenizer(tiny_encoder.tokenizer.hf, template=Template(TEMPLATE))


def body(encoder: SentenceEncoder, text: str) -> list[int]:
    return [int(number) for number in encoder.tokenizer.encode([text], None)[0][1:-1]]


@pytest.mark.parametrize("limit", [None, 15])
def test_text_is_truncated_inside_the_template(
    tiny_encoder: SentenceEncoder, templated: Tokenizer, sentences: list[str], limit: int | None
) -> None:
    frame = templated.frame
    assert frame is not None
    room = None if limit is None else limit - len(frame)
    expected = [frame.around(body(tiny_encoder, text)[:room]) for text in sentences]
    assert any(room is not None and len(body(tiny_encoder, text)) > room for text in sentences) == (limit is not None)
    for count in (1, len(sentences)):  # few texts go through the backend, many through the table of words
        encoded = templated.encode(sentences[:count], limit)
        assert [row.tolist() for row in encoded] == [row.tolist() for row in expected[:count]]
