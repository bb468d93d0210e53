"""Refuses an encoder whose vectors are useless (NaN, zero, all the same): before, during and after training."""

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
"""Vectors that differ by less than this share of their largest value are the same up to rounding."""


def probes_of(corpus: Corpus) -> list[Ids]:
    """A few texts of the corpus with different ids (texts that differ beyond the longest input have the same)."""
    ids = (corpus.text_ids(row, 0) for row in range(min(TEXTS_CHECKED, len(corpus))))
    return list({text.tobytes(): text for text in ids if len(text)}.values())[:PROBES]


def require_known(encoder: SentenceEncoder, corpus: Corpus, model: str) -> None:
    """Refuses a text most of whose tokens are not in the model's vocabulary.

    Raises:
        UserError: with the share of unknown tokens among the first texts, and the fix.
    """
    rows = range(min(TEXTS_CHECKED, len(corpus)))
    share = unknown_share(encoder.tokenizer, [corpus.text_ids(row, 0) for row in rows])
    if share > UNKNOWN_LIMIT:
        raise UserError(
            f"{model}: {share:.0%} of the text's tokens are unknown to it; choose a model of the text's language "
            "with --model, or make one (opencse static, opencse pretrain)"
        )


def require_sound(
    encoder: SentenceEncoder, probes: Sequence[Ids], when: str, fix: str, *, allow_equal: bool = False
) -> None:
    """Refuses an encoder whose vectors of different texts are not finite, all zero, or all the same.

    Args:
        encoder: any encoder.
        probes: different texts as ids; none of them empty.
        when: the start of the message, for instance ``step 1``.
        fix: what to do about it.
        allow_equal: whether equal vectors of different texts pass, because dev pairs will show them.

    Raises:
        UserError: with the pooling and the fix.
    """
    if not probes:
        return
    with evaluating(encoder), torch.inference_mode():
        vectors = encoder.embed(encoder.tokenizer.pad(probes).to(encoder.device)).float()
    if not bool(torch.isfinite(vectors).all()):
        fault = "the vectors hold NaN or infinite values"
    elif not bool(vectors.any()):
        fault = "the vector of every text is all zeros"
    elif not allow_equal and len(vectors) > 1 and _same(vectors):
        fault = "every text has the same vector"
    else:
        return
    raise UserError(f"{when}: {fault} (pooling {encoder.pooling}); {fix}")


def _same(vectors: torch.Tensor) -> bool:
    return float((vectors - vectors[0]).abs().max()) <= SAME * float(vectors.abs().max())
