"""Every pooling against a loop over tokens; weighted tokens, templates subtracted, first dimensions."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import fingerprint
from opencse.encoder.layers import vectors_by_layer
from opencse.modules.pooling import Pooling
from opencse.modules.token_modules import Slot, TemplatesAlone, TokenWeights
from opencse.objective.vectors.rewritten import moved_to
from opencse.text.template import Frame, Template

DEPTH = 3
OTHERS = [kind for kind in Pooling if kind is not Pooling.MASK]
"""The poolings of any text; MASK needs one with a mask token."""
LENGTHS = (1, 2, 5, 7)


def token_vectors(kind: Pooling, states: list[Tensor], row: int, length: int) -> list[Tensor]:
    """The token vectors that ``kind`` looks at, written out by hand."""
    last = [states[DEPTH][row, t] for t in range(length)]
    if kind is Pooling.FIRST_LAST_0:
        return [(states[0][row, t] + last[t]) / 2 for t in range(length)]
    if kind is Pooling.FIRST_LAST_1:
        return [(states[1][row, t] + last[t]) / 2 for t in range(length)]
    if kind is Pooling.TOP2:
        return [(states[DEPTH - 1][row, t] + last[t]) / 2 for t in range(length)]
    return last


def naive(kind: Pooling, states: list[Tensor], row: int, length: int) -> Tensor:
    vectors = token_vectors(kind, states, row, length)
    if kind is Pooling.CLS:
        return vectors[0]
    if kind is Pooling.LAST_TOKEN:
        return vectors[length - 1]
    if kind is Pooling.MAX:
        best = vectors[0]
        for vector in vectors[1:]:
            best = torch.where(vector > best, vector, best)
        return best
    total = torch.zeros_like(vectors[0])
    for number, vector in enumerate(vectors, start=1):
        total = total + (number if kind is Pooling.WEIGHTED_MEAN else 1) * vector
    if kind is Pooling.WEIGHTED_MEAN:
        return total / (length * (length + 1) / 2)
    return total / (math.sqrt(length) if kind is Pooling.MEAN_SQRT_LEN else length)


@pytest.fixture(scope="module")
def states() -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(len(LENGTHS), max(LENGTHS), 6, generator=generator) for _ in range(DEPTH + 1)]


@pytest.fixture(scope="module")
def mask() -> Tensor:
    return (torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]).long()


def pooled(kind: Pooling, states: list[Tensor], mask: Tensor) -> Tensor:
    return kind([states[layer] for layer in kind.layers(DEPTH)], mask)


@pytest.mark.parametrize("kind", OTHERS)
def test_equals_a_loop_over_tokens(kind: Pooling, states: list[Tensor], mask: Tensor) -> None:
    expected = torch.stack([naive(kind, states, row, length) for row, length in enumerate(LENGTHS)])
    torch.testing.assert_close(pooled(kind, states, mask), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", OTHERS)
def test_values_at_padding_are_not_read(kind: Pooling, states: list[Tensor], mask: Tensor) -> None:
    changed = [torch.where(mask.unsqueeze(-1) == 0, 1e6, state) for state in states]
    assert any(not torch.equal(a, b) for a, b in zip(changed, states, strict=True))
    torch.testing.assert_close(pooled(kind, changed, mask), pooled(kind, states, mask), atol=0, rtol=0)


@pytest.mark.parametrize("kind", [Pooling.MEAN, Pooling.WEIGHTED_MEAN, Pooling.MEAN_SQRT_LEN])
def test_a_row_without_tokens_is_no_nan_of_a_mean(kind: Pooling) -> None:
    assert torch.equal(kind([torch.ones(1, 2, 3)], torch.zeros(1, 2, dtype=torch.long)), torch.zeros(1, 3))


def test_first_tokens_that_are_left_out_keep_the_others_places() -> None:
    states, mask = torch.tensor([[[5.0], [1.0], [2.0], [9.0]]]), torch.tensor([[0, 1, 1, 0]])
    assert Pooling.WEIGHTED_MEAN([states], mask).item() == pytest.approx((2 * 1 + 3 * 2) / (2 + 3))
    assert Pooling.LAST_TOKEN([states], mask).item() == 2.0


def test_mask_reads_the_last_one() -> None:
    states = torch.arange(12.0).reshape(2, 3, 2)
    masks = torch.tensor([[1, 0, 1], [0, 1, 0]])
    assert Pooling.MASK([states], masks).tolist() == [[4.0, 5.0], [8.0, 9.0]]


TEXTS = ["one two three", "one one four", "one five six seven eight nine", ""]


def weighed(encoder: SentenceEncoder, floor: float = 0.1) -> SentenceEncoder:
    texts = encoder.tokenize(TEXTS)
    encoder.token_weights = TokenWeights.inverse_document_frequency(texts, encoder.tokenizer.vocabulary_size, floor)
    return encoder


def test_weights_are_those_of_the_formula() -> None:
    texts = [np.array(ids) for ids in ([0, 1, 1, 2], [0, 3], [0, 1])]
    found = TokenWeights.inverse_document_frequency(texts, 6, floor=0.3).weights
    inverse = [math.log(4 / (sum(token in ids for ids in texts) + 1)) for token in range(6)]
    assert inverse[0] == 0
    assert max(inverse) == inverse[4] == inverse[5] == math.log(4)
    assert found.tolist() == pytest.approx([0.3 + 0.7 * value / math.log(4) for value in inverse])


@pytest.mark.parametrize("pooling", [Pooling.MEAN, Pooling.FIRST_LAST_1])
def test_the_mean_is_weighted(encoder: SentenceEncoder, pooling: Pooling) -> None:
    encoder.pooling = pooling
    alike = encoder.encode(TEXTS)
    weights = weighed(encoder).token_weights
    assert weights is not None
    found = encoder.encode(TEXTS)
    assert np.abs(found[:3] - alike[:3]).max() > 1e-3
    for text, vector in zip(TEXTS[:3], found, strict=False):
        ids = torch.from_numpy(encoder.tokenize([text])[0].astype(np.int64))
        with torch.no_grad():
            states = encoder.backbone(ids[None], output_hidden_states=True).hidden_states
        chosen = [states[-1]] if pooling is Pooling.MEAN else [states[1], states[-1]]
        total, counted = torch.zeros(32), 0.0
        for place, token in enumerate(ids.tolist()):
            total += float(weights.weights[token]) * sum(state[0, place] for state in chosen) / len(chosen)
            counted += float(weights.weights[token])
        assert np.abs(vector - (total / counted).numpy()).max() < 1e-5


def test_training_layers_and_inference_agree(encoder: SentenceEncoder) -> None:
    weighed(encoder).eval()
    expected = encoder.encode(TEXTS[:3])
    tokens = encoder.tokenizer.pad(encoder.tokenize(TEXTS[:3]))
    for packed in (False, True):
        encoder.computation = "packed" if packed else "transformers"
        encoded = encoder(tokens, layers=[encoder.depth])
        assert encoded.sentence is not None
        assert np.abs(encoded.sentence.detach().numpy() - expected).max() < 1e-5
        assert torch.equal(encoded.sentence, encoded.layers[encoder.depth])
    assert np.abs(vectors_by_layer(encoder, TEXTS[:3], [encoder.depth])[encoder.depth] - expected).max() < 1e-5


def test_a_saved_folder_opens_here_and_in_sentence_transformers(encoder: SentenceEncoder, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    before = fingerprint(encoder)
    alike = encoder.encode(TEXTS)
    vectors = weighed(encoder).encode(TEXTS)
    encoder.save(tmp_path)
    again = SentenceEncoder.load(tmp_path, device="cpu")
    assert np.array_equal(again.encode(TEXTS), vectors)
    assert before != fingerprint(encoder) == fingerprint(again)
    model = SentenceTransformer(str(tmp_path), device="cpu")
    assert [type(module).__name__ for module in model.children()] == ["Transformer", "WordWeights", "Pooling"]
    theirs = model.encode(TEXTS[:3], show_progress_bar=False)
    assert np.abs(theirs - vectors[:3]).max() < 1e-5
    assert np.abs(theirs - alike[:3]).max() > 1e-3
    assert "tokens weighed" in (tmp_path / "README.md").read_text()


TEXT, OTHER = 'a text of "{text}" is {mask}.', "the text : {text} is {mask} here"


@pytest.fixture(scope="module")
def templated(tiny_folder: Path) -> SentenceEncoder:
    return SentenceEncoder(tiny_folder, pooling="mask", template=TEXT, device="cpu")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("slot", ["skipped", "padding"])
def test_vectors_are_less_those_of_their_templates(
    templated: SentenceEncoder, sentences: list[str], slot: Slot, packed: bool
) -> None:
    own, other = templated.tokenizer.frame, Frame.of(Template(OTHER), templated.tokenizer.hf)
    assert own is not None
    plain = templated.tokenize([*sentences[:5], "", "a dog"])
    rows = [*plain, *(moved_to(ids, templated.tokenizer, other) for ids in plain)]
    frames = [own] * len(plain) + [other] * len(plain)
    expected = []
    with templated.without_dropout(), torch.no_grad():
        for ids, frame in zip(rows, frames, strict=True):
            count, mask = len(frame.inside(ids)), templated.mask_id
            if slot == "padding":
                alone = torch.tensor([[*frame.before, *[templated.tokenizer.pad_id] * count, *frame.after]])
                positions = torch.arange(alone.shape[1])[None]
            else:
                alone = torch.tensor([[*frame.before, *frame.after]])
                positions = torch.arange(alone.shape[1])[None].clone()
                positions[:, len(frame.before) :] += count
            text = torch.from_numpy(ids).long()[None]
            vector = templated.backbone(input_ids=text).last_hidden_state[0, int((text[0] == mask).nonzero()[-1])]
            noise = templated.backbone(input_ids=alone, position_ids=positions).last_hidden_state
            expected.append(vector - noise[0, int((alone[0] == mask).nonzero()[-1])])
        templated.computation = "packed" if packed else "transformers"
        templated.alone = TemplatesAlone(slot, [own, other])
        vectors = templated(templated.tokenizer.pad(rows)).vectors
        templated.computation, templated.alone = "transformers", None
    torch.testing.assert_close(vectors, torch.stack(expected), atol=1e-5, rtol=0)
