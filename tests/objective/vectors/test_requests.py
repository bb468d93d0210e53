"""The kinds of vectors that parts read: layers, means over dropout draws, masked copies."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.kernels.outputs import MaskedTokens
from opencse.model_folder.masked_lm import load_masked_lm_head
from opencse.modules.dense import Dense
from opencse.objective.context import Context
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.terms.mlm import MaskedLM
from opencse.objective.vectors.masking import MaskedCopy
from opencse.objective.vectors.represent import represent
from opencse.objective.vectors.requests import HardNegatives, Layer, Masked, Means, Sentences
from opencse.objective.vectors.step import StepInputs
from opencse.objective.views.dropout import Dropout
from opencse.text.tokenizer import Tokens

N = 4

MASKED = Masked(0.15)


@pytest.fixture
def encoder(tiny_encoder: SentenceEncoder) -> SentenceEncoder:
    """The tiny model in evaluation mode."""
    return tiny_encoder.twin()


def step(encoder: SentenceEncoder, texts: list[str], n: int = N) -> StepInputs:
    keys = torch.arange(len(texts)).reshape(-1, n).T.contiguous()
    return StepInputs(encoder.tokenizer.pad(encoder.tokenize(texts)), n, keys)


def test_layers_are_pooled_and_projected_like_the_last_one(encoder: SentenceEncoder, sentences: list[str]) -> None:
    encoder.projection = Dense.mlp_head(32, torch.Generator().manual_seed(1))
    encoder.projection.linear.weight.data *= 20
    inputs = step(encoder, sentences[: 3 * N])
    with torch.no_grad():
        reps = represent(encoder, inputs, {Sentences(), HardNegatives(), Layer(0), Layer(2), Layer(3)})
        states = encoder.backbone(
            input_ids=inputs.tokens.input_ids,
            attention_mask=inputs.tokens.attention_mask,
            output_hidden_states=True,
        ).hidden_states
    linear = encoder.projection.linear
    for layer in (0, 2, 3):
        vectors = reps[Layer(layer)]
        assert vectors.shape == (2 * N, 32)
        for row in range(2 * N):
            real = states[layer][row][inputs.tokens.attention_mask[row].bool()]
            expected = torch.tanh(linear.weight @ real.mean(dim=0) + linear.bias)
            assert torch.allclose(vectors[row], expected, atol=1e-6)
    assert torch.allclose(reps[Layer(3)], torch.cat([reps.anchor, reps.positive]), atol=1e-6)
    assert not torch.allclose(reps[Layer(2)], reps[Layer(3)], atol=1e-2)


def test_means_of_two_numbers_of_draws_have_rows_of_their_own(encoder: SentenceEncoder, sentences: list[str]) -> None:
    encoder.eval()
    inputs = step(encoder, sentences[: 2 * N])
    reps = represent(encoder.train(), inputs, {Sentences(), Means(2), Means(3)})
    two, three = reps[Means(2)], reps[Means(3)]
    assert two.shape == three.shape == (2, N, 32)
    assert (two - three).abs().amax(dim=2).min() > 1e-4, "no draw is in both"
    still = represent(encoder.eval(), inputs, {Sentences(), Means(2), Means(3)})
    for means in (still[Means(2)], still[Means(3)]):
        assert torch.allclose(means[0], still.anchor, atol=1e-5)
        assert torch.allclose(means[1], still.positive, atol=1e-5)


def test_vectors_of_a_masked_copy_are_refused_in_a_template(encoder: SentenceEncoder, tiny_folder: Path) -> None:
    """The last mask token, which is pooled, could be a masked word of the template."""
    templated = SentenceEncoder.load(tiny_folder, template='"{text}" is {mask} here', pooling="mask", device="cpu")
    for masked_contrast in (False, True):
        term = MaskedLM(MaskedLM.Settings(masked_contrast=masked_contrast))
        objective = Objective(Dropout(), negatives=[InBatch()], terms=[term])
        objective.check(Context(objective, encoder))
        with pytest.raises(UserError, match="masked_contrast would mask words") if masked_contrast else nullcontext():
            objective.check(Context(objective, templated))


def test_a_masked_copy_without_a_chosen_position_costs_nothing(
    encoder: SentenceEncoder, tiny_folder: Path, sentences: list[str]
) -> None:
    encoder.lm_head = load_masked_lm_head(tiny_folder, encoder.backbone.get_input_embeddings())  # type: ignore[arg-type]
    plain = step(encoder, sentences[: 2 * N])
    nowhere = torch.zeros_like(plain.tokens.input_ids, dtype=torch.bool)
    copy = MaskedTokens(Tokens(plain.tokens.input_ids, plain.tokens.attention_mask), nowhere)
    inputs = StepInputs(plain.tokens, N, plain.keys, {MASKED: MaskedCopy(copy, nowhere[nowhere].long())})
    reps = represent(encoder, inputs, {MASKED})
    loss = MaskedLM(MaskedLM.Settings(rate=MASKED.rate)).loss(reps)
    assert loss.item() == 0.0
    torch.autograd.backward(loss)
    gradients = [p.grad for p in encoder.backbone.parameters() if p.grad is not None]
    assert gradients
    assert all((gradient == 0).all() for gradient in gradients)
