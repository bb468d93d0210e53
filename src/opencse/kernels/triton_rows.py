"""What a layer computes row by row on a GPU, by Triton kernels: the LayerNorm of a sum, and GELU; and their gradients.

Every kernel adds the bias of the product that it reads, so products need none, and the backward kernels sum the
gradients of biases and norms on the way: each program for its rows, in float32, and torch adds up the few sums that
these leave. The order of all sums is fixed.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from opencse.kernels.triton_dropout import SeededDropout, survives

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
