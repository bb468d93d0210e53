"""The view that makes no second vector: each sentence is encoded once, and is its own positive."""

from __future__ import annotations

import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.vectors.step import StepInputs
from opencse.objective.views.itself import Itself


def test_each_sentence_is_encoded_once(encoder: SentenceEncoder, sentences: list[str]) -> None:
    tokens = encoder.tokenizer.pad(encoder.tokenizer.encode(sentences[:3], 16))
    inputs = StepInputs(tokens, 3, torch.arange(6).reshape(3, 2))
    reps = Objective(Itself(), negatives=[InBatch()]).represent(encoder.train(), inputs)
    assert torch.equal(reps.anchor, reps.positive)
    assert reps.anchor.shape == (3, encoder.dimension)
