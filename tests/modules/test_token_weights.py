"""Tokens that count differently in a mean: weights by rarity, the weighted mean on every path, folders both ways."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from opencse import SentenceEncoder, UserError
from opencse.encoder.fingerprint import fingerprint
from opencse.encoder.layers import layer_vectors
from opencse.modules.parts import Parts
from opencse.modules.pooling import Pooling
from opencse.modules.token_weights import TokenWeights

TEXTS = ["one two three", "one one four", "one five six seven eight nine", ""]


def weighed(encoder: SentenceEncoder, floor: float = 0.1) -> SentenceEncoder:
    texts = encoder.tokenize(TEXTS)
    encoder.token_weights = TokenWeights.inverse_document_frequency(texts, encoder.tokenizer.vocabulary_size, floor)
    return encoder


def test_weights_are_those_of_the_formula() -> None:
    texts = [np.array(ids) for ids in ([0, 1, 1, 2], [0, 3], [0, 1])]
    found = TokenWeights.inverse_document_frequency(texts, 6, floor=0.3).weights
    inverse = [math.log(4 / (sum(token in ids for ids in texts) + 1)) for token in range(6)]
    assert inverse[0] == 0
    assert max(inverse) == inverse[4] == inverse[5] == math.log(4)
    assert found.tolist() == pytest.approx([0.3 + 0.7 * value / math.log(4) for value in inverse])


def test_weights_of_no_text_or_of_equal_texts() -> None:
    with pytest.raises(UserError, match="no texts to weigh tokens by"):
        TokenWeights.inverse_document_frequency([], 3)
    assert TokenWeights.inverse_document_frequency([np.arange(3)], 3, floor=0.5).weights.tolist() == [0.5] * 3


@pytest.mark.parametrize("pooling", [Pooling.MEAN, Pooling.FIRST_LAST_1])
def test_the_mean_is_weighted(encoder: SentenceEncoder, pooling: Pooling) -> None:
    encoder.pooling = pooling
    alike = encoder.encode(TEXTS)
    weights = weighed(encoder).token_weights
    assert weights is not None
    found = encoder.encode(TEXTS)
    assert np.abs(found[:3] - alike[:3]).max() > 1e-3
    for text, vector in zip(TEXTS[:3], found, strict=False):
        ids = torch.from_numpy(encoder.tokenize([text])[0].astype(np.int64))
        with torch.no_grad():
            states = encoder.backbone(ids[None], output_hidden_states=True).hidden_states
        chosen = [states[-1]] if pooling is Pooling.MEAN else [states[1], states[-1]]
        total, counted = torch.zeros(32), 0.0
        for place, token in enumerate(ids.tolist()):
            total += float(weights.weights[token]) * sum(state[0, place] for state in chosen) / len(chosen)
            counted += float(weights.weights[token])
        assert np.abs(vector - (total / counted).numpy()).max() < 1e-5


def test_a_text_without_tokens_is_zero() -> None:
    states, mask = torch.ones(2, 3, 4), torch.tensor([[1, 1, 0], [0, 0, 0]])
    found = Pooling.MEAN([states], mask, torch.full((2, 3), 0.01))
    assert found.tolist() == [pytest.approx([1.0] * 4), [0.0] * 4]


def test_equal_weights_change_nothing(encoder: SentenceEncoder) -> None:
    alike = encoder.encode(TEXTS)
    assert np.abs(weighed(encoder, floor=1.0).encode(TEXTS) - alike).max() < 1e-6


def test_training_layers_and_inference_agree(encoder: SentenceEncoder) -> None:
    weighed(encoder).eval()
    expected = encoder.encode(TEXTS[:3])
    tokens = encoder.tokenizer.pad(encoder.tokenize(TEXTS[:3]))
    for packed in (False, True):
        encoder.computation = "packed" if packed else "transformers"
        encoded = encoder(tokens, layers=[encoder.depth])
        assert encoded.sentence is not None
        assert np.abs(encoded.sentence.detach().numpy() - expected).max() < 1e-5
        assert torch.equal(encoded.sentence, encoded.layers[encoder.depth])
    assert np.abs(layer_vectors(encoder, TEXTS[:3], encoder.depth) - expected).max() < 1e-5


def test_the_gradient_is_weighted(encoder: SentenceEncoder) -> None:
    """Of the sum of a sentence vector's coordinates, that of each token's last state is its weight's share."""
    weights = weighed(encoder).token_weights
    assert weights is not None
    tokens = encoder.tokenizer.pad(encoder.tokenize(TEXTS[:1]))
    states = torch.randn(*tokens.input_ids.shape, 32, requires_grad=True)
    encoder.pool([states], tokens).sum().backward()  # type: ignore[no-untyped-call]
    share = weights.weights[tokens.input_ids] / weights.weights[tokens.input_ids].sum()
    assert states.grad is not None
    assert torch.allclose(states.grad, share.unsqueeze(-1).expand_as(states))


