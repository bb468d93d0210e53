"""The model that a run starts from: its own pooling or the recipe's, a new head, adapters, token weights."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import fingerprint
from opencse.errors import UserError
from opencse.kernels.gpu import MULTIPLE, why_not_fused
from opencse.kernels.packed import pack, why_not_packed
from opencse.making.backbone import Shape, create_backbone, renew_backbone
from opencse.making.vocabulary import train_wordpiece
from opencse.model_folder.adapters import LoraSettings, add_adapters
from opencse.model_folder.description import Description, describe, list_modules
from opencse.model_folder.layout import ADAPTER_CONFIG as ADAPTERS
from opencse.model_folder.locate import locate
from opencse.model_folder.reading import load_masked_lm_head, open_masked_lm
from opencse.modules.dense import Head, HeadSettings, new_head
from opencse.modules.pooling import Pooling
from opencse.modules.token_modules import TemplatesAlone, TokenWeights
from opencse.numerals import number_of
from opencse.objective.vectors.requests import LmHead
from opencse.objective.vectors.step import Request
from opencse.progress import Progress
from opencse.recipes.recipe import EncoderSettings, Recipe
from opencse.streams import seed_of
from opencse.text.given import TextSource, some_texts

CONSTANT = (Pooling.CLS, Pooling.LAST_TOKEN, Pooling.MASK)
"""Poolings that read one token; in a model without layers that is a special token, the same for every text."""


@dataclass(frozen=True)
class Reading:
    """A way to use an untrained model: its pooling, and how many of its layers.

    Attributes:
        model: the built-in encoder, a folder, or a Hub id.
        pooling: from token vectors to a sentence vector.
        layers: how many of the backbone's layers are used; None for all.
        unchanged: whether this is the model as it was saved: its own pooling and template, and all of its layers.
        template: that texts are put into; None for the model's own.
    """

    model: str
    pooling: Pooling
    layers: int | None = None
    unchanged: bool = False
    template: str | None = None

    def __str__(self) -> str:
        part = EncoderSettings(layers=self.layers).part
        template = "" if self.template is None else " of a template"
        return f"{'as given' if self.unchanged else 'untrained'}, {self.pooling}{template}{part and f', {part}'}"

    def load(self, device: str | None = None, trust_remote_code: bool = False) -> SentenceEncoder:
        """Opens the model with this pooling and these layers."""
        return SentenceEncoder.load(
            self.model,
            pooling=self.pooling,
            template=self.template,
            layers=self.layers,
            device=device,
            trust_remote_code=trust_remote_code,
        )


@dataclass(frozen=True)
class Start:
    """A model and the recipe that it is trained by, once pooling and head are decided; opens it in every way needed.

    Attributes:
        model: the built-in encoder, a folder, or a Hub id.
        recipe: with ``encoder.pooling`` and ``encoder.head`` as they are used.
        reason: why this pooling and this head, for the user; empty where they are the recipe's own.
        device: where it is opened; None for the default.
        trust_remote_code: run the code of the model's folder.
    """

    model: str
    recipe: Recipe
    reason: str = ""
    device: str | None = None
    trust_remote_code: bool = False

    @cached_property
    def about(self) -> Description:
        """What the model's folder says."""
        return describe(self.model)

    @cached_property
    def reading(self) -> Reading:
        """The model as it is before the first step, without a head."""
        encoder = self.recipe.encoder
        pooling = encoder.pooling or Pooling.MEAN
        same_text = encoder.template is None or encoder.template == template_of(self.about)
        unchanged = encoder.layers is None and pooling == supported_own_pooling(self.about) and same_text
        return Reading(self.model, pooling, encoder.layers, unchanged, encoder.template)

    @property
    def readings(self) -> tuple[Reading, ...]:
        """`reading`, and the model with its own pooling where that is another one and is supported here."""
        pooling = supported_own_pooling(self.about)
        if pooling is None or self.reading.unchanged:
            return (self.reading,)
        return (self.reading, Reading(self.model, pooling, unchanged=True))

    def for_training(self) -> SentenceEncoder:
        """Opens the model with the recipe's pooling, dropout and layers, a new head, and adapters.

        Raises:
            UserError: for a pooling that would give every text the same vector.
        """
        settings, model = self.recipe.encoder, self.model
        encoder = SentenceEncoder.load(
            model,
            pooling=settings.pooling,
            template=settings.template,
            dropout=settings.dropout,
            layers=settings.layers,
            device=self.device,
            trust_remote_code=self.trust_remote_code,
        )
        if encoder.depth == 0 and encoder.pooling in CONSTANT and encoder.tokenizer.special_count:
            raise UserError(
                f"{model}: without layers, pooling {encoder.pooling} reads a special token, the same for every text; "
                "set it with --set encoder.pooling=mean"
            )
        if settings.subtract_template is not None:
            if encoder.tokenizer.frame is None:
                raise UserError(
                    f"encoder.subtract_template: {model} has no template; set encoder.template, or leave it out"
                )
            encoder.alone = TemplatesAlone(settings.subtract_template, [encoder.tokenizer.frame])
        head = self._new_head(encoder)
        if settings.freeze_embeddings:
            if encoder.depth == 0:
                raise UserError(
                    f"{model}: has embeddings alone, so with encoder.freeze_embeddings nothing would be trained; set "
                    "it to false"
                )
            backbone = encoder.backbone
            dict(backbone.named_children()).get("embeddings", backbone.get_input_embeddings()).requires_grad_(False)
        if settings.lora is not None:
            _add_adapters(encoder, settings.lora, model, self.recipe.training.seed)
        if head is not None and settings.head.keep:
            encoder.dense.append(head)
        else:
            encoder.projection = head
        return encoder

    def untrained(self) -> SentenceEncoder:
        """Opens the model as it is before the first step, with the recipe's pooling and layers, to be evaluated.

        It has a new head only where the head stays after training and changes the dimension.
        """
        encoder = self.reading.load(self.device, self.trust_remote_code)
        head = self._new_head(encoder) if self.recipe.encoder.head.keep else None
        if head is not None and head.out_features != encoder.dimension:
            encoder.dense.append(head)
        return encoder

    def with_own_pooling(self) -> SentenceEncoder | None:
        """Opens the model with its own pooling, to be compared too; None where that is how training uses it anyway.

        Other settings of the recipe (fewer layers, a head that stays and has another dimension) apply here as well. A
        pooling of the model's own that is not supported here counts as none.
        """
        pooling, encoder = supported_own_pooling(self.about), self.recipe.encoder
        templated = encoder.template is not None and encoder.template != template_of(self.about)
        if pooling is None or (pooling == encoder.pooling and not templated):
            return None
        encoder = encoder.model_copy(update={"pooling": pooling, "template": None})
        return replace(self, recipe=self.recipe.model_copy(update={"encoder": encoder})).untrained()

    def add_masked_lm_head(self, encoder: SentenceEncoder, requests: Iterable[Request[Any]]) -> None:
        """Adds the model's masked-LM head to ``encoder`` if one of ``requests`` reads it.

        Raises:
            UserError: if the model has none.
        """
        heads = [request for request in requests if isinstance(request, LmHead)]
        if heads:
            embeddings = cast(nn.Embedding, encoder.backbone.get_input_embeddings())
            head = load_masked_lm_head(
                locate(self.model),
                embeddings,
                tied=all(request.tied for request in heads),
                trust_remote_code=self.trust_remote_code,
                instead=" and ".join(sorted({request.instead for request in heads})),
            )
            encoder.lm_head = head.to(encoder.device)

    def _new_head(self, encoder: SentenceEncoder) -> Head | None:
        """The recipe's head with its first weights, to be put on top of the dense layers that the model has."""
        generator = torch.Generator().manual_seed(self.recipe.training.seed)
        head = new_head(self.recipe.encoder.head, encoder.dimension, generator)
        return None if head is None else head.to(encoder.device)


