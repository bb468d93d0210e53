"""Means over dropout draws: which draws, of which texts, and how their variance falls."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.kernels.outputs import Encoded
from opencse.objective.vectors.represent import represent
from opencse.objective.vectors.requests import HardNegatives, Layer, Means, Sentences
from opencse.objective.vectors.step import Request
from sides_cases import N, step_of


def seen(encoder: SentenceEncoder) -> list[Tensor]:
    """The vectors of every forward from now on."""
    outputs: list[Tensor] = []

    def keep(module: object, args: object, output: Encoded) -> None:
        assert output.sentence is not None
        outputs.append(output.sentence)

    encoder.register_forward_hook(keep)
    return outputs


@pytest.mark.parametrize("samples", [1, 3])
def test_means_are_over_fresh_draws_of_each_view(encoder: SentenceEncoder, sentences: list[str], samples: int) -> None:
    """One sentence throughout: whatever differs is dropout, and every row has a mask of its own."""
    outputs = seen(encoder)
    reps = represent(encoder, step_of(encoder, [sentences[0]] * 3 * N, N), {HardNegatives(), Means(samples)})
    assert [len(output) for output in outputs] == [3 * N + samples * 2 * N]
    (rows,) = outputs
    assert torch.pdist(rows).min() > 1e-3
    assert torch.equal(reps.anchor, rows[:N])
    assert torch.equal(reps.positive, rows[N : 2 * N])
    assert torch.equal(reps.hard[:, 0], rows[2 * N : 3 * N])
    means = reps[Means(samples)]
    assert means.shape == (2, N, 32)
    for view, i in itertools.product(range(2), range(N)):
        draws = [rows[3 * N + k * 2 * N + view * N + i] for k in range(samples)]
        assert torch.allclose(means[view, i], sum(draws, torch.zeros(32)) / samples, atol=1e-6)


def test_means_are_of_the_right_texts(encoder: SentenceEncoder, sentences: list[str]) -> None:
    encoder.eval()
    plainly: set[Request[Any]] = {Sentences(), HardNegatives(), Layer(1)}
    reps = represent(encoder, step_of(encoder, sentences[: 3 * N], N), plainly | {Means(3)})
    plain = represent(encoder, step_of(encoder, sentences[: 3 * N], N), plainly)
    means = reps[Means(3)]
    assert torch.pdist(torch.cat([reps.anchor, reps.positive])).min() > 1e-2
    for left, right in (
        (means[0], reps.anchor),
        (means[1], reps.positive),
        (reps.hard, plain.hard),
        (reps[Layer(1)], plain[Layer(1)]),
    ):
        assert left.shape == right.shape
        assert torch.allclose(left, right, atol=1e-5)
    assert Means(3) not in plain.answers


def test_variance_over_draws_falls_as_one_over_their_number(encoder: SentenceEncoder) -> None:
    """SimCSE++, section 3.1: the mean of K draws has 1/K of the variance of one."""
    inputs = step_of(encoder, ["a cat sleeps"] * 400, 200)
    variances = {}
    torch.manual_seed(0)
    for samples in (1, 8):
        with torch.no_grad():
            means = represent(encoder, inputs, {Means(samples)})[Means(samples)]
        variances[samples] = [float(view.var(dim=0).mean()) for view in means]
    for view in range(2):
        assert variances[1][view] > 1e-4
        assert variances[1][view] / variances[8][view] == pytest.approx(8, rel=0.2)


def test_gradient_flows_through_every_draw(encoder: SentenceEncoder, sentences: list[str]) -> None:
    outputs = seen(encoder)
    reps = represent(encoder, step_of(encoder, sentences[: 2 * N], N), {Means(2)})
    outputs[0].retain_grad()
    torch.autograd.backward((reps[Means(2)] * torch.arange(1.0, 33.0)).sum())
    gradient = outputs[0].grad
    assert gradient is not None
    assert torch.equal(gradient[: 2 * N], torch.zeros(2 * N, 32))
    assert torch.allclose(gradient[2 * N :], (torch.arange(1.0, 33.0) / 2).expand(4 * N, -1))
