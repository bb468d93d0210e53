"""The linear maps of a backbone as inference computes them: weights put in order once, for the fastest kernel here.

Which one that is `linear` tells. oneDNN's weights are packed: torch's own call packs them anew each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from opencse.kernels.linear import Kernel
from opencse.kernels.packed import Block, Maps
from opencse.kernels.word_means import WordMeans

if TYPE_CHECKING:
    from transformers import PreTrainedModel

T = TypeVar("T")

_ROWS = 1_024
"""Rows of a product that the packing of its weights is made for; other numbers of rows give the same result."""


@dataclass(frozen=True)
class Packed:
    """A linear map with weights packed for oneDNN, and maybe GELU after it: (T, in) -> (T, out)."""

    weight: Tensor
    bias: Tensor
    gelu: bool

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor, *, gelu: bool) -> Packed:
        """Copies of both, in order for oneDNN; of their type."""
        reorder: Any = torch.ops.mkldnn._reorder_linear_weight
        return cls(reorder(weight.contiguous(), _ROWS), bias, gelu)

    def __call__(self, x: Tensor) -> Tensor:
        """``W x + b``, or GELU of it (by erf)."""
        call: Any = torch.ops.mkldnn._linear_pointwise
        name, how = ("gelu", "none") if self.gelu else ("none", "")
        made: Tensor = call(x, self.weight, self.bias, name, [], how)
        return made


@dataclass(frozen=True)
class Plain:
    """A linear map by torch's own call, and maybe GELU after it: (T, in) -> (T, out)."""

    weight: Tensor
    bias: Tensor
    gelu: bool

    def __call__(self, x: Tensor) -> Tensor:
        """``W x + b``, or GELU of it (by erf)."""
        made = functional.linear(x, self.weight, self.bias)
        return functional.gelu(made) if self.gelu else made


class Kernels:
    """The maps of a backbone's layers for inference (or its `WordMeans`), made anew once the weights changed.

    They are copies (but for float32 by torch's own call, where only query, key and value are joined), so a change of
    the weights has to be seen: by the tensors themselves, the count torch keeps of changes in place, and a number out
    of each, which shows when a whole tensor is written past that count (through ``.data``). Of rows alone that are
    written so nothing tells: `forget` then. Copies and pickles of an encoder leave them out.
    """

    def __init__(self) -> None:
        self._made: tuple[object, Any] | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Kernels:
        return Kernels()

    def __reduce__(self) -> tuple[Callable[[], Kernels], tuple[()]]:
        return Kernels, ()

    def maps(self, blocks: Sequence[Block], kernel: Kernel, dtype: torch.dtype, *, first_only: bool) -> list[Maps]:
        """Of each layer, the last one's apart for the first token if ``first_only``."""
        last = len(blocks) - 1

        def make() -> list[Maps]:
            return [_prepared(block, kernel, dtype, apart=first_only and i == last) for i, block in enumerate(blocks)]

        read = [t for block in blocks for linear in block.linears for t in (linear.weight, linear.bias)]
        return self._kept((kernel, dtype, first_only), read, make)

    def word_means(self, backbone: PreTrainedModel) -> WordMeans:
        """The tables of a backbone that is embeddings alone."""
        return self._kept(("word means",), WordMeans.reads(backbone), lambda: WordMeans.of(backbone))

    def forget(self) -> None:
        """Drops what was made: the weights are about to change, which a fused optimizer does not let them tell."""
        self._made = None

    def _kept(self, key: tuple[object, ...], read: Sequence[Tensor], make: Callable[[], T]) -> T:
        """What was made of the tensors ``read``, if they are as they were; one thing at a time, for it is large."""
        wanted = (key, _stamp_of(read))
        held = self._made  # read and set as one, for threads that share an encoder
        if held is None or held[0] != wanted:
            held = self._made = (wanted, make())
        made: T = held[1]
        return made


def _stamp_of(tensors: Sequence[Tensor]) -> tuple[object, ...]:
    if not tensors:
        return ()
    marks = torch.stack([t.detach().view(-1)[t.numel() // 2] for t in tensors]).tolist()
    counts = (0 if t.is_inference() else t._version for t in tensors)
    return tuple(zip((t.data_ptr() for t in tensors), counts, marks, strict=True))


def _prepared(block: Block, kernel: Kernel, dtype: torch.dtype, *, apart: bool) -> Maps:
    """The maps of one layer; ``apart``: query by itself, else with key and value in one product."""

    def made(*linears: nn.Linear, gelu: bool = False) -> Packed | Plain:
        weight = torch.cat([linear.weight for linear in linears]) if len(linears) > 1 else linears[0].weight
        bias = torch.cat([linear.bias for linear in linears]) if len(linears) > 1 else linears[0].bias
        if kernel == "torch":
            return Plain(weight.to(dtype), bias.to(dtype), gelu)
        return Packed.of(weight.to(dtype), bias.to(dtype), gelu=gelu)

    q, k, v = block.query, block.key, block.value
    return Maps(
        query=made(q) if apart else None,
        others=made(k, v) if apart else made(q, k, v),
        attention=made(block.attention),
        inner=made(block.inner, gelu=True),
        outer=made(block.outer),
    )
