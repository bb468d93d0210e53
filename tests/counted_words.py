"""A small encoder of counted words, for the tests of how it is made and of the BERT that it becomes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opencse.encoder.encoder import SentenceEncoder
from opencse.making.static import StaticSettings, build, require_fitting
from opencse.text.corpus import tokenise
from opencse.text.readers import Source
from opencse.text.tokenizer import Tokenizer

D = 16
Array = NDArray[np.float64]
SMALL = StaticSettings(dimension=D, layers=1, inner=24, positions=32)


def static_encoder(source: Source, tokenizer: Tokenizer, settings: StaticSettings) -> SentenceEncoder:
    require_fitting(settings, tokenizer)
    return build(tokenise(source, tokenizer, settings.positions), tokenizer, settings).encoder


def table(encoder: SentenceEncoder) -> Array:
    weights: Array = encoder.backbone.get_input_embeddings().weight.detach().double().numpy()  # type: ignore[operator]
    return weights


def cosines(a: Array, b: Array) -> Array:
    made: Array = (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    return made
