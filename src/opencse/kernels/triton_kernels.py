"""Triton's kernels for layers on a GPU: attention of short texts, the LayerNorm of a sum, GELU; and their gradients.

Dropout's masks are a function of a seed on the device, so they are never written down. A program of attention computes
one head of one text; it reads queries, keys and values where the product of the joined maps wrote them. Every kernel
adds the bias of the product that it reads, so products need none, and the backward kernels sum the gradients of biases
and norms on the way: each program for its rows, in float32, and torch adds up the few sums that these leave. The order
of all sums is fixed. All is in float32 but the operands of products, which are of the arithmetic's type.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor


class SeededDropout(NamedTuple):
    """Dropout at one place of a layer, in one forward.

    Attributes:
        rate: share that is dropped; 0 draws nothing.
        seeds: (slots,) int64 on the device, drawn again for each forward; None where nothing is dropped.
        slot: which of the seeds is this place's.
    """

    rate: float
    seeds: Tensor | None
    slot: int


@triton.jit
def _mixed_bits(h: tl.tensor) -> tl.tensor:
    """The last step of MurmurHash3, in which every bit of the result depends on every bit of ``h``."""
    h = (h ^ (h >> 16)) * 0x85EBCA6B
    h = (h ^ (h >> 13)) * 0xC2B2AE35
    return h ^ (h >> 16)


@triton.jit
def survives(seeds: tl.tensor, slot: tl.tensor, cells: tl.tensor, RATE: tl.constexpr) -> tl.tensor:
    """Whether dropout keeps each of ``cells``: a function of the seed and the cell's number.

    Both halves of the seed enter, and bits are mixed after each: some 16 operations, where Triton's own generator
    (Philox) takes a hundred.
    """
    seed = tl.load(seeds + slot)
    # xxHash's first prime, near 2^32 / the golden ratio: neighbouring cells get far apart.
    h = cells.to(tl.uint32) * 0x9E3779B1 + (seed & 0xFFFFFFFF).to(tl.uint32)
    h = _mixed_bits(h) ^ (seed >> 32).to(tl.uint32)
    threshold: tl.constexpr = int(RATE * 4294967296)
    return _mixed_bits(h) >= threshold


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
    # tl.dot wants 16 rows and columns or more, tl.arange powers of two.
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
    # "ieee": Triton's default, TF32, would round float32 operands to 10 bits.
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


NORM_CELLS, NORM_PROGRAMS, NORM_WARPS = 1024, 264, 4
"""Cells of a tile of rows; programs that share the tiles of a backward pass; warps of a program."""
GELU_ROWS, GELU_COLUMNS, GELU_PROGRAMS, GELU_WARPS = 32, 128, 44, 4
"""Shape of a tile; programs that share the rows of a backward pass; warps of a program."""


def added_norm(
    x: Tensor, change: Tensor, change_bias: Tensor, weight: Tensor, bias: Tensor, eps: float, draws: SeededDropout
) -> tuple[Tensor, Tensor]:
    """``LayerNorm(x + dropout(change + change_bias))``.

    Args:
        x: (T, hidden).
        change: (T, hidden).
        change_bias: (hidden,).
        weight: (hidden,) of the LayerNorm.
        bias: (hidden,) of the LayerNorm.
        eps: of the LayerNorm.
        draws: dropout of the change.

    Returns:
        (T, hidden), and (2, T) mean and 1 / standard deviation of each row.
    """
    rows, width = x.shape
    y, statistics = torch.empty_like(x), x.new_empty(2, rows, dtype=torch.float32)
    sizes = _norm_sizes(width, draws)
    grid = (triton.cdiv(rows, sizes["ROWS"]),)
    _norm[grid](x, change, change_bias, weight, bias, draws.seeds, y, statistics, draws.slot, rows, EPS=eps, **sizes)
    return y, statistics


def added_norm_gradients(
    gradient: Tensor,
    x: Tensor,
    change: Tensor,
    change_bias: Tensor,
    weight: Tensor,
    statistics: Tensor,
    draws: SeededDropout,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of `added_norm`: of x, of the change, and (3, hidden) of weight, bias and the change's bias.

    Without dropout the first two are one tensor.
    """
    rows, width = x.shape
    of_x = torch.empty_like(x)
    of_change = torch.empty_like(x) if draws.rate else of_x
    sizes = _norm_sizes(width, draws)
    programs = min(NORM_PROGRAMS, triton.cdiv(rows, sizes["ROWS"]))
    sums = x.new_empty(programs, 3, width, dtype=torch.float32)
    tensors = (gradient, x, change, change_bias, weight, statistics, draws.seeds, of_x, of_change, sums)
    _norm_back[(programs,)](*tensors, draws.slot, rows, programs, **sizes)
    return of_x, of_change, sums.sum(dim=0)


