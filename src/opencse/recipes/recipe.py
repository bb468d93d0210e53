"""Loads a recipe: reads the TOML file, applies presets and overrides, and validates the settings."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import tomli_w
from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from opencse.errors import UserError, shortened
from opencse.model_folder.adapters import LoraSettings
from opencse.modules.dense import HeadSettings
from opencse.modules.pooling import Pooling
from opencse.modules.token_modules import Slot
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.recipes.files import (
    CODE_PRESETS,
    DataSettings,
    Family,
    Preset,
    RecipeTables,
    choose,
    completed,
    preset_changes,
    recipe_tables,
    split_name,
)
from opencse.recipes.overrides import Change, as_overrides, blame, changed, flatten, in_order, parse_override
from opencse.settings import Location, Settings, described, validate
from opencse.text.template import MASK, Template
from opencse.training.schedule import FIRST, Mixing
from opencse.training.settings import TrainingSettings


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
            `opencse.modules.token_modules`); ``own``, or unset, keeps the start's.
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


class DataSetSettings(Settings):
    """A further data set of a run. A batch is from one data set at a time.

    Attributes:
        name: for the plan and the log.
        data: a file, a pattern, a folder or a Hub data set; a relative path is relative to the working folder. Unset:
            it is given with ``--also``.
        columns: of ``data``; see `opencse.text.readers.Source`.
        scale: of graded pairs: the largest possible score; see `DataSettings`.
        objective: the loss of its batches; unset takes the recipe's.
        weight: of mixing by proportion: how often its examples are seen in an epoch, where those of the first data set
            are seen once. Unset is 1.
        batch_size: examples in its batches; unset takes ``training.batch_size``.
    """

    name: str = Field(min_length=1)
    data: Location | None = None
    columns: tuple[str, ...] | None = None
    scale: float | None = Field(default=None, gt=0)
    objective: ObjectiveSettings | None = None
    weight: float | None = Field(default=None, gt=0, le=1_000)
    batch_size: int | None = Field(default=None, ge=2, le=1_048_576)


def check_data_sets(
    data_sets: Sequence[DataSetSettings],
    mixing: Mixing | None,
    objective: ObjectiveSettings,
    training: TrainingSettings,
) -> None:
    """Refuses data sets that cannot be mixed.

    Args:
        data_sets: the further ones.
        mixing: the rule of the recipe.
        objective: the recipe's own, which data sets without one have.
        training: settings of the run.

    Raises:
        UserError: in one line.
    """
    for name, count in Counter([FIRST, *(one.name for one in data_sets)]).items():
        if count > 1:
            clash = " (the first data set's)" if name == FIRST else ""
            raise UserError(f"datasets: the name {name!r}{clash} is used twice; give each data set a name of its own")
    weighted = [one.name for one in data_sets if one.weight is not None]
    if mixing == "round_robin" and weighted:
        raise UserError(
            f"datasets: {', '.join(weighted)} has a weight, and in turns (mixing = round_robin) all data sets have as "
            "many batches; leave weights out, or mix by proportion"
        )
    if data_sets and training.batch_tokens is not None:
        raise UserError("training.batch_tokens does not go with several data sets; set training.batch_size instead")
    changes_inputs = training.worst_case is not None and training.worst_case.inputs.kind != "none"
    for one in data_sets:
        other = Objective.from_settings(one.objective or objective)
        if changes_inputs and not (other.encodes and other.one_forward):
            raise UserError(
                "datasets: training.worst_case.inputs changes the inputs of one forward, and the objective of "
                f"{one.name} makes two or none; "
                'set inputs to { kind = "none" }'
            )


_RATE = "training.learning_rate"
_RATE_OF_ADAPTERS = 10
"""How many times the learning rate of a whole model adapters get, unless the user sets it; see docs/guides/train.md."""


_SOUND = "sound"
"""Context of the validation of a recipe whose objective need not be made to see whether its parts go together."""


class Recipe(Settings):
    """A training method: every setting of data, encoder, objective and training.

    Attributes:
        name: of the recipe.
        family: the group that it is listed in; unset in recipes of your own.
        title: one line for the user.
        paper: authors, year, title, arXiv number; empty for our own.
        data: how the text is read.
        encoder: pooling, head and other changes to the model.
        objective: the loss.
        training: batches, steps, rates and evaluation.
        datasets: further data sets, each with an objective of its own; see `DataSetSettings`.
        mixing: which data set a step works on: ``proportional`` (the default; all examples of all data sets are seen in
            an epoch) or ``round_robin`` (in turns, until the smallest is through).
        seeds: of the paper's comparison; a single run uses ``training.seed``.
        presets: other settings, by name. ``paper`` and ``reference`` are the paper and the authors' public code where
            they differ; ``paper`` is the recipe itself and need not be listed.

    Example:
        >>> recipe = load_recipe("simcse:reference", overrides=["training.seed=7"])
        >>> recipe.objective.temperature, recipe.training.seed, recipe.objective.mask_duplicates
        (0.05, 7, False)
    """

    name: str
    family: Family | None = None
    title: str
    paper: str = ""
    data: DataSettings = DataSettings()
    encoder: EncoderSettings = EncoderSettings()
    objective: ObjectiveSettings = ObjectiveSettings()
    training: TrainingSettings = TrainingSettings()
    datasets: tuple[DataSetSettings, ...] | None = None
    mixing: Mixing | None = None
    seeds: tuple[int, ...] = ()
    presets: dict[str, Preset] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _objective_goes_together(self, info: ValidationInfo) -> Recipe:
        if info.context == _SOUND:
            return self
        try:
            objective = Objective.from_settings(self.objective)
            check_data_sets(self.datasets or (), self.mixing, self.objective, self.training)
        except UserError as error:
            raise ValueError(str(error)) from None
        if self.training.batch_tokens is not None:
            if objective.compares_examples:
                raise ValueError(
                    "training.batch_tokens puts texts of equal length together, which would then be compared with each "
                    "other; set training.batch_size instead"
                )
            if self.data.max_length != "auto" and self.training.batch_tokens < self.data.max_length:
                raise ValueError(
                    "training.batch_tokens cannot hold a text of data.max_length; raise it, or lower data.max_length"
                )
        worst_case = self.training.worst_case
        if worst_case is not None and worst_case.inputs.kind != "none" and not objective.encodes:
            raise ValueError(
                "training.worst_case.inputs changes the inputs of the sentences, and this objective encodes only "
                'masked copies; set inputs to { kind = "none" }'
            )
        if worst_case is not None and worst_case.inputs.kind != "none" and not objective.one_forward:
            raise ValueError(
                "training.worst_case.inputs changes the inputs of one forward, and this objective makes two "
                '(dual_encoder, or shared_mask of the view); set inputs to { kind = "none" }'
            )
        return self

    @model_validator(mode="after")
    def _presets_can_be_named(self) -> Recipe:
        for name, preset in self.presets.items():
            if not name or ":" in name:
                raise ValueError(f"a preset cannot be called {name!r}; presets are named after a colon")
            if name in CODE_PRESETS and (preset.model is not None or preset.reference):
                raise ValueError(f"the preset {name!r} is for any model: it has settings alone")
        return self


@dataclass(frozen=True)
class Resolved:
    """A recipe with presets and overrides applied.

    Attributes:
        recipe: the result; it still has its presets.
        presets: the applied ones, in the order of application.
        model: the requested model; its Hub id where a preset's name was given; None if none was requested.
        explicit: dotted keys that presets, overrides and a recipe file set; not those of a recipe in the package.
        replaced: a line for each setting of a preset that an override replaces, and for the learning rate of adapters.
        user_keys: dotted keys that overrides and a recipe file set: those of the user, without presets.
    """

    recipe: Recipe
    presets: tuple[str, ...]
    model: str | None
    explicit: frozenset[str] = frozenset()
    replaced: tuple[str, ...] = ()
    user_keys: frozenset[str] = frozenset()

    @property
    def preset(self) -> str | None:
        """The presets that were applied, joined by colons; None if there are none."""
        return ":".join(self.presets) or None

    @property
    def backbone(self) -> Preset | None:
        """The backbone preset that was applied; None if there was none."""
        applied = [self.recipe.presets[name] for name in self.presets if name in self.recipe.presets]
        return next((preset for preset in applied if preset.model is not None), None)


def load_recipe(recipe: str, *, preset: str | None = None, overrides: Iterable[str] = ()) -> Recipe:
    """Loads a recipe and applies presets and overrides; see `resolve_recipe`.

    Raises:
        UserError: naming the wrong key and the nearest valid one.

    Example:
        >>> load_recipe("simcse", preset="crop-10", overrides=["training.epochs=2"]).training.epochs
        2.0
    """
    return resolve_recipe(recipe, preset=preset, overrides=overrides).recipe


def resolve_recipe(
    recipe: str, *, preset: str | None = None, model: str | None = None, overrides: Iterable[str] = ()
) -> Resolved:
    """Loads a recipe, applies presets and overrides, and says what was applied.

    First the preset for the backbone is applied, then ``paper`` or ``reference``, then the other presets in their
    order, then what a file with a ``base`` sets, then all overrides, whose order does not matter. Where these add
    adapters (``encoder.lora``) and leave the learning rate as it is, it is ten times that of the recipe.

    Args:
        recipe: a name or the path of a TOML file, either with presets after colons (``simcse:bert-base:crop-10``).
        preset: more presets, joined by colons.
        model: the model to train; its preset (exact name or Hub id) is applied unless another backbone's is named.
        overrides: ``key.path=value``, the value in TOML (a bare word is a string).

    Raises:
        UserError: naming the wrong key and the nearest valid one.

    Example:
        >>> resolved = resolve_recipe("simcse", model="roberta-base", overrides=["training.seed=1"])
        >>> resolved.presets, resolved.model, resolved.recipe.training.batch_size
        (('roberta-base',), 'FacebookAI/roberta-base', 512)
    """
    name, presets = split_name(recipe)
    tables, written = (_written if name.endswith(".toml") else _packaged)(name)
    if preset is not None:
        presets += preset.split(":")
    applied = choose(written.presets, name, presets, model)
    of_presets = preset_changes(written.presets, name, applied)
    if isinstance(overrides, str):
        raise UserError("settings is a list of texts, for instance settings=['training.max_steps=60']")
    if isinstance(overrides, Mapping):
        overrides = as_overrides(overrides)
    user_changes = [Change(f"--set {shortened(text)}", *parse_override(text)) for text in overrides]
    changes = [*of_presets, *tables.changes, *in_order(user_changes)]
    plain = written.model_dump(mode="json", exclude={"presets"})

    def with_changes(some: Iterable[Change]) -> dict[str, Any]:
        return {"presets": written.presets, **changed(plain, some)}

    try:
        resolved = Recipe.model_validate(with_changes(changes))
    except ValidationError:
        at_fault, wrong = blame(Recipe, changes, with_changes, [*of_presets, *tables.changes, *user_changes])
        raise UserError(f"{at_fault}: {described(Recipe, wrong)}") from None
    requested_model = None if model is None else _model_of_preset(written, model)
    user_keys = tables.explicit.union(key for change in [*tables.changes, *user_changes] for key in _flat(change))
    explicit = user_keys.union(key for change in of_presets for key in _flat(change))
    replaced = _replaced(of_presets, [*tables.changes, *user_changes])
    of_recipe = written.encoder.lora is not None and not name.endswith(".toml")  # its rate is that of its adapters
    if resolved.encoder.lora is not None and not of_recipe and _RATE not in user_keys:
        resolved, line = _at_the_rate_of_adapters(resolved, of_presets)
        replaced += line
    return Resolved(resolved, tuple(applied), requested_model, explicit, replaced, user_keys)


def _at_the_rate_of_adapters(recipe: Recipe, of_presets: Iterable[Change]) -> tuple[Recipe, tuple[str, ...]]:
    """The recipe, whose rate is for a whole model, with the rate that adapters want; and a line for the user.

    A preset that sets both the adapters and the rate means the rate of adapters.
    """
    keys_by_preset: dict[str, set[str]] = {}
    for change in of_presets:
        keys_by_preset.setdefault(change.where, set()).update(_flat(change))
    if any(
        _RATE in keys and any(f"{key}.".startswith("encoder.lora.") for key in keys) for keys in keys_by_preset.values()
    ):
        return recipe, ()
    rate_before = recipe.training.learning_rate
    rate = float(f"{_RATE_OF_ADAPTERS * rate_before:.6g}")
    training = recipe.training.model_copy(update={"learning_rate": rate})
    reason = f"{_RATE_OF_ADAPTERS} times {rate_before:g}, which is for a whole model and not for adapters"
    line = f"{_RATE} = {rate:g} ({reason})"
    return recipe.model_copy(update={"training": training}), (line,)


def _model_of_preset(recipe: Recipe, model: str) -> str:
    preset = recipe.presets.get(model)
    return model if preset is None or preset.model is None else preset.model


def _written(name: str) -> tuple[RecipeTables, Recipe]:
    """What the file of a recipe says, and the recipe without presets applied."""
    tables = recipe_tables(name)
    return tables, validate(Recipe, completed(tables.before), name)


@functools.cache
def _packaged(name: str) -> tuple[RecipeTables, Recipe]:
    """The same for a recipe of this package, whose file does not change and whose objective goes together."""
    tables = recipe_tables(name)
    return tables, Recipe.model_validate(completed(tables.before), context=_SOUND)


def _replaced(preset_changes: Iterable[Change], user_changes: Iterable[Change]) -> tuple[str, ...]:
    """A line for each setting of a preset that the user replaces."""
    by_preset = {key: (change.where, value) for change in preset_changes for key, value in _flat(change).items()}
    by_user = {key: value for change in user_changes for key, value in _flat(change).items()}
    return tuple(
        f"{key} = {value} (the preset {by_preset[key][0]} has {by_preset[key][1]})"
        for key, value in by_user.items()
        if key in by_preset and by_preset[key][1] != value
    )


def _flat(change: Change) -> dict[str, Any]:
    return flatten({change.key: change.value})


def to_toml(recipe: Recipe) -> str:
    """Returns every setting of a recipe as TOML that loads to the same recipe, without presets and unset settings."""
    plain: dict[str, Any] = recipe.model_dump(mode="json", exclude={"presets"}, exclude_none=True)
    return tomli_w.dumps(plain)


DESCRIPTIVE = frozenset({"title", "paper", "family", "seeds"})
"""Keys of a recipe that change no number of a run, so it may be resumed with other ones."""


class OtherSetting(NamedTuple):
    """A setting with another value.

    Attributes:
        key: with dots.
        before: the value in the record; None where it has none.
        now: the value now.
    """

    key: str
    before: object
    now: object

    def __str__(self) -> str:
        return f"another {self.key} ({self.before!r} then, {self.now!r} now)"


def other_setting(before: Mapping[str, Any], now: Mapping[str, Any]) -> OtherSetting | None:
    """The first setting of a recipe that differs, by name; None if they are the same.

    A setting that a record does not have, since its version did not know it, has the default.

    Example:
        >>> from opencse.recipes.recipe import load_recipe
        >>> now = load_recipe("simcse").model_dump(mode="json", exclude={"presets"})
        >>> before = {**now, "training": {key: now["training"][key] for key in now["training"] if key != "patience"}}
        >>> print(other_setting(before, now))
        None
        >>> print(other_setting(before, {**now, "training": {**now["training"], "seed": 1}}))
        another training.seed (42 then, 1 now)

    Args:
        before: the recipe in a record, as plain values.
        now: every setting, as plain values.
    """
    old, new = flatten(before), flatten(now)
    if old != new:
        old, new = flatten(_with_defaults(before)), flatten(_with_defaults(now))
    for key in sorted((old.keys() | new.keys()) - DESCRIPTIVE):
        if old.get(key) != new.get(key):
            return OtherSetting(key, old.get(key), new.get(key))
    return None


def _with_defaults(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings with the defaults of those that are missing; unchanged where this version cannot read them."""
    try:
        return Recipe.model_validate(settings).model_dump(mode="json", exclude={"presets"})
    except (ValidationError, UserError):
        return settings
