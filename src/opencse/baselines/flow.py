"""BERT-flow: an invertible map after which sentence vectors are as likely as can be under a standard normal."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from opencse.baselines.flow_layers import FlowNetwork, Mixing
from opencse.errors import UserError, reason
from opencse.settings import Settings

Progress = Callable[[int, int], None]
_ROWS = 4096  # mapped at a time, and as many give ActNorm its start


class FlowSettings(Settings):
    """Shape and training of a flow; the defaults are those of the authors' published runs.

    Attributes:
        levels: after each but the last, half of the coordinates that are left are final.
        depth: steps in a level.
        width: of the hidden layers of each coupling's network.
        coupling: ``additive`` moves coordinates, ``affine`` scales them too.
        mixing: of the coordinates before a coupling: ``reversal`` of their order, or a fixed random ``rotation``.
        epochs: passes over the vectors.
        batch_size: vectors in a batch.
        learning_rate: of Adam, constant.
        seed: of the networks' and rotations' start and of the order of the vectors.
    """

    levels: int = Field(default=3, ge=1, le=64)
    depth: int = Field(default=3, ge=1, le=1_000)
    width: int = Field(default=32, ge=1, le=65_536)
    coupling: Literal["additive", "affine"] = "additive"
    mixing: Mixing = "reversal"
    epochs: int = Field(default=1, ge=1, le=1_000_000)
    batch_size: int = Field(default=32, ge=1, le=1_048_576)
    learning_rate: float = Field(default=1e-3, gt=0)
    seed: int = Field(default=42, ge=0)


class Flow:
    r"""A Glow of vectors, trained by maximum likelihood with the encoder frozen (Li et al. 2020, section 3).

    .. math:: \max_\phi\; \mathbb{E}_x \Big[\log \mathcal{N}(f_\phi(x); 0, I)
              + \log \Big|\det \frac{\partial f_\phi(x)}{\partial x}\Big|\Big]

    and f(x) takes the place of the sentence vector x. f is ``levels`` times ``depth`` steps of ActNorm, a mixing of
    the coordinates and a coupling (Kingma & Dhariwal 2018, "Glow").

    Where the authors' code differs: ActNorm starts from one batch (here from up to 4,096 vectors drawn at random) and
    its log-scale learns three times as fast; the couplings' networks have ActNorms of their own; the training
    vectors are all sentences of a task with their repeats.

    Attributes:
        network: the map.
        settings: its shape and training.
        dimension: length of a vector (d).
    """

    def __init__(self, dimension: int, settings: FlowSettings) -> None:
        """A flow that is not trained.

        Raises:
            UserError: if the vectors are too short for so many levels.
        """
        if dimension < 2**settings.levels:
            raise UserError(
                f"vectors of {dimension} numbers are too short for a flow of {settings.levels} levels, which halve "
                "them each; set fewer levels"
            )
        self.dimension = dimension
        self.settings = settings
        self.network = FlowNetwork(
            dimension,
            levels=settings.levels,
            depth=settings.depth,
            width=settings.width,
            mixing=settings.mixing,
            affine=settings.coupling == "affine",
            generator=torch.Generator().manual_seed(settings.seed),
        )

    @classmethod
    def fit(
        cls,
        vectors: NDArray[np.floating],
        settings: FlowSettings | None = None,
        *,
        device: str | torch.device = "cpu",
        progress: Progress | None = None,
    ) -> Self:
        """A flow trained on ``vectors``.

        Args:
            vectors: (n, d), n >= 2.
            settings: shape and training.
            device: where to train; the flow stays there.
            progress: called after every batch with (batches done, batches in all).

        Raises:
            UserError: if there are fewer than 2 vectors, they are not finite, or the likelihood becomes so.
            ValueError: if they are not (n, d).
        """
        if vectors.ndim != 2:
            raise ValueError(f"(n, d) vectors are expected, got {vectors.shape}")
        if len(vectors) < 2:
            raise UserError(f"a flow is fitted on at least 2 vectors, not {len(vectors)}; give more texts")
        data = _tensor(vectors)
        if not bool(data.isfinite().all()):
            raise UserError("a flow is fitted on finite vectors, but some are NaN or infinite; try float32")
        flow = cls(vectors.shape[1], settings or FlowSettings())
        flow.network.to(device)
        # The networks are drawn from `seed` itself; the order of the vectors must not repeat those numbers.
        generator = torch.Generator().manual_seed(flow.settings.seed + 1)
        flow.network.start(data[torch.randperm(len(data), generator=generator)[:_ROWS]].to(device))
        flow._train(data, generator, torch.device(device), progress)
        return flow

    def _train(self, data: Tensor, generator: torch.Generator, device: torch.device, progress: Progress | None) -> None:
        settings = self.settings
        optimizer = torch.optim.Adam(self.network.parameters(), lr=settings.learning_rate)
        total = settings.epochs * math.ceil(len(data) / settings.batch_size)
        done = 0
        for _ in range(settings.epochs):
            for rows in torch.split(torch.randperm(len(data), generator=generator), settings.batch_size):
                loss = -self.network.log_likelihood(data[rows].to(device)).mean() / self.dimension
                if not bool(loss.isfinite()):
                    raise UserError(
                        f"the flow diverged at batch {done + 1:,} of {total:,}; lower its learning rate "
                        f"({settings.learning_rate:g})"
                    )
                optimizer.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                done += 1
                if progress is not None:
                    progress(done, total)

    def apply(self, vectors: NDArray[np.floating]) -> NDArray[np.float32]:
        """The map of each vector: (n, d) -> (n, d) float32."""
        mapped = np.empty((len(vectors), self.dimension), dtype=np.float32)
        with torch.no_grad():
            for start, block in self._blocks(vectors):
                mapped[start : start + _ROWS] = self.network(block)[0].cpu().numpy()
        return mapped

    def log_likelihood(self, vectors: NDArray[np.floating]) -> NDArray[np.float32]:
        """The log-likelihood of each vector, in nats: (n,) float32."""
        found = np.empty(len(vectors), dtype=np.float32)
        with torch.no_grad():
            for start, block in self._blocks(vectors):
                found[start : start + _ROWS] = self.network.log_likelihood(block).cpu().numpy()
        return found

    def _blocks(self, vectors: NDArray[np.floating]) -> Iterator[tuple[int, Tensor]]:
        device = next(self.network.parameters()).device
        for start in range(0, len(vectors), _ROWS):
            yield start, _tensor(vectors[start : start + _ROWS]).to(device)

    def save(self, path: str | Path) -> None:
        """Writes weights and settings to one safetensors file.

        Raises:
            UserError: if it cannot be written.
        """
        from safetensors import SafetensorError
        from safetensors.torch import save_file

        state = {name: tensor.detach().cpu().contiguous() for name, tensor in self.network.state_dict().items()}
        facts = {"dimension": str(self.dimension), "settings": self.settings.model_dump_json()}
        try:
            save_file(state, str(path), metadata=facts)
        except (OSError, SafetensorError) as error:
            raise UserError(f"{path}: the flow cannot be written ({reason(error)})") from None

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The flow of a file written by `save`, on the CPU.

        Raises:
            UserError: if it is not such a file.
        """
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(str(path), framework="pt") as file:
                facts = file.metadata() or {}
                state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no mapping
        except (OSError, SafetensorError) as error:
            raise UserError(f"{path}: cannot be read as a flow ({reason(error)})") from None
        try:
            flow = cls(int(facts["dimension"]), FlowSettings.model_validate_json(facts["settings"]))
            flow.network.load_state_dict(state)
        except (KeyError, ValueError, RuntimeError) as error:
            raise UserError(f"{path}: holds no flow written by OpenCSE ({reason(error)})") from None
        return flow


def _tensor(vectors: NDArray[np.floating]) -> Tensor:
    """As float32; copied only where it is not yet so, or read-only (which torch cannot share)."""
    return torch.from_numpy(np.require(vectors, np.float32, ["C", "W"]))
