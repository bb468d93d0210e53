import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import AutoTokenizer, ByT5Tokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from fuzzing import examples
from helpers import filled
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.locate import builtin_folder, locate
from opencse.modules.pooling import Pooling
from opencse.text import rust_tokenizer, sample
from opencse.text.rust_tokenizer import RustTokenizer, padded
from opencse.text.template import Frame, Template
from opencse.text.tokenizer import Ids, Tokenizer
from opencse.text.word_ids import WordIds

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


def test_folder_without_or_with_a_broken_tokenizer(tiny_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((tiny_folder / "config.json").read_bytes())
    with pytest.raises(UserError) as caught:
        Tokenizer.load(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}: the model folder has no tokenizer (looked for tokenizer.json, ")
    assert str(caught.value).endswith("save it there with tokenizer.save_pretrained(folder)")
    for content in ("{}", "{"):
        (tmp_path / "tokenizer.json").write_text(content)
        with pytest.raises(UserError) as caught:
            Tokenizer.load(tmp_path)
        assert str(caught.value).startswith(f"{tmp_path}: its tokenizer cannot be loaded (")
        assert "\n" not in str(caught.value)


def test_tokenizer_without_padding_token() -> None:
    backend = Backend(WordLevel({"a": 0, "?": 1}, unk_token="?"))
    backend.pre_tokenizer = Whitespace()
    bare = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="?")  # type: ignore[no-untyped-call]
    with pytest.raises(UserError, match=r"the tokenizer has no padding token; set tokenizer\.pad_token"):
        Tokenizer(bare)
    bare.pad_token = "?"
    assert Tokenizer(bare).pad_id == 1


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


def test_characters_for_each_id_shorten_a_text_before_it_is_split(tiny_folder: Path) -> None:
    backend = Backend.from_file(str(tiny_folder / "tokenizer.json"))
    plain, short = RustTokenizer(backend), RustTokenizer(backend, characters_per_id=2)
    assert (plain.longest_text(5), short.longest_text(5), short.longest_text(None)) == (None, 10, None)
    text = TEXTS[-1]
    assert short.encode([text], 5)[0].tolist() == plain.encode([text[:10]], 5)[0].tolist()
    assert short.description() != plain.description()


def test_threads_with_different_lengths_do_not_disturb_each_other(rust: RustTokenizer) -> None:
    expected = {length: [row.tolist() for row in rust.encode(TEXTS, length)] for length in (3, 6, 9)}
    with ThreadPoolExecutor(6) as pool:
        lengths = [3, 6, 9] * 40
        rows = list(pool.map(lambda length: [row.tolist() for row in rust.encode(TEXTS, length)], lengths))
    assert rows == [expected[length] for length in lengths]


def test_rows_are_padded_on_the_right() -> None:
    ids, lengths = padded([np.array([], dtype=np.int32), np.array([4, 5])], pad_id=9)
    assert (ids.tolist(), lengths.tolist()) == ([[9, 9], [4, 5]], [0, 2])


def test_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rust_tokenizer, "cores", lambda: 16)
    for parallel, rayon, expected in (("", "", 16), ("", "3", 3), ("", "0", 16), ("false", "3", 1), ("true", "", 16)):
        for name, value in (("TOKENIZERS_PARALLELISM", parallel), ("RAYON_NUM_THREADS", rayon)):
            monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name, raising=False)
        assert rust_tokenizer.threads() == expected


def test_many_texts_have_the_same_ids_on_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = RustTokenizer(Backend.from_file(str(builtin_folder() / "tokenizer.json")))
    texts = [f"The kettle number {n} sings; naïve Ünïcode {n % 7}." for n in range(200)]
    monkeypatch.setattr(rust_tokenizer, "threads", lambda: 16)
    rows = [row.tolist() for row in tokenizer.encode(texts, 9)]
    assert rows == [row.tolist() for text in texts for row in tokenizer.encode([text], 9)]


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


def test_a_full_table_is_emptied(built_in: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opencse.text.word_ids._KEPT", 50)
    fresh, texts = Tokenizer(built_in.hf), filled(sample.TRAIN)[:200]
    for start in (0, 100):
        part = texts[start : start + 100]
        assert [ids.tolist() for ids in fresh.encode(part, 32)] == own(built_in, part, 32)
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


TEMPLATE = 'a text of "{text}" is {mask}.'


@pytest.fixture
def templated(tiny_encoder: SentenceEncoder) -> Tokenizer:
    return Tokenizer(tiny_encoder.tokenizer.hf, template=Template(TEMPLATE))


def body(encoder: SentenceEncoder, text: str) -> list[int]:
    return [int(number) for number in encoder.tokenizer.encode([text], None)[0][1:-1]]


def test_ids_are_prefix_text_and_suffix(tiny_encoder: SentenceEncoder, templated: Tokenizer) -> None:
    hf = tiny_encoder.tokenizer.hf
    expected = [
        hf.cls_token_id,
        *body(tiny_encoder, 'a text of "'),
        *body(tiny_encoder, "two dogs run"),
        *body(tiny_encoder, '" is [MASK].'),
        hf.sep_token_id,
    ]
    assert templated.encode(["two dogs run"], None)[0].tolist() == expected
    assert templated.special_count == len(expected) - len(body(tiny_encoder, "two dogs run"))
    assert hf.mask_token_id in expected


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


def test_replacing_changes_the_last_of_a_token() -> None:
    assert Frame((1,), (4, 5, 4, 2)).replacing(4, 9).after == (4, 5, 9, 2)


def test_pooling_at_the_mask_needs_a_template(tiny_encoder: SentenceEncoder, templated: Tokenizer) -> None:
    for text, reason in ((None, "there is no template"), ("{mask} {text}.", "has none there")):
        tokenizer = Tokenizer(templated.hf, template=None if text is None else Template(text))
        with pytest.raises(UserError, match=reason):
            SentenceEncoder.from_parts(replace(tiny_encoder.parts, tokenizer=tokenizer, pooling=Pooling.MASK))


def test_prompts_come_inside_the_template(tiny_encoder: SentenceEncoder, templated: Tokenizer) -> None:
    encoder = SentenceEncoder.from_parts(replace(tiny_encoder.parts, tokenizer=templated))
    (ids,) = encoder.tokenize(["dogs run"], prompt="two ")
    assert np.array_equal(ids, templated.encode(["two dogs run"], None)[0])