def test_a_saved_folder_opens_here_and_in_sentence_transformers(encoder: SentenceEncoder, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    before = fingerprint(encoder)
    alike = encoder.encode(TEXTS)
    vectors = weighed(encoder).encode(TEXTS)
    encoder.save(tmp_path)
    again = SentenceEncoder.load(tmp_path, device="cpu")
    assert np.array_equal(again.encode(TEXTS), vectors)
    assert before != fingerprint(encoder) == fingerprint(again)
    model = SentenceTransformer(str(tmp_path), device="cpu")
    assert [type(module).__name__ for module in model.children()] == ["Transformer", "WordWeights", "Pooling"]
    theirs = model.encode(TEXTS[:3], show_progress_bar=False)
    assert np.abs(theirs - vectors[:3]).max() < 1e-5
    assert np.abs(theirs - alike[:3]).max() > 1e-3
    assert "tokens weighed" in (tmp_path / "README.md").read_text()


def test_another_pooling_reads_no_weights(encoder: SentenceEncoder, tmp_path: Path) -> None:
    expected = SentenceEncoder.from_parts(
        Parts(encoder.backbone, encoder.tokenizer, pooling=Pooling.CLS, max_length=30)
    ).eval()
    weighed(encoder).save(tmp_path)
    assert np.array_equal(SentenceEncoder.load(tmp_path, pooling="cls").encode(TEXTS), expected.encode(TEXTS))


def test_weights_by_word_as_older_releases_wrote_them(encoder: SentenceEncoder, tmp_path: Path) -> None:
    vectors = weighed(encoder).encode(TEXTS)
    encoder.save(tmp_path)
    (tmp_path / "1_WordWeights" / "model.safetensors").unlink()
    assert np.abs(SentenceEncoder.load(tmp_path).encode(TEXTS) - vectors).max() < 1e-6


def rewritten(module: Path, key: str, value: object) -> None:
    (module / "model.safetensors").unlink()
    config = json.loads((module / "config.json").read_text())
    (module / "config.json").write_text(json.dumps(config | {key: value}))


def test_faults_are_told_in_a_line(encoder: SentenceEncoder, tmp_path: Path) -> None:
    weighed(encoder).save(tmp_path)
    module = tmp_path / "1_WordWeights"
    file = module / "model.safetensors"
    ((name, good),) = load_file(file).items()
    bad = good.clone()
    bad[3] = -1
    for tensor, message in ((good[:-1], "weights of tokens for .* ids; each id needs one"), (bad, "negative or not")):
        save_file({name: tensor}, file)
        with pytest.raises(UserError, match=message):
            SentenceEncoder.load(tmp_path)
    rewritten(module, "vocab", 5)
    with pytest.raises(UserError, match="vocab is not a list of words"):
        SentenceEncoder.load(tmp_path)


def test_a_weight_by_word_that_is_no_number(encoder: SentenceEncoder, tmp_path: Path) -> None:
    weighed(encoder).save(tmp_path)
    rewritten(tmp_path / "1_WordWeights", "unknown_word_weight", "much")
    rewritten_words = json.loads((tmp_path / "1_WordWeights" / "config.json").read_text())
    rewritten_words["word_weights"] = {}
    (tmp_path / "1_WordWeights" / "config.json").write_text(json.dumps(rewritten_words))
    with pytest.raises(UserError, match="not a number"):
        SentenceEncoder.load(tmp_path)


@pytest.mark.slow
def test_an_export_has_the_weights(tiny_folder: Path, sentences: list[str], tmp_path: Path) -> None:
    import opencse
    from opencse.export.runtime import OnnxEncoder

    pytest.importorskip("onnxruntime")
    encoder = weighed(SentenceEncoder.load(tiny_folder, device="cpu", layers=0))
    expected = encoder.encode(sentences[:8], normalize_embeddings=True)
    opencse.export_onnx(encoder, tmp_path, text=sentences[:8])
    assert np.abs(OnnxEncoder(tmp_path).encode(sentences[:8]) - expected).max() < 1e-5
