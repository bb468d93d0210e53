"""The start of a run: what a given model keeps of itself, and what the recipe puts on it."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.adapters import CONFIG as ADAPTERS
from opencse.model_folder.adapters import LoraSettings, add_adapters
from opencse.model_folder.locate import locate
from opencse.model_folder.reading import has_own_pooling, own_pooling, transformer_folder
from opencse.modules.dense import Head, HeadSettings, new_head
from opencse.modules.pooling import Pooling
from opencse.modules.token_weights import TokenWeights
from opencse.recipes.recipe import EncoderSettings, Recipe
from opencse.streams import seed_of

CONSTANT = (Pooling.CLS, Pooling.LAST_TOKEN)
"""Poolings that read one token: without layers that is a special token, the same for every text."""


@dataclass(frozen=True)
class Reading:
    """How a model's vectors are read, nothing trained.

    Attributes:
        model: the built-in encoder, a folder, or a Hub id.
        pooling: from token vectors to a sentence vector.
        layers: how many of the backbone's are kept; None for all.
        given: whether the model comes so: with its own pooling, and whole.
    """

    model: str
    pooling: Pooling
    layers: int | None = None
    given: bool = False

    def __str__(self) -> str:
        part = EncoderSettings(layers=self.layers).part
        return f"{'as given' if self.given else 'untrained'}, {self.pooling}{part and f', {part}'}"

    def load(self, device: str | None = None, trust_remote_code: bool = False) -> SentenceEncoder:
        """The model so read."""
        return SentenceEncoder.load(
            self.model,
            pooling=self.pooling,
            layers=self.layers,
            device=device,
            trust_remote_code=trust_remote_code,
        )


@dataclass(frozen=True)
class Start:
    """A model, and how training takes it up.

    Attributes:
        model: the built-in encoder, a folder, or a Hub id.
        recipe: with ``encoder.pooling`` and ``encoder.head`` as they will be.
        reason: why this pooling and this head, for the user; empty where they are simply the recipe's.
    """

    model: str
    recipe: Recipe
    reason: str = ""

    @property
    def reading(self) -> Reading:
        """How the model is read where training begins, a head left out."""
        encoder = self.recipe.encoder
        pooling = encoder.pooling or Pooling.MEAN
        given = encoder.layers is None and pooling == supported_own_pooling(self.model)
        return Reading(self.model, pooling, encoder.layers, given)

    @property
    def readings(self) -> tuple[Reading, ...]:
        """`reading`, and the model as it was given where that is another one and is supported here."""
        own = supported_own_pooling(self.model)
        given = () if own is None or self.reading.given else (Reading(self.model, own, given=True),)
        return (self.reading, *given)


def settle(recipe: Recipe, model: str, said: Collection[str]) -> Start:
    """Decides pooling and head for a start; see `EncoderSettings` for the rule.

    Args:
        recipe: with presets and settings applied.
        model: the start.
        said: dotted keys of the settings that were asked for, not merely the packaged recipe's own.

    Raises:
        UserError: if there is no such model, or its own pooling is to be kept and is not supported here.
    """
    wanted = recipe.encoder
    if not has_own_pooling(model):
        return _taking(recipe, model, wanted.pooling or Pooling.MEAN, wanted.head)
    if wanted.pooling is not None and "encoder.pooling" in said:
        return _taking(recipe, model, wanted.pooling, wanted.head, "as asked for")
    own = own_pooling(model)
    if own is None:
        raise RuntimeError(f"{model}: has modules and no pooling")
    head_said = any(key.split(".")[:2] == ["encoder", "head"] for key in said)
    goes_with_it = not wanted.head.keep and wanted.pooling == own
    head = wanted.head if head_said or goes_with_it else HeadSettings()
    left_out = [f"{wanted.pooling}"] if wanted.pooling not in (None, own) else []
    left_out += [f"{wanted.head.kind} head"] if head != wanted.head else []
    reason = "the model's own"
    if left_out:
        other = wanted.pooling not in (None, own)
        force = f"encoder.pooling={wanted.pooling}" if other else f"encoder.head.kind={wanted.head.kind}"
        verb = "are" if len(left_out) > 1 else "is"
        reason += f"; the recipe's {' and '.join(left_out)} {verb} for plain backbones (--set {force} to force it)"
    return _taking(recipe, model, own, head, reason)


def _taking(recipe: Recipe, model: str, pooling: Pooling, head: HeadSettings, reason: str = "") -> Start:
    encoder = recipe.encoder.model_copy(update={"pooling": pooling, "head": head})
    return Start(model, recipe.model_copy(update={"encoder": encoder}), reason)


def weigh_tokens(encoder: SentenceEncoder, texts: Iterable[NDArray[np.integer]], *, asked: bool) -> TokenWeights | None:
    """The weights that ``encoder.token_weights = "idf"`` puts on the tokens, from the texts that are trained on.

    Word vectors without layers weigh words by their lengths, which training changes, so they get none.

    Args:
        encoder: as training takes it up.
        texts: the ids of each.
        asked: whether the user asked for them, not merely the packaged recipe.

    Returns:
        None for an encoder that takes none, unless they were asked for.

    Raises:
        UserError: if they were asked for of an encoder that takes none.
    """
    if encoder.pooling.is_mean and encoder.depth and encoder.pool_prompt:
        return TokenWeights.inverse_document_frequency(texts, encoder.tokenizer.vocabulary_size)
    if asked:
        what = f"pooling {encoder.pooling}, which reads no mean" if encoder.depth else "no layers above its words"
        if encoder.pooling.is_mean and encoder.depth:
            what = "a mean that leaves out the prompt (include_prompt is false)"
        raise UserError(f"encoder.token_weights: this encoder has {what}; leave the setting out")
    return None


def put_weights(encoder: SentenceEncoder, weights: TokenWeights | None) -> None:
    """Gives the encoder a copy of ``weights`` on its own device; None leaves it as it came."""
    if weights is not None:
        encoder.token_weights = copy.deepcopy(weights).to(encoder.device)


def build_encoder(recipe: Recipe, model: str, device: str | None, trust_remote_code: bool = False) -> SentenceEncoder:
    """The encoder as training changes it: the start with the recipe's pooling, dropout and a new head.

    Raises:
        UserError: for a pooling that would give every text the same vector.
    """
    wanted = recipe.encoder
    encoder = SentenceEncoder.load(
        model,
        pooling=wanted.pooling,
        dropout=wanted.dropout,
        layers=wanted.layers,
        device=device,
        trust_remote_code=trust_remote_code,
    )
    if encoder.depth == 0 and encoder.pooling in CONSTANT and encoder.tokenizer.hf.num_special_tokens_to_add():
        raise UserError(
            f"{model}: without layers, pooling {encoder.pooling} reads a special token, the same for every text; "
            "set it with --set encoder.pooling=mean"
        )
    head = _new_head(recipe, encoder)
    if wanted.lora is not None:
        _adapt(encoder, wanted.lora, model, recipe.training.seed)
    if head is not None and wanted.head.keep:
        encoder.dense.append(head)
    else:
        encoder.projection = head
    return encoder


def _adapt(encoder: SentenceEncoder, lora: LoraSettings, model: str, seed: int) -> None:
    """Puts adapters on the backbone; of what the encoder came with nothing else is trained.

    Raises:
        UserError: if the start has adapters of its own already, or nothing that takes any.
    """
    folder = locate(model)
    transformer = transformer_folder(folder)
    if (transformer / ADAPTERS).is_file():
        raise UserError(f"{model}: has adapters already; merge them into their model first (opencse merge), train that")
    here = Path(model).is_dir() or transformer != folder
    base = str(transformer.resolve()) if here else model
    encoder.requires_grad_(False)
    add_adapters(encoder.backbone, lora, base, seed_of(seed, "lora"))
    encoder.adapted = True


def load_start(
    recipe: Recipe,
    model: str,
    device: str | None = None,
    trust_remote_code: bool = False,
    token_weights: TokenWeights | None = None,
) -> SentenceEncoder:
    """The model as training takes it up, untrained: the recipe's pooling and layers, its own where it keeps them.

    A head that is kept and changes the dimension is there too, a head of training is not; ``token_weights`` are those
    of `weigh_tokens`.
    """
    wanted = recipe.encoder
    encoder = SentenceEncoder.load(
        model, pooling=wanted.pooling, layers=wanted.layers, device=device, trust_remote_code=trust_remote_code
    )
    head = _new_head(recipe, encoder) if recipe.encoder.head.keep else None
    if head is not None and head.out_features != encoder.dimension:
        encoder.dense.append(head)
    put_weights(encoder, token_weights)
    return encoder


def load_given(
    recipe: Recipe, model: str, device: str | None = None, trust_remote_code: bool = False, *, weighed: bool = False
) -> SentenceEncoder | None:
    """The model read by its own pooling, where training takes it up with another; None where it does not.

    So too where training alone has tokens ``weighed``.

    What the recipe asks for besides (fewer layers, a kept head of another dimension) it has too. A pooling of its own
    that is not supported here counts as none.
    """
    own = supported_own_pooling(model)
    if own is None or (own == recipe.encoder.pooling and not weighed):
        return None
    encoder = recipe.encoder.model_copy(update={"pooling": own})
    return load_start(recipe.model_copy(update={"encoder": encoder}), model, device, trust_remote_code)


def supported_own_pooling(model: str) -> Pooling | None:
    """The model's own pooling; None where it has none, or one that is not supported here."""
    try:
        return own_pooling(model)
    except UserError:
        return None


def _new_head(recipe: Recipe, encoder: SentenceEncoder) -> Head | None:
    """The head of the recipe as it starts, on top of the dense layers that the encoder came with."""
    head = new_head(recipe.encoder.head, encoder.dimension, torch.Generator().manual_seed(recipe.training.seed))
    return None if head is None else head.to(encoder.device)
