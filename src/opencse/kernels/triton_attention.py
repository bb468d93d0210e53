"""Attention of short texts on a GPU, by one Triton kernel forward and one backward.

A program computes one head of one text. It reads queries, keys and values where the product of the joined maps wrote
them, and adds their biases. All is in float32 but the operands of products, which are of the arithmetic's type.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from opencse.kernels.triton_dropout import SeededDropout, survives

WARPS = {16: 1, 32: 4, 64: 4, 128: 8}
"""Warps of a program, by the width of its tile."""


def attention(joined: Tensor, biases: Tensor, mask: Tensor, heads: int, draws: SeededDropout, queries: int) -> Tensor:
    """Attention of each text with itself.

    Args:
        joined: (rows, length, 3 hidden), queries, keys and values without their biases.
        biases: (3 hidden,).
        mask: (rows, length), not 0 at tokens.
        heads: of the attention.
        draws: dropout of the attention weights.
        queries: how many tokens of each text ask: ``length``, or 1.

    Returns:
        (rows, queries, hidden).
    """
    rows, length, width = joined.shape
    mixed = joined.new_empty(rows, queries, width // 3)
    sizes = _attention_sizes(length, width // 3, heads, draws)
    _attend[(rows * heads,)](joined, biases, mask, draws.seeds, mixed, draws.slot, length, queries, **sizes)
    return mixed


def attention_gradients(
    gradient: Tensor, joined: Tensor, biases: Tensor, mask: Tensor, heads: int, draws: SeededDropout
) -> tuple[Tensor, Tensor]:
    """The gradients of `attention`, whose weights are computed again: of ``joined``, and (3 hidden,) of the biases."""
    rows, length, width = joined.shape
    of_joined = torch.empty_like(joined)
    sums = joined.new_empty(rows, width, dtype=torch.float32)
    sizes = _attention_sizes(length, width // 3, heads, draws)
    _attend_back[(rows * heads,)](
        gradient, joined, biases, mask, draws.seeds, of_joined, sums, draws.slot, length, gradient.shape[1], **sizes
    )
    return of_joined, sums.sum(dim=0)


def _attention_sizes(length: int, hidden: int, heads: int, draws: SeededDropout) -> dict[str, Any]:
    size = hidden // heads
    tile = max(16, triton.next_power_of_2(length))
    wide = max(16, triton.next_power_of_2(size))
    sizes = {"HIDDEN": hidden, "SIZE": size, "TILE": tile, "WIDE": wide, "RATE": draws.rate}
    return {**sizes, "num_warps": WARPS[tile]}


@triton.jit
def _tile(
    joined: tl.tensor, biases: tl.tensor, cells: tl.tensor, columns: tl.tensor, inside: tl.tensor, valid: tl.tensor
) -> tl.tensor:
    """(TILE, WIDE) of the queries, keys or values of one head, with their bias."""
    bias = tl.load(biases + columns, mask=inside, other=0.0).to(tl.float32)
    product = tl.load(joined + cells, mask=valid, other=0.0)
    return (product.to(tl.float32) + tl.where(valid, bias[None, :], 0.0)).to(product.dtype)


@triton.jit
def _softmax(q: tl.tensor, k: tl.tensor, real: tl.tensor, SIZE: tl.constexpr) -> tl.tensor:
    """(TILE, TILE) attention weights in float32."""
    scores = tl.dot(q, tl.trans(k), input_precision="ieee") * (SIZE**-0.5)
    scores = tl.where(real[None, :], scores, -float("inf"))
    raised = tl.exp(scores - tl.max(scores, axis=1)[:, None])
    return raised / tl.sum(raised, axis=1)[:, None]


@triton.jit(do_not_specialize=["slot", "length", "queries"])
def _attend(
    joined: tl.tensor,
    biases: tl.tensor,
    mask: tl.tensor,
    seeds: tl.tensor,
    mixed: tl.tensor,
    slot: tl.tensor,
    length: tl.tensor,
    queries: tl.tensor,
    HIDDEN: tl.constexpr,
    SIZE: tl.constexpr,
    TILE: tl.constexpr,
    WIDE: tl.constexpr,
    RATE: tl.constexpr,
) -> None:
    heads: tl.constexpr = HIDDEN // SIZE
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    positions, dims = tl.arange(0, TILE), tl.arange(0, WIDE)
    columns = head * SIZE + dims
    valid = (positions < length)[:, None] & (dims < SIZE)[None, :]
    cells = (row * length + positions)[:, None] * (3 * HIDDEN) + columns[None, :]
    q = _tile(joined, biases, cells, columns, dims < SIZE, valid)
    k = _tile(joined + HIDDEN, biases + HIDDEN, cells, columns, dims < SIZE, valid)
    v = _tile(joined + 2 * HIDDEN, biases + 2 * HIDDEN, cells, columns, dims < SIZE, valid)
    real = tl.load(mask + row * length + positions, mask=positions < length, other=0) != 0
    weights = _softmax(q, k, real, SIZE)
    if RATE > 0:
        pairs = (tl.program_id(0) * length + positions)[:, None] * length + positions[None, :]
        weights = tl.where(survives(seeds, slot, pairs, RATE), weights / (1 - RATE), 0.0)
    output = tl.dot(weights.to(v.dtype), v, input_precision="ieee")
    queried = (positions < queries)[:, None] & (dims < SIZE)[None, :]
    tl.store(mixed + (row * queries + positions)[:, None] * HIDDEN + columns[None, :], output, mask=queried)


@triton.jit(do_not_specialize=["slot", "length", "queries"])
def _attend_back(
    gradient: tl.tensor,
    joined: tl.tensor,
    biases: tl.tensor,
    mask: tl.tensor,
    seeds: tl.tensor,
    of_joined: tl.tensor,
    sums: tl.tensor,
    slot: tl.tensor,
    length: tl.tensor,
    queries: tl.tensor,
    HIDDEN: tl.constexpr,
    SIZE: tl.constexpr,
    TILE: tl.constexpr,
    WIDE: tl.constexpr,
    RATE: tl.constexpr,
) -> None:
    heads: tl.constexpr = HIDDEN // SIZE
    row, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    positions, dims = tl.arange(0, TILE), tl.arange(0, WIDE)
    columns = head * SIZE + dims
    valid = (positions < length)[:, None] & (dims < SIZE)[None, :]
    cells = (row * length + positions)[:, None] * (3 * HIDDEN) + columns[None, :]
    q = _tile(joined, biases, cells, columns, dims < SIZE, valid)
    k = _tile(joined + HIDDEN, biases + HIDDEN, cells, columns, dims < SIZE, valid)
    v = _tile(joined + 2 * HIDDEN, biases + 2 * HIDDEN, cells, columns, dims < SIZE, valid)
    real = tl.load(mask + row * length + positions, mask=positions < length, other=0) != 0
    queried = (positions < queries)[:, None] & (dims < SIZE)[None, :]
    of_output = tl.load(
        gradient + (row * queries + positions)[:, None] * HIDDEN + columns[None, :], mask=queried, other=0.0
    )
    weights = _softmax(q, k, real, SIZE)
    of_weights = tl.dot(of_output, tl.trans(v), input_precision="ieee")
    dropped = weights
    if RATE > 0:
        pairs = (tl.program_id(0) * length + positions)[:, None] * length + positions[None, :]
        keep = survives(seeds, slot, pairs, RATE)
        dropped = tl.where(keep, weights / (1 - RATE), 0.0)
        of_weights = tl.where(keep, of_weights / (1 - RATE), 0.0)
    of_scores = weights * (of_weights - tl.sum(weights * of_weights, axis=1)[:, None]) * (SIZE**-0.5)
    of_scores = of_scores.to(q.dtype)
    of_q = tl.dot(of_scores, k, input_precision="ieee")
    of_k = tl.dot(tl.trans(of_scores), q, input_precision="ieee")
    of_v = tl.dot(tl.trans(dropped.to(v.dtype)), of_output, input_precision="ieee")
    tl.store(of_joined + cells, of_q, mask=valid)
    tl.store(of_joined + HIDDEN + cells, of_k, mask=valid)
    tl.store(of_joined + 2 * HIDDEN + cells, of_v, mask=valid)
    of_biases = sums + row * (3 * HIDDEN) + columns
    tl.store(of_biases, tl.sum(tl.where(valid, of_q, 0.0), axis=0), mask=dims < SIZE)
    tl.store(of_biases + HIDDEN, tl.sum(tl.where(valid, of_k, 0.0), axis=0), mask=dims < SIZE)
    tl.store(of_biases + 2 * HIDDEN, tl.sum(tl.where(valid, of_v, 0.0), axis=0), mask=dims < SIZE)
