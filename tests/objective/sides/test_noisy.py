"""Views with Gaussian noise: its moments, its seed and its type."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.objective.sides.noisy import Noisy
from opencse.objective.vectors.represent import represent
from opencse.objective.vectors.requests import Sentences
from opencse.objective.vectors.step import Representations
from sides_cases import N, representations, sides, step_of


def noisy(variance: float, name: str = "positive") -> Noisy:
    made = Noisy(Noisy.Settings(variance=variance))
    made.name = name
    return made


def test_moments_of_the_noise() -> None:
    zeros, count = torch.zeros(300, 100, dtype=torch.float64), 300 * 100
    ones = zeros + 1
    for variance in (0.1, 2.0):
        reps = Representations(zeros, ones, zeros.unsqueeze(1)[:, :0], torch.zeros(300, 2), noise_seed=4)
        left, right = sides(noisy(variance), reps)
        again, _ = sides(noisy(variance, "negatives.in_batch"), reps)
        for draw in (left, right - 1, again):
            assert abs(float(draw.mean())) < 5 * math.sqrt(variance / count)
            assert float(draw.var()) == pytest.approx(variance, rel=5 * math.sqrt(2 / count))
        for one, other in ((left, right - 1), (left, again)):  # fresh for each side and each use
            assert abs(float((one * other).mean())) < 5 * variance / math.sqrt(count)
        # on every number, not once a row or a column
        assert float(left.mean(dim=0).var()) == pytest.approx(variance / 300, rel=0.7)
        assert float(left.mean(dim=1).var()) == pytest.approx(variance / 100, rel=0.7)


def test_no_variance_is_no_noise() -> None:
    reps = representations()
    left, right = sides(noisy(0.0), reps)
    assert torch.equal(left, reps.anchor)
    assert torch.equal(right, reps.positive)


def noise_of(encoder: SentenceEncoder, texts: list[str], noise_seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """The noise on both sides, and the state of torch's own generator afterwards."""
    reps = represent(encoder, step_of(encoder, texts, len(texts) // 2, noise_seed), {Sentences()})
    left, right = sides(noisy(1.0), reps)
    return left - reps.anchor, right - reps.positive, torch.get_rng_state()


def test_noise_depends_on_the_seed_alone(encoder: SentenceEncoder, sentences: list[str]) -> None:
    torch.manual_seed(0)
    first = noise_of(encoder, sentences[: 2 * N], 5)
    torch.manual_seed(1)
    same = noise_of(encoder, sentences[10 : 10 + 2 * N], 5)  # other texts, other dropout
    torch.manual_seed(0)
    other = noise_of(encoder, sentences[: 2 * N], 6)
    for side in range(2):
        assert torch.allclose(first[side], same[side], atol=1e-6)
        assert not torch.allclose(first[side], other[side], atol=0.1)
    torch.manual_seed(0)
    represent(encoder, step_of(encoder, sentences[: 2 * N], N, 5), {Sentences()})
    assert torch.equal(torch.get_rng_state(), first[2]), "dropout's generator is not drawn from"


def test_noise_in_half_precision_keeps_the_type() -> None:
    half = torch.ones(2, 3, dtype=torch.bfloat16)
    reps = Representations(half, half, half.unsqueeze(1)[:, :0], torch.zeros(2, 2), noise_seed=0)
    left, right = sides(Noisy(), reps)
    assert left.dtype == right.dtype == torch.bfloat16
