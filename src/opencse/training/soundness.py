"""Whether an encoder's vectors can be of any use: a ruined one is refused, before, during and at the end of a run."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.unknown_tokens import TEXTS_CHECKED, UNKNOWN_LIMIT, unknown_share
from opencse.errors import UserError
from opencse.modules.modes import evaluating
from opencse.text.corpus import Corpus
from opencse.text.tokenizer import Ids

PROBES = 8
SAME = 1e-6
"""Vectors that differ by less than this share of their largest value are the same but for rounding."""


def probes_of(corpus: Corpus) -> list[Ids]:
    """A few texts of the training text, as ids that differ: texts that differ after the longest input do not."""
    ids = (corpus.text_ids(row, 0) for row in range(min(TEXTS_CHECKED, len(corpus))))
    return list({text.tobytes(): text for text in ids if len(text)}.values())[:PROBES]


def require_known(encoder: SentenceEncoder, corpus: Corpus, model: str) -> None:
    """Refuses a text of which the model's vocabulary knows next to nothing.

    Raises:
        UserError: with the share of unknown tokens among the first texts, and the mend.
    """
    rows = range(min(TEXTS_CHECKED, len(corpus)))
    share = unknown_share(encoder.tokenizer, [corpus.text_ids(row, 0) for row in rows])
    if share > UNKNOWN_LIMIT:
        raise UserError(
            f"{model}: {share:.0%} of the text's tokens are unknown to it; choose a model of the text's language "
            "with --model, or make one (opencse static, opencse pretrain)"
        )


def require_sound(
    encoder: SentenceEncoder, probes: Sequence[Ids], when: str, mend: str, *, alike: bool = False
) -> None:
    """Refuses an encoder whose vectors of different texts are no numbers, all zero, or all the same.

    Args:
        encoder: any.
        probes: different texts as ids; none of them empty.
        when: what the message begins with, for instance ``step 1``.
        mend: what to do about it.
        alike: let equal vectors of different texts pass, where dev pairs will tell of them.

    Raises:
        UserError: naming the pooling and the mend.
    """
    if not probes:
        return
    with evaluating(encoder), torch.inference_mode():
        vectors = encoder.embed(encoder.tokenizer.pad(probes).to(encoder.device)).float()
    if not bool(torch.isfinite(vectors).all()):
        what = "the vectors hold NaN or infinite values"
    elif not bool(vectors.any()):
        what = "the vector of every text is all zeros"
    elif not alike and len(vectors) > 1 and _same(vectors):
        what = "every text has the same vector"
    else:
        return
    raise UserError(f"{when}: {what} (pooling {encoder.pooling}); {mend}")


def _same(vectors: torch.Tensor) -> bool:
    return float((vectors - vectors[0]).abs().max()) <= SAME * float(vectors.abs().max())
