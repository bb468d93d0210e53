"""Where the time of a training step goes, by torch's profiler: the share of each kind of operation.

    python benchmarks/where.py --shape mini minilm

Batch 64, at most 32 ids, recipe simcse, [CLS], packed, random weights, bf16 unless told otherwise, one thread. The
shares are of the time inside torch's operations; of what is outside, dropout's random numbers, which numpy draws, are
told as a share of the whole step.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch
from rows import machine
from speed import SHAPES, our_step, quiet, shaped
from torch.profiler import ProfilerActivity, profile

from opencse.kernels.packed import Masks
from opencse.text import sample
from opencse.training.memory import keep_freed_memory

KINDS = {
    "products of backward (of inputs and of weights)": ("aten::mm", "aten::addmm"),
    "products of forward": ("mkldnn::_linear_pointwise", "aten::linear"),
    "products of attention": ("aten::bmm",),
    "copies and casts": ("aten::copy_", "aten::cat"),
    "AdamW": ("aten::_fused_adamw_",),
    "clipping: the norm": ("aten::linalg_vector_norm",),
    "multiplying (dropout masks, scales, clipping)": ("aten::mul", "aten::mul_", "aten::div"),
    "adding": ("aten::add", "aten::add_"),
    "filling (zeros of the token embeddings' gradient)": ("aten::fill_", "aten::zero_"),
    "sums (gradients of biases)": ("aten::sum",),
    "GELU, backward and forward": ("aten::gelu", "aten::gelu_backward"),
    "layer norm, backward and forward": ("aten::native_layer_norm", "aten::native_layer_norm_backward"),
    "softmax, backward and forward": ("aten::_softmax", "aten::_softmax_backward_data"),
    "taking rows and leaving out padding": ("aten::index_select", "aten::masked_fill_", "aten::index"),
}
REST = "all others"


def shares(step: Callable[[int], None], steps: int) -> Counter[str]:
    """The share of each kind of the time inside torch's operations."""
    for number in range(2):
        step(number)
    with profile(activities=[ProfilerActivity.CPU]) as made:
        for number in range(2, 2 + steps):
            step(number)
    kind_of = {name: kind for kind, names in KINDS.items() for name in names}
    found: Counter[str] = Counter()
    for event in made.key_averages():
        found[kind_of.get(event.key, REST)] += event.self_cpu_time_total
    total = sum(found.values())
    return Counter({kind: taken / total for kind, taken in found.items()})


def share_of_masks(step: Callable[[int], None], steps: int) -> float:
    """The share of a step in which dropout masks are drawn."""
    drawn = 0.0
    draw = Masks.__call__

    def timed(self: Masks, *asked: object) -> torch.Tensor:
        nonlocal drawn
        started = time.process_time()
        made = draw(self, *asked)  # type: ignore[arg-type]
        drawn += time.process_time() - started
        return made

    Masks.__call__ = timed  # type: ignore[method-assign, assignment]
    try:
        started = time.process_time()
        for number in range(steps):
            step(number)
        return drawn / (time.process_time() - started)
    finally:
        Masks.__call__ = draw  # type: ignore[method-assign]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", nargs="+", default=["mini", "minilm"], choices=tuple(SHAPES))
    parser.add_argument("--precision", default="bf16", choices=("bf16", "float32"))
    parser.add_argument("--text", default=str(sample.TRAIN))
    parser.add_argument("--steps", type=int, default=5)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    quiet()
    keep_freed_memory()
    torch.set_num_threads(1)
    found, masks = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for shape in asked.shape:
            step = our_step(shaped(shape, Path(folder) / shape), asked.text, asked.precision, "packed")
            found[shape] = shares(step, asked.steps)
            masks[shape] = share_of_masks(step, asked.steps)
    print(f"| | {' | '.join(' x '.join(map(str, SHAPES[shape])) for shape in found)} |\n|---{'|---' * len(found)}|")
    for kind in (*KINDS, REST):
        print(f"| {kind} | {' | '.join(f'{one[kind]:.1%}' for one in found.values())} |")
    print(
        f"| beside these: dropout's random numbers, of the whole | {' | '.join(f'{m:.1%}' for m in masks.values())} |"
    )
    print(f"\n{machine()}")


if __name__ == "__main__":
    main()