def gelu(product: Tensor, bias: Tensor) -> Tensor:
    """``gelu(product + bias)``, (T, width) and (width,) -> (T, width)."""
    rows, width = product.shape
    y = torch.empty_like(product)
    grid = (triton.cdiv(rows, GELU_ROWS), triton.cdiv(width, GELU_COLUMNS))
    _gelu[grid](product, bias, y, rows, **_gelu_sizes(width))
    return y


def gelu_gradients(gradient: Tensor, product: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of `gelu`: of the product, and (width,) of the bias."""
    rows, width = product.shape
    of_product = torch.empty_like(product)
    programs = min(GELU_PROGRAMS, triton.cdiv(rows, GELU_ROWS))
    sums = product.new_empty(programs, width, dtype=torch.float32)
    grid = (programs, triton.cdiv(width, GELU_COLUMNS))
    _gelu_back[grid](gradient, product, bias, of_product, sums, rows, programs, **_gelu_sizes(width))
    return of_product, sums.sum(dim=0)


def _norm_sizes(width: int, draws: SeededDropout) -> dict[str, Any]:
    tile = triton.next_power_of_2(width)
    rows = max(1, NORM_CELLS // tile)
    return {"WIDTH": width, "TILE": tile, "ROWS": rows, "RATE": draws.rate, "num_warps": NORM_WARPS}


def _gelu_sizes(width: int) -> dict[str, Any]:
    sizes = {"WIDTH": width, "ROWS": GELU_ROWS, "COLUMNS": GELU_COLUMNS}
    return {**sizes, "num_warps": GELU_WARPS}


@triton.jit
def _total(
    x: tl.tensor,
    change: tl.tensor,
    change_bias: tl.tensor,
    keep: tl.tensor,
    cells: tl.tensor,
    columns: tl.tensor,
    valid: tl.tensor,
    RATE: tl.constexpr,
    WIDTH: tl.constexpr,
) -> tl.tensor:
    """``x + dropout(change + change_bias)`` of some rows."""
    bias = tl.load(change_bias + columns, mask=columns < WIDTH, other=0.0).to(tl.float32)
    changed = tl.load(change + cells, mask=valid, other=0.0).to(tl.float32) + bias[None, :]
    if RATE > 0:
        changed = tl.where(keep, changed / (1 - RATE), 0.0)
    return tl.load(x + cells, mask=valid, other=0.0).to(tl.float32) + changed


@triton.jit(do_not_specialize=["slot", "rows"])
def _norm(
    x: tl.tensor,
    change: tl.tensor,
    change_bias: tl.tensor,
    weight: tl.tensor,
    bias: tl.tensor,
    seeds: tl.tensor,
    y: tl.tensor,
    statistics: tl.tensor,
    slot: tl.tensor,
    rows: tl.tensor,
    WIDTH: tl.constexpr,
    TILE: tl.constexpr,
    ROWS: tl.constexpr,
    RATE: tl.constexpr,
    EPS: tl.constexpr,
) -> None:
    columns = tl.arange(0, TILE)
    numbers = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cells = numbers[:, None] * WIDTH + columns[None, :]
    inside = (columns < WIDTH)[None, :]
    valid = (numbers < rows)[:, None] & inside
    keep = survives(seeds, slot, cells, RATE) if RATE > 0 else valid
    total = _total(x, change, change_bias, keep, cells, columns, valid, RATE, WIDTH)
    mean = tl.sum(tl.where(inside, total, 0.0), axis=1) / WIDTH
    centred = tl.where(inside, total - mean[:, None], 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=1) / WIDTH + EPS)
    tl.store(statistics + numbers, mean, mask=numbers < rows)
    tl.store(statistics + rows + numbers, scale, mask=numbers < rows)
    w = tl.load(weight + columns, mask=columns < WIDTH, other=0.0).to(tl.float32)
    b = tl.load(bias + columns, mask=columns < WIDTH, other=0.0).to(tl.float32)
    tl.store(y + cells, centred * scale[:, None] * w[None, :] + b[None, :], mask=valid)


@triton.jit(do_not_specialize=["slot", "rows", "programs"])
def _norm_back(
    gradient: tl.tensor,
    x: tl.tensor,
    change: tl.tensor,
    change_bias: tl.tensor,
    weight: tl.tensor,
    statistics: tl.tensor,
    seeds: tl.tensor,
    of_x: tl.tensor,
    of_change: tl.tensor,
    sums: tl.tensor,
    slot: tl.tensor,
    rows: tl.tensor,
    programs: tl.tensor,
    WIDTH: tl.constexpr,
    TILE: tl.constexpr,
    ROWS: tl.constexpr,
    RATE: tl.constexpr,
) -> None:
    columns = tl.arange(0, TILE)
    w = tl.load(weight + columns, mask=columns < WIDTH, other=0.0).to(tl.float32)
    of_weight = tl.zeros((ROWS, TILE), tl.float32)
    of_bias = tl.zeros((ROWS, TILE), tl.float32)
    of_change_bias = tl.zeros((ROWS, TILE), tl.float32)
    for first in range(tl.program_id(0) * ROWS, rows, programs * ROWS):
        numbers = first + tl.arange(0, ROWS)
        cells = numbers.to(tl.int64)[:, None] * WIDTH + columns[None, :]
        valid = (numbers < rows)[:, None] & (columns < WIDTH)[None, :]
        keep = survives(seeds, slot, cells, RATE) if RATE > 0 else valid
        total = _total(x, change, change_bias, keep, cells, columns, valid, RATE, WIDTH)
        mean = tl.load(statistics + numbers, mask=numbers < rows, other=0.0)
        scale = tl.load(statistics + rows + numbers, mask=numbers < rows, other=0.0)
        normed = tl.where(valid, (total - mean[:, None]) * scale[:, None], 0.0)
        of_y = tl.load(gradient + cells, mask=valid, other=0.0).to(tl.float32)
        scaled = of_y * w[None, :]
        along = tl.sum(scaled * normed, axis=1) / WIDTH
        centred = scaled - (tl.sum(scaled, axis=1) / WIDTH)[:, None] - normed * along[:, None]
        of_total = tl.where(valid, centred * scale[:, None], 0.0)
        tl.store(of_x + cells, of_total, mask=valid)
        if RATE > 0:
            of_total = tl.where(keep, of_total / (1 - RATE), 0.0)
            tl.store(of_change + cells, of_total, mask=valid)
        of_weight += of_y * normed
        of_bias += of_y
        of_change_bias += of_total
    out = sums + tl.program_id(0) * (3 * WIDTH) + columns
    tl.store(out, tl.sum(of_weight, axis=0), mask=columns < WIDTH)
    tl.store(out + WIDTH, tl.sum(of_bias, axis=0), mask=columns < WIDTH)
    tl.store(out + 2 * WIDTH, tl.sum(of_change_bias, axis=0), mask=columns < WIDTH)


@triton.jit(do_not_specialize=["rows"])
def _gelu(
    product: tl.tensor,
    bias: tl.tensor,
    y: tl.tensor,
    rows: tl.tensor,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    numbers = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cells = numbers[:, None] * WIDTH + columns[None, :]
    valid = (numbers < rows)[:, None] & (columns < WIDTH)[None, :]
    b = tl.load(bias + columns, mask=columns < WIDTH, other=0.0).to(tl.float32)
    u = tl.load(product + cells, mask=valid, other=0.0).to(tl.float32) + b[None, :]
    tl.store(y + cells, 0.5 * u * (1 + tl.erf(u * 0.7071067811865476)), mask=valid)


@triton.jit(do_not_specialize=["rows", "programs"])
def _gelu_back(
    gradient: tl.tensor,
    product: tl.tensor,
    bias: tl.tensor,
    of_product: tl.tensor,
    sums: tl.tensor,
    rows: tl.tensor,
    programs: tl.tensor,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    b = tl.load(bias + columns, mask=columns < WIDTH, other=0.0).to(tl.float32)
    of_bias = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(tl.program_id(0) * ROWS, rows, programs * ROWS):
        numbers = first + tl.arange(0, ROWS)
        cells = numbers.to(tl.int64)[:, None] * WIDTH + columns[None, :]
        valid = (numbers < rows)[:, None] & (columns < WIDTH)[None, :]
        u = tl.load(product + cells, mask=valid, other=0.0).to(tl.float32) + b[None, :]
        of_y = tl.load(gradient + cells, mask=valid, other=0.0).to(tl.float32)
        slope = 0.5 * (1 + tl.erf(u * 0.7071067811865476)) + u * tl.exp(-0.5 * u * u) * 0.3989422804014327
        tl.store(of_product + cells, of_y * slope, mask=valid)
        of_bias += of_y * slope
    tl.store(sums + tl.program_id(0) * WIDTH + columns, tl.sum(of_bias, axis=0), mask=columns < WIDTH)
