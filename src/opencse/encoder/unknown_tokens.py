"""Warns if most tokens of some texts are unknown to a model, which then does not know their language."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from opencse.progress import Say
from opencse.text.rust_tokenizer import Ids, TokenCounter

if TYPE_CHECKING:
    from opencse.encoder.text_encoder import TextEncoder

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
