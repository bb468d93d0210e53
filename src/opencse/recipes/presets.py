"""The presets of a recipe: which of them are applied for a model, and what they change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from opencse.errors import UserError, nearest
from opencse.recipes.backbones import completed
from opencse.recipes.judged import Judged
from opencse.recipes.overrides import Change, changes_of
from opencse.settings import Settings, validate

CODE_PRESETS = ("paper", "reference")
PresetSort = Literal["backbone", "code", "ablation"]


class Preset(Settings):
    """Settings of a recipe for one backbone, of the authors' code, or of one row of an ablation.

    Attributes:
        model: Hub id of the backbone, or the built-in encoder; unset in presets that are not for a backbone. A preset
            with a name of ``backbones.toml`` has the model and ``settings`` of that file, unless it gives its own; a
            recipe's file may add to them with ``more``.
        settings: dotted keys and values that replace the recipe's own; complete lists and tables too.
        reference: more changes, applied where the preset ``reference`` is named too.
        expected: published or measured scores, by dotted name (``sts.average``); of ablations, with BERT-base.
        judged: how the row's encoder is evaluated by `opencse reproduce`; it does not change training.
        note: the source of the numbers.
    """

    model: str | None = None
    settings: dict[str, Any] = Field(default_factory=dict)
    reference: dict[str, Any] = Field(default_factory=dict)
    expected: dict[str, float] = Field(default_factory=dict)
    judged: Judged = Judged()
    note: str = ""


def presets_of(read: Mapping[str, Any], name: str) -> dict[str, Preset]:
    """Makes the presets of a recipe, as read from TOML, with the settings of the backbones that they are named after.

    Args:
        read: the recipe's tables.
        name: of the recipe, for messages.

    Raises:
        UserError: for an unknown key or a wrong value.
    """
    presets = completed({"presets": read.get("presets", {})})["presets"]
    return {key: validate(Preset, values, f"{name}: presets.{key}") for key, values in presets.items()}


def sort_of(preset: str, known: Mapping[str, Preset]) -> PresetSort:
    """Returns the sort of one of the ``known`` presets: for a backbone, for the authors' code, or an ablation.

    Example:
        >>> sort_of("reference", {}), sort_of("short", {"short": Preset()})
        ('code', 'ablation')
    """
    if preset in CODE_PRESETS:
        return "code"
    return "ablation" if known[preset].model is None else "backbone"


def preset_for(model: str, known: Mapping[str, Preset]) -> str | None:
    """Returns the one of ``known`` that is for the backbone ``model`` (exact name or Hub id); None if there is none.

    Example:
        >>> preset_for("google-bert/bert-base-uncased", {"base": Preset(model="google-bert/bert-base-uncased")})
        'base'
    """
    if model in known and known[model].model is not None:
        return model
    return next((name for name, preset in known.items() if preset.model == model), None)


def choose(known: Mapping[str, Preset], name: str, presets: Sequence[str], model: str | None) -> list[str]:
    """Returns the presets to apply, in their order: backbone, code, ablations.

    Args:
        known: all presets of the recipe.
        name: of the recipe, for messages.
        presets: the requested ones.
        model: the model to train; its preset is applied unless another backbone's is requested.

    Raises:
        UserError: for a preset that does not exist, or presets that contradict each other.

    Example:
        >>> known = {"short": Preset(), "bert-base": Preset(model="google-bert/bert-base-uncased")}
        >>> choose(known, "mine", ["short"], "bert-base")
        ['bert-base', 'short']
    """
    for preset in presets:
        if preset not in known and preset != "paper":
            near = nearest(preset, known)
            raise UserError(f"{name}: no preset {preset!r}{near}; see opencse recipes presets {name}")
        if presets.count(preset) > 1:
            raise UserError(f"{name}: the preset {preset!r} is named {presets.count(preset)} times; name it once")
    of: dict[PresetSort, list[str]] = {"backbone": [], "code": [], "ablation": []}
    for preset in presets:
        of[sort_of(preset, known)].append(preset)
    if len(of["backbone"]) > 1:
        raise UserError(f"{name}: {' and '.join(of['backbone'])} are presets of two backbones; name one of them")
    if len(of["code"]) > 1:
        raise UserError(f"{name}: paper and reference contradict each other; name one of them")
    model_preset = preset_for(model, known) if model is not None else None
    if model_preset is not None and not of["backbone"]:
        of["backbone"].append(model_preset)
    return [*of["backbone"], *of["code"], *of["ablation"]]


def preset_changes(known: Mapping[str, Preset], name: str, presets: Sequence[str]) -> list[Change]:
    """Returns the changes of some of the ``known`` presets of the recipe ``name``.

    What ``reference`` adds to a backbone's comes after its own settings.

    Example:
        >>> changes = preset_changes({"short": Preset(settings={"training.epochs": 2})}, "mine", ["short"])
        >>> [(change.where, change.key, change.value) for change in changes]
        [('mine:short', 'training.epochs', 2)]
    """
    changes: list[Change] = []
    added: list[Change] = []
    for preset in presets:
        values = known.get(preset, Preset())
        where = f"{name}:{preset}"
        changes += changes_of(values.settings, where)
        if "reference" in presets:
            added += changes_of(values.reference, where)
        if preset == "reference" or sort_of(preset, known) == "ablation":
            changes += added
            added = []
    return changes
