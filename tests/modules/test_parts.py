"""The parts of an encoder."""

from __future__ import annotations

from dataclasses import replace

import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.model_folder.table import new_table
from opencse.modules.pooling import Pooling


def test_layers_are_those_of_the_pooling(encoder: SentenceEncoder) -> None:
    parts = encoder.parts
    assert (parts.depth, parts.pooled_layers) == (3, (3,))
    assert replace(parts, pooling=Pooling.FIRST_LAST_1).pooled_layers == (1, 3)


def test_a_table_of_word_vectors_is_recognised(encoder: SentenceEncoder) -> None:
    assert not encoder.parts.is_table
    assert replace(encoder.parts, backbone=new_table(torch.zeros(9, 4))).is_table
