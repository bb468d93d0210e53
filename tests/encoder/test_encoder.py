"""`encode`: order, batches, modes, randomness, precision; and the training forward beside it."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas  # type: ignore[import-untyped]
import pytest
import torch
from numpy.typing import NDArray

from opencse import load
from opencse.encoder import network
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.static import StaticEncoder
from opencse.errors import UserError
from opencse.modules.dense import Dense
from opencse.modules.pooling import Pooling


@pytest.fixture(scope="module")
def shuffled(sentences: list[str]) -> list[str]:
    """Sixty texts of very different lengths, in no order."""
    texts = sorted(sentences, key=len)[:: max(1, len(sentences) // 56)][:56]
    texts += ["", "Ünïcödé 漢字 — ß", "two\nlines", "word " * 30]
    random.Random(3).shuffle(texts)
    return texts


def largest_difference(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    assert a.shape == b.shape
    return float(np.abs(a - b).max())


def with_tokenizer(folder: Path, **parts: Any) -> None:  # parts of the tokenizers library
    """Replaces the folder's tokenizer by a generic one with other parts."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for name, part in parts.items():
        setattr(backend, name, part)
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]"}
    for file in folder.glob("tokenizer*"):
        file.unlink()
    generic = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=backend, model_max_length=64, **special
    )
    generic.save_pretrained(folder)


def test_evaluates_without_dropout_and_leaves_the_modes_as_they_were(encoder: SentenceEncoder) -> None:
    expected = encoder.encode(["A dog."])
    encoder.train()
    encoder.dense.eval()
    before = [part.training for part in encoder.modules()]
    assert True in before
    assert False in before
    assert np.array_equal(encoder.encode(["A dog."]), expected)
    assert [part.training for part in encoder.modules()] == before
    with torch.no_grad():
        noisy = encoder.embed(encoder.tokenizer.pad(encoder.tokenize(["A dog."])))
    assert largest_difference(noisy.numpy(), expected) > 1e-3


def test_normalize_gives_unit_rows(encoder: SentenceEncoder, shuffled: list[str]) -> None:
    plain, unit = encoder.encode(shuffled), encoder.encode(shuffled, normalize_embeddings=True)
    lengths = np.linalg.norm(plain, axis=1)
    assert np.abs(lengths - 1).min() > 0.1
    assert np.abs(np.linalg.norm(unit, axis=1) - 1).max() < 1e-6
    assert largest_difference(unit * lengths[:, None], plain) < 1e-5


def test_longer_texts_are_cut(tiny_folder: Path) -> None:
    encoder = SentenceEncoder.load(tiny_folder, max_length=8, device="cpu")
    ids = encoder.tokenize(["a " * 500, "a " * 6, "a"])
    assert [len(row) for row in ids] == [8, 8, 3]
    assert ids[0][-1] == encoder.tokenizer.hf.sep_token_id
    vectors = encoder.encode(["a " * 500, "a " * 6, "a"])
    assert largest_difference(vectors[0], vectors[1]) < 1e-6
    assert largest_difference(vectors[0], vectors[2]) > 1e-3


def test_a_batch_size_bounds_the_batches(encoder: SentenceEncoder, shuffled: list[str]) -> None:
    calls: list[int] = []
    bounded = encoder.encode(shuffled, batch_size=3, progress=lambda done, total: calls.append(done))
    sizes = np.diff([0, *calls])
    assert sizes.max() == 3
    assert sizes.sum() == len(shuffled)
    assert largest_difference(bounded, encoder.encode(shuffled)) < 1e-5
    with pytest.raises(UserError, match="batch_size is at least 1, not 0"):
        encoder.encode(shuffled, batch_size=0)


def test_a_tensor_instead_of_an_array(encoder: SentenceEncoder) -> None:
    texts = ["A dog runs.", "Snow fell."]
    tensor = encoder.encode(texts, convert_to_tensor=True)
    assert isinstance(tensor, torch.Tensor)
    assert tensor.device == encoder.device
    np.testing.assert_array_equal(tensor.numpy(), encoder.encode(texts))
    unit = encoder.encode(texts[0], convert_to_tensor=True, normalize_embeddings=True)
    assert float(unit.norm()) == pytest.approx(1)


