"""What can be evaluated: encoders, other libraries' models, functions, word vectors, a bag of words, Ditto."""

from __future__ import annotations

import gzip
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from fuzzing import examples
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.layers import layer_vectors
from opencse.errors import UserError
from opencse.evaluation import cosine_of_rows
from opencse.evaluation.models import words as module
from opencse.evaluation.models.bag_of_words import BagOfWords
from opencse.evaluation.models.ditto import Ditto, parse_ditto
from opencse.evaluation.models.opening import open_model, require_model
from opencse.evaluation.models.words import Coverage, WordVectors
from opencse.modules.pooling import Pooling
from prompted import write_prompted

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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_folder(tiny_folder: Path, encoder: SentenceEncoder) -> None:
    judged = open_model(tiny_folder, pooling="cls", device="cpu")
    assert (judged.name, judged.pooling, judged.device) == (str(tiny_folder), "cls", "cpu")
    np.testing.assert_array_equal(judged.encode(TEXTS), encoder.encode(TEXTS))
    assert open_model(str(tiny_folder), device="cpu").pooling == "mean"


@pytest.mark.slow
def test_a_sentence_transformers_model(encoder: SentenceEncoder, tmp_path: Path) -> None:
    encoder.save(tmp_path)
    judged = open_model(SentenceTransformer(str(tmp_path), device="cpu"))
    assert (judged.name, judged.pooling, judged.device) == ("SentenceTransformer", None, "cpu")
    vectors = judged.encode(TEXTS)
    assert isinstance(vectors, np.ndarray)
    np.testing.assert_allclose(vectors, encoder.encode(TEXTS), atol=1e-5)


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
    told: list[tuple[int, int]] = []
    said: list[str] = []
    judged = open_model(f"words:{glove}", progress=lambda done, total: told.append((done, total)), say=said.append)
    assert (judged.name, judged.pooling, judged.device) == (f"words:{glove}", "mean", "cpu")
    np.testing.assert_array_equal(judged.encode(TEXTS), WordVectors.load(glove).encode(TEXTS))
    assert told == [(3, 3)]
    assert said == [f"{glove}: 72.73% of 11 words unknown, 2 of 3 texts without a known word"]
    assert len(open_model(f"words:{glove}", device="cuda").encode(TEXTS)) == 3


@pytest.mark.slow
def test_refusals(encoder: SentenceEncoder, tmp_path: Path) -> None:
    for model in ("bag-of-words", lengths, Model()):
        with pytest.raises(UserError, match="has no layers to choose from"):
            open_model(model, layer=0)
        with pytest.raises(UserError, match="pooling"):
            open_model(model, pooling="mean")
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_what_others_encode_queries_by_is_used_for_search(tmp_path: Path) -> None:
    folder = write_prompted(tmp_path / "model", "e5-default-query")
    theirs, ours = open_model(SentenceTransformer(str(folder), device="cpu")), open_model(str(folder), device="cpu")
    for model in (theirs, ours):
        assert model.searching is not None
    assert theirs.searching is not None
    assert ours.searching is not None
    for found, expected in (
        (theirs.encode(TEXTS), ours.encode(TEXTS)),
        (theirs.searching.queries(TEXTS), ours.searching.queries(TEXTS)),
        (theirs.searching.documents(TEXTS), ours.searching.documents(TEXTS)),
    ):
        assert np.abs(np.asarray(found) - np.asarray(expected)).max() < 1e-5


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
        assert read.vectors.dtype == np.float32
        np.testing.assert_array_equal(read.vectors, np.array([[1, 2, 3], [0.5, -1, 0.2], [9, 9, 9]], np.float32))


def test_words_that_python_would_split(tmp_path: Path) -> None:
    """GloVe has vectors of no-break spaces and the like; they are words of one field."""
    read = WordVectors.load(written(tmp_path, "\xa0 1 2\n\x85 3 4\n\u2028 5 6\n"))
    assert list(read.words) == ["\xa0", "\x85", "\u2028"]


def test_faults_are_named_with_file_and_line(tmp_path: Path) -> None:
    for content, message in (
        ("a 1 2\nb 1\n", ", line 2: .*1 values where 2"),
        ("a\n", ", line 1: .*0 values"),
        ("a 1 2\nb 1 x\n", ", line 2: .*'x' is not a number"),
        ("a 1 2\nb 1 nan\n", ", line 2: .*not finite"),
        ("3 2\na 1 2\nb 1 2\n", ".*promises 3 vectors, but 2 follow"),
        ("\n\n", ".*holds no word vector"),
        ("", ".*is empty"),
    ):
        path = written(tmp_path, content)
        with pytest.raises(UserError, match=f"{path}{message}"):
            WordVectors.load(path)


def test_as_it_stands_then_lower_cased_then_left_out(tmp_path: Path) -> None:
    read = WordVectors.load(written(tmp_path, GLOVE))
    vectors, coverage = read.encode_and_count(["the Dog", "The", "THE cat", "cat", "", "the the dog"])
    expected = [[0.75, 0.5, 1.6], [9, 9, 9], [1, 2, 3], [0, 0, 0], [0, 0, 0], [2.5 / 3, 1, 6.2 / 3]]
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, np.array(expected), rtol=1e-6)
    assert coverage == Coverage(texts=6, empty=2, words=9, unknown=2)
    assert coverage == read.encode_and_count(["the Dog", "The", "THE cat", "cat", "", "the the dog"])[1]
    assert coverage.unknown_rate == pytest.approx(2 / 9)
    assert str(coverage) == "22.22% of 9 words unknown, 2 of 6 texts without a known word"
    assert read.encode_and_count([])[1].unknown_rate == 0.0
    assert read.encode([]).shape == (0, 3)


