"""What everything that encodes texts offers, whether it computes with torch or without."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from opencse.arrays import Embeddings
from opencse.modules.hybrid_weight import HybridWeight
from opencse.modules.prompts import Prompts
from opencse.modules.similarity import Similarity
from opencse.progress import Count
from opencse.text.rust_tokenizer import Ids


class TokenCounter(Protocol):
    """Turns texts into ids; see `opencse.text.tokenizer` and `opencse.text.rust_tokenizer`."""

    @property
    def vocabulary_size(self) -> int:
        """Entries of the vocabulary."""

    @property
    def special_ids(self) -> frozenset[int]:
        """The ids of the special tokens."""

    @property
    def unknown_id(self) -> int | None:
        """The id of the unknown token."""

    def encode(self, texts: Sequence[str], max_length: int | None) -> list[Ids]:
        """Tokenises each text, with special tokens."""


@runtime_checkable
class TextEncoder(Protocol):
    """Turns texts into vectors: a `SentenceEncoder`, or an encoder that needs no torch.

    `opencse.encoder.opening.open_text_encoder` opens the lightest that gives a model's vectors.

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

    def encode_ids(self, rows: Sequence[Ids]) -> Embeddings:
        """(n, dimension) vectors of texts that are given as ids, at least one each."""

    def encode(
        self,
        texts: Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        *,
        precision: Literal["float32", "bf16"] = "float32",
        progress: Count | None = None,
    ) -> Embeddings:
        """(n, dimension) vectors of texts; see `SentenceEncoder.encode`."""

    def encode_query(self, texts: Iterable[str]) -> Embeddings:
        """(n, dimension) vectors of queries."""

    def encode_document(self, texts: Iterable[str], *, progress: Count | None = None) -> Embeddings:
        """(n, dimension) vectors of documents."""

    def similarity(
        self, a: str | Sequence[str] | NDArray[np.floating], b: str | Sequence[str] | NDArray[np.floating]
    ) -> Embeddings:
        """Compares every a with every b: (n, m)."""
