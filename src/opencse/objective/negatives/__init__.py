"""What an anchor is pushed from: one source, one file. To add one, name it in the union and in ``PARTS``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import Field

from opencse.objective.negatives.base import NegativeSource, Scoring
from opencse.objective.negatives.gaussian import Gaussian
from opencse.objective.negatives.gmm import Gmm
from opencse.objective.negatives.hard import Hard
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.negatives.layers import Layers
from opencse.objective.negatives.memory_bank import MemoryBank
from opencse.objective.negatives.momentum_queue import MomentumQueue
from opencse.objective.negatives.noisy_anchor import NoisyAnchor
from opencse.objective.negatives.vae import Vae
from opencse.settings import PartSettings

__all__ = ["NegativeSettings", "NegativeSource", "Scoring", "build_negatives"]

NegativeSettings = Annotated[
    InBatch.Settings
    | Hard.Settings
    | Layers.Settings
    | MomentumQueue.Settings
    | MemoryBank.Settings
    | NoisyAnchor.Settings
    | Gaussian.Settings
    | Vae.Settings
    | Gmm.Settings,
    Field(discriminator="kind"),
]

PARTS: Mapping[type[PartSettings], Callable[[Any], NegativeSource]] = {
    InBatch.Settings: InBatch,
    Hard.Settings: Hard,
    Layers.Settings: Layers,
    MomentumQueue.Settings: MomentumQueue,
    MemoryBank.Settings: MemoryBank,
    NoisyAnchor.Settings: NoisyAnchor,
    Gaussian.Settings: Gaussian,
    Vae.Settings: Vae,
    Gmm.Settings: Gmm,
}


def build_negatives(settings: PartSettings) -> NegativeSource:
    """The source that ``settings`` describe."""
    return PARTS[type(settings)](settings)