def settle(
    recipe: Recipe,
    model: str,
    explicit: Collection[str],
    *,
    device: str | None,
    trust_remote_code: bool,
) -> Start:
    """Decides the pooling and the head of a start; see `EncoderSettings` for the rule.

    Args:
        recipe: with presets and settings applied.
        model: the start.
        explicit: dotted keys of the settings that the user chose; those of a recipe in the package are not among them.
        device: see `Start`.
        trust_remote_code: see `Start`.

    Raises:
        UserError: if there is no such model, or its own pooling is to be used and is not supported here.
    """
    pooling, head, reason = _settled(recipe.encoder, describe(model), explicit)
    encoder = recipe.encoder.model_copy(update={"pooling": pooling, "head": head})
    return Start(model, recipe.model_copy(update={"encoder": encoder}), reason, device, trust_remote_code)


def _settled(
    settings: EncoderSettings, about: Description, explicit: Collection[str]
) -> tuple[Pooling, HeadSettings, str]:
    """Pooling, head, and why these."""
    mode = settings.pooling or Pooling.MEAN
    if not about.modules:
        return mode, settings.head, ""
    if settings.pooling is not None and "encoder.pooling" in explicit:
        return mode, settings.head, "as set (by --set, a preset or your recipe file)"
    if settings.template is not None:
        return mode, settings.head, "of the recipe's template"
    pooling = cast(Pooling, about.pooling)  # named by the modules
    head_is_explicit = any(key.split(".")[:2] == ["encoder", "head"] for key in explicit)
    head_fits = not settings.head.keep and settings.pooling == pooling
    head = settings.head if head_is_explicit or head_fits else HeadSettings()
    left_out = [f"{settings.pooling}"] if settings.pooling not in (None, pooling) else []
    left_out += [f"{settings.head.kind} head"] if head != settings.head else []
    reason = "the model's own"
    if left_out:
        other = settings.pooling not in (None, pooling)
        force = f"encoder.pooling={settings.pooling}" if other else f"encoder.head.kind={settings.head.kind}"
        verb = "are" if len(left_out) > 1 else "is"
        reason += f"; the recipe's {' and '.join(left_out)} {verb} for plain backbones (--set {force} to force it)"
    return pooling, head, reason


