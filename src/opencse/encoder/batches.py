"""Checks the texts and options of `encode`, and puts texts of similar length into batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError
from opencse.progress import Count, Counted, Terminal
from opencse.text.in_memory import is_missing
from opencse.text.scripts import is_unicode

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
