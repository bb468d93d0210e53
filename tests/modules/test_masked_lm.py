"""The masked-LM head gives what transformers' whole model gives; small modules of an encoder."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertForMaskedLM

from helpers import json_in
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.kernels.states import MaskedTokens
from opencse.model_folder.locate import builtin_folder
from opencse.model_folder.reading import load_masked_lm_head
from opencse.modules.dense import evaluating
from opencse.modules.parts import lower_casing
from opencse.modules.table_model import Table, TableConfig
from opencse.modules.token_modules import MaskedLMHead
from opencse.objective.terms.tokens import masked_lm
from opencse.text.tokenizer import Tokenizer


def with_head(folder: Path, *, tied: bool = True) -> SentenceEncoder:
    encoder = SentenceEncoder.load(folder, device="cpu")
    words = encoder.backbone.get_input_embeddings()
    assert isinstance(words, nn.Embedding)
    encoder.lm_head = load_masked_lm_head(folder, words, tied=tied).eval()
    return encoder


def small(architecture: str, vocabulary: int) -> Any:  # a transformers configuration
    from transformers import AlbertConfig, DistilBertConfig

    if architecture == "distilbert":
        return DistilBertConfig(
            vocab_size=vocabulary, dim=32, n_layers=2, n_heads=2, hidden_dim=48, max_position_embeddings=64
        )
    return AlbertConfig(
        vocab_size=vocabulary, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48,
        max_position_embeddings=64, embedding_size=16,
    )  # fmt: skip


def check_against_transformers(folder: Path) -> SentenceEncoder:
    from transformers import AutoModelForMaskedLM

    encoder = with_head(folder)
    tokens = encoder.tokenizer.pad(encoder.tokenize(["A [MASK] runs.", "The cat sits on the [MASK] of the house."]))
    positions = tokens.attention_mask.bool()
    positions[0, 0] = False
    assert 0 < int(positions.sum()) < positions.numel()
    whole = AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        ours = encoder(None, masked=MaskedTokens(tokens, positions)).masked_logits
        theirs = whole(input_ids=tokens.input_ids, attention_mask=tokens.attention_mask).logits[positions]
    assert float(theirs.std()) > 1e-3
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)
    return encoder


def test_bert(tiny_folder: Path) -> None:
    check_against_transformers(tiny_folder)


def test_the_built_in_encoder_has_none_and_says_so() -> None:
    with pytest.raises(UserError, match="opencse-mini: the model has no masked-language-model head") as caught:
        with_head(builtin_folder())
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["distilbert", "albert"])
def test_other_architectures(architecture: str, tiny_folder: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForMaskedLM

    for file in tiny_folder.glob("tokenizer*"):
        shutil.copy(file, tmp_path)
    torch.manual_seed(1)
    vocabulary = SentenceEncoder.load(tiny_folder, device="cpu").tokenizer.vocabulary_size
    model = AutoModelForMaskedLM.from_config(small(architecture, vocabulary))  # type: ignore[no-untyped-call]
    model.save_pretrained(tmp_path)
    encoder = check_against_transformers(tmp_path)
    check_saved_with_its_head(encoder, tmp_path / "saved")


def check_saved_with_its_head(encoder: SentenceEncoder, folder: Path) -> None:
    """Changed weights, saved with the head, are read by transformers' masked-LM class and by ours alike."""
    from transformers import AutoModelForMaskedLM

    with torch.no_grad():
        for weight in encoder.parameters():
            weight.add_(0.01 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(2)))
    encoder.eval().save(folder, masked_lm=True)
    _, report = AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"] - {name for name in report["unexpected_keys"] if "pooler" in name}
    again = check_against_transformers(folder)
    tokens = encoder.tokenizer.pad(encoder.tokenize(["A dog runs to the house."]))
    masked = MaskedTokens(tokens, tokens.attention_mask.bool())
    with torch.no_grad():
        before, after = (e(None, masked=masked).masked_logits for e in (encoder, again))
    torch.testing.assert_close(before, after, atol=1e-6, rtol=0)
    vectors = [e.encode(["A dog runs.", "Rain."]) for e in (encoder, again)]
    assert abs(vectors[0] - vectors[1]).max() < 1e-6


