"""How much a model's vectors count in a hybrid search: as much as the model understands of general questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from opencse.encoder.text_encoder import TextEncoder
from opencse.modules.hybrid_weight import HybridWeight
from opencse.modules.prompts import Role
from opencse.modules.similarity import Similarity
from opencse.ranking import Measure, nearest_prepared
from opencse.text import sample
from opencse.text.readers import Source

_LANGUAGE = "english"
"""Of the general questions; they say nothing about a text in another language."""
_EVERY = 4
"""Each fourth of the built-in pairs asks: enough to know the weight to .02."""
_MEASURE = Measure()
Encode = Callable[[Sequence[str]], Any]
"""n texts -> (n, d) array."""


def weight_of_model(
    queries: Encode, documents: Encode, similarity: Similarity, language: str | None = _LANGUAGE
) -> HybridWeight:
    r"""The weight of a model's vectors where none was fitted: its nDCG@10 on general questions in other words.

    .. math:: w = \frac{1}{n} \sum_{i=1}^n \frac{[r_i \le 10]}{\log_2(r_i + 1)}

    with r_i the rank of the i-th answer among all. The n questions are every fourth of the built-in pairs: questions
    and paraphrases that share few words with their answers, so a model that knows synonyms answers most of them, and a
    model that compares words few. That needs no label of the user's, and a text cannot show it about itself.

    Args:
        queries: encodes queries.
        documents: encodes documents.
        similarity: compares them.
        language: of the indexed text; one that is not English, or not known, has the default weight.

    Example:
        >>> import opencse
        >>> encoder = opencse.load("opencse-mini")
        >>> print(weight_of_model(encoder.encode, encoder.encode, Similarity.COSINE))
        0.43 (general questions that the model answers)
    """
    if language != _LANGUAGE:
        return HybridWeight()
    rows = Source(str(sample.PAIRS)).read().rows[::_EVERY]
    answers = [answer for _, answer in rows]
    row_of = {answer: row for row, answer in enumerate(dict.fromkeys(answers))}
    asked, texts = (similarity.prepared(np.asarray(encode(list(some)))) for encode, some in (
        (queries, [query for query, _ in rows]), (documents, row_of)))  # fmt: skip
    near, _ = nearest_prepared(asked, texts, _MEASURE.k, similarity=similarity)
    found = near == np.array([row_of[answer] for answer in answers])[:, None]
    ranks = np.where(found.any(axis=1), found.argmax(axis=1) + 1, _MEASURE.k + 1)
    value = float(_MEASURE.of_ranks(ranks).mean()) / 100
    return HybridWeight(round(value, 2), "general questions that the model answers")


def weight_of_encoder(encoder: TextEncoder, language: str | None = _LANGUAGE) -> HybridWeight:
    """The weight that is saved with an encoder, or else that of `weight_of_model`."""

    def by_role(role: Role) -> Encode:
        return lambda texts: encoder.encode(list(texts), prompt=encoder.prompts.of(role))

    if encoder.hybrid_weight is not None:
        return encoder.hybrid_weight
    similarity = Similarity(encoder.similarity_fn_name)
    return weight_of_model(by_role(Role.QUERY), by_role(Role.DOCUMENT), similarity, language)
