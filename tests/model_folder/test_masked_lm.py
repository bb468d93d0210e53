"""Folders without a masked-LM head are refused; loaded heads are tested in tests/modules/test_masked_lm.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.masked_lm import load_masked_lm_head


def test_the_head_shares_the_word_embeddings_where_they_are_tied(encoder: SentenceEncoder, tiny_folder: Path) -> None:
    words = encoder.backbone.get_input_embeddings()
    assert isinstance(words, nn.Embedding)
    assert load_masked_lm_head(tiny_folder, words).lm.get_output_embeddings().weight is words.weight
    assert load_masked_lm_head(tiny_folder, words, tied=False).lm.get_output_embeddings().weight is not words.weight


def test_a_folder_without_head_is_refused(tiny_folder: Path, tmp_path: Path) -> None:
    encoder = SentenceEncoder.load(tiny_folder, device="cpu")
    encoder.save(tmp_path)
    words = encoder.backbone.get_input_embeddings()
    assert isinstance(words, nn.Embedding)
    with pytest.raises(UserError, match=r"no masked-language-model head \(missing cls\.predictions") as caught:
        load_masked_lm_head(tmp_path, words)
    assert "\n" not in str(caught.value)


def test_an_architecture_without_masked_lm_is_refused(tmp_path: Path) -> None:
    from transformers import CLIPTextConfig

    CLIPTextConfig().save_pretrained(tmp_path)
    with pytest.raises(UserError, match="no masked-language-model head can be loaded from it") as caught:
        load_masked_lm_head(tmp_path, nn.Embedding(3, 2))
    assert "\n" not in str(caught.value)
