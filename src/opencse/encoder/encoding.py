"""Many texts to vectors: windows, batches of like length, and back into the texts' order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from opencse.encoder.batches import token_batches
from opencse.encoder.modes import evaluating
from opencse.progress import Count

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder

WINDOW = 32_768
"""Texts that are tokenised and sorted together."""


def encoded(
    encoder: SentenceEncoder,
    texts: Sequence[str],
    *,
    budget: int,
    most: int | None,
    bf16: bool,
    progress: Count | None,
) -> NDArray[np.float32]:
    """(n, dimension) vectors of ``texts``; see `SentenceEncoder.encode`.

    Args:
        encoder: of the vectors.
        texts: in the order of the vectors.
        budget: ids in a batch, padding counted.
        most: texts in a batch, at most.
        bf16: compute in bf16.
        progress: called after every batch with (texts done, texts in all).
    """
    vectors = np.zeros((len(texts), encoder.dimension), dtype=np.float32)
    done = 0
    with evaluating(encoder):
        for start in range(0, len(texts), WINDOW):
            ids = encoder.tokenize(texts[start : start + WINDOW])
            for indices in token_batches([len(row) for row in ids], budget, most):
                filled = indices[[len(ids[i]) > 0 for i in indices]]
                if len(filled):
                    tokens = encoder.tokenizer.pad([ids[i] for i in filled]).to(encoder.device)
                    vectors[start + filled] = encoder.embed(tokens, bf16=bf16).float().cpu().numpy()
                done += len(indices)
                if progress is not None:
                    progress(done, len(texts))
    return vectors
