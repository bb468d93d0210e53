"""Anchors that noise is drawn for, and their logits by loops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import stdev
from typing import Any

import pytest
import torch
from torch import Tensor

from opencse.objective.columns import LogitColumns, Scoring
from opencse.objective.negatives.generated import NoisyAnchor
from opencse.objective.vectors.step import Representations
from opencse.settings import validate
from opencse.streams import seed_of

N, D = 5, 3
COSINE = Scoring("cosine", 0.5, True)
DOT = Scoring("dot", 0.5, True)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn_by(kind: str, seed: int) -> torch.Generator:
    """What a source that stands alone draws from in a step whose noise has this seed."""
    return generator(seed_of(seed, kind))


def anchors_of(n: int = N, d: int = D, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Correlated dimensions of different means and scales."""
    random = torch.randn(n, d, generator=generator(seed), dtype=torch.float64)
    mixed = random @ (torch.eye(d) + 0.7 * torch.ones(d, d)).double() * torch.arange(1, d + 1) + torch.arange(d)
    return mixed.to(dtype)


def reps_of(anchor: Tensor, noise: int = 0, keys: Sequence[int] | None = None) -> Representations:
    own = torch.arange(len(anchor)) if keys is None else torch.tensor(keys)
    both = torch.stack([own, own + 1000], dim=1)
    return replace(Representations.of(anchor, anchor.detach() + 0.1), keys=both, noise_seed=noise)


def similarity(a: list[float], b: list[float], scoring: Scoring) -> float:
    product = sum(x * y for x, y in zip(a, b, strict=True))
    if scoring.similarity == "cosine":
        product /= math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(y * y for y in b))
    return product / scoring.temperature


def expect_logits(columns: LogitColumns, anchors: Tensor, others: Tensor, scoring: Scoring, rel: float = 1e-9) -> None:
    expected = [[similarity(a, b, scoring) for b in others.tolist()] for a in anchors.tolist()]
    assert columns.logits.shape == (len(anchors), len(others))
    for row, wanted in zip(columns.logits.tolist(), expected, strict=True):
        assert row == pytest.approx(wanted, rel=rel, abs=1e-12)


def scales(rows: list[list[float]], sd: str) -> list[float]:
    return [stdev(column) if sd == "batch" else 1.0 for column in zip(*rows, strict=True)]


def noisy_anchor(**data: Any) -> NoisyAnchor:
    return NoisyAnchor(validate(NoisyAnchor.Settings, {"kind": "noisy_anchor", **data}, "test"))
