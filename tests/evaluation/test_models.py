"""What can be evaluated: encoders, other libraries' models, functions, word vectors, a bag of words, Ditto."""

from __future__ import annotations

import gzip
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.layers import vectors_by_layer
from opencse.errors import UserError
from opencse.evaluation.models import words as module
from opencse.evaluation.models.opening import open_model
from opencse.evaluation.models.words import BagOfWords, WordVectors

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


@pytest.mark.slow
def test_a_layer_of_an_encoder(encoder: SentenceEncoder, tiny_folder: Path) -> None:
    judged = open_model(encoder, layer=1)
    assert (judged.name, judged.pooling) == ("BertModel, layer 1", "cls")
    np.testing.assert_array_equal(judged.encode(TEXTS), vectors_by_layer(encoder, TEXTS, [1])[1])
    by_name = open_model(tiny_folder, pooling="cls", layer=3, device="cpu")
    assert by_name.name == f"{tiny_folder}, layer 3"
    np.testing.assert_allclose(by_name.encode(TEXTS), encoder.encode(TEXTS), atol=1e-6)
    with pytest.raises(UserError, match="to 3, not 4"):
        open_model(encoder, layer=4).encode(TEXTS)


@pytest.mark.slow
def test_an_object_with_encode() -> None:
    judged = open_model(Model())
    assert (judged.name, judged.pooling, judged.device) == ("Model", None, None)
    np.testing.assert_array_equal(judged.encode(TEXTS), [[11, 32], [26, 32], [9, 32]])
    assert judged.encode(TEXTS).dtype == np.float32
    assert open_model(Placed()).device == "cpu"
    assert len(open_model(Placed()).encode(TEXTS)) == 3


@pytest.mark.slow
def test_functions_and_a_bag_of_words() -> None:
    np.testing.assert_array_equal(open_model("bag-of-words").encode(TEXTS), BagOfWords().encode(TEXTS))
    judged = open_model(lengths)
    assert (judged.name, judged.device) == ("lengths", None)
    np.testing.assert_array_equal(judged.encode(TEXTS), lengths(list(TEXTS)))
    assert judged.encode(TEXTS).dtype == np.float64
    weights = torch.ones(2, requires_grad=True)
    judged = open_model(lambda texts: torch.from_numpy(lengths(texts)) * weights)
    np.testing.assert_array_equal(judged.encode(TEXTS), lengths(list(TEXTS)))
    np.testing.assert_array_equal(open_model(lambda texts: [[1.0, 2.0]] * len(texts)).encode(TEXTS), [[1, 2]] * 3)


@pytest.mark.slow
def test_word_vectors(glove: Path) -> None:
    said: list[str] = []
    judged = open_model(f"words:{glove}", say=said.append)
    assert (judged.name, judged.pooling, judged.device) == (f"words:{glove}", "mean", "cpu")
    np.testing.assert_array_equal(judged.encode(TEXTS), WordVectors.load(glove).encode(TEXTS))
    assert said == [f"{glove}: 72.73% of 11 words unknown, 2 of 3 texts without a known word"]
    assert len(open_model(f"words:{glove}", device="cuda").encode(TEXTS)) == 3


def test_refusals(encoder: SentenceEncoder, tmp_path: Path) -> None:
    of: list[tuple[object, dict[str, object], str]] = [
        ("bag-of-words", {"layer": 0}, "has no layers to choose from"),
        (Model(), {"pooling": "mean"}, "pooling"),
        (encoder, {"device": "cpu"}, "stays on its device"),
        (7, {}, r"a int cannot be evaluated; give a folder, .* words:FILE, bag-of-words"),
        (f"words:{tmp_path}/none.txt", {}, "no such file"),
        (tmp_path / "none", {}, "no such folder"),
    ]
    for model, options, message in of:
        with pytest.raises(UserError, match=message):
            open_model(model, **options)  # type: ignore[arg-type]


GLOVE = "the 1 2 3\ndog 0.5 -1 2e-1\nThe 9 9 9\n"


def written(folder: Path, content: str, name: str = "v.txt") -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def naive(vectors: WordVectors, text: str) -> list[float]:
    total, count = [0.0] * vectors.dimension, 0
    for token in text.split():
        for form in (token, token.lower()):
            if form in vectors.words:
                row = vectors.vectors[vectors.words[form]]
                total = [a + float(b) for a, b in zip(total, row, strict=True)]
                count += 1
                break
    return [a / count for a in total] if count else total


