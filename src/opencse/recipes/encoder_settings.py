"""The table ``[encoder]`` of a recipe: what of a model is trained."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from opencse.errors import UserError
from opencse.model_folder.adapters import LoraSettings
from opencse.modules.denoising import Slot
from opencse.modules.dense import HeadSettings
from opencse.modules.pooling import Pooling
from opencse.settings import Settings
from opencse.text.template import MASK, Template


class EncoderSettings(Settings):
    """The ``[encoder]`` table.

    Pooling and head of a recipe are the method's choice for a plain backbone (a transformers folder, which names no
    pooling). A start with a pooling of its own (a sentence-transformers folder, a trained encoder) is a finished
    encoder: it keeps its pooling, its Dense layers and its Normalize, unless a preset, ``--set``, the user's recipe
    file or a `Recipe` object says otherwise. If the start keeps its pooling, the recipe's head

    - is left out if it stays after training: a new, untrained layer would be added to a finished model;
    - is left out if only training uses it and the recipe names another pooling, because it belongs to that one
      (SimCSE's code has its MLP with [CLS] only). If both have the same pooling, the head is used in training.

    Setting ``encoder.pooling`` also brings the recipe's head; setting ``encoder.head`` brings that head.

    A recipe with a template is about what its pooling reads of it, so there its pooling and head are used with every
    start; ``template = "own"`` makes the rules above hold again.

    Attributes:
        pooling: from token vectors to a sentence vector; ``own``, or unset, is the start's own, or mean if it has none.
        template: text that every text is put into, in training and ever after, such as
            ``This sentence of "{text}" means {mask}.`` with ``{mask}`` for the model's own mask token; ``own``, or
            unset, is the start's own. Its ids count in ``data.max_length``; a long text is truncated inside it.
        subtract_template: subtract what the template alone gives from every vector, in training only (PromptBERT's
            denoising). In its slot positions are skipped (``skipped``), or there are padding tokens (``padding``,
            CoT-BERT); as many as the text has ids. ``none``, or unset, subtracts nothing.
        head: the projection head of training.
        dropout: rate of every dropout of the backbone; unset keeps the model's own.
        layers: how many of the backbone's layers are used, from the first on (0: only its embeddings); unset uses all.
        lora: train adapters and freeze the backbone, at ten times the recipe's learning rate unless you set the rate;
            unset trains the backbone. See `LoraSettings`.
        freeze_embeddings: leave the backbone's embeddings (of tokens and positions, and their LayerNorm) as they are.
        token_weights: weight of each token in a mean; ``idf`` gives rare tokens more (see
            `opencse.modules.token_weights`); ``own``, or unset, keeps the start's.
    """

    pooling: Pooling | None = None
    template: str | None = None
    subtract_template: Slot | None = None
    head: HeadSettings = HeadSettings()
    dropout: float | None = Field(default=None, ge=0, lt=1)
    layers: int | None = Field(default=None, ge=0, le=1_000)
    lora: LoraSettings | None = None
    freeze_embeddings: bool = False
    token_weights: Literal["idf"] | None = None

    @field_validator("pooling", "template", "token_weights", mode="before")
    @classmethod
    def _own_is_unset(cls, value: object) -> object:
        return None if value == "own" else value

    @field_validator("subtract_template", mode="before")
    @classmethod
    def _none_is_unset(cls, value: object) -> object:
        return None if value == "none" else value

    @model_validator(mode="after")
    def _template_has_what_pooling_reads(self) -> EncoderSettings:
        if self.template is not None:
            try:
                template = Template(self.template)
            except UserError as error:
                raise ValueError(str(error)) from None
            if self.pooling is Pooling.MASK and not template.ends_in_mask:
                raise ValueError(f"pooling mask needs {MASK} after the slot of the template, as in means {MASK}.")
        return self

    @model_validator(mode="after")
    def _adapters_have_a_whole_model(self) -> EncoderSettings:
        if self.lora is not None and self.layers is not None:
            raise ValueError("lora freezes the model, so none of its layers can be left out; unset layers")
        return self

    @property
    def part(self) -> str:
        """The used part of the backbone, in words; empty if all of it is used."""
        if self.layers is None:
            return ""
        if self.layers == 1:
            return "first layer"
        return f"first {self.layers} layers" if self.layers else "embeddings alone"
