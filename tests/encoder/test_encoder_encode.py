"""`encode`: order, batches, modes, randomness, precision; and the training forward beside it."""

from __future__ import annotations

import random
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas  # type: ignore[import-untyped]
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from opencse.encoder import encoding
from opencse.encoder.batches import token_batches
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.kernels.outputs import MaskedTokens
from opencse.modules.dense import Dense
from opencse.modules.pooling import Pooling
from opencse.modules.prompts import Prompts


@pytest.fixture(scope="module")
def shuffled(sentences: list[str]) -> list[str]:
    """Sixty texts of very different lengths, in no order."""
    texts = sorted(sentences, key=len)[:: max(1, len(sentences) // 56)][:56]
    texts += ["", "Ünïcödé 漢字 — ß", "two\nlines", "word " * 30]
    random.Random(3).shuffle(texts)
    return texts


def one_by_one(encoder: SentenceEncoder, texts: list[str]) -> NDArray[np.float32]:
    with torch.no_grad():
        rows = [encoder.embed(encoder.tokenizer.pad([ids])) for ids in encoder.tokenize(texts)]
    return np.asarray(torch.cat(rows).numpy(), dtype=np.float32)


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


@pytest.mark.slow
def test_order_is_kept_for_shuffled_lengths(encoder: SentenceEncoder, shuffled: list[str]) -> None:
    lengths = [len(ids) for ids in encoder.tokenize(shuffled)]
    assert lengths != sorted(lengths)
    assert len(set(lengths)) > 8
    expected = one_by_one(encoder, shuffled)
    assert largest_difference(expected, expected[::-1]) > 0.1
    assert largest_difference(encoder.encode(shuffled, token_budget=64), expected) < 1e-6


@pytest.mark.parametrize("budget", [1, 100, 100_000])
def test_result_does_not_depend_on_token_budget(encoder: SentenceEncoder, shuffled: list[str], budget: int) -> None:
    assert largest_difference(encoder.encode(shuffled, token_budget=budget), encoder.encode(shuffled)) < 1e-6


def test_windows_join_in_order(encoder: SentenceEncoder, shuffled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    whole = encoder.encode(shuffled)
    monkeypatch.setattr(encoding, "WINDOW", 7)
    assert largest_difference(encoder.encode(shuffled), whole) < 1e-6
    ahead = encoding.prefetched
    monkeypatch.setattr(encoding, "prefetched", lambda make, items, in_thread: ahead(make, items, in_thread=True))
    assert largest_difference(encoder.encode(shuffled), whole) < 1e-6, "as a GPU has its windows tokenised"


def test_single_text_and_no_text(encoder: SentenceEncoder) -> None:
    single = encoder.encode("A dog runs.")
    assert single.shape == (encoder.dimension,)
    assert single.dtype == np.float32
    assert np.array_equal(single, encoder.encode(["A dog runs."])[0])
    assert np.array_equal(
        encoder.encode("A dog runs.", normalize_embeddings=True),
        encoder.encode(["A dog runs."], normalize_embeddings=True)[0],
    )
    none = encoder.encode([])
    assert none.shape == (0, encoder.dimension)
    assert none.dtype == np.float32


def test_takes_any_sequence_of_texts(encoder: SentenceEncoder) -> None:
    texts = ["A dog.", "A longer text about a cat."]
    expected = encoder.encode(texts)
    assert np.array_equal(encoder.encode(tuple(texts)), expected)
    assert np.array_equal(encoder.encode(np.array(texts, dtype=object).tolist()), expected)


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


def test_modes_come_back_after_an_error(encoder: SentenceEncoder) -> None:
    def fail(done: int, total: int) -> None:
        raise KeyError(done, total)

    encoder.train()
    with pytest.raises(KeyError):
        encoder.encode(["A dog."], progress=fail)
    assert all(part.training for part in encoder.modules())


def test_does_not_touch_the_global_random_state(encoder: SentenceEncoder, shuffled: list[str]) -> None:
    encoder.train()
    tokens = encoder.tokenizer.pad(encoder.tokenize(["A dog."]))
    torch.manual_seed(5)
    before = torch.get_rng_state()
    encoder.embed(tokens)
    assert not torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(5)
    encoder.encode(shuffled)
    assert torch.equal(torch.get_rng_state(), before)


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


def test_the_longest_text_of_all_fits(encoder: SentenceEncoder) -> None:
    assert encoder.max_length == 64
    assert np.isfinite(encoder.encode("dog " * 1000)).all()


def test_bf16_is_close_to_float32(encoder: SentenceEncoder, shuffled: list[str]) -> None:
    full = encoder.encode(shuffled, normalize_embeddings=True)
    low = encoder.encode(shuffled, normalize_embeddings=True, precision="bf16")
    assert low.dtype == np.float32
    assert not np.array_equal(low, full)
    assert (full * low).sum(axis=1).min() > 0.999


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


def test_a_bar_is_drawn_on_stderr(
    encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    encoder.encode(["A dog runs."] * 5, show_progress_bar=True)
    shown = capsys.readouterr()
    assert "encoding" in shown.err
    assert "5/5" in shown.err
    assert shown.out == ""
    encoder.encode(["A dog runs."])
    assert capsys.readouterr().err == ""
    with pytest.raises(UserError, match="not both"):
        encoder.encode(["A dog runs."], show_progress_bar=True, progress=lambda done, total: None)


def test_a_device_is_gone_to_or_refused(encoder: SentenceEncoder) -> None:
    np.testing.assert_array_equal(encoder.encode("A dog.", device="cpu"), encoder.encode("A dog."))
    with pytest.raises(UserError, match="device warp: cannot be used here"):
        encoder.encode("A dog.", device="warp")
    with pytest.raises(TypeError, match="output_value"):
        encoder.encode("A dog.", output_value="token_embeddings")  # type: ignore[call-overload]


def test_progress_is_told_after_every_batch_and_ends_at_n(encoder: SentenceEncoder, shuffled: list[str]) -> None:
    calls: list[tuple[int, int]] = []
    encoder.encode(shuffled, token_budget=64, progress=lambda done, total: calls.append((done, total)))
    assert len(calls) > 3
    assert [done for done, _ in calls] == sorted({done for done, _ in calls})
    assert {total for _, total in calls} == {len(shuffled)}
    assert calls[-1] == (len(shuffled), len(shuffled))


@pytest.mark.parametrize(
    ("texts", "message"),
    [([None], r"text 1 of 1 is empty \(None\)"), (["a", 3.5], "text 2 of 2 is of type float"), ([["a"]], "type list")],
)
def test_what_is_no_text_is_named(encoder: SentenceEncoder, texts: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        encoder.encode(texts)


def test_unknown_settings_are_refused(encoder: SentenceEncoder) -> None:
    with pytest.raises(UserError, match="unknown precision 'fp16'"):
        encoder.encode(["a"], precision="fp16")  # type: ignore[call-overload]
    with pytest.raises(UserError, match="token_budget is at least 1, not 0"):
        encoder.encode(["a"], token_budget=0)


def test_prompt_is_put_before_every_text(encoder: SentenceEncoder) -> None:
    expected = encoder.encode(["query: A dog.", "query: "])
    without = encoder.encode(["A dog.", ""])
    encoder.prompts = Prompts({"default": "query: "}, "default")
    assert np.array_equal(encoder.encode(["A dog.", ""]), expected)
    assert largest_difference(without, expected) > 1e-3


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


def test_a_text_without_tokens_has_the_zero_vector(tiny_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_folder, tmp_path / "bare")
    with_tokenizer(folder, post_processor=None)
    encoder = SentenceEncoder.load(folder, device="cpu")
    assert [len(ids) for ids in encoder.tokenize(["", "a", ""])] == [0, 1, 0]
    vectors = encoder.encode(["", "a", ""])
    assert not vectors[[0, 2]].any()
    assert largest_difference(vectors[1], encoder.encode("a")) < 1e-6
    assert vectors[1].any()
    assert not encoder.encode("").any()
    assert not encoder.encode([""], normalize_embeddings=True).any()


def test_training_goes_on_after_encode(encoder: SentenceEncoder) -> None:
    encoder.encode(["A dog."])
    encoder.train()
    vectors = encoder(encoder.tokenizer.pad(encoder.tokenize(["A dog.", "A cat."]))).sentence
    vectors.sum().backward()
    gradients = [p.grad for p in encoder.parameters() if p.grad is not None]
    assert gradients
    assert any(bool(g.abs().sum() > 0) for g in gradients)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (None, "texts: a string or a list of strings is expected, not NoneType"),
        (5, "texts: a string or a list of strings is expected, not int"),
        (b"bytes", "texts: a string or a list of strings is expected, not bytes"),
        ({"a": "b"}, "texts: a string or a list of strings is expected, not dict"),
        ({"a", "b"}, "texts: a string or a list of strings is expected, not set"),
        (pandas.DataFrame({"text": ["a", "b"]}), "texts: a string or a list of strings is expected, not DataFrame"),
        (np.array("a"), "texts: a string or a list of strings is expected, not ndarray"),
        ([1], "text 1 of 1 is of type int, not a string"),
        (["a", None], "text 2 of 2 is empty (None); fill it or drop it"),
        (np.array([["a"], ["b"]]), "texts: a string or a list of strings is expected, not ndarray"),
        (
            ["a", "b \ud800"],
            "text 2 of 2 ('b \\ud800') holds half of a surrogate pair, which is not text; correct how it",
        ),
        ("\udfff", "text 1 of 1 ('\\udfff') holds half of a surrogate pair"),
    ],
)
def test_what_is_not_text_is_refused(encoder: SentenceEncoder, texts: Any, message: str) -> None:
    with pytest.raises(UserError) as caught:
        encoder.encode(texts)
    assert str(caught.value).startswith(message)


def test_texts_in_any_order_of_things(encoder: SentenceEncoder) -> None:
    expected = encoder.encode(["a cat", "two dogs"])
    assert np.array_equal(encoder.encode(np.array(["a cat", "two dogs"])), expected)
    assert np.array_equal(encoder.encode(text for text in ("a cat", "two dogs")), expected)
    assert np.array_equal(encoder.encode(("a cat", "two dogs")), expected)
    empty: list[Any] = [[], (), np.array([], dtype=str)]
    for nothing in empty:
        assert encoder.encode(nothing).shape == (0, 32)
        assert encoder.encode(nothing, normalize_embeddings=True).dtype == np.float32


# The training forward.


@pytest.mark.parametrize("pooling", [Pooling.MEAN, Pooling.CLS, Pooling.FIRST_LAST_0])
def test_forward_gives_projected_sentence_and_layers(tiny_folder: Path, pooling: Pooling) -> None:
    encoder = SentenceEncoder.load(tiny_folder, pooling=pooling, device="cpu")
    encoder.projection = Dense.mlp_head(encoder.dimension, torch.Generator().manual_seed(0))
    tokens = encoder.tokenizer.pad(encoder.tokenize(["A dog.", "A much longer text about a cat."]))
    with torch.no_grad():
        encoded = encoder(tokens, layers=(0, 2, 3))
        output = encoder.backbone(tokens.input_ids, tokens.attention_mask, output_hidden_states=True)
        plain = encoder.embed(tokens)
        single = Pooling.MEAN if pooling is Pooling.FIRST_LAST_0 else pooling
        expected = {k: encoder.projection(single([output.hidden_states[k]], tokens.attention_mask)) for k in (0, 2, 3)}
    assert not torch.allclose(encoded.sentence, plain, atol=1e-3)
    torch.testing.assert_close(encoded.sentence, encoder.projection(plain), atol=1e-6, rtol=0)
    assert encoded.layers.keys() == {0, 2, 3}
    for layer, vectors in encoded.layers.items():
        torch.testing.assert_close(vectors, expected[layer], atol=1e-6, rtol=0)
    assert encoded.masked_logits is None


def test_masked_tokens_need_a_head(encoder: SentenceEncoder) -> None:
    tokens = encoder.tokenizer.pad(encoder.tokenize(["A dog."]))
    with pytest.raises(RuntimeError, match="without a masked-LM head"):
        encoder(None, masked=MaskedTokens(tokens, torch.ones_like(tokens.input_ids, dtype=torch.bool)))
    assert encoder(None).sentence is None


def test_dimension_is_that_of_the_last_dense_layer(encoder: SentenceEncoder) -> None:
    assert encoder.dimension == 32
    encoder.dense.append(Dense(32, 12))
    encoder.dense.append(Dense(12, 5, "identity"))
    assert encoder.dimension == 5
    assert encoder.encode(["a", "b"]).shape == (2, 5)
    assert encoder.depth == 3


@pytest.mark.parametrize("device", ["nowhere", "cuda:99"])
def test_an_unusable_device_is_named(tiny_folder: Path, device: str) -> None:
    with pytest.raises(UserError, match=f"^device {device}: cannot be used here") as caught:
        SentenceEncoder.load(tiny_folder, device=device)
    assert "\n" not in str(caught.value)


# Batches.


@given(st.lists(st.integers(0, 80), max_size=60), st.integers(1, 400))
def test_token_batches_are_a_partition_within_the_budget(lengths: list[int], budget: int) -> None:
    batches = token_batches(lengths, budget)
    assert sorted(int(i) for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) > 0
        assert len(batch) == 1 or max(lengths[i] for i in batch) * len(batch) <= budget
    for batch, following in pairwise(batches):
        assert max(lengths[i] for i in batch) <= min(lengths[i] for i in following)
        assert lengths[following[0]] * (len(batch) + 1) > budget, "a batch ends only where the next text does not fit"
