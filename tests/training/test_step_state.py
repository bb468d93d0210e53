"""Parts with a state see a step once, however many batches it is made of; and what they hold follows the real batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.kernels.precision import choose_precision
from opencse.objective.negatives.fitted import Fitted
from opencse.objective.negatives.stored import MomentumQueue, VectorQueue
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.vectors.step import StepInputs
from opencse.settings import validate
from opencse.training.step import Step

N, ACCUMULATE, STEPS, MOMENTUM = 4, 3, 4, 0.8


def built(**source: Any) -> Objective:
    return Objective.from_settings(validate(ObjectiveSettings, {"negatives": [{"kind": "in_batch"}, source]}, "test"))


@pytest.fixture
def encoder(tiny_folder: Path) -> SentenceEncoder:
    return SentenceEncoder.load(tiny_folder, pooling="mean", dropout=0.0, device="cpu").train()


@pytest.fixture
def steps(encoder: SentenceEncoder, sentences: list[str]) -> list[list[StepInputs]]:
    """Four steps of three batches of four."""
    made = []
    for number in range(STEPS * ACCUMULATE):
        texts = sentences[number * N : (number + 1) * N]
        tokens = encoder.tokenizer.pad(encoder.tokenize(texts * 2))
        keys = torch.arange(number * N, (number + 1) * N).unsqueeze(1).repeat(1, 2)
        made.append(StepInputs(tokens, N, keys, noise_seed=number))
    return [made[step * ACCUMULATE : (step + 1) * ACCUMULATE] for step in range(STEPS)]


def anchors(encoder: SentenceEncoder, batch: StepInputs) -> Tensor:
    with torch.no_grad():
        vectors: Tensor | None = encoder(batch.anchors).sentence
    assert vectors is not None
    return vectors


def move(encoder: SentenceEncoder) -> None:
    """A step of plain descent along the gradients that are there."""
    with torch.no_grad():
        for weights in encoder.parameters():
            if weights.grad is not None:
                weights.sub_(0.05 * weights.grad)
    encoder.zero_grad()


def content(queue: VectorQueue | None) -> list[tuple[int, Tensor]]:
    """The queue's vectors by their keys."""
    assert queue is not None
    return sorted(zip(queue.keys.tolist(), queue.vectors, strict=True), key=lambda row: row[0])


def check(queue: VectorQueue | None, expected: list[tuple[int, Tensor]]) -> None:
    found = content(queue)
    assert [key for key, _ in found] == [key for key, _ in expected]
    torch.testing.assert_close(
        torch.stack([v for _, v in found]), torch.stack([v for _, v in expected]), atol=1e-6, rtol=1e-5
    )


def test_a_momentum_encoder_moves_once_a_step(encoder: SentenceEncoder, steps: list[list[StepInputs]]) -> None:
    """Against eq. 6 and 7 written down: once a step, whatever the batches; the queue has all their sentences."""
    objective = built(kind="momentum_queue", size=18, momentum=MOMENTUM)
    objective.begin(encoder, batch_size=N, seed=0)
    source = objective.negatives[1]
    assert isinstance(source, MomentumQueue)
    slow = encoder.twin().eval()
    step = Step(encoder, objective, choose_precision("float32", encoder.device))
    kept: list[tuple[int, Tensor]] = []
    for batches in steps:
        check(source.queue, kept) if kept else None
        step.gradients(batches)
        with torch.no_grad():
            for theirs, own in zip(encoder.parameters(), slow.parameters(), strict=True):
                own.copy_(MOMENTUM * own + (1 - MOMENTUM) * theirs)
        for batch in batches:
            kept += zip(batch.keys[:, 0].tolist(), anchors(slow, batch), strict=True)
        kept = kept[-18:]
        move(encoder)
    check(source.queue, kept)
    assert source.average is not None
    for theirs, own in zip(source.average.encoder.parameters(), slow.parameters(), strict=True):
        torch.testing.assert_close(theirs, own, atol=1e-6, rtol=1e-5)
    gap = max(float((a - b).detach().abs().max()) for a, b in zip(encoder.parameters(), slow.parameters(), strict=True))
    assert gap > 1e-3, "the weights moved, so a second update within a step would be seen"


@pytest.mark.parametrize("kind", ["vae", "gmm"])
def test_a_distribution_is_fitted_once_a_step(
    kind: str, encoder: SentenceEncoder, steps: list[list[StepInputs]], monkeypatch: pytest.MonkeyPatch
) -> None:
    objective = built(kind=kind, steps=8)
    objective.begin(encoder, batch_size=N, seed=0)
    source = objective.negatives[1]
    assert isinstance(source, Fitted)
    fits: list[int] = []
    fit = type(source.distribution).fit

    def counted(self: Any, points: Tensor, noise: torch.Generator) -> None:  # a distribution
        fits.append(len(points))
        fit(self, points, noise)

    monkeypatch.setattr(type(source.distribution), "fit", counted)
    step = Step(encoder, objective, choose_precision("float32", encoder.device))
    expected: list[tuple[int, Tensor]] = []
    for batches in steps:
        for batch in batches:
            expected += zip(batch.keys[:, 0].tolist(), anchors(encoder, batch), strict=True)
        step.gradients(batches)
        check(source.store, expected[-32:])
        move(encoder)
    assert fits == [12, 24, 32, 32]
