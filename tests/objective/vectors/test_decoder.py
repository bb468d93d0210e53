"""Decoders of other backbones: which become one, and which are refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.masked_lm import load_masked_lm_head
from opencse.modules.masked_lm import MaskedLMHead
from opencse.objective.vectors.decoder import CopiedDecoder, NewDecoder
from opencse.text.tokenizer import Tokens

SIZES: dict[str, Any] = {
    "vocab_size": 60,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 40,
}


def with_backbone(encoder: SentenceEncoder, masked_lm: Any) -> SentenceEncoder:
    backbone = getattr(masked_lm, masked_lm.base_model_prefix)
    encoder.backbone = backbone
    encoder.lm_head = MaskedLMHead(masked_lm, backbone.get_input_embeddings())
    return encoder.eval()


def made(kind: str) -> Any:
    import transformers

    torch.manual_seed(0)
    config = {"bert": "Bert", "roberta": "Roberta", "xlm-roberta": "XLMRoberta", "mpnet": "MPNet"}[kind]
    return getattr(transformers, f"{config}ForMaskedLM")(getattr(transformers, f"{config}Config")(**SIZES))


@pytest.mark.parametrize("kind", ["bert", "roberta", "xlm-roberta"])
def test_a_copied_decoder_reads_the_text_so_far_and_the_vector(kind: str, encoder: SentenceEncoder) -> None:
    decoder = CopiedDecoder(with_backbone(encoder, made(kind)), 0, tied=False, reader="denoising term").eval()
    ids = torch.tensor([[4, 9, 12, 33, 5]])
    tokens = Tokens(ids, torch.ones_like(ids))
    vector = torch.randn(1, 16)
    states = decoder(tokens, vector)
    assert states.shape == (1, 4, 16)
    other = decoder(Tokens(ids.where(torch.arange(5) < 2, 20), tokens.attention_mask), vector)
    assert torch.equal(states[:, :2], other[:, :2])
    assert not torch.allclose(states[:, 2:], other[:, 2:])
    assert not torch.allclose(states, decoder(tokens, vector + 1))
    words = decoder.backbone.get_input_embeddings()
    assert isinstance(words, nn.Embedding)
    assert decoder.head.lm.get_output_embeddings().weight is words.weight
    assert words.weight is not encoder.backbone.get_input_embeddings().weight


def test_the_first_weights_depend_on_the_seed_alone(encoder: SentenceEncoder) -> None:
    with_backbone(encoder, made("bert"))
    before = torch.get_rng_state()
    states = []
    for seed in (0, 0, 1):
        copied = CopiedDecoder(encoder, seed, tied=True, reader="denoising term")
        new = NewDecoder(encoder, seed, layers=1, heads=2, width=8, dropout=0.1, noise=0.5, reader="denoising term")
        states.append([value for module in (copied, new) for value in module.state_dict().values()])
    assert torch.equal(torch.get_rng_state(), before)
    same = [[torch.equal(a, b) for a, b in zip(states[0], other, strict=True)] for other in states[1:]]
    assert all(same[0])
    assert not all(same[1])


def test_what_is_no_decoder_is_refused(encoder: SentenceEncoder, tiny_folder: Any) -> None:
    with pytest.raises(UserError, match=r"a mpnet backbone cannot be a decoder .*decoder\.kind=new"):
        CopiedDecoder(with_backbone(encoder.twin(), made("mpnet")), 0, tied=True, reader="denoising term")
    sizes: dict[str, Any] = {"layers": 1, "width": 8, "dropout": 0.1, "noise": 0.5, "reader": "denoising term"}
    NewDecoder(with_backbone(encoder.twin(), made("mpnet")), 0, heads=2, **sizes)
    words = encoder.backbone.get_input_embeddings()
    assert isinstance(words, nn.Embedding)
    encoder.lm_head = load_masked_lm_head(tiny_folder, words)
    with pytest.raises(UserError, match="3 attention heads do not divide 32"):
        NewDecoder(encoder, 0, heads=3, **sizes)
    encoder.adapted = True
    with pytest.raises(UserError, match=r"trained by adapters; set objective\.terms\.denoising\.decoder\.tied=false"):
        CopiedDecoder(encoder, 0, tied=True, reader="denoising term")
