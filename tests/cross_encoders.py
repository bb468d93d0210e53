"""Small cross-encoders with random weights, as transformers and sentence-transformers save them."""

from __future__ import annotations

from pathlib import Path

import torch

from helpers import json_in, write_tiny_bert


def write_cross_encoder(folder: Path, *, outputs: int = 1, sd: float = 0.3, seed: int = 0) -> Path:
    """A transformers folder: BERT for sequence classification, 2 layers x 32, at most 64 ids.

    Args:
        folder: made if it does not exist.
        outputs: number of classes.
        sd: of the random weights; large enough that different pairs have clearly different scores.
        seed: of the weights.
    """
    from transformers import BertConfig, BertForSequenceClassification

    write_tiny_bert(folder)
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=json_in(folder / "config.json")["vocab_size"],
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=sd,
    )
    config.num_labels = outputs
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder


def write_sentence_transformers(folder: Path, source: Path, **options: object) -> Path:
    """The cross-encoder in ``source`` as sentence-transformers saves it, with options of its ``CrossEncoder``."""
    from sentence_transformers import CrossEncoder

    CrossEncoder(str(source), device="cpu", **options).save_pretrained(str(folder))
    return folder
