"""Warns if most tokens of some texts are unknown to a model, which then does not know their language."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from opencse.progress import Say
from opencse.text.tokenizer import Ids, Tokenizer

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder

TEXTS_CHECKED = 1_000
"""Number of first texts whose tokens are counted."""
UNKNOWN_LIMIT = 0.5
"""Share of unknown tokens above which a model does not know a text's language."""


def unknown_share(tokenizer: Tokenizer, texts: Sequence[Ids]) -> float:
    """Share of the tokens of ``texts`` that are unknown, special ones left out; 0 if there are no tokens."""
    if not len(texts):
        return 0.0
    hf = tokenizer.hf
    ids = np.concatenate([np.asarray(text, dtype=np.int64) for text in texts])
    plain = ids[~np.isin(ids, [special for special in hf.all_special_ids if special != hf.unk_token_id])]
    return float((plain == hf.unk_token_id).mean()) if len(plain) else 0.0


def warn_of_unknown_tokens(encoder: SentenceEncoder, texts: Sequence[str], say: Say) -> None:
    """Warns of texts whose language the encoder does not know: their vectors would be nearly the same."""
    share = unknown_share(encoder.tokenizer, encoder.tokenize(texts[:TEXTS_CHECKED]))
    if share > UNKNOWN_LIMIT:
        say(
            f"warning    {share:.0%} of the texts' tokens are unknown to the model, so their vectors are "
            "nearly the same; choose a model of their language"
        )