def test_lower_casing_is_the_tokenizers(tiny_folder: Path, tmp_path: Path) -> None:
    from tokenizers import normalizers

    folder = shutil.copytree(tiny_folder, tmp_path / "cased")
    with_tokenizer(folder, normalizer=normalizers.NFC())
    cased = SentenceEncoder.load(folder, device="cpu")
    text, lowered = "A DOG and [MASK] Runs.", "a dog and [MASK] runs."
    assert [*cased.tokenize([text])[0]] != [*cased.tokenize([lowered])[0]]
    (folder / "sentence_bert_config.json").write_text('{"do_lower_case": true}')
    lower = SentenceEncoder.load(folder, device="cpu")
    assert [*lower.tokenize([text])[0]] == [*cased.tokenize([lowered])[0]]
    assert lower.tokenizer.hf.mask_token_id in lower.tokenize([text])[0]
    # Training reads the tokenizer itself, so its corpus is lower-cased as well and has a fingerprint of its own.
    assert [*lower.tokenizer.encode([text], 20)[0]] == [*lower.tokenize([text])[0]]
    assert lower.tokenizer.fingerprint() != cased.tokenizer.fingerprint()
    lower.save(tmp_path / "again")
    again = SentenceEncoder.load(tmp_path / "again", device="cpu")
    assert np.array_equal(again.encode(text), lower.encode(text))
    assert again.tokenizer.fingerprint() == lower.tokenizer.fingerprint()


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (None, "texts: a string or a list of strings is expected, not NoneType"),
        ({"a": "b"}, "texts: a string or a list of strings is expected, not dict"),
        (pandas.DataFrame({"text": ["a", "b"]}), "texts: a string or a list of strings is expected, not DataFrame"),
        ([1], "text 1 of 1 is of type int, not a string"),
        (["a", None], "text 2 of 2 is empty (None); fill it or drop it"),
        (
            ["a", "b \ud800"],
            "text 2 of 2 ('b \\ud800') holds half of a surrogate pair, which is not text; correct how it",
        ),
    ],
)
def test_what_is_not_text_is_refused(encoder: SentenceEncoder, texts: Any, message: str) -> None:
    with pytest.raises(UserError) as caught:
        encoder.encode(texts)
    assert str(caught.value).startswith(message)


# The training forward.


# Batches.


@pytest.mark.parametrize("pooling", [Pooling.CLS, Pooling.FIRST_LAST_0])
def test_forward_gives_projected_sentence_and_layers(tiny_folder: Path, pooling: Pooling) -> None:
    encoder = SentenceEncoder.load(tiny_folder, pooling=pooling, device="cpu")
    encoder.projection = Dense.mlp_head(encoder.dimension, torch.Generator().manual_seed(0))
    tokens = encoder.tokenizer.pad(encoder.tokenize(["A dog.", "A much longer text about a cat."]))
    with torch.no_grad():
        encoded = encoder(tokens, layers=(0, 3))
        output = encoder.backbone(tokens.input_ids, tokens.attention_mask, output_hidden_states=True)
        single = Pooling.MEAN if pooling is Pooling.FIRST_LAST_0 else pooling
        expected = {k: encoder.projection(single([output.hidden_states[k]], tokens.attention_mask)) for k in (0, 3)}
        torch.testing.assert_close(encoded.sentence, encoder.projection(encoder.embed(tokens)), atol=1e-6, rtol=0)
    for layer, vectors in encoded.layers.items():
        torch.testing.assert_close(vectors, expected[layer], atol=1e-6, rtol=0)


TWO_TEXTS = ["A dog runs.", "The cat sleeps on the mat in the sun."]


@pytest.mark.parametrize(
    "pooling",
    [
        Pooling.CLS,
        Pooling.FIRST_LAST_0,
    ],
)
def test_the_training_forward_without_dropout_gives_the_vectors_of_inference(
    pooling: Pooling, encoder: SentenceEncoder
) -> None:
    encoder.pooling = pooling
    tokens = encoder.tokenizer.pad(encoder.tokenize(TWO_TEXTS))
    with torch.no_grad():
        inferred = encoder.embed(tokens)
        for encoder.computation in ("transformers", "packed"):
            output = encoder(tokens, layers=[1])
            assert output.sentence is not None
            assert (output.sentence - inferred).abs().max() < 1e-5
            assert output.layers[1].shape == (2, 32)


def test_an_encoder_without_torch_compares_as_the_other_does() -> None:
    static, encoder = load("opencse-mini"), SentenceEncoder.load("opencse-mini", device="cpu")
    assert isinstance(static, StaticEncoder)
    one, two = ["A dog runs.", "Tea?"], ["A dog is running.", "The tax is due."]
    assert static.similarity(one, two) == pytest.approx(encoder.similarity(one, two), abs=1e-6)
    pairs = static.similarity_pairwise(one, two)
    assert pairs == pytest.approx(np.diag(static.similarity(one, two)), abs=1e-6)
    assert pairs == pytest.approx(encoder.similarity_pairwise(one, two), abs=1e-6)
    with pytest.raises(UserError, match="row by row"):
        static.similarity_pairwise(one, two[:1])


def test_windows_and_budgets_keep_the_order(
    encoder: SentenceEncoder, shuffled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with torch.no_grad():
        alone = [encoder.embed(encoder.tokenizer.pad([ids])).numpy() for ids in encoder.tokenize(shuffled)]
    expected = np.concatenate(alone)
    assert largest_difference(expected, expected[::-1]) > 0.1
    for budget in (1, 64, 100_000):
        assert largest_difference(encoder.encode(shuffled, token_budget=budget), expected) < 1e-6
    monkeypatch.setattr(network, "WINDOW", 7)
    assert largest_difference(encoder.encode(shuffled), expected) < 1e-6
    ahead = network.prefetched
    monkeypatch.setattr(network, "prefetched", lambda make, items, in_thread: ahead(make, items, in_thread=True))
    assert largest_difference(encoder.encode(shuffled), expected) < 1e-6, "as a GPU has its windows tokenised"
    np.testing.assert_array_equal(encoder.encode("A dog runs."), encoder.encode(["A dog runs."])[0])