def test_a_decoder_of_its_own_starts_as_the_word_embeddings_and_is_saved(tiny_folder: Path, tmp_path: Path) -> None:
    encoder = with_head(tiny_folder, tied=False)
    words = encoder.backbone.get_input_embeddings()
    assert isinstance(words, nn.Embedding)
    assert encoder.lm_head is not None
    decoder = encoder.lm_head.lm.get_output_embeddings().weight
    assert decoder is not words.weight
    assert torch.equal(decoder, words.weight)
    assert any(parameter is decoder for parameter in encoder.parameters()), "it is trained"
    with torch.no_grad():
        decoder.add_(0.5 * torch.randn(decoder.shape, generator=torch.Generator().manual_seed(3)))
    check_saved_with_its_head(encoder, tmp_path / "saved")
    assert json_in(tmp_path / "saved" / "config.json")["tie_word_embeddings"] is False


def test_half_precision_weights_are_saved_with_their_head(tiny_folder: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    with_head(tiny_folder).save(tmp_path, masked_lm=True, dtype=torch.float16)
    assert {t.dtype for t in load_file(tmp_path / "model.safetensors").values() if t.is_floating_point()} == {
        torch.float16
    }
    check_against_transformers(tmp_path)


def small_head() -> MaskedLMHead:
    model = BertForMaskedLM(
        BertConfig(vocab_size=60, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2)
    )
    words = model.get_input_embeddings()
    assert isinstance(words, nn.Embedding)
    return MaskedLMHead(model, words)


@pytest.mark.parametrize("block_bytes", [1, 4 * 60 * 3, 2**26])
def test_losses_in_blocks_are_those_of_all_logits(block_bytes: int) -> None:
    torch.manual_seed(0)
    head = small_head()
    labels, weights = torch.randint(0, 60, (11,)), torch.rand(11)
    hidden = torch.randn(11, 16)
    made = []
    for blocks in (False, True):
        states = hidden.clone().requires_grad_()
        head.zero_grad()
        losses = head.losses(states, labels, block_bytes=block_bytes) if blocks else masked_lm(head(states), labels)
        torch.autograd.backward((losses * weights).sum())
        gradients = {name: part.grad.clone() for name, part in head.named_parameters() if part.grad is not None}
        assert states.grad is not None
        made.append((losses.detach(), states.grad, gradients))
    (plain, plain_states, plain_weights), (blocked, blocked_states, blocked_weights) = made
    torch.testing.assert_close(blocked, plain, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(blocked_states, plain_states, rtol=1e-6, atol=1e-6)
    assert plain_weights.keys() == blocked_weights.keys()
    for name, gradient in plain_weights.items():
        torch.testing.assert_close(blocked_weights[name], gradient, rtol=1e-5, atol=1e-6)
    with torch.no_grad():
        torch.testing.assert_close(head.losses(hidden, labels, block_bytes=block_bytes), plain, rtol=1e-6, atol=1e-6)
        assert head.losses(hidden[:0], labels[:0], block_bytes=block_bytes).shape == (0,)


def test_texts_are_lower_cased_once_and_special_tokens_stay(byte_level: Tokenizer, tmp_path: Path) -> None:
    byte_level.hf.save_pretrained(tmp_path)
    plain, lowered = Tokenizer.load(tmp_path), lower_casing(Tokenizer.load(tmp_path))
    assert lowered.encode(["The DOG <mask>"], 32)[0].tolist() == plain.encode(["the dog <mask>"], 32)[0].tolist()
    assert lower_casing(lowered) is lowered


def test_every_part_gets_its_mode_back_even_after_an_error() -> None:
    first, second = nn.Dropout().train(), nn.Dropout().eval()
    network = nn.Sequential(first, second).train()
    second.eval()

    def fail() -> None:
        with evaluating(network):
            assert [part.training for part in (network, first, second)] == [False] * 3
            raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        fail()
    assert (network.training, first.training, second.training) == (True, True, False)


def test_states_are_rows_with_dropout_in_training_alone() -> None:
    table = Table(TableConfig(vocab_size=9, hidden_size=4, hidden_dropout_prob=0.5))
    table.train(False)
    ids = torch.tensor([[1, 2], [8, 0]])
    rows = table.embedding.weight
    output = table(ids, output_hidden_states=True)
    assert torch.equal(output.last_hidden_state, rows[ids])
    assert len(output.hidden_states) == 1
    assert torch.equal(table(inputs_embeds=rows[ids]).last_hidden_state, rows[ids])
    assert not torch.equal(table.train()(ids).last_hidden_state, rows[ids])
