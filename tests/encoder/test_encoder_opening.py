"""Opening an encoder: the class itself, `load` and `from_parts` do the same."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from opencse import SentenceEncoder, UserError
from opencse.encoder.batches import LoadOptions
from opencse.modules.dense import Dense, Projection
from opencse.modules.parts import Parts
from opencse.modules.pooling import Pooling

TEXTS = ["The kettle boils.", "Snow fell on the fells.", ""]


class Subclass(SentenceEncoder):
    """A class that a user derives."""


def test_a_folder_opens_as_in_sentence_transformers(tiny_folder: Path, tmp_path: Path) -> None:
    SentenceEncoder(tiny_folder, pooling="mean", device="cpu").save(tmp_path)
    vectors = SentenceEncoder(str(tmp_path), device="cpu").encode(TEXTS)
    assert np.abs(vectors - SentenceTransformer(str(tmp_path), device="cpu").encode(TEXTS)).max() < 1e-5
    assert np.array_equal(vectors, SentenceEncoder.load(tmp_path, device="cpu").encode(TEXTS))


def test_a_saved_encoder_has_the_parts_that_it_was_built_of(encoder: SentenceEncoder) -> None:
    encoder.projection = Dense(encoder.dimension, 3)
    encoder.dense.append(Projection(encoder.dimension, torch.Generator().manual_seed(0), 5))
    built = SentenceEncoder.from_parts(encoder.parts).eval()
    assert [type(layer) for layer in built.dense] == [Dense, Dense]
    assert built.projection is None
    assert built.backbone is encoder.backbone
    assert np.abs(built.encode(TEXTS) - encoder.encode(TEXTS)).max() < 1e-6


def test_the_class_and_load_take_the_same_arguments() -> None:
    model, *options = inspect.signature(SentenceEncoder).parameters.values()
    assert model == inspect.signature(Subclass.load).parameters["model"]
    assert {option.name: option.annotation for option in options} == {
        name: annotation.__forward_arg__ for name, annotation in LoadOptions.__annotations__.items()
    }
    assert SentenceEncoder(device="cpu").dimension == SentenceEncoder("opencse-mini", device="cpu").dimension == 448


@pytest.mark.parametrize("cls", [SentenceEncoder, Subclass])
def test_parts_make_the_encoder_that_they_came_from(cls: type[SentenceEncoder], tiny_folder: Path) -> None:
    encoder = SentenceEncoder(tiny_folder, pooling="cls", device="cpu")
    parts = Parts(encoder.backbone, encoder.tokenizer, pooling=Pooling.CLS, max_length=encoder.max_length)
    built = cls.from_parts(parts).eval()
    assert type(built) is type(built.twin()) is cls
    assert type(cls(tiny_folder, device="cpu")) is type(cls.load(tiny_folder, device="cpu")) is cls
    assert np.array_equal(built.encode(TEXTS), encoder.encode(TEXTS))
    assert built.state_dict().keys() == encoder.state_dict().keys()


def test_what_is_no_model_is_refused(tmp_path: Path, tiny_folder: Path) -> None:
    with pytest.raises(UserError, match="missing"):
        SentenceEncoder(tmp_path / "missing")
    backbone = SentenceEncoder(tiny_folder, device="cpu").backbone
    with pytest.raises(TypeError):
        SentenceEncoder(backbone)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="device"):
        SentenceEncoder(tiny_folder, device="abacus")


def test_the_arguments_reach_the_model(tiny_folder: Path) -> None:
    encoder = SentenceEncoder(tiny_folder, pooling="mean", max_length=9, dropout=0.25, layers=1, device="cpu")
    assert (encoder.pooling, encoder.max_length, encoder.depth) == (Pooling.MEAN, 9, 1)
    assert encoder.backbone.config.hidden_dropout_prob == 0.25
    assert encoder.device == torch.device("cpu")
    assert not encoder.training
