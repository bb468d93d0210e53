"""BERT-flow: an invertible map that makes sentence vectors as likely as possible under a standard normal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from opencse.errors import UserError
from opencse.progress import Count, uncounted
from opencse.settings import Settings

_ROWS = 4096  # mapped at a time, and drawn for the start of ActNorm


class FlowSettings(Settings):
    """Shape and training of a flow; the defaults are the settings of the authors' published runs.

    Attributes:
        levels: after each but the last, half of the coordinates that are left are final.
        depth: steps in a level.
        width: of the hidden layers of each coupling.
        epochs: passes over the vectors.
        batch_size: vectors in a batch.
        learning_rate: of Adam, constant.
        seed: of the networks' and rotations' start and of the order of the vectors.
    """

    levels: int = Field(default=3, ge=1, le=64)
    depth: int = Field(default=3, ge=1, le=1_000)
    width: int = Field(default=32, ge=1, le=65_536)
    epochs: int = Field(default=1, ge=1, le=1_000_000)
    batch_size: int = Field(default=32, ge=1, le=1_048_576)
    learning_rate: float = Field(default=1e-3, gt=0)
    seed: int = Field(default=42, ge=0)


class ActNorm(nn.Module):
    r"""Scales and shifts each coordinate (Glow, section 3.1).

    .. math:: y = e^{s} \odot (x + b), \quad \log|\det| = \sum_i s_i
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(size))
        self.log_scale = nn.Parameter(torch.zeros(size))

    @torch.no_grad()
    def start(self, x: Tensor) -> None:
        """Sets shift and scale so that ``x`` (rows, size) gets mean 0 and variance 1."""
        self.shift.copy_(-x.mean(dim=0))
        self.log_scale.copy_(-(x.std(dim=0, correction=0) + 1e-6).log())

    def forward(self, x: Tensor) -> Tensor:
        """(rows, size) -> the same shape."""
        return (x + self.shift) * self.log_scale.exp()


class FlowStep(nn.Module):
    r"""ActNorm, the coordinates in reverse order, additive coupling (NICE, Dinh et al. 2015; Glow, section 3).

    .. math:: y_1 = x_1, \quad y_2 = x_2 + t(x_1), \quad \log|\det| = 0

    t has two hidden ReLU layers and a last one that is zero at the start.
    """

    def __init__(self, size: int, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.size = size
        self.first_size = (size + 1) // 2
        self.norm = ActNorm(size)
        sizes = [self.first_size, width, width, size - self.first_size]
        # `nn.Linear` alone would draw its weights from torch's global generator first.
        layers = [nn.utils.skip_init(nn.Linear, a, b) for a, b in pairwise(sizes)]  # type: ignore[no-untyped-call]
        with torch.no_grad():
            for layer in layers:
                layer.bias.zero_()
                layer.weight.zero_()
            for layer in layers[:2]:
                layer.weight.normal_(0.0, (2 / layer.in_features) ** 0.5, generator=generator)
        self.shift = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])

    def forward(self, x: Tensor) -> Tensor:
        """(rows, size) -> the same shape."""
        first, second = self.norm(x).flip(1).tensor_split([self.first_size], dim=1)
        return torch.cat([first, second + self.shift(first)], dim=1)


