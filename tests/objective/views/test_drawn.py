"""Views that draw an example's texts: what a view of your own must say, and how several positives become one vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pytest
import torch

from opencse.arrays import Flags, Integers
from opencse.encoder.encoder import SentenceEncoder
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.vectors.represent import Passes
from opencse.objective.vectors.requests import Sentences
from opencse.objective.vectors.step import StepInputs
from opencse.objective.views.base import SentenceView
from opencse.objective.views.drawn import DrawnTexts, DrawsTexts
from opencse.settings import PartSettings
from opencse.text.corpus import Corpus
from opencse.text.tokenizer import Tokenizer


class Largest(DrawsTexts, SentenceView):
    """Each text three times; the positive is the largest of two in each dimension."""

    class Settings(PartSettings):
        """Its settings."""

        kind: Literal["largest"] = "largest"

    @property
    def anchors(self) -> int:
        return 1

    @property
    def positives_per_anchor(self) -> int:
        return 2

    def suitable(self, examples: Integers, corpus: Corpus, tokenizer: Tokenizer) -> Flags:
        return np.ones(len(examples), dtype=bool)

    def draw(self, examples: Integers, corpus: Corpus, tokenizer: Tokenizer, random: np.random.Generator) -> DrawnTexts:
        texts = [corpus.text_ids(int(row), 0) for row in examples[:, 0, 0]]
        return DrawnTexts(texts, texts * 2)

    def mean_lengths(self, corpus: Corpus) -> tuple[float, float]:
        return 5.0, 5.0

    def merge(self, positives: torch.Tensor) -> torch.Tensor:
        return positives.amax(dim=0)


def inputs(encoder: SentenceEncoder, texts: Sequence[str]) -> StepInputs:
    ids = encoder.tokenizer.encode(texts, 16)
    return StepInputs(encoder.tokenizer.pad(ids), 2, torch.arange(4).reshape(2, 2), positives=2)


def test_a_view_may_merge_positives_in_its_own_way(tiny_encoder: SentenceEncoder, sentences: list[str]) -> None:
    encoder, objective = tiny_encoder.twin().eval(), Objective(Largest(), negatives=[InBatch()])
    assert objective.view.texts_per_example == 3
    step = inputs(encoder, sentences[:6])
    reps = objective.represent(encoder, step)
    vectors = encoder(step.tokens).vectors
    torch.testing.assert_close(reps.anchor, vectors[:2])
    torch.testing.assert_close(reps.positive, torch.maximum(vectors[2:4], vectors[4:]))


def test_several_positives_need_a_function_that_merges_them(
    tiny_encoder: SentenceEncoder, sentences: list[str]
) -> None:
    objective = Objective(Largest(), negatives=[InBatch()])
    passes = Passes(
        tiny_encoder, inputs(tiny_encoder, sentences[:6]), [Sentences()], lambda reps: reps.anchor, objective
    )
    with pytest.raises(ValueError, match="2 positives per anchor need a function"):
        passes.forward()
