"""What everything that encodes texts shares: prompts, options, batches, checks, comparing; with torch or without."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, TypedDict, Unpack, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from opencse.arrays import Embeddings
from opencse.errors import UserError
from opencse.kernels.precision import PrecisionName
from opencse.model_folder.without_torch import TorchlessParts
from opencse.modules.prompts import Prompts, Role
from opencse.modules.similarity import HybridWeight, Similarity, unit_rows
from opencse.progress import Count, Counted, Terminal
from opencse.text.rust_tokenizer import Ids, TokenCounter
from opencse.text.scripts import is_unicode
from opencse.text.values import as_list, is_missing

if TYPE_CHECKING:
    import torch

    from opencse.modules.pooling import Pooling


class LoadOptions(TypedDict, total=False):
    """Options of opening an encoder; see `SentenceEncoder`, which documents each."""

    pooling: str | Pooling | None
    template: str | None
    max_length: int | None
    dropout: float | None
    layers: int | None
    device: str | torch.device | None
    trust_remote_code: bool


class EncodingOptions(TypedDict, total=False):
    """Options that `encode`, `encode_query` and `encode_document` share; see `SentenceEncoder.encode`."""

    batch_size: int | None
    show_progress_bar: bool
    normalize_embeddings: bool
    device: str | torch.device | None
    precision: Literal["float32", "bf16"]
    token_budget: int | None
    progress: Count | None


WINDOW = 32_768
"""Number of texts that are tokenised and sorted together."""
_BUDGET = {"cpu": 2_048, "cuda": 65_536, "mps": 16_384}


@dataclass(frozen=True)
class Batching:
    """How texts are put into batches and encoded.

    Attributes:
        budget: largest number of ids in a batch, padding included.
        most: largest number of texts in a batch.
        bf16: compute in bf16.
        prompt: put before each text.
    """

    budget: int
    most: int | None = None
    bf16: bool = False
    prompt: str = ""


def token_budget(kind: str) -> int:
    """Number of ids in a batch, padding included, that keeps a device of this kind (cpu, cuda, mps) busy."""
    return _BUDGET.get(kind, _BUDGET["cpu"])


def counted(options: EncodingOptions) -> Count | None:
    """What is notified of encoded texts: ``progress``, or a bar on stderr for ``show_progress_bar``.

    Raises:
        UserError: if both are requested.
    """
    progress = options.get("progress")
    if not options.get("show_progress_bar"):
        return progress
    if progress is not None:
        raise UserError("give show_progress_bar or progress, not both")
    return Counted(Terminal(), "encoding")


def token_batches(lengths: Sequence[int], budget: int, most: int | None = None) -> list[NDArray[np.int64]]:
    """Groups texts of similar length into batches of at most ``budget`` ids when padded (at least one text each).

    Args:
        lengths: ids of each text.
        budget: largest number of ids in a batch, padding included.
        most: largest number of texts in a batch.

    Returns:
        The indices of the texts in each batch.

    Example:
        >>> [batch.tolist() for batch in token_batches([5, 1, 4, 2], budget=8)]
        [[1, 3], [2], [0]]
    """
    order = np.argsort(np.asarray(lengths, dtype=np.int64), kind="stable")
    batches: list[NDArray[np.int64]] = []
    start = 0
    for end in range(1, len(order) + 1):
        longest_next = 0 if end == len(order) else lengths[order[end]]
        if end == len(order) or longest_next * (end - start + 1) > budget or end - start == most:
            batches.append(order[start:end])
            start = end
    return batches


def require_texts(texts: Sequence[object]) -> None:
    """Refuses texts that are not strings or cannot be encoded in UTF-8."""
    for number, text in enumerate(texts, start=1):
        if is_missing(text):
            raise UserError(
                f"text {number} of {len(texts)} is empty ({text}); fill it or drop it (fillna or dropna of pandas)"
            )
        if not isinstance(text, str):
            raise UserError(f"text {number} of {len(texts)} is of type {type(text).__name__}, not a string")
        if not is_unicode(text):
            raise UserError(
                f"text {number} of {len(texts)} ({text[:40]!r}) holds half of a surrogate pair, which is not text; "
                "correct how it was decoded"
            )


def require_options(precision: str, *, token_budget: int | None = None, batch_size: int | None = None) -> None:
    """Refuses an unknown precision, and a batch of less than one id or text."""
    if precision not in ("float32", "bf16"):
        raise UserError(f"unknown precision {precision!r}; known: float32, bf16")
    for name, most in (("token_budget", token_budget), ("batch_size", batch_size)):
        if most is not None and most < 1:
            raise UserError(f"{name} is at least 1, not {most}")


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


Comparable = str | Sequence[str] | NDArray[np.floating]
"""A text, texts, or vectors: (n, d), or (d,) for a single one."""


class _Encodes(Protocol):
    similarity_fn_name: Similarity

    def encode(self, texts: Sequence[str], /) -> Embeddings: ...


class ComparesTexts:
    """Base class of encoders that compare texts; they have ``encode`` and ``similarity_fn_name``."""

    def similarity(self: _Encodes, a: Comparable, b: Comparable) -> Embeddings:
        """Compares every a with every b by the model's similarity function: (n, m) float32.

        That is the cosine, the dot product, or the negative Euclidean or Manhattan distance, as named by the model's
        folder (``similarity_fn_name``, as in sentence-transformers). Texts are encoded; arrays are taken as vectors,
        (n, d) or (d,) for a single one.

        Raises:
            UserError: for arrays of another shape, or vectors of different lengths.
            TypeError: for values that are neither texts nor an array.
        """
        return self.similarity_fn_name.matrix(as_vectors("a", a, self.encode), as_vectors("b", b, self.encode))

    def similarity_pairwise(self: _Encodes, a: Comparable, b: Comparable) -> Embeddings:
        """Compares the i-th a with the i-th b, as `similarity` does: (n,) float32.

        Raises:
            UserError: for arrays of another shape, or of different numbers of rows or dimensions.
            TypeError: for values that are neither texts nor an array.
        """
        one, two = as_vectors("a", a, self.encode), as_vectors("b", b, self.encode)
        if one.shape != two.shape:
            raise UserError(f"vectors of shape {one.shape} and {two.shape} cannot be compared row by row")
        function = self.similarity_fn_name
        return function.of_pairs(function.prepared(one), function.prepared(two)).astype(np.float32)


def as_vectors(
    name: str,
    value: Comparable,
    encode: Callable[[Sequence[str]], NDArray[np.float32]],
) -> NDArray[np.floating]:
    """Encodes ``value`` if it holds texts; vectors are returned as (n, d).

    Args:
        name: of the argument, for messages.
        value: a text, texts, or vectors (n, d) or (d,).
        encode: encodes texts.

    Raises:
        UserError: for arrays of another shape.
        TypeError: for values that are neither texts nor an array.
    """
    if not isinstance(value, Iterable):
        raise TypeError(f"{name} is a text, texts or an array of vectors, not {type(value).__name__}")
    if not isinstance(value, np.ndarray):
        return encode([value] if isinstance(value, str) else value)
    if value.ndim not in (1, 2) or value.dtype.kind not in "fiu":
        raise UserError(f"vectors are a (n, d) array of numbers, not {value.dtype} of shape {value.shape}")
    return np.atleast_2d(value)


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


class TorchlessEncoder(ComparesTexts, ABC):
    """Base class of encoders on the CPU that need no torch; see `opencse.encoder.text_encoder.TextEncoder`.

    It has the attributes of `opencse.model_folder.without_torch.TorchlessParts`.

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
