"""Creates a BERT of any size with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from pydantic import Field, model_validator

from opencse.errors import UserError, reason
from opencse.model_folder.backbone import quiet_transformers
from opencse.settings import Settings

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


class Shape(Settings):
    """Size of a BERT (Devlin et al. 2019).

    Example:
        >>> Shape(layers=2, hidden=64, heads=4).inner
        1024

    Attributes:
        layers: L; 0 leaves the embeddings alone.
        hidden: width H of a token vector.
        heads: attention heads; each is H / heads wide.
        inner: width of the feed-forward layers.
        positions: longest text in ids, special tokens counted.
        dropout: rate of every dropout while training.
    """

    layers: int = Field(default=4, ge=0, le=1_000)
    hidden: int = Field(default=256, gt=0, le=65_536)
    heads: int = Field(default=4, gt=0, le=65_536)
    inner: int = Field(default=1024, gt=0, le=1_048_576)
    positions: int = Field(default=128, ge=8, le=1_048_576)
    dropout: float = Field(default=0.1, ge=0, lt=1)

    @model_validator(mode="after")
    def _heads_divide(self) -> Shape:
        if self.hidden % self.heads:
            raise ValueError(f"hidden {self.hidden} is not a multiple of heads {self.heads}")
        return self


def create_backbone(tokenizer: PreTrainedTokenizerFast, shape: Shape, folder: Path, seed: int) -> None:
    """Writes a BERT with its masked-LM head, random weights (BERT's initialisation), to ``folder``.

    Args:
        tokenizer: its vocabulary; must have a padding token.
        shape: its size.
        folder: made if it does not exist.
        seed: of the weights; the global random state stays unchanged.

    Raises:
        UserError: if the folder cannot be written.
    """
    from safetensors import SafetensorError
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=shape.inner,
        max_position_embeddings=shape.positions,
        hidden_dropout_prob=shape.dropout,
        attention_probs_dropout_prob=shape.dropout,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = BertForMaskedLM(config)
    try:
        folder.mkdir(parents=True, exist_ok=True)  # transformers only logs that a file is in the way
        with quiet_transformers():
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
    except (OSError, SafetensorError) as error:
        raise UserError(f"{folder}: the new backbone cannot be written ({reason(error)})") from None
