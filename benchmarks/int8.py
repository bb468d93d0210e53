"""How like the vectors of 8-bit products would be to those of float32, before any kernel is written.

    python benchmarks/int8.py --model MINILM --text TEXT

Every linear map of the transformer is computed of rounded numbers: weights with one scale an output, what goes in with
one scale a call, one a token, or one and an offset a token. Cosines are to the float32 vectors, smallest and mean.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from rows import machine
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from torch.nn import functional


def unrounded(numbers: Tensor) -> Tensor:
    """As they are."""
    return numbers


def by_call(numbers: Tensor) -> Tensor:
    """256 steps from the smallest to the largest number of all."""
    low, high = numbers.min().clamp(max=0), numbers.max().clamp(min=0)
    scale = (high - low) / 255
    offset = (-low / scale).round()
    return (((numbers / scale).round() + offset).clamp(0, 255) - offset) * scale


def by_token(numbers: Tensor) -> Tensor:
    """255 steps around 0, up to the largest number of each token."""
    scale = numbers.abs().amax(-1, keepdim=True) / 127
    return (numbers / scale).round() * scale


def by_token_with_offset(numbers: Tensor) -> Tensor:
    """256 steps from the smallest to the largest number of each token."""
    low, high = numbers.amin(-1, keepdim=True), numbers.amax(-1, keepdim=True)
    scale = (high - low) / 255
    return ((numbers - low) / scale).round() * scale + low


WAYS: dict[str, Callable[[Tensor], Tensor]] = {
    "weights alone": unrounded,
    "and what goes in, a scale a call": by_call,
    "and what goes in, a scale a token": by_token,
    "and what goes in, a scale and an offset a token": by_token_with_offset,
}


class Rounded(nn.Module):
    """A linear map of 8-bit weights, and of what ``into`` makes of what goes in."""

    def __init__(self, of: nn.Linear, into: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.weight, self.bias, self._into = by_token(of.weight.detach()), of.bias, into

    def forward(self, numbers: Tensor) -> Tensor:
        """(.., out) of (.., in)."""
        return functional.linear(self._into(numbers), self.weight, self.bias)


def rounded(model: SentenceTransformer, into: Callable[[Tensor], Tensor]) -> SentenceTransformer:
    """A copy whose linear maps are rounded."""
    made = copy.deepcopy(model)
    for module in list(made.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, Rounded(child, into))
    return made


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--text", type=Path, required=True, help="a sentence a line")
    parser.add_argument("--rows", type=int, default=512)
    asked = parser.parse_args()
    with asked.text.open(encoding="utf-8") as stream:
        texts = [line.strip() for line in islice(stream, asked.rows)]
    model = SentenceTransformer(asked.model, device="cpu")
    exact = model.encode(texts, convert_to_tensor=True)
    print("| rounded to 8 bits | smallest cosine | mean |\n|---|---:|---:|")
    for name, into in WAYS.items():
        found = functional.cosine_similarity(rounded(model, into).encode(texts, convert_to_tensor=True), exact)
        print(f"| {name} | {float(found.min()):.5f} | {float(found.mean()):.5f} |", flush=True)
    print(machine())


if __name__ == "__main__":
    main()
