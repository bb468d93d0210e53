"""What everything that encodes texts shares: prompts, options, batches, checks, comparing; with torch or without."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from opencse.arrays import Embeddings
from opencse.errors import UserError
from opencse.kernels.precision import PrecisionName
from opencse.modules.parts import Common
from opencse.modules.pooling import Pooling
from opencse.modules.prompts import Prompts, Role
from opencse.modules.similarity import HybridWeight, Similarity, unit_rows
from opencse.progress import Count, Counted, Terminal, uncounted
from opencse.text.rust_tokenizer import Ids, TokenCounter
from opencse.text.scripts import is_unicode
from opencse.text.values import as_list, is_missing

if TYPE_CHECKING:
    import torch

COMMON = tuple(one.name for one in fields(Common))
"""Names of what every encoder has."""
Comparable = str | Sequence[str] | NDArray[np.floating]
"""A text, texts, or vectors: (n, d), or (d,) for a single one."""
WINDOW = 32_768
"""Number of texts that are tokenised and sorted together."""
_BUDGET = {"cpu": 2_048, "cuda": 65_536, "mps": 16_384}
_PROBES = 256
"""Number of ids of the vocabulary that are encoded one by one if all vectors of a call are zero."""


class EncodingOptions(TypedDict, total=False):
    """Options that `encode`, `encode_query` and `encode_document` share; see `TextEncoder.encode`."""

    batch_size: int | None
    show_progress_bar: bool
    normalize_embeddings: bool
    convert_to_tensor: bool
    device: str | torch.device | None
    precision: Literal["float32", "bf16"]
    token_budget: int | None
    progress: Count | None


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


class TextEncoder(ABC):
    """Turns texts into vectors; `opencse.load` opens one.

    A `SentenceEncoder` computes with torch. The others need none: word vectors (`opencse.encoder.static`), a BERT in
    numpy for a few texts (`opencse.encoder.opening`), an ONNX export (`opencse.export.runtime`).

    Attributes:
        tokenizer: makes the ids.
        pooling: from token vectors to a sentence vector.
        max_length: longest text in ids, special tokens included; longer ones are truncated.
        normalize: whether vectors are L2-normalised.
        prompts: what is put before texts, by what they are for; see `opencse.modules.prompts`.
        similarity_fn_name: the function that vectors are compared by.
        hybrid_weight: of the vectors in a hybrid search, where one was fitted for them.
        own_code: the classes from the model folder's own Python code that it uses.
    """

    tokenizer: TokenCounter
    pooling: Pooling
    max_length: int
    normalize: bool
    prompts: Prompts
    similarity_fn_name: Similarity
    hybrid_weight: HybridWeight | None = None
    own_code: tuple[str, ...] = ()

    def adopt(self, common: Common) -> None:
        """Takes over what every encoder has."""
        for name in COMMON:
            setattr(self, name, getattr(common, name))

    @property
    def common(self) -> dict[str, Any]:
        """What every encoder has, by the names in `opencse.modules.parts.Common`."""
        return {name: getattr(self, name) for name in COMMON}

    @property
    def kind(self) -> str | None:
        """What it is called in messages, where it computes in float32 on the CPU alone."""
        return None

    @property
    def network_name(self) -> str:
        """What the network is called in records."""
        return type(self).__name__

    @property
    def device_kind(self) -> str:
        """Kind of the device: cpu, cuda, mps."""
        return "cpu"

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
        """A hash, 16 hexadecimal digits, of all that makes the vectors; see `opencse.encoder.fingerprint`."""

    @abstractmethod
    def encode_ids(
        self, rows: Sequence[Ids], unpooled: int | Sequence[int] = 0, *, precision: PrecisionName = "float32"
    ) -> Embeddings:
        """(n, dimension) vectors of texts that are given as ids, at least one each.

        Args:
            rows: the ids of each text, special tokens included.
            unpooled: number of first tokens that pooling leaves out, of all texts or of each.
            precision: arithmetic, as in `encode`; what computes in float32 alone does so always.
        """

    def move_to(self, device: str | torch.device) -> None:
        """Moves the weights to a device.

        Raises:
            UserError: if there is no such device, or it computes elsewhere alone.
        """
        if str(device).partition(":")[0] != "cpu":
            raise UserError(
                f"device {device}: {self.kind} computes on the CPU; leave it out, or open a SentenceEncoder"
            )

    def tokenize(self, texts: Sequence[str], prompt: str = "") -> list[Ids]:
        """Token ids of each text with ``prompt`` in front, truncated to ``max_length``, as `encode` uses them."""
        return self.tokenizer.encode([prompt + text for text in texts] if prompt else texts, self.max_length)

    def unpooled(self, prompt: str) -> int:
        """Number of first tokens that pooling leaves out of a text with ``prompt`` in front; 0 if it counts all."""
        del prompt
        return 0

    def vectors(self, texts: Sequence[str], how: Batching, progress: Count = uncounted) -> Embeddings:
        """(n, dimension) vectors of texts, of which none is checked; a text without a token has the zero vector.

        Args:
            texts: in the order of the vectors.
            how: they are put into batches and encoded.
            progress: called after every batch with (texts done, texts in all).
        """
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        done = 0
        for start in range(0, len(texts), WINDOW):
            ids = self.tokenize(texts[start : start + WINDOW], how.prompt)
            for indices in token_batches([len(row) for row in ids], how.budget, how.most):
                filled = [i for i in indices if len(ids[i])]
                if filled:
                    vectors[start + np.array(filled)] = self.encode_ids([ids[i] for i in filled])
                done += len(indices)
                progress(done, len(texts))
        return vectors

    def encode(
        self,
        texts: str | Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        *,
        batch_size: int | None = None,
        show_progress_bar: bool = False,
        normalize_embeddings: bool = False,
        convert_to_tensor: bool = False,
        device: str | torch.device | None = None,
        precision: Literal["float32", "bf16"] = "float32",
        token_budget: int | None = None,
        progress: Count | None = None,
    ) -> Embeddings:
        """Encodes texts as vectors, in their order.

        Texts are tokenised in windows, sorted by token count inside a window and encoded in batches of about
        ``token_budget`` ids, so that hardly any padding is computed; other batches change the result by rounding alone.
        A text without a single token (an empty one, where the tokenizer adds no special tokens) has the zero vector.
        Weights that you change yourself through ``.data`` are used after `eval` is called; see `SentenceEncoder.train`.
        The arguments that sentence-transformers has too mean the same there.

        Args:
            texts: one text or many (a list, an array or a generator of them).
            prompt_name: name of the model's prompt that is put before each text; by default the model's default
                prompt, if it has one. See `encode_query` and `encode_document`.
            prompt: text that is put before each text instead.
            batch_size: texts in a batch, at most; by default the token budget alone decides.
            show_progress_bar: show a bar on stderr, where that is a terminal.
            normalize_embeddings: L2-normalise the vectors.
            convert_to_tensor: return a torch tensor on the encoder's device instead of an array.
            device: move the encoder there first; it stays there.
            precision: ``float32``, or ``bf16`` (faster where the processor has it, cosine to the float32 vector about
                0.9999); without effect on what computes in float32 alone.
            token_budget: ids in a batch, padding counted; by default one that suits the device.
            progress: called after every batch with (texts done, texts in all).

        Returns:
            (n, dimension) float32; (dimension,) for a single text.

        Raises:
            UserError: if ``texts`` are not strings, for an unknown prompt or precision, no such device, a batch size or
                budget below 1, a progress bar and ``progress`` together, or vectors that hold NaN, infinity or zeros
                alone.

        Example:
            >>> import opencse
            >>> encoder = opencse.load("opencse-mini")
            >>> encoder.encode("One text gives one vector.").shape
            (448,)
            >>> encoder.encode(["Two texts", "give two."], convert_to_tensor=True, batch_size=1).shape
            torch.Size([2, 448])
        """
        rows = [texts] if isinstance(texts, str) else as_list(texts)
        require_texts(rows)
        require_options(precision, token_budget=token_budget, batch_size=batch_size)
        prompt = self.prompts.requested(Role.PLAIN, prompt_name, prompt)
        if show_progress_bar:
            progress = progress or Counted(Terminal(), "encoding")
        if device is not None:
            self.move_to(device)
        how = Batching(token_budget or usual_budget(self.device_kind), batch_size, precision == "bf16", prompt)
        vectors = self.vectors(rows, how, progress or uncounted)
        require_sound_vectors(self, vectors, rows, bf16=how.bf16)
        if normalize_embeddings:
            vectors = unit_rows(vectors)
        result = vectors[0] if isinstance(texts, str) else vectors
        if convert_to_tensor:
            import torch

            tensor: Any = torch.from_numpy(result).to(getattr(self, "device", "cpu"))
            result = tensor
        return result

    def encode_query(
        self,
        texts: str | Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        **options: Unpack[EncodingOptions],
    ) -> Embeddings:
        """Encodes queries: `encode` with the model's prompt called ``query``, as in sentence-transformers.

        A model without that prompt encodes queries unchanged; its default prompt is not used.

        Args:
            texts: one query or many.
            prompt_name: name of another prompt.
            prompt: text of another prompt.
            options: see `encode`, which has the same result and errors.

        Example:
            >>> import opencse
            >>> from opencse.modules.prompts import Prompts
            >>> encoder = opencse.load("opencse-mini")
            >>> encoder.prompts = Prompts({"query": "query: "})
            >>> query = encoder.encode_query("leaking valve")
            >>> bool((query == encoder.encode("query: leaking valve")).all())
            True
        """
        return self.encode(texts, prompt=self.prompts.requested(Role.QUERY, prompt_name, prompt), **options)

    def encode_document(
        self,
        texts: str | Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        **options: Unpack[EncodingOptions],
    ) -> Embeddings:
        """Encodes documents: `encode_query`, with the prompt called ``document``."""
        return self.encode(texts, prompt=self.prompts.requested(Role.DOCUMENT, prompt_name, prompt), **options)

    def similarity(self, a: Comparable, b: Comparable) -> Embeddings:
        """Compares every a with every b by the model's similarity function: (n, m) float32.

        That is the cosine, the dot product, or the negative Euclidean or Manhattan distance, as named by the model's
        folder (``similarity_fn_name``, as in sentence-transformers). Texts are encoded; arrays are taken as vectors,
        (n, d) or (d,) for a single one.

        Raises:
            UserError: for arrays of another shape, or vectors of different lengths.
        """
        return self.similarity_fn_name.matrix(self._as_vectors(a), self._as_vectors(b))

    def similarity_pairwise(self, a: Comparable, b: Comparable) -> Embeddings:
        """Compares the i-th a with the i-th b, as `similarity` does: (n,) float32.

        Raises:
            UserError: for arrays of another shape, or of different numbers of rows or dimensions.
        """
        one, two = self._as_vectors(a), self._as_vectors(b)
        if one.shape != two.shape:
            raise UserError(f"vectors of shape {one.shape} and {two.shape} cannot be compared row by row")
        function = self.similarity_fn_name
        return function.of_pairs(function.prepared(one), function.prepared(two)).astype(np.float32)

    def _as_vectors(self, value: Comparable) -> NDArray[np.floating]:
        """``value`` as vectors (n, d): texts encoded."""
        if not isinstance(value, np.ndarray):
            return self.encode([value] if isinstance(value, str) else value)
        if value.ndim not in (1, 2) or value.dtype.kind not in "fiu":
            raise UserError(f"vectors are a (n, d) array of numbers, not {value.dtype} of shape {value.shape}")
        return np.atleast_2d(value)


def usual_budget(kind: str) -> int:
    """Number of ids in a batch, padding included, that keeps a device of this kind (cpu, cuda, mps) busy."""
    return _BUDGET.get(kind, _BUDGET["cpu"])


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
