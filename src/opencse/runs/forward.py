"""Chooses what computes the forward pass of training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.kernels.packed import pack, why_not_packed
from opencse.kernels.padded import MULTIPLE, why_not_fused
from opencse.kernels.states import ON_GPU
from opencse.objective.objective import Objective
from opencse.objective.vectors.chunks import Chunks
from opencse.recipes.recipe import Recipe
from opencse.training.recorded import why_not_recorded


def choose_forward(encoder: SentenceEncoder, setting: bool | Literal["auto"]) -> str:
    """Chooses what computes the training forward, as far as ``training.packed`` and the model allow, and says why.

    Example:
        >>> from opencse.encoder.encoder import SentenceEncoder
        >>> choose_forward(SentenceEncoder.load("opencse-mini", device="cpu"), "auto")
        'packed, no padding'

    Args:
        encoder: changed by this call.
        setting: the value of ``training.packed``.

    Raises:
        UserError: for a setting that has no effect on this device or with this model.
    """
    plain = str(encoder.backbone.config._attn_implementation)
    kind, obstacle = encoder.device.type, why_not_packed(encoder.backbone)
    if setting is False:
        return f"{plain} (padded: training.packed = false)"
    if setting == "auto" and (obstacle is not None or kind not in ("cpu", "cuda")):
        return f"{plain} (padded: {obstacle or f'on {kind}'})"
    if setting is True and kind != "cpu":
        raise UserError("training.packed needs a CPU; set it to auto, or add --device cpu")
    pack(encoder.backbone)
    if kind == "cuda":
        unfit = why_not_fused(encoder.backbone)
        encoder.computation = "fused" if unfit is None else "padded"
        layers = "fused layers" if unfit is None else f"padded layers (not fused: {unfit})"
        return f"in {layers}, lengths multiples of {MULTIPLE}"
    encoder.computation = "packed"
    return "packed, no padding"


def recording_in_words(
    encoder: SentenceEncoder, objectives: Sequence[Objective], recipe: Recipe, chunks: Chunks
) -> str:
    """Whether steps on a GPU are recorded, and why not, to put after what is said of attention."""
    if encoder.computation not in ON_GPU:
        return ""
    if not recipe.training.graphs:
        return ", steps not recorded (training.graphs = false)"
    obstacles = [why_not_recorded(one, recipe.training, chunks) for one in objectives]
    obstacle = next(filter(None, obstacles), None)
    return ", steps recorded" if obstacle is None else f", steps not recorded ({obstacle})"
