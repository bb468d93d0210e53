"""The penalty for leaving the start: vectors and weights by loops, and what it cannot be combined with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.dense import Dense
from opencse.objective.context import Context
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.teachers.teacher import TaughtVectors
from opencse.objective.terms.near_start import NearStart
from opencse.objective.vectors.represent import represent
from opencse.objective.vectors.step import Representations, StepInputs
from opencse.objective.views.dropout import Dropout
from opencse.settings import validate

N, D = 4, 5


def term(**data: Any) -> NearStart:
    return NearStart(validate(NearStart.Settings, {"kind": "near_start", **data}, "test"))


def begun(encoder: SentenceEncoder, **data: Any) -> NearStart:
    made = term(**data)
    made.begin(encoder, batch_size=N, seed=0)
    return made


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("distance", ["cosine", "mse"])
def test_the_distance_of_vectors_by_loops(encoder: SentenceEncoder, distance: str, normalised: bool) -> None:
    encoder.normalize = normalised
    made = begun(encoder, vectors=0.5, distance=distance)
    random = torch.Generator().manual_seed(0)
    a, b, c, d = (torch.randn(N, D, generator=random, dtype=torch.float64).requires_grad_() for _ in range(4))
    taught = TaughtVectors(c.detach(), d.detach(), c.detach().unsqueeze(1)[:, :0])
    reps = replace(Representations.of(a, b), answers={made.request: taught})
    distances: list[Tensor] = []
    for ours, start in (*zip(a, taught.anchor, strict=True), *zip(b, taught.positive, strict=True)):
        vector = ours / (ours @ ours).sqrt() if normalised else ours
        cosine = vector @ start / ((vector @ vector) * (start @ start)).sqrt()
        distances.append(1 - cosine if distance == "cosine" else sum((vector - start) ** 2) / D)
    wanted = 0.5 * sum(distances[1:], distances[0]) / (2 * N)
    loss = made.loss(reps)
    torch.testing.assert_close(loss, wanted, rtol=1e-10, atol=1e-10, check_dtype=False)
    for one, other in zip(torch.autograd.grad(loss, (a, b)), torch.autograd.grad(wanted, (a, b)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
    assert float(made.diagnose(reps.detached())["start_distance"]) == pytest.approx(2 * float(wanted.detach()))


def test_the_distance_of_weights(encoder: SentenceEncoder, sentences: list[str]) -> None:
    encoder.double()
    made = begun(encoder, vectors=0.0, weights=0.1)
    inputs = StepInputs(
        encoder.tokenizer.pad(encoder.tokenize(sentences[: 2 * N])), N, torch.arange(2 * N).reshape(N, 2)
    )
    reps = represent(encoder, inputs, made.reads)
    assert float(made.loss(reps).detach()) == 0
    before = {name: p.detach().clone() for name, p in encoder.backbone.named_parameters()}
    with torch.no_grad():
        for number, parameter in enumerate(encoder.backbone.parameters()):
            parameter.add_(0.01 * (number % 3))
    loss = made.loss(represent(encoder, inputs, made.reads))
    wanted = 0.0
    for name, parameter in encoder.backbone.named_parameters():
        for now, then in zip(parameter.flatten().tolist(), before[name].flatten().tolist(), strict=True):
            wanted += 0.1 * (now - then) ** 2
    assert float(loss.detach()) == pytest.approx(wanted, rel=1e-10)
    loss.backward()  # type: ignore[no-untyped-call]
    for name, parameter in encoder.backbone.named_parameters():
        torch.testing.assert_close(parameter.grad, 0.2 * (parameter.detach() - before[name]), rtol=1e-10, atol=1e-10)


def test_a_training_head_is_refused(encoder: SentenceEncoder) -> None:
    encoder.projection = Dense(32, 32)
    objective = Objective(Dropout(), negatives=[InBatch()], terms=[term()])
    with pytest.raises(UserError, match=r"no training head; set encoder\.head\.kind=none"):
        objective.check(Context(objective, encoder=encoder))
    weights = Objective(Dropout(), negatives=[InBatch()], terms=[term(vectors=0, weights=1)])
    weights.check(Context(weights, encoder=encoder))


def test_nothing_to_compare_is_refused() -> None:
    with pytest.raises(UserError, match="both 0, so nothing is compared"):
        term(vectors=0)
