"""What the sides of a similarity are made of: vectors of views, clean ones, and means over draws."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.objective.sides.base import Sides
from opencse.objective.vectors.requests import Clean, Means
from opencse.objective.vectors.step import Representations, Request, StepInputs

N, D = 4, 6
SEED = 9


def representations() -> Representations:
    """Random vectors of N examples, with clean ones and means over three draws."""
    random = torch.Generator().manual_seed(2)
    anchor, positive, clean = (torch.randn(N, D, generator=random, dtype=torch.float64) for _ in range(3))
    answers: dict[Request[Any], Tensor] = {Clean(): clean}
    answers[Means(3)] = torch.randn(2, N, D, generator=random, dtype=torch.float64)
    return replace(Representations.of(anchor, positive), answers=answers, noise_seed=SEED)


def sides(kind: Sides, reps: Representations) -> tuple[Tensor, Tensor]:
    """The vectors on both sides of a similarity."""
    return kind.of(reps, lambda: kind.noise(reps))


def step_of(encoder: SentenceEncoder, texts: list[str], n: int, noise_seed: int = 0) -> StepInputs:
    """The inputs of a step on n examples: all anchors, then all positives, and so on."""
    keys = torch.arange(len(texts)).reshape(-1, n).T.contiguous()
    return StepInputs(encoder.tokenizer.pad(encoder.tokenize(texts)), n, keys, noise_seed=noise_seed)
