from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.layers import layer_vectors
from opencse.errors import UserError
from opencse.evaluation import ScoredPairs
from opencse.evaluation.models.bag_of_words import BagOfWords
from opencse.evaluation.models.opening import open_model
from opencse.evaluation.models.words import WordVectors
from prompted import write_prompted
from scores import spearman_of

pytestmark = pytest.mark.slow

TEXTS = ("A dog runs.", "The cat sleeps on the mat.", "Dogs run.")


@pytest.fixture(scope="module")
def encoder(tiny_folder: Path) -> SentenceEncoder:
    """The tiny model with CLS pooling."""
    return SentenceEncoder.load(tiny_folder, pooling="cls", device="cpu")


@pytest.fixture
def glove(tmp_path: Path) -> Path:
    path = tmp_path / "glove.txt"
    path.write_text("a 1 0\ndog 0 1\nruns. 1 1\n")
    return path


def lengths(texts: list[str]) -> NDArray[np.float64]:
    assert isinstance(texts, list)
    return np.array([[len(text), 1.0] for text in texts])


class Model:
    """What other libraries' models look like."""

    def encode(self, sentences: list[str], batch_size: int = 32) -> list[torch.Tensor]:
        assert isinstance(sentences, list)
        return [torch.tensor([len(text), batch_size], dtype=torch.bfloat16) for text in sentences]


class Placed(Model):
    device = torch.device("cpu")

    def __call__(self, texts: list[str]) -> None:
        raise AssertionError("encode comes first")


def test_a_layer_of_an_encoder(encoder: SentenceEncoder, tiny_folder: Path) -> None:
    told: list[tuple[int, int]] = []
    judged = open_model(encoder, layer=1, progress=lambda done, total: told.append((done, total)))
    assert (judged.name, judged.pooling) == ("BertModel, layer 1", "cls")
    np.testing.assert_array_equal(judged.encode(TEXTS), layer_vectors(encoder, TEXTS, 1))
    assert told[-1] == (3, 3)
    by_name = open_model(tiny_folder, pooling="cls", layer=3, device="cpu")
    assert by_name.name == f"{tiny_folder}, layer 3"
    np.testing.assert_allclose(by_name.encode(TEXTS), encoder.encode(TEXTS), atol=1e-6)
    with pytest.raises(UserError, match="to 3, not 4"):
        open_model(encoder, layer=4).encode(TEXTS)


@pytest.mark.parametrize("model", [lengths, Model(), "bag-of-words"])
def test_what_has_no_layers_is_refused_one(model: object) -> None:
    with pytest.raises(UserError, match="has no layers to choose from"):
        open_model(model, layer=0)


def test_an_encoder(encoder: SentenceEncoder) -> None:
    told: list[tuple[int, int]] = []
    judged = open_model(encoder, progress=lambda done, total: told.append((done, total)))
    assert (judged.name, judged.pooling, judged.device) == ("BertModel", "cls", "cpu")
    np.testing.assert_array_equal(judged.encode(TEXTS), encoder.encode(TEXTS))
    assert told[-1] == (3, 3)


def test_in_bf16(encoder: SentenceEncoder, tiny_folder: Path, tmp_path: Path) -> None:
    half = encoder.encode(TEXTS, precision="bf16")
    assert not np.array_equal(half, encoder.encode(TEXTS))
    np.testing.assert_array_equal(open_model(encoder, precision="bf16").encode(TEXTS), half)
    again = open_model(tiny_folder, pooling="cls", device="cpu", precision="bf16")
    np.testing.assert_array_equal(again.encode(TEXTS), half)
    for other in (lengths, "bag-of-words"):
        with pytest.raises(UserError, match="--precision applies to a complete encoder alone"):
            open_model(other, precision="bf16")
    with pytest.raises(UserError, match="layer 1: --precision applies to a complete encoder alone"):
        open_model(encoder, layer=1, precision="bf16")


@pytest.mark.parametrize("form", [str, Path])
def test_a_folder(form: type, tiny_folder: Path, encoder: SentenceEncoder) -> None:
    judged = open_model(form(tiny_folder), pooling="cls", device="cpu")
    assert (judged.name, judged.pooling, judged.device) == (str(tiny_folder), "cls", "cpu")
    np.testing.assert_array_equal(judged.encode(TEXTS), encoder.encode(TEXTS))
    assert open_model(form(tiny_folder), device="cpu").pooling == "mean"


def test_the_builtin_encoder() -> None:
    judged = open_model("opencse-mini", device="cpu")
    assert judged.name == "opencse-mini"
    np.testing.assert_array_equal(
        judged.encode(TEXTS), SentenceEncoder.load("opencse-mini", device="cpu").encode(TEXTS)
    )


def test_a_sentence_transformers_model(encoder: SentenceEncoder, tmp_path: Path) -> None:
    encoder.save(tmp_path)
    judged = open_model(SentenceTransformer(str(tmp_path), device="cpu"))
    assert (judged.name, judged.pooling, judged.device) == ("SentenceTransformer", None, "cpu")
    vectors = judged.encode(TEXTS)
    assert isinstance(vectors, np.ndarray)
    np.testing.assert_allclose(vectors, encoder.encode(TEXTS), atol=1e-5)


