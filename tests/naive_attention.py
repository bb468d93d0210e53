"""Torch's multi-head attention, position by position."""

from __future__ import annotations

import torch
from torch import Tensor


def attention(x: Tensor, memory: Tensor, weights: dict[str, Tensor], heads: int, allowed: list[list[int]]) -> Tensor:
    """Torch's multi-head attention of single rows, by loops."""
    hidden = x.shape[1]
    q, k, v = (
        torch.stack([w @ row + b for row in source])
        for w, b, source in zip(
            torch.split(weights["in_proj_weight"], hidden),
            torch.split(weights["in_proj_bias"], hidden),
            (x, memory, memory),
            strict=True,
        )
    )
    size, rows = hidden // heads, []
    for t in range(len(x)):
        mixed = []
        for head in range(heads):
            part = slice(head * size, (head + 1) * size)
            scores = torch.stack([q[t, part] @ k[s, part] / size**0.5 for s in allowed[t]])
            exps = scores.exp() / scores.exp().sum()
            mixed.append(sum((e * v[s, part] for e, s in zip(exps, allowed[t], strict=True)), torch.zeros(size)))
        rows.append(weights["out_proj.weight"] @ torch.cat(mixed) + weights["out_proj.bias"])
    return torch.stack(rows)
