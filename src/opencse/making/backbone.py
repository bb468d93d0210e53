"""Creates a BERT of any size with random weights, or renews a part of a model that exists."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from pydantic import Field, model_validator
from torch import nn

from opencse.errors import UserError
from opencse.model_folder.backbone import quiet_transformers
from opencse.model_folder.description import list_modules
from opencse.model_folder.layout import ADAPTER_CONFIG as ADAPTERS
from opencse.model_folder.locate import locate
from opencse.model_folder.reading import open_masked_lm
from opencse.settings import Settings
from opencse.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast


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
    _save(model, tokenizer, folder)


def renew_backbone(model: str, folder: Path, new_layers: int, *, seed: int, trust_remote_code: bool = False) -> str:
    """Writes a masked language model from the encoder ``model`` to ``folder``, as a plain transformers folder.

    The head is new where the checkpoint has none: random weights, and a decoder tied to the token embeddings. The last
    ``new_layers`` layers are drawn again, by the architecture's own initialisation. Pooling, dense layers and prompts
    of ``model`` are not part of the new folder.

    Args:
        model: a folder or a Hub id.
        folder: made if it does not exist.
        new_layers: how many layers, from the last on, get random weights.
        seed: of the random weights; the global random state stays unchanged.
        trust_remote_code: run the code that the model's folder brings.

    Returns:
        What is new, for the user: ``new masked-LM head, layers 5 and 6 drawn again``.

    Raises:
        UserError: if the model has no layers to draw again, has adapters, or the folder cannot be written.
    """
    location = locate(model)
    if (list_modules(location).transformer / ADAPTERS).is_file():
        raise UserError(f"{model}: has adapters; merge them into their model first (opencse merge)")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network, missing = open_masked_lm(location, trust_remote_code=trust_remote_code)
        prefix = f"{network.base_model_prefix}."
        absent = [name for name in missing if name.startswith(prefix)]
        if absent:
            raise UserError(f"{model}: weights of the encoder are missing (first: {absent[0]})")
        if missing:
            network, _ = open_masked_lm(location, tied=True, trust_remote_code=trust_remote_code)
        if new_layers:
            _draw_again(network, new_layers, model)
    _save(network, Tokenizer.load(location, trust_remote_code=trust_remote_code).hf, folder)
    depth = int(network.config.num_hidden_layers)
    drawn = ", ".join(str(number) for number in range(depth - new_layers + 1, depth + 1))
    parts = [*(["new masked-LM head"] if missing else []), *([f"layers drawn again: {drawn}"] if drawn else [])]
    return "; ".join(parts) or "as it was"


def _draw_again(network: PreTrainedModel, count: int, model: str) -> None:
    """Gives the last ``count`` layers the weights of a new network of the same configuration.

    Raises:
        UserError: if there are fewer layers, or its modules do not show which they are.
    """
    depth = int(network.config.num_hidden_layers)
    if count > depth:
        raise UserError(f"{model}: {count} layers cannot be drawn again of a model that has {depth}")
    stacks = [
        (name, module)
        for name, module in network.named_modules()
        if isinstance(module, nn.ModuleList) and len(module) == depth
    ]
    if len(stacks) != 1:
        raise UserError(f"{model}: a {type(network).__name__} does not show which of its modules are its layers")
    name, layers = stacks[0]
    fresh = type(network)(network.config).get_submodule(name)
    for old, new in zip(list(layers)[-count:], list(fresh.children())[-count:], strict=True):
        old.load_state_dict(new.state_dict())


def _save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    with quiet_transformers():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
