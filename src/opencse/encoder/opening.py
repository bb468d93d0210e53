"""Opens the encoder of a model that is ready first: `opencse.load`, and a BERT in numpy for a few texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from opencse.arrays import Embeddings, without_warnings
from opencse.encoder.fingerprint import hash_files
from opencse.encoder.static import NumpyEncoder, StaticEncoder
from opencse.encoder.text_encoder import Batching, TextEncoder
from opencse.errors import plain_failures
from opencse.foreign import checks_trust
from opencse.kernels.numpy_models import NumpyBert
from opencse.kernels.precision import PrecisionName
from opencse.model_folder.without_torch import NumpyParts, read_bert, read_static
from opencse.modules.pooling import LEAST_WEIGHT, Pooling
from opencse.modules.similarity import unit_rows
from opencse.progress import Count, uncounted
from opencse.text.rust_tokenizer import Ids

_IDS = 1_024
"""Ids in a batch: their states fit a processor's cache."""


@dataclass(frozen=True)
class KnownModel:
    """The fingerprint of the model that is made of certain files.

    Attributes:
        files: their `hash_files`.
        fingerprint: of the encoder that was opened from them.
    """

    files: str
    fingerprint: str


class BertEncoder(NumpyEncoder[NumpyBert]):
    """Turns texts into vectors with a BERT: those of `SentenceEncoder`, up to rounding.

    It is made for the first answers of a process: for hundreds of texts and more the kernels of `SentenceEncoder` are
    faster, import of torch included.

    Args:
        parts: of the encoder.
        folder: that they were read from.
        pooling: as it was requested when the folder was opened.
        known: the fingerprint of some files; if the model is made of these, it need not be computed with torch.
    """

    kind = "a BERT in numpy"

    def __init__(
        self,
        parts: NumpyParts[NumpyBert],
        folder: Path | None = None,
        pooling: str | None = None,
        known: KnownModel | None = None,
    ) -> None:
        super().__init__(parts)
        self.token_weights = parts.token_weights
        self._folder, self._requested, self._known = folder, pooling, known

    def fingerprint(self) -> str:
        """A hash of all that makes the vectors: the known one, or that of the `SentenceEncoder`, which is opened."""
        if self._known is not None and self._known.files == hash_files(self._folder or ""):
            return self._known.fingerprint
        from opencse.encoder.encoder import SentenceEncoder

        return SentenceEncoder.load(self._folder or "", pooling=self._requested, device="cpu").fingerprint()

    @without_warnings
    def encode_ids(
        self, rows: Sequence[Ids], unpooled: int | Sequence[int] = 0, *, precision: PrecisionName = "float32"
    ) -> Embeddings:
        """(n, dimension) vectors of texts that are given as ids, at least one each; all tokens are pooled."""
        states = self.model.states(rows, self.pooling.layers(self.model.depth))
        hidden = states[0] if len(states) == 1 else (states[0] + states[1]) / 2
        starts = np.cumsum([0, *(len(row) for row in rows[:-1])])
        if self.pooling is Pooling.CLS:
            vectors = hidden[starts]
        elif self.token_weights is None:
            vectors = np.add.reduceat(hidden, starts, axis=0) / np.array([[len(row)] for row in rows], dtype=np.float32)
        else:
            weights = self.token_weights[np.concatenate(rows)][:, None]
            totals = np.add.reduceat(weights, starts, axis=0)
            vectors = np.add.reduceat(hidden * weights, starts, axis=0) / np.maximum(totals, LEAST_WEIGHT)
        return unit_rows(vectors) if self.normalize else vectors

    def vectors(self, texts: Sequence[str], how: Batching, progress: Count = uncounted) -> Embeddings:
        """(n, dimension) vectors of texts, in batches of their own size; see `TextEncoder.vectors`."""
        return super().vectors(texts, replace(how, budget=_IDS), progress)


def open_bert(folder: Path, *, pooling: str | None = None, known: KnownModel | None = None) -> BertEncoder | None:
    """Opens the encoder in a folder without torch, if it is a BERT that is pooled; None for all others.

    Args:
        folder: of the model.
        pooling: replaces the folder's own.
        known: see `BertEncoder`.
    """
    parts = read_bert(folder, pooling=pooling)
    return None if parts is None else BertEncoder(parts, folder, pooling, known)


@plain_failures
@checks_trust
def load(
    model: str | Path = "opencse-mini",
    *,
    pooling: str | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
) -> TextEncoder:
    """Opens an encoder to encode with: without torch, in a fraction of a second, where the model is word vectors.

    That is so for the built-in encoder and every static one, on the CPU; torch and transformers take five seconds to
    import. For any other model it is a `SentenceEncoder`. Both have `encode`, `encode_query`, `encode_document` and
    `similarity` with the same arguments and vectors, bit for bit. What needs the network itself (to train, save or
    export it) opens a `SentenceEncoder`.

    Args:
        model: the built-in encoder's name, a folder, or a Hub id.
        pooling: replaces the folder's own.
        device: where to put it; by default a GPU if there is one, and the CPU for word vectors.
        trust_remote_code: see `SentenceEncoder`.

    Raises:
        UserError: see `SentenceEncoder`.

    Example:
        >>> import opencse
        >>> encoder = opencse.load("opencse-mini")
        >>> encoder.encode(["A dog runs.", "It rains."], normalize_embeddings=True).shape
        (2, 448)
    """
    if device in (None, "cpu"):
        parts = read_static(model, pooling=pooling)
        if parts is not None:
            return StaticEncoder(parts)
    from opencse.encoder.encoder import SentenceEncoder

    return SentenceEncoder.load(model, pooling=pooling, device=device, trust_remote_code=trust_remote_code)