def test_every_form_of_the_format(tmp_path: Path) -> None:
    forms = ["3 3\n" + GLOVE, "\ufeff" + GLOVE, GLOVE.replace("\n", " \r\n"), GLOVE.replace(" ", "\t")]
    forms += ["the 1 2 3\nthe 7 7 7\n" + GLOVE[10:] + "\nat name 1 2 3\n"]  # a doubled word, and a spaced one
    (tmp_path / "v.txt.gz").write_bytes(gzip.compress(GLOVE.encode()))
    for path in [tmp_path / "v.txt.gz", *(written(tmp_path, form, f"{n}.txt") for n, form in enumerate(forms))]:
        read = WordVectors.load(path)
        assert read.words == {"the": 0, "dog": 1, "The": 2}, path
        np.testing.assert_array_equal(read.vectors, np.array([[1, 2, 3], [0.5, -1, 0.2], [9, 9, 9]], np.float32))
    assert list(WordVectors.load(written(tmp_path, "\xa0 1 2\n\u2028 5 6\n")).words) == ["\xa0", "\u2028"]


def test_faults_are_named_with_file_and_line(tmp_path: Path) -> None:
    for content, message in (
        ("a 1 2\nb 1\n", ", line 2: .*1 values where 2"),
        ("a 1 2\nb 1 x\n", ", line 2: .*'x'"),
        ("a 1 2\nb 1 nan\n", ", line 2: .*not finite"),
        ("3 2\na 1 2\nb 1 2\n", ".*promises 3 vectors, but 2 follow"),
    ):
        path = written(tmp_path, content)
        with pytest.raises(UserError, match=f"{path}{message}"):
            WordVectors.load(path)


TABLE = WordVectors({"a": 0, "b": 1, "Ab": 2, "ab": 3}, np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32))


def test_equals_naive_averages_over_any_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 2)
    lines = ["a A b", "", "Ab AB ab x", "x", "b"]
    vectors, coverage = TABLE.encode_and_count(lines)
    expected: NDArray[np.float64] = np.array([naive(TABLE, line) for line in lines]).reshape(-1, 5)
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    assert (coverage.empty, coverage.unknown) == (2, 2)


DITTO_TEXTS = ["a dog runs", "the cat sleeps on the warm mat", "rain"]


def ditto_naive(encoder: SentenceEncoder, text: str, layer: int, head: int) -> list[float]:
    """One text by itself: its attention from the projections of the layer below, in loops."""
    ids = torch.from_numpy(np.asarray(encoder.tokenize([text])[0])).long()[None]
    backbone: Any = encoder.backbone
    backbone.eval()
    with torch.no_grad():
        states = backbone(input_ids=ids, output_hidden_states=True).hidden_states
        attention = backbone.encoder.layer[layer - 1].attention.self
        size = attention.attention_head_size
        below = states[layer - 1][0]
        queries, keys = (
            getattr(attention, name)(below)[:, (head - 1) * size : head * size].double() for name in ("query", "key")
        )
    total, sums = 0.0, np.zeros(states[0].shape[-1])
    for t in range(len(below)):
        logits = [float(queries[t] @ key) / math.sqrt(size) for key in keys]
        weight = math.exp(logits[t]) / sum(math.exp(logit) for logit in logits)
        total += weight
        sums += weight * (states[0][0, t] + states[-1][0, t]).double().numpy() / 2
    return [float(value) for value in sums / total]


@pytest.mark.parametrize(("layer", "head"), [(1, 2), (2, 1)])
def test_the_vectors_are_those_of_naive_loops(tiny_folder: Path, layer: int, head: int) -> None:
    encoder = SentenceEncoder.load(tiny_folder, pooling="first_last_0", device="cpu")
    model = open_model(f"ditto-{layer}-{head}:{tiny_folder}", device="cpu")
    expected = np.array([ditto_naive(encoder, text, layer, head) for text in DITTO_TEXTS])
    assert model.encode(DITTO_TEXTS) == pytest.approx(expected, abs=1e-5)
    assert model.pooling == f"first_last_0, weighted by layer {layer}, head {head}"
    assert not np.allclose(expected, encoder.encode(DITTO_TEXTS), atol=1e-6), "the weights count"


def test_what_is_refused(tiny_folder: Path) -> None:
    for name, options, message in (
        (f"ditto:{tiny_folder}", {}, r"Ditto reads layer 1, head 10, but this model has 3 layers of 2 heads"),
        (f"ditto-1-1:{tiny_folder}", {"pooling": "cls"}, "Ditto weights the tokens of a mean, not pooling cls"),
        (f"ditto-a-b:{tiny_folder}", {}, "ditto:MODEL or ditto-LAYER-HEAD:MODEL is expected"),
    ):
        with pytest.raises(UserError, match=message):
            open_model(name, device="cpu", **options)  # type: ignore[arg-type]
