"""What everything that encodes texts offers, whether it computes with torch or without."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, Unpack, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from opencse.arrays import Embeddings
from opencse.encoder.batches import EncodingOptions
from opencse.kernels.precision import PrecisionName
from opencse.modules.hybrid_weight import HybridWeight
from opencse.modules.prompts import Prompts
from opencse.modules.similarity import Similarity
from opencse.text.rust_tokenizer import Ids, TokenCounter


@runtime_checkable
class TextEncoder(Protocol):
    """Turns texts into vectors: a `SentenceEncoder`, or an encoder that needs no torch; `opencse.load` opens one.

    Attributes:
        prompts: what is put before texts, by what they are for.
        similarity_fn_name: the function that vectors are compared by.
        max_length: longest text in ids.
        hybrid_weight: of the vectors in a hybrid search, where one was fitted for them.
        own_code: the classes from the model folder's own Python code that it uses.
    """

    prompts: Prompts
    similarity_fn_name: Similarity
    max_length: int
    hybrid_weight: HybridWeight | None
    own_code: tuple[str, ...]

    @property
    def network_name(self) -> str:
        """What the network is called in records."""

    @property
    def tokenizer(self) -> TokenCounter:
        """Makes the ids."""

    @property
    def dimension(self) -> int:
        """Number of dimensions of a vector."""

    @property
    def device_kind(self) -> str:
        """Kind of the device: cpu, cuda, mps."""

    @property
    def weight_bytes(self) -> int:
        """Bytes of memory of the weights."""

    def fingerprint(self) -> str:
        """A hash of all that makes the vectors; see `opencse.encoder.fingerprint`."""

    def tokenize(self, texts: Sequence[str], prompt: str = "") -> list[Ids]:
        """Token ids of each text with ``prompt`` in front, truncated to ``max_length``."""

    @property
    def id_count(self) -> int:
        """Number of word vectors: ids are smaller."""

    def unpooled(self, prompt: str) -> int:
        """Number of first tokens that pooling leaves out of a text with ``prompt`` in front; 0 if it counts all."""

    def encode_ids(
        self, rows: Sequence[Ids], unpooled: int | Sequence[int] = 0, *, precision: PrecisionName = "float32"
    ) -> Embeddings:
        """(n, dimension) vectors of texts that are given as ids, at least one each.

        Args:
            rows: the ids of each text, special tokens included.
            unpooled: number of first tokens that pooling leaves out, of all texts or of each.
            precision: arithmetic, as in `encode`; what computes in float32 alone does so always.
        """

    def encode(
        self,
        texts: str | Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        **options: Unpack[EncodingOptions],
    ) -> Embeddings:
        """(n, dimension) vectors of texts, (dimension,) of a single one; see `SentenceEncoder.encode`."""

    def encode_query(
        self,
        texts: str | Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        **options: Unpack[EncodingOptions],
    ) -> Embeddings:
        """Vectors of queries; see `SentenceEncoder.encode_query`."""

    def encode_document(
        self,
        texts: str | Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        **options: Unpack[EncodingOptions],
    ) -> Embeddings:
        """Vectors of documents; see `SentenceEncoder.encode_document`."""

    def similarity(
        self, a: str | Sequence[str] | NDArray[np.floating], b: str | Sequence[str] | NDArray[np.floating]
    ) -> Embeddings:
        """Compares every a with every b: (n, m)."""
