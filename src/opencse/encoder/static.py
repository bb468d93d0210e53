"""Encodes texts with models that are word vectors alone, in numpy: no torch and no transformers are imported."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Generic, Self, TypeVar

import numpy as np

from opencse.arrays import Embeddings
from opencse.encoder.text_encoder import WINDOW, Batching, TextEncoder, token_batches
from opencse.errors import UserError
from opencse.kernels.numpy_models import NumpyBert, WordMeans
from opencse.kernels.precision import PrecisionName
from opencse.model_folder.without_torch import NumpyParts, read_static
from opencse.modules.similarity import unit_rows
from opencse.progress import Count, uncounted
from opencse.text.rust_tokenizer import Ids, RustTokenizer

_IDS = 512
"""Ids in a batch: their word vectors fit a processor's cache."""


Model = TypeVar("Model", bound=WordMeans | NumpyBert)


class NumpyEncoder(TextEncoder, Generic[Model]):
    """Base class of the encoders that compute in numpy on the CPU.

    Args:
        parts: of the encoder.
    """

    def __init__(self, parts: NumpyParts[Model]) -> None:
        self.model = parts.model
        self.tokenizer: RustTokenizer = parts.tokenizer
        self.adopt(parts)

    @property
    def dimension(self) -> int:
        """Number of dimensions of a vector."""
        return self.model.dimension

    @property
    def id_count(self) -> int:
        """Number of word vectors: ids are smaller."""
        return self.model.id_count

    @property
    def weight_bytes(self) -> int:
        """Bytes of memory of the weights."""
        return self.model.nbytes


class StaticEncoder(NumpyEncoder[WordMeans]):
    """Turns texts into vectors with a model of word vectors: the vectors of `SentenceEncoder`, which calls this.

    Attributes:
        model: the word vectors; for the others see `TextEncoder`.

    Example:
        >>> encoder = StaticEncoder.load("opencse-mini")  # what `opencse.load` opens
        >>> encoder.encode(["A dog runs.", "A dog is running."]).shape
        (2, 448)
    """

    kind = "a model of word vectors"

    @classmethod
    def load(cls, model: str | Path = "opencse-mini") -> Self:
        """Opens the encoder in a folder.

        Raises:
            UserError: if there is no such model, or it is more than word vectors that are averaged.
        """
        parts = read_static(model)
        if parts is None:
            raise UserError(f"{model}: is not a model of word vectors alone; open it with SentenceEncoder")
        return cls(parts)

    def fingerprint(self) -> str:
        """A hash, 16 hexadecimal digits, of all that makes the vectors; that of the same `SentenceEncoder`."""
        backend, *more = self.tokenizer.description()
        settings = (
            "static",
            _canonical(str(backend)),
            *more,
            self.normalize,
            self.max_length,
            self.prompts.identity,
            self.model.hash(),
        )
        return hashlib.sha256("\n".join(map(str, settings)).encode()).hexdigest()[:16]

    def encode_ids(
        self, rows: Sequence[Ids], unpooled: int | Sequence[int] = 0, *, precision: PrecisionName = "float32"
    ) -> Embeddings:
        """(n, dimension) vectors of texts that are given as ids, at least one each; all tokens are pooled."""
        vectors = self.model.of(rows)
        return unit_rows(vectors) if self.normalize else vectors

    def vectors(self, texts: Sequence[str], how: Batching, progress: Count = uncounted) -> Embeddings:
        """(n, dimension) vectors of texts, in batches of their own size; see `TextEncoder.vectors`."""
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        done = 0
        for start in range(0, len(texts), WINDOW):
            ids = self.tokenize(texts[start : start + WINDOW], how.prompt)
            lengths = [len(row) for row in ids]
            unique, flat = np.unique(np.concatenate(ids), return_inverse=True)
            rows_by_text = np.split(flat, np.cumsum(lengths)[:-1])
            occurring = self.model.among(unique, max(lengths))
            for indices in token_batches(lengths, _IDS, how.most):
                filled = [i for i in indices if lengths[i]]
                if filled:
                    vectors[start + np.array(filled)] = occurring.means([rows_by_text[i] for i in filled])
                done += len(indices)
                progress(done, len(texts))
        return unit_rows(vectors) if self.normalize else vectors


@lru_cache(maxsize=4)  # to sort a vocabulary takes longer than to hash the vectors of its words
def _canonical(description: str) -> str:
    """What a tokenizer's ids depend on; a post-processor that adds no token is written as none is."""
    stated = json.loads(description)
    post = stated["post_processor"]
    if post is not None and post.get("type") == "TemplateProcessing" and not post.get("special_tokens"):
        stated["post_processor"] = None
    del stated["decoder"], stated["version"]
    return json.dumps(stated, sort_keys=True)
