"""What one linear map costs on this processor, by each way that inference could take.

    python benchmarks/kernels.py

CPU time of one thread (the third fastest of nine), 1,024 rows, in ms: torch's own float32, oneDNN's with packed
weights, bf16 both ways, and int8 (weights by channel, activations quantised at each call).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from rows import machine
from torch import Tensor
from torch.nn import functional

SHAPES = ((256, 1024), (1024, 256), (384, 1536), (1536, 384), (768, 3072), (3072, 768))
ROWS = 1024


def milliseconds(call: Callable[[], Tensor]) -> float:
    """CPU time of a call."""
    taken = []
    for _ in range(10):
        started = time.process_time()
        call()
        taken.append(time.process_time() - started)
    return 1e3 * sorted(taken[1:])[2]


def ways(width: int, out: int) -> list[Callable[[], Tensor]]:
    """The ways of a map from ``width`` to ``out`` numbers."""
    ops: Any = torch.ops
    x, w, b = torch.randn(ROWS, width), 0.05 * torch.randn(out, width), torch.randn(out)
    x16, w16, b16 = x.bfloat16(), w.bfloat16(), b.bfloat16()
    packed, packed16 = (ops.mkldnn._reorder_linear_weight(t, ROWS) for t in (w, w16))
    scales = w.abs().amax(1).double() / 127
    quantised = torch.quantize_per_channel(w, scales, torch.zeros(out, dtype=torch.long), 0, torch.qint8)
    int8 = ops.quantized.linear_prepack(quantised, b)
    return [
        lambda: functional.linear(x, w, b),
        lambda: ops.mkldnn._linear_pointwise(x, packed, b, "none", [], ""),
        lambda: functional.linear(x16, w16, b16),
        lambda: ops.mkldnn._linear_pointwise(x16, packed16, b16, "none", [], ""),
        lambda: ops.quantized.linear_dynamic(x, int8, False),
    ]


def main() -> None:
    """Prints the table."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.backends.quantized.engine = "onednn"
    print("| in, out | float32 | float32 oneDNN | bf16 | bf16 oneDNN packed | int8 oneDNN |\n|---|---|---|---|---|---|")
    with torch.inference_mode():
        for width, out in SHAPES:
            told = [f"{milliseconds(way):.2f}" for way in ways(width, out)]
            print(f"| {width}, {out} | {' | '.join(told)} |", flush=True)
    print(machine())


if __name__ == "__main__":
    main()