def weigh_tokens(
    encoder: SentenceEncoder, texts: Iterable[NDArray[np.integer]], *, explicit: bool
) -> TokenWeights | None:
    """Computes the weights of ``encoder.token_weights = "idf"`` from the training texts.

    An encoder without layers gets none: its word vectors weigh words by their lengths, which training changes.

    Args:
        encoder: as it is before the first step.
        texts: the ids of each text.
        explicit: whether the user chose the setting, and not only the recipe of the package.

    Returns:
        None for an encoder that cannot have any, unless the user chose the setting.

    Raises:
        UserError: if the user chose it for an encoder that cannot have any.
    """
    if encoder.pooling.is_mean and encoder.depth and encoder.pool_prompt:
        return TokenWeights.inverse_document_frequency(texts, encoder.tokenizer.vocabulary_size)
    if explicit:
        obstacle = f"pooling {encoder.pooling}, which is no mean" if encoder.depth else "no layers above its words"
        if encoder.pooling.is_mean and encoder.depth:
            obstacle = "a mean that leaves out the prompt (include_prompt is false)"
        raise UserError(f"encoder.token_weights: this encoder has {obstacle}; leave the setting out")
    return None


def put_weights(encoder: SentenceEncoder, weights: TokenWeights | None) -> None:
    """Gives the encoder a copy of ``weights`` on its own device; None changes nothing."""
    if weights is not None:
        encoder.token_weights = copy.deepcopy(weights).to(encoder.device)


def _add_adapters(encoder: SentenceEncoder, lora: LoraSettings, model: str, seed: int) -> None:
    """Adds adapters to the backbone, and freezes everything else that the encoder has so far.

    Raises:
        UserError: if the start has adapters already, or no layer that can have any.
    """
    folder = locate(model)
    transformer = list_modules(folder).transformer
    if (transformer / ADAPTERS).is_file():
        raise UserError(f"{model}: has adapters already; merge them into their model first (opencse merge), train that")
    is_local = Path(model).is_dir() or transformer != folder
    base = str(transformer.resolve()) if is_local else model
    encoder.requires_grad_(False)
    add_adapters(encoder.backbone, lora, base, seed_of(seed, "lora"))
    encoder.adapted = True


def template_of(about: Description) -> str | None:
    """The template that the model's folder names; None if it has none."""
    return None if about.template is None else about.template.template.text


def supported_own_pooling(about: Description) -> Pooling | None:
    """The model's own pooling; None where it has none, or one that is not supported here."""
    try:
        return about.pooling
    except UserError:
        return None


