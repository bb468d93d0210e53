"""The layers of a frozen copy as positives: its vectors, its projection, and what goes with what."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.dense import Dense
from opencse.objective.context import Context
from opencse.objective.losses import self_guided
from opencse.objective.objective import Objective
from opencse.objective.terms.self_guided import SelfGuided
from opencse.objective.vectors.chunks import Chunks
from opencse.objective.vectors.step import Representations, StepInputs
from opencse.objective.views.itself import Itself
from opencse.training.optimizer import build_optimizer
from opencse.training.settings import TrainingSettings

N = 4


def begun(encoder: SentenceEncoder, **chosen: Any) -> SelfGuided:
    term = SelfGuided(SelfGuided.Settings.model_validate({"size": 7, **chosen}))
    term.name = "terms.self_guided"
    term.begin(encoder, batch_size=N, seed=0)
    return term


@pytest.fixture
def inputs(encoder: SentenceEncoder, sentences: list[str]) -> StepInputs:
    ids = encoder.tokenizer.encode([sentences[i][: 20 * (i + 1)] for i in range(N)], 24)
    return StepInputs(encoder.tokenizer.pad(ids), N, torch.arange(N).reshape(N, 1).repeat(1, 2))


def reps_of(anchor: Tensor, inputs: StepInputs, layers: Tensor) -> Representations:
    return replace(Representations.of(anchor, anchor), keys=inputs.keys, computed={"terms.self_guided": layers})


def test_the_vectors_are_the_means_of_the_layers_of_the_start(encoder: SentenceEncoder, inputs: StepInputs) -> None:
    term = begun(encoder)
    with torch.no_grad():
        for weights in encoder.parameters():
            weights.add_(0.1)  # the copy does not move with the encoder
    assert term.start is not None
    term.train()
    ours = term.compute(inputs, reps_of(torch.eye(N), inputs, torch.zeros(1)))
    assert not ours.requires_grad
    tokens = inputs.tokens
    with torch.no_grad():
        states = (
            term.start.eval()
            .backbone(input_ids=tokens.input_ids, attention_mask=tokens.attention_mask, output_hidden_states=True)
            .hidden_states
        )
    assert len(ours) == len(states) == encoder.depth + 1
    for layer, state in zip(ours, states, strict=True):
        for i, real in enumerate(tokens.attention_mask.sum(dim=1).tolist()):
            torch.testing.assert_close(layer[i], state[i, :real].mean(dim=0), atol=1e-5, rtol=0)


def test_each_setting_counts(encoder: SentenceEncoder, inputs: StepInputs) -> None:
    anchor = torch.randn(N, encoder.dimension)
    same = replace(inputs, keys=torch.tensor([[0, 0], [0, 0], [1, 1], [2, 2]]))

    def loss(**chosen: Any) -> Tensor:
        term = begun(encoder, **chosen)
        torch.manual_seed(0)
        return term.loss(reps_of(anchor, same, term.compute(same, reps_of(anchor, same, anchor))))

    base = loss()
    assert torch.equal(base, loss())
    for chosen in (
        {"temperature": 0.1},
        {"pooling": "max"},
        {"size": 0},
        {"dropout": True},
        {"mask_duplicates": False},
    ):
        assert abs(loss(**chosen) - base) > 1e-4, chosen


def test_the_loss_is_of_projected_vectors_and_trains_the_projection(
    encoder: SentenceEncoder, inputs: StepInputs
) -> None:
    term = begun(encoder).double()
    anchor = torch.randn(N, encoder.dimension, dtype=torch.float64, requires_grad=True)
    layers = term.compute(inputs, reps_of(anchor, inputs, anchor))
    first, second = (term.projection[i] for i in (0, 2))  # type: ignore[index]

    def project(x: Tensor) -> Tensor:
        inner = torch.nn.functional.gelu(x @ first.weight.T + first.bias)
        return torch.nn.functional.gelu(inner @ second.weight.T + second.bias)

    loss = term.loss(reps_of(anchor, inputs, layers))
    assert abs(loss - self_guided(project(anchor), project(layers))) < 1e-10
    torch.autograd.backward(loss)
    assert all(p.grad is not None and p.grad.any() for p in term.projection.parameters())
    assert anchor.grad is not None
    optimizer = build_optimizer(term.parameters(), TrainingSettings())
    assert sum(p.numel() for group in optimizer.param_groups for p in group["params"]) == 32 * 7 + 7 + 7 * 7 + 7
    assert any(name.startswith("start.") for name in term.state_dict())


@pytest.mark.parametrize("dropout", [False, True])
def test_chunks_give_the_same(encoder: SentenceEncoder, inputs: StepInputs, dropout: bool) -> None:
    term = begun(encoder, dropout=dropout)
    unused = reps_of(torch.eye(N), inputs, torch.zeros(1))
    made = []
    for chunks in (Chunks(), Chunks(2), Chunks(2)):
        torch.manual_seed(1)
        made.append(term.compute(replace(inputs, chunks=chunks), unused))
    assert torch.equal(made[1], made[2])
    if dropout:
        assert (made[0] - made[1]).abs().max() > 1e-3
    else:
        torch.testing.assert_close(made[0], made[1], atol=1e-5, rtol=0)


def test_what_it_refuses(encoder: SentenceEncoder) -> None:
    with pytest.raises(UserError, match="pooling top2 averages several"):
        Objective(Itself(), terms=[SelfGuided(SelfGuided.Settings.model_validate({"pooling": "top2"}))])
    objective = Objective(Itself(), terms=[SelfGuided()])
    objective.check(Context(objective, encoder=encoder))
    encoder.dense.append(Dense(32, 8))
    with pytest.raises(UserError, match="8 dimensions, where tokens have 32"):
        objective.check(Context(objective, encoder=encoder))


def test_a_backbone_without_layers_is_refused(tmp_path: Path) -> None:
    objective = Objective(Itself(), terms=[SelfGuided()])
    with pytest.raises(UserError, match="has no layers"):
        objective.check(Context(objective, encoder=SentenceEncoder("opencse-mini", device="cpu"), model="opencse-mini"))
