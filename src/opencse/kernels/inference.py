"""The fast forward of inference on a CPU: weights prepared once for the kernel that is fastest on this processor.

The kernel is chosen by `opencse.kernels.linear`. oneDNN's weights are packed: torch's own call packs them again each
time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from opencse.kernels.linear import Kernel, bf16_kernel, float32_kernel
from opencse.kernels.packed import Block, Maps, pack, why_not_packed
from opencse.text.tokenizer import Tokens

if TYPE_CHECKING:
    from transformers import PreTrainedModel

T = TypeVar("T")

_ROWS = 1_024
"""Number of rows that oneDNN packs the weights for; products of other numbers of rows give the same result."""


@dataclass(frozen=True)
class OneDnnLinear:
    """A linear map with weights packed for oneDNN, and maybe GELU after it: (T, in) -> (T, out)."""

    weight: Tensor
    bias: Tensor
    gelu: bool

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor, *, gelu: bool) -> OneDnnLinear:
        """Copies of both, packed for oneDNN; of their type."""
        reorder: Any = torch.ops.mkldnn._reorder_linear_weight
        return cls(reorder(weight.contiguous(), _ROWS), bias, gelu)

    def __call__(self, x: Tensor) -> Tensor:
        """``W x + b``, or GELU of it (by erf)."""
        call: Any = torch.ops.mkldnn._linear_pointwise
        name, algorithm = ("gelu", "none") if self.gelu else ("none", "")
        output: Tensor = call(x, self.weight, self.bias, name, [], algorithm)
        return output


@dataclass(frozen=True)
class TorchLinear:
    """A linear map by torch's own call, and maybe GELU after it: (T, in) -> (T, out)."""

    weight: Tensor
    bias: Tensor
    gelu: bool

    def __call__(self, x: Tensor) -> Tensor:
        """``W x + b``, or GELU of it (by erf)."""
        output = functional.linear(x, self.weight, self.bias)
        return functional.gelu(output) if self.gelu else output


class InferenceForward:
    """Computes the hidden states of BERT-shaped backbones on a CPU without gradient, faster than transformers does.

    It works on prepared copies of the weights (but for float32 by torch's own call, where only query, key and value are
    joined). They are used until the weights change as far as torch records it: by the tensors themselves and the count
    of their changes in place; no weight is read for that. What torch does not record (writing through ``.data``, the
    step of a fused optimizer) needs `forget`, which the encoder calls whenever its mode is set (`train`, `eval`) and
    before every forward with gradient. Copies and pickles of an encoder leave the prepared weights out.
    """

    def __init__(self) -> None:
        self._prepared: tuple[object, Any] | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> InferenceForward:
        return InferenceForward()

    def __reduce__(self) -> tuple[Callable[[], InferenceForward], tuple[()]]:
        return InferenceForward, ()

    @staticmethod
    def supports(backbone: PreTrainedModel, tokens: Tokens) -> bool:
        """Whether this forward can encode ``tokens``: float32 weights of BERT's shape, on a CPU, without gradient."""
        on_cpu = tokens.input_ids.device.type == "cpu" and not torch.is_grad_enabled()
        return on_cpu and backbone.dtype == torch.float32 and why_not_packed(backbone) is None

    def states(
        self,
        backbone: PreTrainedModel,
        tokens: Tokens,
        layers: Sequence[int],
        *,
        first: bool = False,
        bf16: bool = False,
    ) -> Sequence[Tensor]:
        """(rows, length, hidden) of each of ``layers``.

        Args:
            backbone: one that it `supports`.
            tokens: of the texts.
            layers: from 0 (the embeddings' output) to the last.
            first: of the last layer compute the first token alone.
            bf16: compute in bf16.
        """
        packed = pack(backbone)
        dtype, kernel = (torch.bfloat16, bf16_kernel()) if bf16 else (torch.float32, float32_kernel())
        maps = self._maps(packed.blocks, kernel, dtype, first_only=first)
        states = packed.states(
            tokens.input_ids, tokens.attention_mask, layers, first_only=first, maps=maps, dtype=dtype
        )
        return [states[layer] for layer in layers]

    def forget(self) -> None:
        """Drops the prepared weights: the next call prepares them again, of the weights as they are then."""
        self._prepared = None

    def _maps(self, blocks: Sequence[Block], kernel: Kernel, dtype: torch.dtype, *, first_only: bool) -> list[Maps]:
        """The maps of each layer; if ``first_only``, the last one's with the query by itself."""
        last = len(blocks) - 1

        def make() -> list[Maps]:
            return [_prepared(block, kernel, dtype, apart=first_only and i == last) for i, block in enumerate(blocks)]

        weights = [t for block in blocks for linear in block.linears for t in (linear.weight, linear.bias)]
        return self._cached((kernel, dtype, first_only), weights, make)

    def _cached(self, key: tuple[object, ...], weights: Sequence[Tensor], make: Callable[[], T]) -> T:
        """The result of ``make``, made again when ``weights`` have changed; only one is kept, since it is large."""
        stamp = (key, _stamp_of(weights))
        prepared = self._prepared  # read and set as one, for threads that share an encoder
        if prepared is None or prepared[0] != stamp:
            prepared = self._prepared = (stamp, make())
        result: T = prepared[1]
        return result


def _stamp_of(tensors: Sequence[Tensor]) -> tuple[object, ...]:
    """What torch records of the tensors: where they are in memory, and how often they were changed in place."""
    return tuple((t.data_ptr(), 0 if t.is_inference() else t._version) for t in tensors)


def _prepared(block: Block, kernel: Kernel, dtype: torch.dtype, *, apart: bool) -> Maps:
    """The maps of one layer; ``apart``: query by itself, else with key and value in one product."""

    def joined(*linears: nn.Linear, gelu: bool = False) -> OneDnnLinear | TorchLinear:
        weight = torch.cat([linear.weight for linear in linears]) if len(linears) > 1 else linears[0].weight
        bias = torch.cat([linear.bias for linear in linears]) if len(linears) > 1 else linears[0].bias
        if kernel == "torch":
            return TorchLinear(weight.to(dtype), bias.to(dtype), gelu)
        return OneDnnLinear.of(weight.to(dtype), bias.to(dtype), gelu=gelu)

    q, k, v = block.query, block.key, block.value
    return Maps(
        query=joined(q) if apart else None,
        others=joined(k, v) if apart else joined(q, k, v),
        attention=joined(block.attention),
        inner=joined(block.inner, gelu=True),
        outer=joined(block.outer),
    )