class Flow:
    r"""A Glow flow of vectors, trained by maximum likelihood with the encoder frozen (Li et al. 2020, section 3).

    .. math:: \max_\phi\; \mathbb{E}_x \Big[\log \mathcal{N}(f_\phi(x); 0, I)
              + \log \Big|\det \frac{\partial f_\phi(x)}{\partial x}\Big|\Big]

    and f(x) replaces the sentence vector x. f is ``levels`` times ``depth`` `FlowStep`s (Kingma & Dhariwal 2018,
    "Glow"); after each level but the last, the second half of the coordinates is final.

    Where the authors' code differs: ActNorm starts from one batch (here from up to 4,096 vectors drawn at random) and
    its log-scale learns three times as fast; the couplings' networks have ActNorms of their own; the training
    vectors are all sentences of a task with their repeats.

    Attributes:
        steps: the map, level by level.
        settings: its shape and training.
        dimension: length of a vector (d).

    Example:
        >>> vectors = np.random.default_rng(0).normal(loc=3.0, size=(64, 8))
        >>> flow = Flow.fit(vectors, FlowSettings(levels=2, depth=1, epochs=1))
        >>> flow.apply(vectors).shape, bool(abs(flow.apply(vectors).mean()) < 0.5)
        ((64, 8), True)
    """

    def __init__(self, dimension: int, settings: FlowSettings) -> None:
        """Makes an untrained flow.

        Raises:
            UserError: if the vectors are too short for this number of levels.
        """
        if dimension < 2**settings.levels:
            raise UserError(
                f"vectors of {dimension} dimensions are too short for a flow of {settings.levels} levels, which halve "
                "them each; set fewer levels"
            )
        self.dimension = dimension
        self.settings = settings
        generator = torch.Generator().manual_seed(settings.seed)
        sizes = [dimension]
        while len(sizes) < settings.levels:
            sizes.append((sizes[-1] + 1) // 2)
        self.steps = nn.ModuleList(
            FlowStep(size, settings.width, generator) for size in sizes for _ in range(settings.depth)
        )

    @classmethod
    def fit(
        cls,
        vectors: NDArray[np.floating],
        settings: FlowSettings | None = None,
        *,
        device: str | torch.device = "cpu",
        progress: Count = uncounted,
    ) -> Self:
        """Trains a flow on ``vectors``.

        Args:
            vectors: (n, d), finite, n >= 2.
            settings: shape and training.
            device: where to train; the flow stays there.
            progress: called after every batch with (batches done, batches in all).

        Raises:
            UserError: if the likelihood is not finite any more.
        """
        data = _tensor(vectors)
        flow = cls(vectors.shape[1], settings or FlowSettings())
        flow.steps.to(device)
        # The networks are drawn from `seed` itself; the order of the vectors must not repeat those draws.
        generator = torch.Generator().manual_seed(flow.settings.seed + 1)
        flow.start(data[torch.randperm(len(data), generator=generator)[:_ROWS]].to(device))
        flow._train(data, generator, torch.device(device), progress)
        return flow

    def _train(self, data: Tensor, generator: torch.Generator, device: torch.device, progress: Count) -> None:
        settings = self.settings
        optimizer = torch.optim.Adam(self.steps.parameters(), lr=settings.learning_rate)
        total = settings.epochs * math.ceil(len(data) / settings.batch_size)
        done = 0
        for _ in range(settings.epochs):
            for rows in torch.split(torch.randperm(len(data), generator=generator), settings.batch_size):
                loss = -self.log_likelihood(data[rows].to(device)).mean() / self.dimension
                if not bool(loss.isfinite()):
                    raise UserError(
                        f"the flow diverged at batch {done + 1:,} of {total:,}; lower its learning rate "
                        f"({settings.learning_rate:g})"
                    )
                optimizer.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                done += 1
                progress(done, total)

    @torch.no_grad()
    def start(self, x: Tensor) -> None:
        """Brings what reaches each ActNorm of ``x`` (rows, d) to mean 0 and variance 1, one after the other."""
        for step in self._steps():
            step.norm.start(x[:, : step.size])
            x = torch.cat([step(x[:, : step.size]), x[:, step.size :]], dim=1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Returns f(x), (rows, d), and log |det df/dx|, (), which is the same for every x."""
        log_det = x.new_zeros(())
        for step in self._steps():
            x = torch.cat([step(x[:, : step.size]), x[:, step.size :]], dim=1)
            log_det = log_det + step.norm.log_scale.sum()
        return x, log_det

    def apply(self, vectors: NDArray[np.floating]) -> NDArray[np.float32]:
        """Maps each vector: (n, d) -> (n, d) float32."""
        device = next(self.steps.parameters()).device
        with torch.no_grad():
            blocks = torch.split(_tensor(vectors), _ROWS)
            return torch.cat([self.forward(block.to(device))[0].cpu() for block in blocks]).numpy()

    def log_likelihood(self, x: Tensor) -> Tensor:
        """Log p(x) of each row of ``x``: (rows,)."""
        z, log_det = self.forward(x)
        likelihood: Tensor = log_det - 0.5 * (z.square().sum(dim=1) + z.shape[1] * math.log(2 * math.pi))
        return likelihood

    def _steps(self) -> Iterator[FlowStep]:
        for step in self.steps:
            assert isinstance(step, FlowStep)
            yield step


def _tensor(vectors: NDArray[np.floating]) -> Tensor:
    """Converts to float32; copies only other types, and read-only arrays (which torch cannot share)."""
    return torch.from_numpy(np.require(vectors, np.float32, ["C", "W"]))
