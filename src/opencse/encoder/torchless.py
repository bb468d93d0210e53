"""What the encoders that compute without torch share: the arguments, checks and roles of `encode`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar, Unpack

import numpy as np

from opencse.arrays import Embeddings
from opencse.encoder.batches import EncodingOptions, counted, require_options, require_texts
from opencse.encoder.comparing import ComparesTexts
from opencse.encoder.damage import require_sound_vectors
from opencse.errors import UserError
from opencse.kernels.precision import PrecisionName
from opencse.model_folder.torchless_parts import TorchlessParts
from opencse.modules.prompts import Role
from opencse.modules.similarity import unit_rows
from opencse.progress import Count
from opencse.text.in_memory import as_list
from opencse.text.rust_tokenizer import Ids


class TorchlessEncoder(ComparesTexts, ABC):
    """Base class of encoders on the CPU that need no torch; see `opencse.encoder.text_encoder.TextEncoder`.

    It has the attributes of `opencse.model_folder.torchless_parts.TorchlessParts`.

    Attributes:
        kind: (of the class) what it is called in messages.
    """

    own_code: tuple[str, ...] = ()
    device_kind = "cpu"
    kind: ClassVar[str]

    def __init__(self, parts: TorchlessParts) -> None:
        self.tokenizer = parts.tokenizer
        self.max_length = parts.max_length
        self.normalize = parts.normalize
        self.prompts = parts.prompts
        self.similarity_fn_name = parts.similarity_fn_name
        self.hybrid_weight = parts.hybrid_weight

    @property
    def network_name(self) -> str:
        """What the network is called in records."""
        return type(self).__name__

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Number of dimensions of a vector."""

    @property
    @abstractmethod
    def id_count(self) -> int:
        """Number of word vectors: ids are smaller."""

    @property
    @abstractmethod
    def weight_bytes(self) -> int:
        """Bytes of memory of the weights."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A hash, 16 hexadecimal digits, of all that makes the vectors; that of the same `SentenceEncoder`."""

    @abstractmethod
    def vectors_of_ids(self, rows: Sequence[Ids]) -> Embeddings:
        """(n, dimension) vectors of texts that are given as ids, at least one each."""

    @abstractmethod
    def vectors_of_texts(
        self, texts: Sequence[str], prompt: str, *, batch_size: int | None = None, progress: Count | None = None
    ) -> Embeddings:
        """(n, dimension) vectors of checked texts, each with ``prompt`` in front.

        Args:
            texts: in the order of the vectors.
            prompt: put before each.
            batch_size: most texts in a batch.
            progress: called after every batch with (texts done, texts in all).
        """

    def tokenize(self, texts: Sequence[str], prompt: str = "") -> list[Ids]:
        """Token ids of each text with ``prompt`` in front, truncated to ``max_length``, as `encode` uses them."""
        return self.tokenizer.encode([prompt + text for text in texts] if prompt else texts, self.max_length)

    def unpooled(self, prompt: str) -> int:
        """Number of first tokens that pooling leaves out of a text: none."""
        del prompt
        return 0

    def encode_ids(
        self, rows: Sequence[Ids], unpooled: int | Sequence[int] = 0, *, precision: PrecisionName = "float32"
    ) -> Embeddings:
        """(n, dimension) float32 vectors of texts that are given as ids, at least one each; all tokens are pooled.

        Raises:
            ValueError: if tokens are to be left out.
        """
        del precision
        if np.any(unpooled):
            raise ValueError(f"{self.kind} pools every token")
        return self.vectors_of_ids(rows)

    def encode(
        self,
        texts: str | Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        **options: Unpack[EncodingOptions],
    ) -> Embeddings:
        """Encodes texts as vectors; see `SentenceEncoder.encode`, whose arguments and errors it has.

        The vectors are float32, whatever precision is requested.
        """
        unknown = sorted(options.keys() - EncodingOptions.__annotations__.keys())
        if "convert_to_tensor" in unknown:
            raise TypeError(
                f"{type(self).__name__}.encode() returns arrays, without torch; torch.from_numpy makes a tensor of "
                "one, and SentenceEncoder.load opens an encoder that takes convert_to_tensor"
            )
        if unknown:
            raise TypeError(f"{type(self).__name__}.encode() got an unexpected keyword argument {unknown[0]!r}")
        rows = [texts] if isinstance(texts, str) else as_list(texts)
        require_texts(rows)
        batch_size, device = options.get("batch_size"), options.get("device")
        require_options(
            options.get("precision", "float32"), token_budget=options.get("token_budget"), batch_size=batch_size
        )
        if device is not None and str(device).partition(":")[0] != "cpu":
            raise UserError(
                f"device {device}: {self.kind} computes on the CPU; leave it out, or open a SentenceEncoder"
            )
        before = self.prompts.requested(Role.PLAIN, prompt_name, prompt)
        vectors = self.vectors_of_texts(rows, before, batch_size=batch_size, progress=counted(options))
        require_sound_vectors(self, vectors, rows)
        if options.get("normalize_embeddings"):
            vectors = unit_rows(vectors)
        return vectors[0] if isinstance(texts, str) else vectors

    def encode_query(
        self,
        texts: str | Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        **options: Unpack[EncodingOptions],
    ) -> Embeddings:
        """Encodes queries; see `SentenceEncoder.encode_query`."""
        return self.encode(texts, prompt=self.prompts.requested(Role.QUERY, prompt_name, prompt), **options)

    def encode_document(
        self,
        texts: str | Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        **options: Unpack[EncodingOptions],
    ) -> Embeddings:
        """Encodes documents; see `SentenceEncoder.encode_document`."""
        return self.encode(texts, prompt=self.prompts.requested(Role.DOCUMENT, prompt_name, prompt), **options)
