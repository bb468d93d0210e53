"""What every view that changes tokens promises, whatever it does to the words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.masked_lm import load_masked_lm_head
from opencse.objective.context import Context
from opencse.objective.inputs import InputBuilder
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.views.base import (
    ChangesInputs,
    ChangesTokens,
    ClimbsInputs,
    ClimbsOutputs,
    DerivesPositives,
    View,
)
from opencse.objective.views.deletion import DeleteOneWord
from opencse.settings import validate
from opencse.text.corpus import tokenise
from opencse.text.readers import Source
from opencse.text.tokenizer import Ids, TokenisedText

KINDS: list[dict[str, Any]] = [
    {"kind": "repeat_subwords", "rate": 0.9},
    {"kind": "repeat_subwords", "rate": 0.9, "rule": "reference"},
    {"kind": "repeat_subwords", "redraw": "once"},
    {"kind": "repeat_words", "rate": 0.9},
    {"kind": "repeat_words", "rate": 0.9, "rule": "reference"},
    {"kind": "insert_stopwords", "rate": 0.9},
    {"kind": "insert_words", "rate": 0.9},
    {"kind": "insert_mask", "rate": 0.9},
    {"kind": "crop", "rate": 0.3},
    {"kind": "delete_words", "rate": 0.3},
    {"kind": "delete_one_word"},
    {"kind": "synonym", "count": 3},
    {"kind": "mlm_substitute", "rate": 0.5},
]
LENGTHENING = ("repeat_subwords", "repeat_words", "insert_stopwords", "insert_words", "insert_mask", "synonym")
every_view = pytest.mark.parametrize("settings", KINDS, ids=lambda s: "-".join(map(str, s.values())))

DICTIONARY = {
    "noun": "1 05 n 03 man 0 gentleman 0 chap 0 000 | .\n1 05 n 02 dog 0 hound 0 000 | .\n",
    "verb": "1 30 v 02 play 0 perform 0 000 | .\n1 05 n 02 road 0 thoroughfare 0 000 | .\n",
    "adj": "1 00 a 02 small 0 diminutive 0 000 | .\n",
    "adv": "1 02 r 02 quickly 0 rapidly 0 000 | .\n",
}
SENTENCES = [
    "a man and a dog walk quickly on a small road",
    "A small dog, in the river!",
    "dog",
    "play",
    "one man two small men",
    "",
    "an unpronounceable xylophonist with a small dog sits on the road of the man in the house by the river",
]


@pytest.fixture(scope="module")
def wordnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wordnet")
    for part, lines in DICTIONARY.items():
        (folder / f"data.{part}").write_text(lines)
    return folder


@pytest.fixture(scope="module")
def loaded(tiny_encoder: SentenceEncoder, tiny_folder: Path) -> SentenceEncoder:
    encoder = tiny_encoder.twin()
    words = encoder.backbone.get_input_embeddings()
    assert isinstance(words, torch.nn.Embedding)
    encoder.lm_head = load_masked_lm_head(tiny_folder, words).eval()
    return encoder


@pytest.fixture
def encoder(loaded: SentenceEncoder) -> SentenceEncoder:
    return loaded.twin()


Begin = Callable[[dict[str, Any]], View]


@pytest.fixture
def begun(encoder: SentenceEncoder, wordnet: Path) -> Begin:
    """A view, begun with the encoder."""

    def make(settings: dict[str, Any]) -> View:
        view = objective(settings, wordnet).view
        view.begin(encoder, batch_size=8, seed=3)
        return view

    return make


def objective(settings: dict[str, Any], wordnet: Path) -> Objective:
    view = settings | ({"wordnet": str(wordnet)} if settings["kind"] == "synonym" else {})
    return Objective.from_settings(validate(ObjectiveSettings, {"view": view}, "test"))


def changed(view: View, texts: list[TokenisedText], seed: int) -> Sequence[Ids]:
    assert isinstance(view, ChangesTokens)
    return view.positives(texts, np.random.default_rng(seed))


def drawn(view: View, texts: list[TokenisedText], seed: int) -> list[list[int]]:
    return [ids.tolist() for ids in changed(view, texts, seed)]


class BothSides(DeleteOneWord):
    """Deletes a word of the anchor too."""

    def changed_anchors(self, texts: Sequence[TokenisedText], random: np.random.Generator) -> Sequence[Ids]:
        return self.positives(texts, random)


def test_a_view_may_change_the_anchors_too(tmp_path: Path, encoder: SentenceEncoder) -> None:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(SENTENCES[:2]) + "\n")
    corpus = tokenise(Source(str(path)), encoder.tokenizer, 32, words=True)
    both, one = Objective(BothSides(), negatives=[InBatch()]), Objective(DeleteOneWord(), negatives=[InBatch()])
    examples = np.arange(2)
    for step in range(8):
        changed_both, changed_one = (
            InputBuilder(corpus, encoder.tokenizer, one_or_both, seed=1).build(examples, step)
            for one_or_both in (both, one)
        )
        lengths = changed_both.tokens.attention_mask.sum(dim=1)
        plain = changed_one.tokens.attention_mask.sum(dim=1)
        assert (lengths[:2] < plain[:2]).all(), "a word is missing in the anchors"
        assert torch.equal(changed_both.tokens.input_ids[2:, :8], changed_one.tokens.input_ids[2:, :8])
        assert torch.equal(changed_both.keys, changed_one.keys), "equal texts are still equal"


@pytest.mark.slow
@every_view
def test_special_tokens_stay_around_the_text(settings: dict[str, Any], begun: Begin, encoder: SentenceEncoder) -> None:
    """Texts cut at their maximum length keep the final one, too."""
    special = {encoder.tokenizer.hf.cls_token_id, encoder.tokenizer.hf.sep_token_id, encoder.tokenizer.pad_id}
    view = begun(settings)
    different = 0
    for limit in (None, 3, 7, 12):
        texts = encoder.tokenizer.encode_words(SENTENCES, limit)
        for seed in range(20):
            for text, ids in zip(texts, changed(view, texts, seed), strict=True):
                assert ids.dtype == text.ids.dtype == np.int32
                assert (ids[0], ids[-1]) == (text.ids[0], text.ids[-1])
                assert not special & set(ids[1:-1].tolist())
                assert len(ids) >= min(3, len(text.ids))  # never without a word where there was one
                different += ids.tolist() != text.ids.tolist()
    assert different > 20


@pytest.mark.slow
@every_view
@pytest.mark.parametrize("more", [0, 1, 2])
def test_no_positive_is_longer_than_the_encoder_reads(
    settings: dict[str, Any], more: int, begun: Begin, encoder: SentenceEncoder
) -> None:
    texts = encoder.tokenizer.encode_words(SENTENCES[:1] + SENTENCES[-1:], 13)
    assert [len(text.ids) for text in texts] == [13, 13]
    encoder.max_length = 13 + more
    view = begun(settings)
    gained = {len(ids) - 13 for seed in range(60) for ids in changed(view, texts, seed)}
    assert max(gained) <= more
    if settings["kind"] in LENGTHENING:
        assert max(gained) == (min(more, 1) if settings["kind"] == "synonym" else more)  # the room is used
    encoder.max_length = 12  # a text that is too long already is not made longer
    view = begun(settings)
    assert max(len(ids) for seed in range(20) for ids in changed(view, texts, seed)) <= 13


@every_view
def test_the_generator_alone_decides(settings: dict[str, Any], begun: Begin, encoder: SentenceEncoder) -> None:
    texts = encoder.tokenizer.encode_words(SENTENCES, None)
    before = [text.ids.tolist() for text in texts]
    one, other = begun(settings), begun(settings)
    state = torch.get_rng_state()
    first = [drawn(one, texts, seed) for seed in (1, 2, 3)]
    np.random.seed(9)  # noqa: NPY002 - the global state must not matter
    assert [drawn(other, texts, seed) for seed in (3, 2, 1)] == first[::-1]
    assert (first[0] != first[1]) == (settings.get("redraw") != "once")
    assert torch.equal(torch.get_rng_state(), state)
    assert [text.ids.tolist() for text in texts] == before  # the anchors' own ids are not written to


@every_view
def test_a_text_without_words_stays_as_it_is(settings: dict[str, Any], begun: Begin, encoder: SentenceEncoder) -> None:
    texts = encoder.tokenizer.encode_words(["", " "], None)
    assert [len(text.ids) for text in texts] == [2, 2]
    for seed in range(5):
        assert drawn(begun(settings), texts, seed) == [text.ids.tolist() for text in texts]


@every_view
def test_the_steps_rows_hold_the_anchor_as_it_is(
    settings: dict[str, Any], encoder: SentenceEncoder, tiny_folder: Path, wordnet: Path, tmp_path: Path
) -> None:
    lines = [s for s in SENTENCES if len(s.split()) > 1]
    text = tmp_path / "lines.txt"
    text.write_text("\n".join(lines))
    built = objective(settings, wordnet)
    assert isinstance(built.view, ChangesTokens)
    for other in (ChangesInputs, ClimbsInputs, DerivesPositives, ClimbsOutputs):
        assert not isinstance(built.view, other)
    still = SentenceEncoder.load(tiny_folder, dropout=0.0, device="cpu")
    built.check(Context(built, encoder=still))  # the changed tokens tell the views apart
    built.begin(encoder, batch_size=4, seed=0)
    corpus = tokenise(Source(str(text)), encoder.tokenizer, 32, words=True)
    inputs = InputBuilder(corpus, encoder.tokenizer, built, seed=0)
    assert inputs.cells.tolist() == [[[row, 0], [row, 0]] for row in range(len(lines))]
    anchors = encoder.tokenizer.encode(lines, 32)
    differ = 0
    for step in range(5):
        tokens = inputs.build(np.arange(len(lines)), step).tokens
        rows = [ids[mask.bool()].tolist() for ids, mask in zip(tokens.input_ids, tokens.attention_mask, strict=True)]
        assert rows[: len(lines)] == [ids.tolist() for ids in anchors]
        differ += sum(a != b for a, b in zip(rows[: len(lines)], rows[len(lines) :], strict=True))
    assert differ >= 5


@every_view
@pytest.mark.parametrize("columns", [2, 3])
def test_pairs_are_refused(
    settings: dict[str, Any], columns: int, encoder: SentenceEncoder, wordnet: Path, tmp_path: Path
) -> None:
    text = tmp_path / "pairs.tsv"
    header = "\t".join(["anchor", "positive", "negative"][:columns])
    text.write_text(header + "\n" + "\t".join(["a man", "a dog", "a cat"][:columns]) + "\n")
    corpus = tokenise(Source(str(text)), encoder.tokenizer, 32, words=True)
    with pytest.raises(UserError) as caught:
        objective(settings, wordnet).view.examples(corpus, np.random.default_rng(0))
    message = str(caught.value)
    assert f": the {settings['kind']} view reads one text per row, not {columns}; name one column" in message
    assert "\n" not in message


@every_view
def test_texts_without_word_numbers_are_no_silent_loss(settings: dict[str, Any], begun: Begin) -> None:
    with pytest.raises(RuntimeError, match="without the numbers of their words"):
        changed(begun(settings), [TokenisedText(np.arange(5, dtype=np.int32))], 0)


@pytest.mark.parametrize(
    "settings", [s for s in KINDS if s["kind"] in (*LENGTHENING, "mlm_substitute")], ids=lambda s: s["kind"]
)
def test_a_view_that_was_not_begun_says_so(settings: dict[str, Any], encoder: SentenceEncoder, wordnet: Path) -> None:
    texts = encoder.tokenizer.encode_words(SENTENCES, None)
    with pytest.raises(RuntimeError, match="not begun"):
        changed(objective(settings, wordnet).view, texts, 0)


@pytest.mark.parametrize(
    ("kind", "allowed", "refused"),
    [
        ("repeat_subwords", [1, 0.01], [0, 1.01]),
        ("repeat_words", [1, 0.01], [0, 1.01]),
        ("insert_stopwords", [1, 0.01], [0, 1.01]),
        ("insert_words", [1, 0.01], [0, 1.01]),
        ("insert_mask", [1, 0.01], [0, 1.01]),
        ("crop", [0.99, 0.01], [0, 1]),
        ("delete_words", [0.99, 0.01], [0, 1]),
        ("mlm_substitute", [1, 0.01], [0, 1.01]),
    ],
)
def test_rates_out_of_range_are_refused(kind: str, allowed: list[float], refused: list[float]) -> None:
    for rate in allowed:
        validate(ObjectiveSettings, {"view": {"kind": kind, "rate": rate}}, "test")
    for rate in refused:
        with pytest.raises(UserError, match=rf"^test: view\.{kind}\.rate: "):
            validate(ObjectiveSettings, {"view": {"kind": kind, "rate": rate}}, "test")
