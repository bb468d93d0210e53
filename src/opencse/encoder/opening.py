"""Opens the encoder of a model that is ready first: `opencse.load`, and a BERT in numpy for a few texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from opencse.arrays import Embeddings, without_warnings
from opencse.encoder.fingerprint import hash_files
from opencse.encoder.static import StaticEncoder
from opencse.encoder.text_encoder import TextEncoder, TorchlessEncoder, token_batches
from opencse.errors import plain_failures
from opencse.foreign import checks_trust
from opencse.model_folder.without_torch import BertParts, read_bert, read_static
from opencse.modules.pooling import LEAST_WEIGHT, Pooling
from opencse.modules.similarity import unit_rows
from opencse.progress import Count
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


class BertEncoder(TorchlessEncoder):
    """Turns texts into vectors with a BERT: those of `SentenceEncoder`, up to rounding.

    It is made for the first answers of a process: for hundreds of texts and more the kernels of `SentenceEncoder` are
    faster, import of torch included.

    Args:
        parts: of the encoder.
        pooling: as it was requested when the folder was opened.
        known: the fingerprint of some files; if the model is made of these, it need not be computed with torch.
    """

    kind = "a BERT in numpy"

    def __init__(self, parts: BertParts, pooling: str | None = None, known: KnownModel | None = None) -> None:
        super().__init__(parts.common)
        self.network = parts.network
        self.pooling = parts.pooling
        self.token_weights = parts.token_weights
        self._folder, self._requested, self._known = parts.folder, pooling, known

    @property
    def dimension(self) -> int:
        """Number of dimensions of a vector."""
        return self.network.hidden

    @property
    def id_count(self) -> int:
        """Number of word vectors: ids are smaller."""
        return self.network.id_count

    @property
    def weight_bytes(self) -> int:
        """Bytes of memory of the weights."""
        return self.network.nbytes

    def fingerprint(self) -> str:
        """A hash of all that makes the vectors: the known one, or that of the `SentenceEncoder`, which is opened."""
        if self._known is not None and self._known.files == hash_files(self._folder):
            return self._known.fingerprint
        from opencse.encoder.encoder import SentenceEncoder

        return SentenceEncoder.load(self._folder, pooling=self._requested, device="cpu").fingerprint()

    @without_warnings
    def vectors_of_ids(self, rows: Sequence[Ids]) -> Embeddings:
        """(n, dimension) vectors of texts that are given as ids, at least one each."""
        states = self.network.states(rows, self.pooling.layers(self.network.depth))
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

    def vectors_of_texts(
        self, texts: Sequence[str], prompt: str, *, batch_size: int | None = None, progress: Count | None = None
    ) -> Embeddings:
        """(n, dimension) vectors of checked texts; a text without a token has the zero vector."""
        ids = self.tokenize(texts, prompt)
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        done = 0
        for indices in token_batches([len(row) for row in ids], _IDS, batch_size):
            filled = [i for i in indices if len(ids[i])]
            if filled:
                vectors[filled] = self.vectors_of_ids([ids[i] for i in filled])
            done += len(indices)
            if progress is not None:
                progress(done, len(texts))
        return vectors


def open_bert(folder: Path, *, pooling: str | None = None, known: KnownModel | None = None) -> BertEncoder | None:
    """Opens the encoder in a folder without torch, if it is a BERT that is pooled; None for all others.

    Args:
        folder: of the model.
        pooling: replaces the folder's own.
        known: see `BertEncoder`.
    """
    parts = read_bert(folder, pooling=pooling)
    return None if parts is None else BertEncoder(parts, pooling, known)


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
    export it, or to get tensors) opens a `SentenceEncoder`.

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