TABLE = WordVectors({"a": 0, "b": 1, "Ab": 2, "ab": 3}, np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32))


@settings(examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.sampled_from(["a", "A", "b", "Ab", "AB", "ab", "x"]), max_size=6), max_size=9))
def test_equals_naive_averages_over_any_blocks(monkeypatch: pytest.MonkeyPatch, texts: list[list[str]]) -> None:
    monkeypatch.setattr(module, "BLOCK", 2)
    lines = [" ".join(tokens) for tokens in texts]
    told: list[tuple[int, int]] = []
    vectors, coverage = TABLE.encode_and_count(lines, lambda done, total: told.append((done, total)))
    expected: NDArray[np.float64] = np.array([naive(TABLE, line) for line in lines]).reshape(-1, 5)
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    assert coverage.empty == sum(not row.any() for row in expected)
    assert coverage.unknown == sum(tokens.count("x") for tokens in texts)
    assert told == [(min(i, len(lines)), len(lines)) for i in range(2, len(lines) + 2, 2)]


def exact_cosine(first: str, second: str) -> float:
    u, v = (Counter(text.lower().split()) for text in (first, second))
    dot = sum(u[word] * v[word] for word in u)
    squares = sum(x * x for x in u.values()) * sum(x * x for x in v.values())
    return dot / math.sqrt(squares) if squares else 0.0


def cosines(bag: BagOfWords, first: Sequence[str], second: Sequence[str]) -> NDArray[np.float64]:
    return cosine_of_rows(bag.encode(first), bag.encode(second))


def test_known_answers() -> None:
    first = ["a dog runs", "A Dog runs", "a a b", "a b", "", "a dog"]
    second = ["a dog sleeps", "a dog RUNS", "a b b", "c d", "a", "dog a"]
    found = cosines(BagOfWords(), first, second)
    np.testing.assert_allclose(found, [2 / 3, 1, 4 / 5, 0, 0, 1], atol=1e-12)
    assert found.tolist()[1] == 1.0


def test_most_pairs_are_exact_and_the_others_within_the_stated_error(sentences: list[str]) -> None:
    first, second = sentences[:400], [sentences[i + (i % 3)] for i in range(400)]
    exact = np.array([exact_cosine(a, b) for a, b in zip(first, second, strict=True)])
    assert ((exact > 0.05) & (exact < 0.95)).sum() > 100
    error = np.abs(cosines(BagOfWords(), first, second) - exact)
    assert (error < 1e-6).mean() > 0.9
    assert np.sqrt((error**2).mean()) < 0.022
    assert np.median(np.abs(cosines(BagOfWords(columns=64), first, second) - exact)) > 0.01, "few columns do collide"


@pytest.mark.slow
def test_the_same_in_another_process_and_in_another_call() -> None:
    words = "from opencse.evaluation.models.bag_of_words import BagOfWords as B"
    program = f"{words}; print(B().encode(['x dog é'])[0].nonzero()[0])"
    there = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert there.strip() == str(BagOfWords().encode(["b c", "x dog é"])[1].nonzero()[0])


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
    vectors = Ditto(encoder, layer, head).encode(DITTO_TEXTS)
    expected = np.array([ditto_naive(encoder, text, layer, head) for text in DITTO_TEXTS])
    assert vectors == pytest.approx(expected, abs=1e-5)
    assert not np.allclose(vectors, encoder.encode(DITTO_TEXTS), atol=1e-6), "the weights count"
    assert not np.allclose(vectors, Ditto(encoder, 2, 2).encode(DITTO_TEXTS), atol=1e-7), "which head is read counts"


def test_a_name_opens_it(tiny_folder: Path) -> None:
    model = open_model(f"ditto-1-2:{tiny_folder}", device="cpu")
    assert model.pooling == "first_last_0, weighted by layer 1, head 2"
    encoder = SentenceEncoder.load(tiny_folder, pooling="first_last_0", device="cpu")
    assert model.encode(DITTO_TEXTS) == pytest.approx(Ditto(encoder, 1, 2).encode(DITTO_TEXTS))
    require_model(f"ditto-1-2:{tiny_folder}")
    mean = open_model(f"ditto-1-2:{tiny_folder}", pooling="mean", device="cpu")
    assert mean.encode(DITTO_TEXTS) == pytest.approx(Ditto(encoder, 1, 2, Pooling.MEAN).encode(DITTO_TEXTS))


def test_what_is_refused(tiny_folder: Path) -> None:
    with pytest.raises(UserError, match=r"Ditto reads layer 1, head 10, but this model has 3 layers of 2 heads"):
        open_model(f"ditto:{tiny_folder}", device="cpu")
    with pytest.raises(UserError, match="Ditto weights the tokens of a mean, not pooling cls"):
        open_model(f"ditto-1-1:{tiny_folder}", pooling="cls", device="cpu")
    with pytest.raises(UserError, match="not to a layer or to word vectors"):
        open_model(f"ditto-1-1:{tiny_folder}", precision="bf16")
    for name in ("ditto-1:x", "ditto-a-b:x"):
        with pytest.raises(UserError, match="ditto:MODEL or ditto-LAYER-HEAD:MODEL is expected"):
            parse_ditto(name)