def test_an_object_with_encode() -> None:
    judged = open_model(Model())
    assert (judged.name, judged.pooling, judged.device) == ("Model", None, None)
    np.testing.assert_array_equal(judged.encode(TEXTS), [[11, 32], [26, 32], [9, 32]])
    assert judged.encode(TEXTS).dtype == np.float32
    assert open_model(Placed()).device == "cpu"
    assert len(open_model(Placed()).encode(TEXTS)) == 3


def test_functions() -> None:
    judged = open_model(lengths)
    assert (judged.name, judged.device) == ("lengths", None)
    np.testing.assert_array_equal(judged.encode(TEXTS), lengths(list(TEXTS)))
    assert judged.encode(TEXTS).dtype == np.float64
    weights = torch.ones(2, requires_grad=True)
    judged = open_model(lambda texts: torch.from_numpy(lengths(texts)) * weights)
    np.testing.assert_array_equal(judged.encode(TEXTS), lengths(list(TEXTS)))
    np.testing.assert_array_equal(open_model(lambda texts: [[1.0, 2.0]] * len(texts)).encode(TEXTS), [[1, 2]] * 3)


def test_word_vectors(glove: Path) -> None:
    told: list[tuple[int, int]] = []
    said: list[str] = []
    judged = open_model(f"words:{glove}", progress=lambda done, total: told.append((done, total)), say=said.append)
    assert (judged.name, judged.pooling, judged.device) == (f"words:{glove}", "mean", "cpu")
    np.testing.assert_array_equal(judged.encode(TEXTS), WordVectors.load(glove).encode(TEXTS))
    assert told == [(3, 3)]
    assert said == [f"{glove}: 72.73% of 11 words unknown, 2 of 3 texts without a known word"]
    assert len(open_model(f"words:{glove}", device="cuda").encode(TEXTS)) == 3


def test_bag_of_words() -> None:
    judged = open_model("bag-of-words")
    assert (judged.name, judged.pooling, judged.device) == ("bag-of-words", None, "cpu")
    np.testing.assert_array_equal(judged.encode(TEXTS), BagOfWords().encode(TEXTS))


def test_any_of_them_can_be_judged(glove: Path, encoder: SentenceEncoder) -> None:
    pairs = ScoredPairs("p", np.array([5.0, 1.0, 2.0]), [TEXTS[0]] * 3, [TEXTS[0], TEXTS[1], TEXTS[2]])
    models: Sequence[object] = (encoder, f"words:{glove}", "bag-of-words", lengths, Model())
    for model in models:
        assert spearman_of(open_model(model).encode, pairs) > 0


@pytest.mark.parametrize("model", ["words:FILE", "bag-of-words", lengths, Model(), "encoder"])
def test_pooling_where_there_is_none_to_choose(model: object, glove: Path, encoder: SentenceEncoder) -> None:
    given = {"words:FILE": f"words:{glove}", "encoder": encoder}.get(model, model) if isinstance(model, str) else model
    with pytest.raises(UserError, match="pooling") as caught:
        open_model(given, pooling="mean")
    assert "\n" not in str(caught.value)


def test_other_refusals(encoder: SentenceEncoder, tmp_path: Path) -> None:
    for model in (encoder, lengths, Model()):
        with pytest.raises(UserError, match="stays on its device"):
            open_model(model, device="cpu")
    with pytest.raises(UserError, match=r"a int cannot be evaluated; give a folder, .* words:FILE, bag-of-words"):
        open_model(7)
    with pytest.raises(UserError, match="names no file"):
        open_model("words:")
    with pytest.raises(UserError, match="no such file"):
        open_model(f"words:{tmp_path}/none.txt")
    with pytest.raises(UserError, match="no such folder"):
        open_model(tmp_path / "none")


def test_light_to_import() -> None:
    """Neither the module nor a bag of words needs torch; a plain function needs nothing."""
    program = """
import sys
from opencse.evaluation import transforms
from opencse.evaluation.models import opening as models
models.open_model("bag-of-words").encode(["a"])
models.open_model(lambda texts: [[1.0]] * len(texts)).encode(["a"])
print(*sys.modules)
"""
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "numpy" in loaded
    assert not {"torch", "transformers", "sentence_transformers", "scipy", "matplotlib"} & set(loaded)


def test_what_others_encode_queries_by_is_used_for_search(tmp_path: Path) -> None:
    folder = write_prompted(tmp_path / "model", "e5-default-query")
    theirs, ours = open_model(SentenceTransformer(str(folder), device="cpu")), open_model(str(folder), device="cpu")
    for model in (theirs, ours):
        assert model.searching is not None
    assert theirs.searching is not None
    assert ours.searching is not None
    for given, expected in (
        (theirs.encode(TEXTS), ours.encode(TEXTS)),
        (theirs.searching.queries(TEXTS), ours.searching.queries(TEXTS)),
        (theirs.searching.documents(TEXTS), ours.searching.documents(TEXTS)),
    ):
        assert np.abs(np.asarray(given) - np.asarray(expected)).max() < 1e-5