@dataclass(frozen=True)
class NewBackbone:
    """A new BERT with random weights, and a vocabulary learned from the text.

    Attributes:
        vocabulary: pieces to learn.
        shape: its size.
    """

    vocabulary: int
    shape: Shape

    def write(self, source: TextSource, folder: Path, seed: int, progress: Progress) -> None:
        """Learns the vocabulary from ``source``, and draws the weights with ``seed``."""
        texts = some_texts(source)
        progress.say(f"vocabulary learning {self.vocabulary:,} pieces from {number_of(len(texts), 'text')}")
        tokenizer = train_wordpiece(texts, self.vocabulary, max_length=self.shape.positions)
        create_backbone(tokenizer, self.shape, folder, seed)

    def require_same(self, folder: Path) -> None:
        """Accepts any: a run continues with the backbone that it began with, whatever shape is requested now."""


@dataclass(frozen=True)
class RenewedBackbone:
    """A model that exists, as a masked language model: with a new head where it has none, and layers drawn again.

    Attributes:
        model: a folder or a Hub id.
        new_layers: how many layers, from the last on, get random weights.
        trust_remote_code: run the code that the model's folder brings.
    """

    model: str
    new_layers: int = 0
    trust_remote_code: bool = False

    def write(self, source: TextSource, folder: Path, seed: int, progress: Progress) -> None:
        """Writes it with random weights of ``seed``."""
        del source
        facts = renew_backbone(self.model, folder, self.new_layers, seed=seed, trust_remote_code=self.trust_remote_code)
        progress.say(f"start      {self.model}: {facts}")

    def require_same(self, folder: Path) -> None:
        """Compares token embeddings and depth with those of the start in ``folder``."""
        now, before = (
            open_masked_lm(path, trust_remote_code=self.trust_remote_code)[0] for path in (locate(self.model), folder)
        )
        words, words_before = (dict(network.get_input_embeddings().named_parameters()) for network in (now, before))
        same_depth = now.config.num_hidden_layers == before.config.num_hidden_layers
        if not (same_depth and torch.equal(words["weight"], words_before["weight"])):
            raise UserError(f"{folder}: the run began with another model than {self.model}; give that one")


@dataclass(frozen=True)
class GivenEncoder:
    """A copy of an encoder object from Python, which itself stays unchanged.

    Attributes:
        encoder: on any device.
    """

    encoder: SentenceEncoder

    def write(self, source: TextSource, folder: Path, seed: int, progress: Progress) -> None:
        """Saves a copy of the encoder."""
        del source, seed, progress
        self.encoder.save(folder)

    def require_same(self, folder: Path) -> None:
        """Compares the weights and settings of the saved copy with those of the encoder object."""
        if fingerprint(SentenceEncoder.load(folder, device="cpu")) != fingerprint(self.encoder):
            raise UserError(f"{folder}: the run began with another encoder; pass that one, or choose another out")


NewStart = NewBackbone | RenewedBackbone | GivenEncoder
"""A start that the run writes to its own folder, instead of opening one that exists."""


def choose_forward(encoder: SentenceEncoder, setting: bool | Literal["auto"]) -> str:
    """Chooses what computes the training forward, as far as ``training.packed`` and the model allow, and says why.

    Example:
        >>> from opencse.encoder.encoder import SentenceEncoder
        >>> choose_forward(SentenceEncoder.load("opencse-mini", device="cpu"), "auto")
        'packed, no padding'

    Args:
        encoder: changed by this call.
        setting: the value of ``training.packed``.

    Raises:
        UserError: for a setting that has no effect on this device or with this model.
    """
    plain = str(encoder.backbone.config._attn_implementation)
    kind, obstacle = encoder.device.type, why_not_packed(encoder.backbone)
    if setting is False:
        return f"{plain} (padded: training.packed = false)"
    if setting == "auto" and (obstacle is not None or kind not in ("cpu", "cuda")):
        return f"{plain} (padded: {obstacle or f'on {kind}'})"
    if setting is True and kind != "cpu":
        raise UserError("training.packed needs a CPU; set it to auto, or add --device cpu")
    pack(encoder.backbone)
    if kind == "cuda":
        unfit = why_not_fused(encoder.backbone)
        encoder.computation = "fused" if unfit is None else "padded"
        layers = "fused layers" if unfit is None else f"padded layers (not fused: {unfit})"
        return f"in {layers}, lengths multiples of {MULTIPLE}"
    encoder.computation = "packed"
    return "packed, no padding"
