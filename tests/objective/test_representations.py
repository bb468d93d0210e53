"""One forward over a step's rows: their order, the layers, and nothing that nobody reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from opencse.encoder.encoder import MaskedTokens, SentenceEncoder
from opencse.encoder.head import Dense
from opencse.encoder.masked_lm import MaskedLMHead
from opencse.errors import UserError
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.vectors.clean import Clean
from opencse.objective.vectors.layer import Layer
from opencse.objective.vectors.masked import LmHead, Masked
from opencse.objective.vectors.means import Means
from opencse.objective.vectors.sentences import HardNegatives, Sentences
from opencse.objective.vectors.step import Representations, StepInputs, represent
from opencse.objective.views.dropout import Dropout
from opencse.text.tokenizer import Tokens

N = 4


@pytest.fixture
def encoder(tiny_folder: Path) -> SentenceEncoder:
    return SentenceEncoder.load(tiny_folder, pooling="mean", device="cpu")


def step(encoder: SentenceEncoder, texts: list[str], n: int = N) -> StepInputs:
    keys = torch.arange(len(texts)).reshape(-1, n).T.contiguous()
    return StepInputs(encoder.tokenizer.pad(encoder.tokenize(texts)), n, keys)


@pytest.mark.parametrize("hard", [0, 1, 2])
def test_rows_are_anchors_positives_then_each_hard_negative(
    encoder: SentenceEncoder, sentences: list[str], hard: int
) -> None:
    texts = sentences[: (2 + hard) * N]
    assert len(set(texts)) == len(texts)
    inputs = step(encoder, texts)
    with torch.no_grad():
        reps = represent(encoder, inputs, {Sentences(), *([HardNegatives()] if hard > 0 else [])})
    own = torch.from_numpy(encoder.encode(texts))
    assert torch.pdist(own).min() > 1e-2  # a wrong row would be seen
    assert reps.anchor.shape == reps.positive.shape == (N, 32)
    assert reps.hard.shape == (N, hard, 32)
    assert torch.allclose(reps.anchor, own[:N], atol=1e-5)
    assert torch.allclose(reps.positive, own[N : 2 * N], atol=1e-5)
    for h in range(hard):
        assert torch.allclose(reps.hard[:, h], own[(2 + h) * N : (3 + h) * N], atol=1e-5)
    assert torch.equal(reps.keys, inputs.keys)
    assert (reps.layers, reps.masked_logits, reps.masked_labels) == ({}, None, None)


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
    assert list(reps.layers) == [0, 2, 3]
    linear = encoder.projection.linear
    for layer, vectors in reps.layers.items():
        assert vectors.shape == (2 * N, 32)
        for row in range(2 * N):
            real = states[layer][row][inputs.tokens.attention_mask[row].bool()]
            expected = torch.tanh(linear.weight @ real.mean(dim=0) + linear.bias)
            assert torch.allclose(vectors[row], expected, atol=1e-6)
    assert torch.allclose(reps.layers[3], torch.cat([reps.anchor, reps.positive]), atol=1e-6)
    assert not torch.allclose(reps.layers[2], reps.layers[3], atol=1e-2)


@pytest.mark.parametrize(
    ("needs", "forwards"),
    [
        ({Sentences()}, 1),
        ({HardNegatives()}, 1),
        ({Layer(1)}, 1),
        ({Sentences(), HardNegatives(), Layer(1), Layer(2)}, 1),
        (set(), 0),
    ],
    ids=str,
)
def test_one_forward_if_anybody_reads_it(
    encoder: SentenceEncoder, sentences: list[str], needs: Needs, forwards: int
) -> None:
    rows: list[int] = []
    encoder.backbone.register_forward_pre_hook(
        lambda module, args, kwargs: rows.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    reps = represent(encoder, step(encoder, sentences[: 3 * N]), needs)
    assert rows == [3 * N] * forwards
    assert reps.anchor.shape == (N, 32 if forwards else 0)
    assert set(reps.layers) == needs.layers


def test_needs_are_joined() -> None:
    a = {Sentences(), *(Layer(n) for n in [1])}
    b = {HardNegatives(), Layer(2), Masked(0.15)}
    assert a | b == b | a == {Sentences(), HardNegatives(), Layer(1), Layer(2), Masked(0.15)}
    assert a | set() == a
    assert b | b == b
    with pytest.raises(UserError, match=r"masking rates, 0\.15 and 0\.3; give both the same"):
        b | {Masked(0.3), LmHead()}
    with pytest.raises(UserError, match=r"numbers of dropout draws, 2 and 10; give both the same"):
        {Means(10)} | {Means(2)}


@pytest.mark.parametrize(
    "needs",
    [
        {Sentences()},
        {HardNegatives()},
        {Clean()},
        {Means(3)},
        {Layer(1)},
        {Masked(0.15), LmHead()},
        {FIXME(shared_mask=True)},
        {LmHead()},
    ],
    ids=str,
)
def test_nothing_that_is_needed_gets_lost(needs: Needs) -> None:
    rest = {Sentences(), HardNegatives(), Clean(), Layer(2), FIXME(shared_mask=True), LmHead()}
    for joined in (needs | set(), set() | needs):
        assert joined == needs
    assert needs | needs == needs
    assert (
        rest | needs
        == needs | rest
        == replace(rest, samples=needs.samples, layers=rest.layers | needs.layers, masked_rate=needs.masked_rate)
    )
    sentences = needs.sentences or needs.hard or needs.clean or needs.samples is not None or bool(needs.layers)
    assert needs.reads_sentences == sentences
    assert needs.reads_lm_head == (needs.lm_head or needs.masked_rate is not None)


def tensors(inputs: StepInputs) -> list[Tensor]:
    assert inputs.masked is not None
    assert inputs.masked_labels is not None
    pairs = [(t.input_ids, t.attention_mask) for t in (inputs.tokens, inputs.masked.tokens)]
    return [*pairs[0], *pairs[1], inputs.masked.positions, inputs.masked_labels, inputs.keys]


def test_inputs_move_as_a_whole(encoder: SentenceEncoder, sentences: list[str]) -> None:
    plain = step(encoder, sentences[: 2 * N])
    positions = torch.zeros_like(plain.tokens.input_ids, dtype=torch.bool)
    masked = MaskedTokens(plain.tokens, positions)
    inputs = StepInputs(plain.tokens, N, plain.keys, masked, torch.zeros(0, dtype=torch.int64))
    moved = inputs.to(torch.device("meta"))
    assert moved.examples == N
    for before, after in zip(tensors(inputs), tensors(moved), strict=True):
        assert (before.device.type, after.device.type) == ("cpu", "meta")
        assert before.shape == after.shape
    assert plain.to(torch.device("meta")).masked is None


def test_detached_keeps_the_values_and_drops_the_graph(encoder: SentenceEncoder, sentences: list[str]) -> None:
    reps = represent(encoder, step(encoder, sentences[: 3 * N]), {Sentences(), *(Layer(n) for n in [1])})
    without = reps.detached()
    pairs = [(reps.anchor, without.anchor), (reps.positive, without.positive), (reps.hard, without.hard)]
    for with_graph, alone in [*pairs, (reps.layers[1], without.layers[1])]:
        assert with_graph.requires_grad
        assert not alone.requires_grad
        assert torch.equal(with_graph, alone)


def test_same_text_compares_with_anchor_and_positive() -> None:
    none = torch.zeros(2, 0)
    reps = Representations(none, none, none.unsqueeze(1), torch.tensor([[1, 2], [3, 4]]))
    columns = torch.tensor([1, 2, 3, 4, 5])
    expected = [[True, True, False, False, False], [False, False, True, True, False]]
    assert reps.same_text(columns).tolist() == expected


def test_a_masked_copy_without_a_chosen_position_costs_nothing(
    encoder: SentenceEncoder, tiny_folder: Path, sentences: list[str]
) -> None:
    from opencse.objective.losses import masked_lm

    encoder.lm_head = MaskedLMHead.load(tiny_folder, encoder.backbone.get_input_embeddings())  # type: ignore[arg-type]
    plain = step(encoder, sentences[: 2 * N])
    nowhere = torch.zeros_like(plain.tokens.input_ids, dtype=torch.bool)
    copy = MaskedTokens(Tokens(plain.tokens.input_ids, plain.tokens.attention_mask), nowhere)
    reps = represent(encoder, StepInputs(plain.tokens, N, plain.keys, copy, nowhere[nowhere].long()), set())
    assert reps.masked_logits is not None
    assert reps.masked_labels is not None
    loss = masked_lm(reps.masked_logits, reps.masked_labels)
    assert loss.item() == 0.0
    torch.autograd.backward(loss)
    gradients = [p.grad for p in encoder.backbone.parameters() if p.grad is not None]
    assert gradients
    assert all((gradient == 0).all() for gradient in gradients)


def test_detached_keeps_what_else_was_made(encoder: SentenceEncoder, sentences: list[str]) -> None:
    encoder.train()
    reps = represent(encoder, step(encoder, sentences[: 2 * N]), {Clean(), Means(2)})
    without = reps.detached()
    for name in ("clean", "means"):
        with_graph, alone = getattr(reps, name), getattr(without, name)
        assert with_graph.requires_grad
        assert not alone.requires_grad
        assert torch.equal(with_graph, alone)
    assert without.noise is reps.noise is not None
    bare = replace(reps, clean=None, means=None).detached()
    assert (bare.clean, bare.means) == (None, None)


@pytest.mark.parametrize("hard", [0, 2])
def test_positives_made_of_the_anchors_vectors(encoder: SentenceEncoder, sentences: list[str], hard: int) -> None:
    """Only anchors and hard negatives are encoded; the view gets the anchors with their graph, and the noise."""
    texts = sentences[: (1 + hard) * N]
    inputs = StepInputs(encoder.tokenizer.pad(encoder.tokenize(texts)), N, torch.zeros(N, 2 + hard), noise_seed=3)
    rows: list[int] = []
    encoder.backbone.register_forward_pre_hook(
        lambda module, args, kwargs: rows.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    given: list[Tensor] = []

    def derive(anchors: Tensor, noise: torch.Generator) -> Tensor:
        given.append(anchors)
        return 2 * anchors + torch.rand((), generator=noise)

    needs = {Sentences(), HardNegatives(), Layer(1)}
    reps = represent(encoder, inputs, needs, derive=derive)
    assert rows == [(1 + hard) * N]
    assert len(given) == 1
    assert given[0].requires_grad
    assert torch.equal(given[0], reps.anchor)
    drawn = torch.rand((), generator=torch.Generator().manual_seed(3))
    assert torch.equal(reps.positive, 2 * reps.anchor + drawn)
    own = torch.from_numpy(encoder.encode(texts))
    assert torch.allclose(reps.anchor, own[:N], atol=1e-5)
    assert reps.hard.shape == (N, hard, 32)
    for h in range(hard):
        assert torch.allclose(reps.hard[:, h], own[(1 + h) * N : (2 + h) * N], atol=1e-5)
    assert reps.layers[1].shape == (N, 32)
    rows.clear()
    means = represent(encoder.train(), inputs, replace(needs, samples=3, layers=frozenset()), derive=derive).means
    assert rows == [(1 + hard) * N + 3 * N]
    assert means is not None
    assert means.shape == (2, N, 32)


def test_noise_is_there_even_where_no_sentence_is_read(encoder: SentenceEncoder, sentences: list[str]) -> None:
    inputs = replace(step(encoder, sentences[: 2 * N]), noise_seed=2**63 - 1)
    for needs in (set(), {Sentences()}):
        noise = represent(encoder, inputs, needs).noise
        assert noise is not None
        assert noise.initial_seed() == 2**63 - 1


def test_two_encoders_and_means_over_draws_do_not_go_together(encoder: SentenceEncoder, sentences: list[str]) -> None:
    with pytest.raises(ValueError, match="one encoder"):
        represent(encoder, step(encoder, sentences[: 2 * N]), {Means(2)}, second=encoder.twin())


class Halved(Dropout):
    """A view whose positives are half the anchors' vectors."""

    derived = True

    def derive(self, anchors: Tensor, noise: torch.Generator) -> Tensor:
        return anchors / 2


def test_the_objective_asks_its_view_for_derived_positives(encoder: SentenceEncoder, sentences: list[str]) -> None:
    objective = Objective.from_settings(ObjectiveSettings())
    objective.view = Halved(Dropout.Settings())
    tokens = encoder.tokenizer.pad(encoder.tokenize(sentences[:N]))
    reps = objective.represent(encoder, StepInputs(tokens, N, torch.arange(2 * N).reshape(N, 2)))
    assert torch.equal(reps.positive, reps.anchor / 2)
    assert objective(reps).report["positive_similarity"].item() == pytest.approx(1.0)
