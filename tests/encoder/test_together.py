"""Texts of an evaluation that the processes of a run share; several processes are in tests/training."""

from __future__ import annotations

import numpy as np

from opencse.encoder.batches import Batching
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.together import encode_together, evaluate_together
from opencse.processes import ALONE

TEXTS = ["A dog runs.", "Rain.", "The cat sleeps on the mat in the sun."]


def test_one_process_evaluates_by_itself(encoder: SentenceEncoder) -> None:
    assert evaluate_together(encoder, ALONE, lambda same: same is encoder)


def test_shares_are_put_back_into_the_order_of_the_texts(encoder: SentenceEncoder) -> None:
    vectors = encode_together(encoder, TEXTS, Batching(64))
    assert np.abs(vectors - encoder.encode(TEXTS)).max() < 1e-6
    assert encoder.together == ALONE
