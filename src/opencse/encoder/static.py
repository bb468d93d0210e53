"""Encodes texts with models that are word vectors alone, in numpy: no torch and no transformers are imported."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self, Unpack

import numpy as np
from numpy.typing import NDArray

from opencse.arrays import Embeddings
from opencse.encoder.batches import (
    WINDOW,
    Batching,
    EncodingOptions,
    as_list,
    as_vectors,
    require_options,
    require_texts,
    token_batches,
)
from opencse.encoder.damage import require_sound_vectors
from opencse.errors import UserError
from opencse.model_folder.static_folder import StaticParts, read_static
from opencse.modules.prompts import Role
from opencse.modules.similarity import unit_rows
from opencse.progress import Count
from opencse.text.rust_tokenizer import Ids

_IDS = 512
"""Ids in a batch: their word vectors fit a processor's cache."""


class StaticEncoder:
    """Turns texts into vectors with a model of word vectors: the vectors of `SentenceEncoder`, which calls this.

    Attributes:
        words: the word vectors.
        tokenizer: makes the ids.
        max_length: longest text in ids, special tokens included; longer ones are truncated.
        normalize: whether vectors are L2-normalised.
        prompts: what is put before texts, by what they are for.
        similarity_fn_name: the function that vectors are compared by.
        hybrid_weight: of the vectors in a hybrid search, where one was fitted for them.

    Example:
        >>> encoder = StaticEncoder.load("opencse-mini")
        >>> encoder.encode(["A dog runs.", "A dog is running."]).shape
        (2, 448)
    """

    own_code: tuple[str, ...] = ()
    device_kind = "cpu"
    network_name = "StaticEncoder"

    def __init__(self, parts: StaticParts) -> None:
        self.words = parts.words
        self.tokenizer = parts.tokenizer
        self.max_length = parts.max_length
        self.normalize = parts.normalize
        self.prompts = parts.prompts
        self.similarity_fn_name = parts.similarity_fn_name
        self.hybrid_weight = parts.hybrid_weight

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

    @property
    def dimension(self) -> int:
        """Number of dimensions of a vector."""
        return self.words.dimension

    @property
    def weight_bytes(self) -> int:
        """Bytes of memory of the word vectors."""
        return int(self.words.words.nbytes)

    def fingerprint(self) -> str:
        """A hash, 16 hexadecimal digits, of all that makes the vectors; that of the same `SentenceEncoder`."""
        settings = (
            "static",
            *_canonical(self.tokenizer.description()),
            self.normalize,
            self.max_length,
            self.prompts.identity,
            self.words.hash(),
        )
        return hashlib.sha256("\n".join(map(str, settings)).encode()).hexdigest()[:16]

    def tokenize(self, texts: Sequence[str], prompt: str = "") -> list[Ids]:
        """Token ids of each text with ``prompt`` in front, truncated to ``max_length``, as `encode` uses them."""
        return self.tokenizer.encode([prompt + text for text in texts] if prompt else texts, self.max_length)

    def encode(
        self,
        texts: str | Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        **options: Unpack[EncodingOptions],
    ) -> Embeddings:
        """Encodes texts as vectors; see `SentenceEncoder.encode`, whose arguments and errors it has.

        The precision of the vectors is float32, whatever is requested, since there is no network to compute.
        """
        unknown = sorted(options.keys() - EncodingOptions.__annotations__.keys())
        if unknown:
            raise TypeError(f"StaticEncoder.encode() got an unexpected keyword argument {unknown[0]!r}")
        rows = [texts] if isinstance(texts, str) else as_list(texts)
        require_texts(rows)
        require_options(
            options.get("precision", "float32"),
            token_budget=options.get("token_budget"),
            batch_size=options.get("batch_size"),
        )
        before = self.prompts.requested(Role.PLAIN, prompt_name, prompt)
        vectors = self.vectors(rows, Batching(_IDS, options.get("batch_size"), prompt=before), options.get("progress"))
        require_sound_vectors(self, vectors, rows)
        if options.get("normalize_embeddings"):
            vectors = unit_rows(vectors)
        return vectors[0] if isinstance(texts, str) else vectors

    def encode_query(
        self, texts: str | Iterable[str], prompt_name: str | None = None, prompt: str | None = None
    ) -> Embeddings:
        """Encodes queries; see `SentenceEncoder.encode_query`."""
        return self.encode(texts, prompt=self.prompts.requested(Role.QUERY, prompt_name, prompt))

    def encode_document(
        self,
        texts: str | Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        **options: Unpack[EncodingOptions],
    ) -> Embeddings:
        """Encodes documents; see `SentenceEncoder.encode_document`."""
        return self.encode(texts, prompt=self.prompts.requested(Role.DOCUMENT, prompt_name, prompt), **options)

    def similarity(
        self, a: str | Sequence[str] | NDArray[np.floating], b: str | Sequence[str] | NDArray[np.floating]
    ) -> Embeddings:
        """Compares every a with every b; see `SentenceEncoder.similarity`."""
        return self.similarity_fn_name.matrix(as_vectors("a", a, self.encode), as_vectors("b", b, self.encode))

    def encode_ids(self, rows: Sequence[Ids]) -> Embeddings:
        """(n, dimension) vectors of texts that are given as ids, at least one each."""
        vectors = self.words.of(rows)
        return unit_rows(vectors) if self.normalize else vectors

    def vectors(self, texts: Sequence[str], how: Batching, progress: Count | None = None) -> Embeddings:
        """(n, dimension) vectors of ``texts``, of which none is checked; a text without a token has the zero vector.

        Args:
            texts: in the order of the vectors.
            how: the prompt, and the most texts in a batch.
            progress: called after every batch with (texts done, texts in all).
        """
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        done = 0
        for start in range(0, len(texts), WINDOW):
            ids = self.tokenize(texts[start : start + WINDOW], how.prompt)
            lengths = [len(row) for row in ids]
            unique, flat = np.unique(np.concatenate(ids), return_inverse=True)
            rows_by_text = np.split(flat, np.cumsum(lengths)[:-1])
            occurring = self.words.among(unique, max(lengths))
            for indices in token_batches(lengths, _IDS, how.most):
                filled = [i for i in indices if lengths[i]]
                if filled:
                    vectors[start + np.array(filled)] = occurring.means([rows_by_text[i] for i in filled])
                done += len(indices)
                if progress is not None:
                    progress(done, len(texts))
        return unit_rows(vectors) if self.normalize else vectors


def _canonical(description: tuple[object, ...]) -> tuple[object, ...]:
    """What a tokenizer's ids depend on; a post-processor that adds no token is written as none is."""
    stated = json.loads(str(description[0]))
    post = stated["post_processor"]
    if post is not None and post.get("type") == "TemplateProcessing" and not post.get("special_tokens"):
        stated["post_processor"] = None
    del stated["decoder"], stated["version"]
    return json.dumps(stated, sort_keys=True), *description[1:]
