"""Looks at some of the user's texts before they are encoded: which precision fits, and is their language known?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Literal

import numpy as np

from opencse.encoder.text_encoder import TextEncoder, require_options
from opencse.kernels.precision import Precision, choose_precision
from opencse.modules.similarity import unit_rows
from opencse.progress import Say
from opencse.text.rust_tokenizer import Ids, TokenCounter

if TYPE_CHECKING:
    from opencse.encoder.text_encoder import TextEncoder


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
    if encoder.kind is not None:
        return Precision(False, f"{choice}: {encoder.kind} computes in float32 alone")
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


TEXTS_CHECKED = 1_000
"""Number of first texts whose tokens are counted."""
UNKNOWN_LIMIT = 0.5
"""Share of unknown tokens above which a model does not know a text's language."""


def unknown_share(tokenizer: TokenCounter, texts: Sequence[Ids]) -> float:
    """Share of the tokens of ``texts`` that are unknown, special ones left out; 0 if there are no tokens."""
    if not len(texts):
        return 0.0
    unknown = tokenizer.unknown_id
    ids = np.concatenate([np.asarray(text, dtype=np.int64) for text in texts])
    plain = ids[~np.isin(ids, [special for special in tokenizer.special_ids if special != unknown])]
    return float((plain == unknown).mean()) if len(plain) and unknown is not None else 0.0


def warn_of_unknown_tokens(encoder: TextEncoder, texts: Sequence[str], say: Say) -> None:
    """Warns of texts whose language the encoder does not know: their vectors would be nearly the same."""
    share = unknown_share(encoder.tokenizer, encoder.tokenize(texts[:TEXTS_CHECKED]))
    if share > UNKNOWN_LIMIT:
        say(
            f"warning    {share:.0%} of the texts' tokens are unknown to the model, so their vectors are "
            "nearly the same; choose a model of their language"
        )
