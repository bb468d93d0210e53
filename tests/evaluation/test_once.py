"""Texts are encoded once, for all layers and all suites, and the scores are those of one evaluation after the other."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import opencse
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.layers import layer_vectors
from opencse.errors import UserError
from opencse.evaluation.embedding import EmbeddingModel
from opencse.evaluation.models.opening import open_model
from opencse.evaluation.once import Remembered, layer_models

TEXTS = ["a cat sat on the mat", "dogs", "it rains in the town", "a"]
WIDTH = 32


@pytest.fixture
def passes(encoder: SentenceEncoder) -> list[int]:
    """The rows of every forward of ``encoder``."""
    rows: list[int] = []
    encoder.backbone.register_forward_pre_hook(
        lambda module, arguments, named: rows.append(len(named["input_ids"])), with_kwargs=True
    )
    return rows


def test_one_pass_serves_all_layers(encoder: SentenceEncoder, passes: list[int]) -> None:
    layers = layer_models(open_model(encoder), "all")
    assert [model.name for model in layers] == [f"BertModel, layer {layer}" for layer in range(4)]
    found = [model.encode(TEXTS) for model in layers]
    assert sum(passes) == len(TEXTS)
    for layer, vectors in enumerate(found):
        np.testing.assert_array_equal(vectors, layer_vectors(encoder, TEXTS, layer))
        np.testing.assert_array_equal(vectors, open_model(encoder, layer=layer).encode(TEXTS))
    assert len({vectors.tobytes() for vectors in found}) == 4


def test_other_texts_are_not_taken_for_the_last_ones(encoder: SentenceEncoder, passes: list[int]) -> None:
    first, last = layer_models(open_model(encoder), [1, 3])
    first.encode(TEXTS)
    np.testing.assert_array_equal(last.encode(TEXTS[::-1]), layer_vectors(encoder, TEXTS[::-1], 3))
    np.testing.assert_array_equal(first.encode(TEXTS), layer_vectors(encoder, TEXTS, 1))


def test_as_many_layers_as_fit_share_a_pass(encoder: SentenceEncoder, passes: list[int]) -> None:
    two = 2 * len(TEXTS) * WIDTH * 4
    for most, wanted in ((two, 2), (two - 1, 4), (0, 4), (2 * two, 1)):
        passes.clear()
        found = [model.encode(TEXTS) for model in layer_models(open_model(encoder), "all", most=most)]
        assert sum(passes) == wanted * len(TEXTS)
        np.testing.assert_array_equal(found[2], layer_vectors(encoder, TEXTS, 2))


def test_what_has_no_layers() -> None:
    with pytest.raises(UserError, match=r"bag-of-words: has no layers to choose from"):
        layer_models(open_model("bag-of-words"), [0])


class Counting:
    """Vectors of texts, and how often each was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked += texts
        return np.array([[len(text), text.count("a"), 1.0] for text in texts], dtype=np.float32)


def test_a_text_is_asked_for_once() -> None:
    counting = Counting()
    remembered = Remembered(counting)
    expected = Counting()
    for texts in (TEXTS, TEXTS[1:3], [*TEXTS[2:], "new"], ["newer", "newer", "new"], []):
        np.testing.assert_array_equal(np.asarray(remembered(texts)).reshape(-1, 3), expected(texts).reshape(-1, 3))
    assert counting.asked == [*TEXTS, "new", "newer"]


def test_vectors_beyond_the_room_are_made_again() -> None:
    counting = Counting()
    remembered = Remembered(counting, most=4 * 3 * 4)
    for texts in (TEXTS, ["new"], ["new", *TEXTS]):
        np.testing.assert_array_equal(remembered(texts), Counting()(texts))
    assert counting.asked == [*TEXTS, "new", "new"]


def test_several_layers_and_suites_give_the_records_of_one_at_a_time(
    encoder: SentenceEncoder, passes: list[int], small_sts: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    shutil.copytree(small_sts, data / "sts")
    for task, part in product(("stsb", "sickr"), ("train", "dev")):
        shutil.copy(data / "sts" / task / "test.tsv", data / "sts" / task / f"{part}.tsv")
    several = dict(opencse.evaluate_all([encoder], data, ["sts", "sts-regressor"], layers=[0, 3]))
    once = sum(passes)
    passes.clear()
    for suite, results in several.items():
        for layer, (name, record) in zip((0, 3), results.items(), strict=True):
            assert name == f"BertModel, layer {layer}"
            alone = opencse.evaluate(encoder, data, suite, layer=layer)
            assert record.values() == pytest.approx(alone.values(), abs=1e-3)
    assert sum(passes) > 2 * once, "two layers, and texts of two suites"


def test_models_of_one_name_are_told_apart(small_sts: Path) -> None:
    ((suite, results),) = opencse.evaluate_all([Counting(), Counting()], small_sts)
    assert (suite, list(results)) == ("sts", ["Counting", "Counting (2)"])
    assert isinstance(open_model(Counting()), EmbeddingModel)


def test_first_dimensions_are_scored_of_vectors_that_are_made_once(encoder: SentenceEncoder, small_sts: Path) -> None:
    asked: list[str] = []

    def encode(texts: list[str]) -> np.ndarray:
        asked.extend(texts)
        return encoder.encode(texts)

    ((_, results),) = opencse.evaluate_all([encode], small_sts, dimensions=[4, 32])
    assert list(results) == ["encode, 4 dimensions", "encode, 32 dimensions"]
    assert len(asked) == len(set(asked)), "a text was encoded again"
    for kept, record in zip((4, 32), results.values(), strict=True):
        alone = opencse.evaluate(lambda texts, kept=kept: encoder.encode(texts)[:, :kept], small_sts)
        assert record.values() == pytest.approx(alone.values(), abs=1e-6)
    assert results["encode, 4 dimensions"].values() != results["encode, 32 dimensions"].values()
    for dimensions, message in (([33], "from 1 to the 32 of encode, not 33"), ([0], "from 1 on")):
        with pytest.raises(UserError, match=message):
            list(opencse.evaluate_all([encode], small_sts, dimensions=dimensions))
