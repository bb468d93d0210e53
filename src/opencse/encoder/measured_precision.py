"""Chooses the precision of encoding by the processor and by the user's own texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Literal

import numpy as np

from opencse.encoder.batches import require_options
from opencse.encoder.text_encoder import TextEncoder
from opencse.encoder.torchless import TorchlessEncoder
from opencse.kernels.precision import Precision, choose_precision
from opencse.modules.similarity import unit_rows

LEAST_COSINE = 0.9999
"""Smallest cosine between the vectors of a text in bf16 and in float32 for which bf16 is chosen."""
SAMPLE, AMONG = 64, 2_048
"""Number of texts that are compared, and the number of first texts that they are evenly drawn from."""


def sample_of(texts: Iterable[str]) -> list[str]:
    """At most 64 texts, evenly drawn from the first 2,048.

    >>> sample_of(str(number) for number in range(640))[:3]
    ['0', '10', '20']
    """
    first = list(islice(texts, AMONG))
    return first[:: max(1, -(-len(first) // SAMPLE))]


def measured_precision(
    choice: Literal["auto", "float32", "bf16"], encoder: TextEncoder, texts: Sequence[str], prompt: str = ""
) -> Precision:
    """The precision that was requested; for ``auto`` bf16 where it is faster and gives the same vectors.

    That is where the device computes bf16 faster than float32 (see `choose_precision`), and the cosine between the
    vectors of both is above .9999 for each of some texts. What computes in float32 alone does so always.

    Args:
        choice: of the user.
        encoder: of the vectors.
        texts: some of those that will be encoded; see `sample_of`.
        prompt: put before each.

    Raises:
        UserError: for an unknown choice.

    Example:
        >>> import opencse
        >>> print(measured_precision("auto", opencse.load(), ["A dog runs."]).reason)
        auto: a model of word vectors computes in float32 alone
    """
    if choice != "auto":
        require_options(choice)
    if choice == "float32":
        return Precision(False, "requested")
    exact = encoder if isinstance(encoder, TorchlessEncoder) else _word_vectors(encoder)
    if exact is not None:
        return Precision(False, f"{choice}: {exact.kind} computes in float32 alone")
    if choice == "bf16":
        return Precision(True, "requested")
    import torch

    fast = choose_precision("auto", torch.device(encoder.device_kind))
    if not fast.bf16 or not texts:
        return fast
    wide, near = (unit_rows(encoder.encode(texts, prompt=prompt, precision=one)) for one in ("float32", "bf16"))
    cosines = np.einsum("nd,nd->n", wide, near)[wide.any(axis=1)]
    least = float(cosines.min()) if len(cosines) else 1.0
    compared = f"the smallest cosine to float32 in {len(texts)} of the texts is {least:.6f}"
    if least > LEAST_COSINE:
        return Precision(True, f"{fast.reason}, and {compared}")
    return Precision(False, f"auto: {compared}, not above {LEAST_COSINE}")


def _word_vectors(encoder: TextEncoder) -> TorchlessEncoder | None:
    """What computes the vectors of a `SentenceEncoder` of word vectors on the CPU; None for all others."""
    from opencse.encoder.network import EncoderNetwork

    return encoder.static if isinstance(encoder, EncoderNetwork) and encoder.device_kind == "cpu" else None
