"""Vectors less their templates' own: against one forward pass per text with positions written out."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.modules.denoising import Slot, TemplatesAlone
from opencse.objective.vectors.rewritten import moved_to
from opencse.text.template import Frame, Template

TEXT, OTHER = 'a text of "{text}" is {mask}.', "the text : {text} is {mask} here"


@pytest.fixture(scope="module")
def encoder(tiny_folder: Path) -> SentenceEncoder:
    return SentenceEncoder(tiny_folder, pooling="mask", template=TEXT, device="cpu")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("slot", ["skipped", "padding"])
def test_vectors_are_less_those_of_their_templates(
    encoder: SentenceEncoder, sentences: list[str], slot: Slot, packed: bool
) -> None:
    own, other = encoder.tokenizer.frame, Frame.of(Template(OTHER), encoder.tokenizer.hf)
    assert own is not None
    plain = encoder.tokenize([*sentences[:5], "", "a dog"])
    rows = [*plain, *(moved_to(ids, encoder.tokenizer, other) for ids in plain)]
    frames = [own] * len(plain) + [other] * len(plain)
    expected = []
    with encoder.without_dropout(), torch.no_grad():
        for ids, frame in zip(rows, frames, strict=True):
            count, mask = len(frame.inside(ids)), encoder.mask_id
            if slot == "padding":
                alone = torch.tensor([[*frame.before, *[encoder.tokenizer.pad_id] * count, *frame.after]])
                positions = torch.arange(alone.shape[1])[None]
            else:
                alone = torch.tensor([[*frame.before, *frame.after]])
                positions = torch.arange(alone.shape[1])[None].clone()
                positions[:, len(frame.before) :] += count
            text = torch.from_numpy(ids).long()[None]
            vector = encoder.backbone(input_ids=text).last_hidden_state[0, int((text[0] == mask).nonzero()[-1])]
            noise = encoder.backbone(input_ids=alone, position_ids=positions).last_hidden_state
            expected.append(vector - noise[0, int((alone[0] == mask).nonzero()[-1])])
        encoder.computation = "packed" if packed else "transformers"
        encoder.alone = TemplatesAlone(slot, [own, other])
        vectors = encoder(encoder.tokenizer.pad(rows)).vectors
        encoder.computation, encoder.alone = "transformers", None
    torch.testing.assert_close(vectors, torch.stack(expected), atol=1e-5, rtol=0)


def test_the_two_slots_differ_and_gradients_reach_the_templates(encoder: SentenceEncoder) -> None:
    own = encoder.tokenizer.frame
    assert own is not None
    tokens = encoder.tokenizer.pad(encoder.tokenize(["a dog runs here", "a dog"]))
    gradients, vectors = [], []
    with encoder.without_dropout():
        for alone in (None, TemplatesAlone("skipped", [own]), TemplatesAlone("padding", [own])):
            encoder.alone = alone
            encoder.zero_grad()
            vectors.append(encoder(tokens).vectors)
            vectors[-1].square().sum().backward()
            words = next(encoder.backbone.parameters())  # the token embeddings
            assert words.grad is not None
            gradients.append(words.grad.clone())
    encoder.alone = None
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert not torch.allclose(vectors[a], vectors[b], atol=1e-4)
        assert not torch.allclose(gradients[a], gradients[b], atol=1e-4)


def test_copies_of_an_encoder_know_the_same_templates(encoder: SentenceEncoder) -> None:
    own = encoder.tokenizer.frame
    assert own is not None
    encoder.alone = TemplatesAlone("skipped", [own])
    twin = encoder.twin()
    encoder.alone.add(Frame((1,), (2,)))
    assert twin.alone is encoder.alone
    encoder.alone = None


def test_inference_subtracts_nothing(encoder: SentenceEncoder) -> None:
    own = encoder.tokenizer.frame
    assert own is not None
    before = encoder.encode(["a dog runs"])
    encoder.alone = TemplatesAlone("skipped", [own])
    after = encoder.encode(["a dog runs"])
    encoder.alone = None
    assert (before == after).all()
