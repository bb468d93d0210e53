"""A normalising flow: invertible layers, each with its exact log-determinant."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

Mixing = Literal["reversal", "rotation"]


class ActNorm(nn.Module):
    r"""Scale and shift of each coordinate (Glow, section 3.1).

    .. math:: y = e^{s} \odot (x + b), \quad \log|\det| = \sum_i s_i
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(size))
        self.log_scale = nn.Parameter(torch.zeros(size))

    @torch.no_grad()
    def start(self, x: Tensor) -> None:
        """Sets shift and scale so that ``x`` (rows, size) comes out with mean 0 and variance 1."""
        self.shift.copy_(-x.mean(dim=0))
        self.log_scale.copy_(-(x.std(dim=0, correction=0) + 1e-6).log())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(rows, size) -> the same shape, and the log-determinant, ()."""
        return (x + self.shift) * self.log_scale.exp(), self.log_scale.sum()

    def inverse(self, y: Tensor) -> Tensor:
        """The x of a y."""
        return y * (-self.log_scale).exp() - self.shift


class Reversal(nn.Module):
    """The coordinates in reverse order; log-determinant 0."""

    def forward(self, x: Tensor) -> Tensor:
        """(rows, size) -> the same shape."""
        return x.flip(1)

    def inverse(self, y: Tensor) -> Tensor:
        """The x of a y."""
        return y.flip(1)


class Rotation(nn.Module):
    """A random orthogonal matrix, fixed: what Glow's 1x1 convolution starts as; log-determinant 0."""

    matrix: Tensor

    def __init__(self, size: int, generator: torch.Generator) -> None:
        super().__init__()
        self.register_buffer("matrix", nn.init.orthogonal_(torch.empty(size, size), generator=generator))

    def forward(self, x: Tensor) -> Tensor:
        """(rows, size) -> the same shape."""
        return x @ self.matrix

    def inverse(self, y: Tensor) -> Tensor:
        """The x of a y."""
        return y @ self.matrix.T


class Coupling(nn.Module):
    r"""Half of the coordinates are moved by what a small network makes of the other half (Glow, section 3.3).

    .. math:: y_1 = x_1, \quad y_2 = \sigma(r(x_1) + 2) \odot (x_2 + t(x_1)), \quad
              \log|\det| = \sum_i \log \sigma(r_i(x_1) + 2)

    Additive: without r, :math:`y_2 = x_2 + t(x_1)`, log-determinant 0. The network has two hidden ReLU layers and a
    last one that is zero at the start.
    """

    def __init__(self, size: int, width: int, *, affine: bool, generator: torch.Generator) -> None:
        super().__init__()
        self.kept = (size + 1) // 2
        self.affine = affine
        moved = size - self.kept
        sizes = [self.kept, width, width, 2 * moved if affine else moved]
        # `nn.Linear` alone would draw its weights from torch's global generator first.
        self.layers = nn.ModuleList(
            nn.utils.skip_init(nn.Linear, a, b)  # type: ignore[no-untyped-call]
            for a, b in pairwise(sizes)
        )
        with torch.no_grad():
            for number, layer in enumerate(self.layers):
                assert isinstance(layer, nn.Linear)
                layer.bias.zero_()
                if number < 2:
                    layer.weight.normal_(0.0, (2 / layer.in_features) ** 0.5, generator=generator)
                else:
                    layer.weight.zero_()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(rows, size) -> the same shape, and the log-determinants, (rows,)."""
        first, second = x[:, : self.kept], x[:, self.kept :]
        shift, log_scale = self._network(first)
        return torch.cat([first, (second + shift) * log_scale.exp()], dim=1), log_scale.sum(dim=1)

    def inverse(self, y: Tensor) -> Tensor:
        """The x of a y."""
        first, second = y[:, : self.kept], y[:, self.kept :]
        shift, log_scale = self._network(first)
        return torch.cat([first, second * (-log_scale).exp() - shift], dim=1)

    def _network(self, first: Tensor) -> tuple[Tensor, Tensor]:
        hidden = first
        for layer in self.layers[:2]:
            hidden = layer(hidden).relu()
        out: Tensor = self.layers[2](hidden)
        if not self.affine:
            return out, torch.zeros_like(out)
        shift, raw = out.chunk(2, dim=1)
        return shift, nn.functional.logsigmoid(raw + 2)


class Step(nn.Module):
    """ActNorm, mixing of the coordinates, coupling."""

    def __init__(self, size: int, width: int, mixing: Mixing, *, affine: bool, generator: torch.Generator) -> None:
        super().__init__()
        self.norm = ActNorm(size)
        self.mix = Rotation(size, generator) if mixing == "rotation" else Reversal()
        self.coupling = Coupling(size, width, affine=affine, generator=generator)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(rows, size) -> the same shape, and the log-determinants, (rows,)."""
        normed, scale = self.norm(x)
        y, change = self.coupling(self.mix(normed))
        return y, change + scale

    def inverse(self, y: Tensor) -> Tensor:
        """The x of a y."""
        return self.norm.inverse(self.mix.inverse(self.coupling.inverse(y)))


class FlowNetwork(nn.Module):
    """``levels`` times ``depth`` steps; after each level but the last, the second half of the coordinates is final."""

    def __init__(
        self,
        dimension: int,
        *,
        levels: int,
        depth: int,
        width: int,
        mixing: Mixing,
        affine: bool,
        generator: torch.Generator,
    ) -> None:
        """``dimension`` is at least 2 ** ``levels``, so that a coupling has two halves."""
        super().__init__()
        self.sizes = [dimension]
        while len(self.sizes) < levels:
            self.sizes.append((self.sizes[-1] + 1) // 2)
        self.steps = nn.ModuleList(
            nn.ModuleList(Step(size, width, mixing, affine=affine, generator=generator) for _ in range(depth))
            for size in self.sizes
        )

    @torch.no_grad()
    def start(self, x: Tensor) -> None:
        """Brings what reaches each ActNorm of ``x`` (rows, d) to mean 0 and variance 1, one after the other."""
        for size, steps in self._levels():
            left = x[:, :size]
            for step in steps:
                step.norm.start(left)
                left, _ = step(left)
            x = torch.cat([left, x[:, size:]], dim=1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The value f(x), (rows, d), and log |det df/dx|, (rows,)."""
        log_det = x.new_zeros(len(x))
        for size, steps in self._levels():
            left = x[:, :size]
            for step in steps:
                left, change = step(left)
                log_det = log_det + change
            x = torch.cat([left, x[:, size:]], dim=1)
        return x, log_det

    def inverse(self, z: Tensor) -> Tensor:
        """The x of a z = f(x)."""
        for size, steps in reversed(self._levels()):
            left = z[:, :size]
            for step in reversed(steps):
                left = step.inverse(left)
            z = torch.cat([left, z[:, size:]], dim=1)
        return z

    def log_likelihood(self, x: Tensor) -> Tensor:
        """The log p(x) of each row, in nats: (rows,)."""
        z, log_det = self(x)
        likelihood: Tensor = log_det - 0.5 * (z.square().sum(dim=1) + z.shape[1] * math.log(2 * math.pi))
        return likelihood

    def _levels(self) -> list[tuple[int, list[Step]]]:
        levels = []
        for size, steps in zip(self.sizes, self.steps, strict=True):
            assert isinstance(steps, nn.ModuleList)
            levels.append((size, [step for step in steps if isinstance(step, Step)]))
        return levels
