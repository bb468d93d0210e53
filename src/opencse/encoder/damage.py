"""Detects vectors of a model with damaged weights: NaN, infinity, or only zeros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError

if TYPE_CHECKING:
    from opencse.encoder.text_encoder import TextEncoder

_PROBES = 256
"""Number of ids of the vocabulary that are encoded one by one if all vectors of a call are zero."""


class DamagedVectorError(UserError):
    """A vector holds NaN or infinity.

    Attributes:
        row: number of its text, from 0.
    """

    def __init__(self, message: str, row: int) -> None:
        super().__init__(message)
        self.row = row

    def __reduce__(self) -> tuple[type[DamagedVectorError], tuple[str, int]]:
        """Pickled with its row."""
        return type(self), (str(self), self.row)


def require_sound_vectors(
    encoder: TextEncoder, vectors: NDArray[np.float32], texts: Sequence[str] | None = None, *, bf16: bool = False
) -> None:
    """Refuses vectors that hold NaN or infinity, and vectors of a model that returns zeros for everything.

    A zero vector alone is no fault: in some models a text without a known token has one. So if all vectors are zero,
    single tokens from the whole vocabulary are encoded too.

    Args:
        encoder: that computed the vectors.
        vectors: (n, d).
        texts: of the vectors, for the message.
        bf16: computed in bf16.

    Raises:
        DamagedVectorError: for NaN and infinity, naming the first text.
        UserError: for a model of zeros.
    """
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        which = "a vector" if texts is None else f"the vector of {texts[row][:40]!r}"
        fix = "try precision float32" if bf16 else "the weights of the model are damaged"
        raise DamagedVectorError(f"{which} holds NaN or infinity; {fix}", row)
    if len(vectors) and not vectors.any() and not _has_nonzero_vector(encoder):
        raise UserError(
            "the model gives the zero vector for every text; its weights are damaged: copy the model again, or use "
            "another"
        )


def _has_nonzero_vector(encoder: TextEncoder) -> bool:
    """Whether any of some single tokens has a vector that is not zero."""
    count = encoder.tokenizer.vocabulary_size
    ids = np.unique(np.linspace(0, count - 1, min(count, _PROBES)).astype(np.int32))
    return bool(encoder.encode_ids([ids[[at]] for at in range(len(ids))]).any())
