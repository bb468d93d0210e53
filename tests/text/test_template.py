"""Texts in a template: its ids around every text, which are never truncated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.pooling import Pooling
from opencse.text.template import Frame, Template
from opencse.text.tokenizer import Tokenizer

TEXT = 'a text of "{text}" is {mask}.'


@pytest.fixture
def templated(tiny_encoder: SentenceEncoder) -> Tokenizer:
    return Tokenizer(tiny_encoder.tokenizer.hf, template=Template(TEXT))


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


@pytest.mark.parametrize("limit", [None, 15, 20])
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


def test_template_counts_as_special_tokens_for_views(templated: Tokenizer) -> None:
    frame = templated.frame
    assert frame is not None
    text = templated.encode_words(["two dogs run"], None)[0]
    assert text.words is not None
    inside = text.words[len(frame.before) : -len(frame.after)]
    assert (inside >= 0).all()
    assert int(inside.max()) == 2
    assert (text.words >= 0).sum() == len(inside)
    assert frame.inside(text.ids).tolist() == text.ids[text.words >= 0].tolist()


def test_byte_level_tokenizers_have_templates(byte_level: Tokenizer) -> None:
    hf = byte_level.hf
    if hf.mask_token is None:
        hf.add_special_tokens({"mask_token": "<mask>"})
    tokenizer = Tokenizer(hf, template=Template("The text : ' {text} ' means {mask}."))
    plain = Tokenizer(hf)
    frame = tokenizer.frame
    assert frame is not None
    ids, bare = tokenizer.encode(["a dog"], None)[0], plain.encode(["a dog"], None)[0]
    special = plain.special_count
    assert len(ids) == len(bare) - special + len(frame)
    assert hf.mask_token_id in frame.after


def test_templates_change_the_fingerprint(tiny_encoder: SentenceEncoder, templated: Tokenizer) -> None:
    other = Tokenizer(tiny_encoder.tokenizer.hf, template=Template(TEXT.replace("of", "for")))
    assert len({templated.fingerprint(), other.fingerprint(), tiny_encoder.tokenizer.fingerprint()}) == 3


@pytest.mark.parametrize("text", ["no slot", "{text} and {text}"])
def test_templates_without_one_slot_are_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"write \{text\} once"):
        Template(text)


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
