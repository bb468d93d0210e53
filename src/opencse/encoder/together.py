"""Shares the texts of an evaluation among the processes of a run.

Only the first process evaluates, and it may encode any number of times. Each time it sends texts and settings to the
others, which encode their share, until it is done. All have the same weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch

from opencse.arrays import Embeddings
from opencse.encoder.batches import Batching
from opencse.encoder.encoding import encode_in_batches
from opencse.processes import ALONE, Processes

if TYPE_CHECKING:
    from opencse.encoder.network import EncoderNetwork

T = TypeVar("T")
E = TypeVar("E", bound="EncoderNetwork")


def evaluate_together(encoder: E, world: Processes, evaluate: Callable[[E], T]) -> T:
    """Evaluates ``encoder`` in the first process and returns the result in all of them.

    Each process encodes its share of the texts that ``evaluate`` encodes; the rest of the evaluation is done once.
    """
    result: T | None = None
    if not world.several:
        return evaluate(encoder)
    if world.first:
        encoder.together = world
        try:
            result = evaluate(encoder)
        finally:
            encoder.together = ALONE
            world.share(None)
    else:
        while True:
            request: tuple[list[str], Batching] | None = world.share()
            if request is None:
                break
            _encoded(encoder, world, *request)
    return world.share(result)


def encode_together(encoder: EncoderNetwork, texts: Sequence[str], how: Batching) -> Embeddings:
    """Encodes ``texts`` in all processes, a share in each; called by the first one.

    Args:
        encoder: whose processes take part.
        texts: n texts.
        how: the texts are put into batches.

    Returns:
        (n, dimension) vectors.
    """
    world, encoder.together = encoder.together, ALONE
    try:
        world.share((list(texts), how))
        return _encoded(encoder, world, texts, how)
    finally:
        encoder.together = world


@torch.inference_mode()
def _encoded(encoder: EncoderNetwork, world: Processes, texts: Sequence[str], how: Batching) -> Embeddings:
    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))  # all have as many long ones
    shares = [order[rank :: world.count] for rank in range(world.count)]
    share_vectors = encode_in_batches(encoder, [texts[row] for row in shares[world.rank]], how)
    gathered = world.gathered(torch.from_numpy(share_vectors).to(encoder.device), [len(share) for share in shares])
    vectors = np.empty((len(texts), encoder.dimension), dtype=np.float32)
    vectors[np.concatenate(shares).astype(np.intp)] = gathered.cpu().numpy()
    return vectors
