"""One forward over a step's rows: their order, the layers, and nothing that nobody reads."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.kernels.outputs import MaskedTokens
from opencse.model_folder.masked_lm import load_masked_lm_head
from opencse.objective.columns import same_text
from opencse.objective.negatives.hard import Hard
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.negatives.layers import Layers
from opencse.objective.objective import Objective
from opencse.objective.terms.base import Term
from opencse.objective.terms.mlm import MaskedLM
from opencse.objective.vectors.masking import MaskedCopy
from opencse.objective.vectors.represent import represent
from opencse.objective.vectors.requests import Clean, HardNegatives, Layer, LmHead, Masked, Means, Sentences
from opencse.objective.vectors.step import Representations, Request, StepInputs
from opencse.objective.views.base import DerivesPositives
from opencse.objective.views.dropout import Dropout
from opencse.settings import PartSettings
from opencse.streams import seed_of

N = 4
MASKED = Masked(0.15)


@pytest.fixture
def encoder(tiny_encoder: SentenceEncoder) -> SentenceEncoder:
    """The tiny model in evaluation mode."""
    return tiny_encoder.twin()


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
    assert {request for request, answer in reps.answers.items() if answer is not None} == set()
    with pytest.raises(RuntimeError, match=r"no part of the objective reads Layer\(number=1\)"):
        reps[Layer(1)]


@pytest.mark.parametrize(
    ("reads", "forwards"),
    [
        ({Sentences()}, 1),
        ({HardNegatives()}, 1),
        ({Layer(1)}, 1),
        ({Sentences(), HardNegatives(), Layer(1), Layer(2)}, 1),
        (set(), 0),
        ({LmHead()}, 0),
    ],
    ids=str,
)
def test_one_forward_if_any_part_reads_it(
    encoder: SentenceEncoder, sentences: list[str], reads: set[Request[Any]], forwards: int
) -> None:
    rows: list[int] = []
    encoder.backbone.register_forward_pre_hook(
        lambda module, args, kwargs: rows.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    reps = represent(encoder, step(encoder, sentences[: 3 * N]), reads)
    assert rows == [3 * N] * forwards
    assert reps.anchor.shape == (N, 32 if forwards else 0)
    assert reps.answers.keys() == reads


class Guess(Term):
    """A term that reads a masked copy at a rate of its own."""

    class Settings(PartSettings):
        """The rate."""

        kind: Literal["guess"] = "guess"
        weight: float = 1.0
        rate: float = 0.3

    @property
    def reads(self) -> Set[Request[Any]]:
        return {Masked(self.settings.rate), LmHead()}

    def loss(self, reps: Representations) -> Tensor:
        found: Tensor = reps[Masked(self.settings.rate)].mean()
        return found


def test_an_objective_reads_what_its_parts_do_and_equal_requests_once() -> None:
    negatives = [InBatch(), Hard(), Layers(Layers.Settings(layers=(1, 2))), Layers(Layers.Settings(layers=(2,)))]
    objective = Objective(Dropout(), negatives=negatives, terms=[MaskedLM(), Guess(Guess.Settings(rate=0.15))])
    assert objective.reads == {Sentences(), HardNegatives(), Layer(1), Layer(2), Masked(0.15), LmHead()}
    assert Layer(1) != Layer(2)
    assert Means(2) != Means(10)
    assert LmHead() != LmHead(tied=False)
    assert Sentences() != HardNegatives()
    with pytest.raises(UserError, match=r"masking rates, 0\.15 and 0\.3; give both the same"):
        Objective(Dropout(), negatives=[InBatch()], terms=[MaskedLM(), Guess()])


@pytest.mark.parametrize(
    ("request_", "encodes"),
    [
        (Sentences(), True),
        (HardNegatives(), True),
        (Clean(), True),
        (Means(3), True),
        (Layer(1), True),
        (MASKED, False),
        (LmHead(), False),
    ],
    ids=str,
)
def test_no_requested_answer_gets_lost(
    encoder: SentenceEncoder, tiny_folder: Path, sentences: list[str], request_: Request[Any], encodes: bool
) -> None:
    """Beside anything else a request gets the same answer as alone, and the rest the same as without it."""
    encoder.lm_head = load_masked_lm_head(tiny_folder, encoder.backbone.get_input_embeddings())  # type: ignore[arg-type]
    encoder.eval()
    plain = step(encoder, sentences[: 3 * N])
    copy = MASKED.prepare(plain.tokens.rows(0, 2 * N), encoder.tokenizer, np.random.default_rng(0))
    inputs = replace(plain, prepared={MASKED: copy})
    rest: set[Request[Any]] = {Sentences(), HardNegatives(), Clean(), Layer(2), LmHead()}
    assert request_.encodes == encodes
    with torch.no_grad():
        alone, without = represent(encoder, inputs, {request_}), represent(encoder, inputs, rest)
        beside = represent(encoder, inputs, rest | {request_})
    assert beside.answers.keys() == rest | {request_}
    assert (alone.anchor.shape[1] > 0) == encodes
    for asked, given in ((alone, {request_}), (without, rest)):
        for one in given:
            same(asked[one], beside[one])
    for name in ("anchor", "positive", "hard"):
        same(getattr(without, name), getattr(beside, name))


def same(one: object, other: object) -> None:
    torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def tensors(inputs: StepInputs) -> list[Tensor]:
    copy = inputs.prepared[MASKED]
    assert isinstance(copy, MaskedCopy)
    pairs = [(t.input_ids, t.attention_mask) for t in (inputs.tokens, copy.masked.tokens)]
    return [*pairs[0], *pairs[1], copy.labels, inputs.keys]


def test_inputs_move_as_a_whole(encoder: SentenceEncoder, sentences: list[str]) -> None:
    plain = step(encoder, sentences[: 2 * N])
    positions = torch.zeros_like(plain.tokens.input_ids, dtype=torch.bool)
    copy = MaskedCopy(MaskedTokens(plain.tokens, positions), torch.zeros(0, dtype=torch.int64))
    inputs = StepInputs(plain.tokens, N, plain.keys, {MASKED: copy})
    moved = inputs.to(torch.device("meta"))
    assert moved.examples == N
    for before, after in zip(tensors(inputs), tensors(moved), strict=True):
        assert (before.device.type, after.device.type) == ("cpu", "meta")
        assert before.shape == after.shape
    assert moved.prepared[MASKED].masked.positions is positions, "where the processor counts them"
    assert not plain.to(torch.device("meta")).prepared


def test_detached_keeps_the_values_and_drops_the_graph(encoder: SentenceEncoder, sentences: list[str]) -> None:
    reps = represent(encoder, step(encoder, sentences[: 3 * N]), {Sentences(), *(Layer(n) for n in [1])})
    without = reps.detached()
    pairs = [(reps.anchor, without.anchor), (reps.positive, without.positive), (reps.hard, without.hard)]
    for with_graph, alone in [*pairs, (reps[Layer(1)], without[Layer(1)])]:
        assert with_graph.requires_grad
        assert not alone.requires_grad
        assert torch.equal(with_graph, alone)


def test_same_text_compares_with_anchor_and_positive() -> None:
    anchors_and_positives = torch.tensor([[1, 2], [3, 4]])
    columns = torch.tensor([[1], [2], [3], [4], [5]])
    expected = [[True, True, False, False, False], [False, False, True, True, False]]
    assert same_text(anchors_and_positives, columns).tolist() == expected


def test_detached_keeps_what_else_was_made(encoder: SentenceEncoder, sentences: list[str]) -> None:
    encoder.train()
    reps = represent(encoder, step(encoder, sentences[: 2 * N]), {Clean(), Means(2)})
    without = reps.detached()
    for request in (Clean(), Means(2)):
        with_graph, alone = reps[request], without[request]
        assert with_graph.requires_grad
        assert not alone.requires_grad
        assert torch.equal(with_graph, alone)
    assert without.noise_seed == reps.noise_seed == 0
    bare = replace(reps, answers={Clean(): reps[Clean()], Sentences(): None}).detached()
    assert list(bare.answers) == [Clean()]


def test_detached_keeps_what_the_masked_copy_gave(
    encoder: SentenceEncoder, tiny_folder: Path, sentences: list[str]
) -> None:
    encoder.lm_head = load_masked_lm_head(tiny_folder, encoder.backbone.get_input_embeddings())  # type: ignore[arg-type]
    plain = step(encoder, sentences[: 2 * N])
    copy = MASKED.prepare(plain.tokens, encoder.tokenizer, np.random.default_rng(0))
    reps = represent(encoder, replace(plain, prepared={MASKED: copy}), {Sentences(), MASKED, Layer(1)})
    assert reps[MASKED].requires_grad
    assert not any(answer.requires_grad for answer in reps.detached().answers.values())
    assert reps.detached().answers.keys() == {MASKED, Layer(1)}


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

    def derive(anchors: Tensor) -> Tensor:
        given.append(anchors)
        return 2 * anchors + torch.rand((), generator=inputs.noise("view"))

    reps = represent(encoder, inputs, {Sentences(), HardNegatives(), Layer(1)}, derive=derive)
    assert rows == [(1 + hard) * N]
    assert len(given) == 1
    assert given[0].requires_grad
    assert torch.equal(given[0], reps.anchor)
    drawn = torch.rand((), generator=torch.Generator().manual_seed(seed_of(3, "view")))
    assert torch.equal(reps.positive, 2 * reps.anchor + drawn)
    own = torch.from_numpy(encoder.encode(texts))
    assert torch.allclose(reps.anchor, own[:N], atol=1e-5)
    assert reps.hard.shape == (N, hard, 32)
    for h in range(hard):
        assert torch.allclose(reps.hard[:, h], own[(1 + h) * N : (2 + h) * N], atol=1e-5)
    assert reps[Layer(1)].shape == (N, 32)
    rows.clear()
    reads: set[Request[Any]] = {Sentences(), HardNegatives(), Means(3)}
    means = represent(encoder.train(), inputs, reads, derive=derive)[Means(3)]
    assert rows == [(1 + hard) * N + 3 * N]
    assert means.shape == (2, N, 32)


def test_noise_is_there_even_where_no_sentence_is_read(encoder: SentenceEncoder, sentences: list[str]) -> None:
    inputs = replace(step(encoder, sentences[: 2 * N]), noise_seed=2**63 - 1)
    empty: set[Request[Any]] = set()
    for reads in (empty, {Sentences()}):
        reps = represent(encoder, inputs, reads)
        assert reps.noise_seed == 2**63 - 1
        assert reps.noise("x").initial_seed() == inputs.noise("x").initial_seed() == seed_of(2**63 - 1, "x")


def test_two_encoders_and_means_over_draws_do_not_go_together(encoder: SentenceEncoder, sentences: list[str]) -> None:
    with pytest.raises(ValueError, match="one encoder"):
        represent(encoder, step(encoder, sentences[: 2 * N]), {Means(2)}, second=encoder.twin())


class Halved(DerivesPositives, Dropout):
    """A view whose positives are half the anchors' vectors."""

    def derive(self, anchors: Tensor, noise: torch.Generator) -> Tensor:
        return anchors / 2


def test_the_objective_asks_its_view_for_derived_positives(encoder: SentenceEncoder, sentences: list[str]) -> None:
    objective = Objective(Halved(), negatives=[InBatch()])
    tokens = encoder.tokenizer.pad(encoder.tokenize(sentences[:N]))
    reps = objective.represent(encoder, StepInputs(tokens, N, torch.arange(2 * N).reshape(N, 2)))
    assert torch.equal(reps.positive, reps.anchor / 2)
    assert objective(reps).report["positive_similarity"].item() == pytest.approx(1.0)
