"""The weight of a model's vectors in a hybrid search, by general questions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from opencse.encoder.opening import load
from opencse.modules.prompts import Role
from opencse.modules.similarity import HybridWeight
from opencse.search.hybrid import weight_of_encoder
from opencse.search.index import Index
from opencse.text import sample
from opencse.text.readers import Source

pytestmark = pytest.mark.in_full

ENGLISH = ["The kettle is in the kitchen, and it was there when we had our tea with the others."] * 3


def test_it_is_the_mean_score_of_the_general_questions() -> None:
    encoder = load("opencse-mini", device="cpu")
    rows = Source(str(sample.PAIRS)).read().rows[::4]
    answers = list(dict.fromkeys(answer for _, answer in rows))
    asked, texts = (
        vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        for vectors in (encoder.encode([query for query, _ in rows]), encoder.encode(answers))
    )
    values = []
    for vector, (_, answer) in zip(asked, rows, strict=True):
        cosines = (texts @ vector).tolist()
        rank = 1 + sum(one > cosines[answers.index(answer)] for one in cosines)
        values.append(1 / math.log2(rank + 1) if rank <= 10 else 0)
    assert weight_of_encoder(encoder).value == pytest.approx(sum(values) / len(values), abs=0.006)


def test_an_index_has_it_for_english_and_the_default_for_other_texts(tmp_path: object) -> None:
    encoder = load("opencse-mini", device="cpu")
    english, other = (
        Index.build(f"{tmp_path}/{name}", texts, encoder).hybrid_weight
        for name, texts in (("english", ENGLISH), ("other", ["Der Kessel steht in der Küche, und der Tee ist da."]))
    )
    assert english == weight_of_encoder(encoder)
    assert other == HybridWeight()
    assert encoder.prompts.of(Role.QUERY) == ""
