"""The files of recipes, read without torch: names, presets, the ``[data]`` table, and what a list shows."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from opencse.errors import UserError, explaining, nearest, reason, shortened
from opencse.home import in_home
from opencse.recipes.overrides import Change, changed, changes_of, flatten, in_order
from opencse.settings import Settings, validate

FILE = "backbones.toml"


@cache
def backbones() -> Mapping[str, Mapping[str, Any]]:
    """Reads the file: ``model``, and ``settings`` where it has some, of each backbone by its short name.

    Example:
        >>> backbones()["bert-base"]["model"]
        'google-bert/bert-base-uncased'
    """
    return tomllib.loads((resources.files("opencse") / "recipes" / FILE).read_text(encoding="utf-8"))


def completed(recipe: dict[str, Any]) -> dict[str, Any]:
    """Adds model and settings of the backbone to each preset that has a backbone's name.

    A preset that names another model itself, or that is not a table, is unchanged.

    Args:
        recipe: as read from TOML.
    """
    presets = recipe.get("presets")
    if not isinstance(presets, dict):
        return recipe
    return recipe | {"presets": {name: _of_backbone(name, preset) for name, preset in presets.items()}}


def _of_backbone(name: str, preset: object) -> object:
    backbone = backbones().get(name)
    if backbone is None or not isinstance(preset, dict) or preset.get("model", backbone["model"]) != backbone["model"]:
        return preset
    rest = {key: value for key, value in preset.items() if key != "more"}
    more = preset.get("more", {})
    if not isinstance(more, dict) or not isinstance(rest.get("settings", {}), dict):
        return preset
    return rest | {
        "model": backbone["model"],
        "settings": {**rest.get("settings", backbone.get("settings", {})), **more},
    }


def recipe_names() -> list[str]:
    """Returns the names of the recipes in the package.

    Example:
        >>> "simcse" in recipe_names()
        True
    """
    folder = resources.files("opencse") / "recipes"
    files = [f.name for f in folder.iterdir() if f.name.endswith(".toml") and f.name != FILE]
    return sorted(name.removesuffix(".toml") for name in files)


def split_name(name: str) -> tuple[str, list[str]]:
    """Splits ``NAME:PRESET:PRESET`` or ``file.toml:PRESET`` into the recipe and its presets; paths may have colons.

    Example:
        >>> split_name("simcse:bert-base:crop-10")
        ('simcse', ['bert-base', 'crop-10'])

    Raises:
        UserError: if a preset's name is empty.
    """
    name = in_home(name)
    file = re.fullmatch(r"(.*\.toml)((?::[^:/\\]*)*)", name, flags=re.DOTALL)
    if file is not None:
        recipe, suffix = file[1], file[2]
    elif "/" in name or "\\" in name:
        return name, []
    else:
        recipe, colon, rest = name.partition(":")
        suffix = colon + rest
    presets = suffix.split(":")[1:]
    if not all(presets):
        raise UserError(f"{name}: a preset's name is missing after a colon; see opencse recipes presets {recipe}")
    return recipe, presets


def recipe_text(recipe: str) -> str:
    """Reads the TOML of a recipe, by name (without presets) or file.

    Raises:
        UserError: for an unknown name, listing the recipes; or a file that cannot be read.
    """
    if recipe.endswith(".toml"):
        path = Path(recipe)
        try:
            return path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise UserError(f"{recipe}: no such recipe file") from None
        except UnicodeDecodeError:
            raise UserError(f"{recipe}: is not UTF-8 text; a recipe is a TOML file in UTF-8") from None
        except (OSError, ValueError) as error:
            raise UserError(f"{recipe}: cannot be read ({reason(error)})") from None
    names = recipe_names()
    if recipe not in names:
        raise UserError(f"unknown recipe {recipe!r}{nearest(recipe, names)}; opencse recipes lists them")
    return (resources.files("opencse") / "recipes" / f"{recipe}.toml").read_text(encoding="utf-8")


def read_recipe(recipe: str) -> dict[str, Any]:
    """Reads the TOML of a recipe, by name (without presets) or file, as plain values.

    Example:
        >>> read_recipe("simcse")["family"]
        'contrast'

    Raises:
        UserError: see `recipe_text`; and for a file that is not TOML.
    """
    with explaining(
        f"{recipe}: not valid TOML", ValueError, RecursionError
    ):  # ValueError: also for a number with too many digits for Python
        return tomllib.loads(recipe_text(recipe))


class Judged(Settings):
    """How a published row's scores were measured; by default those of the trained encoder, as it is.

    Attributes:
        trained: whether the encoder is trained; else it is the start, with the recipe's pooling.
        transform: what is applied to its vectors.
        fit: what the transform is fitted on: the text that is given (``text``), or the evaluated sentences, task by
            task (``target``).

    Example:
        >>> str(Judged(trained=False, transform="whitening", fit="target"))
        'untrained, whitening fitted on the evaluated sentences'
    """

    trained: bool = True
    transform: Literal["whitening", "flow"] | None = None
    fit: Literal["text", "target"] = "text"

    @property
    def on_target(self) -> bool:
        """Whether each task has a transform of its own."""
        return self.transform is not None and self.fit == "target"

    def __str__(self) -> str:
        parts = [] if self.trained else ["untrained"]
        if self.transform is not None:
            of = "the text that is given" if self.fit == "text" else "the evaluated sentences"
            parts.append(f"{self.transform} fitted on {of}")
        return ", ".join(parts)


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


_ABOUT = ("name", "title", "family", "paper")
_PUBLISHED = ("expected", "note")


@dataclass(frozen=True)
class RecipeTables:
    """What a recipe's file says.

    Attributes:
        before: the recipe before presets, as plain values; of a file with a ``base``, the base's.
        changes: what a file with a ``base`` sets; applied after the presets.
        explicit: dotted keys that a file of the user's sets.
    """

    before: dict[str, Any]
    changes: tuple[Change, ...] = ()
    explicit: frozenset[str] = frozenset()


def recipe_tables(recipe: str) -> RecipeTables:
    """Reads the tables of a recipe, by name (without presets) or file.

    A file may name a recipe of the package as its ``base``: all settings and presets are that recipe's, and what the
    file sets replaces them. The name and the title of a file are its file name unless it gives others. Published scores
    are not taken over from a base, because they are of the base.

    Example:
        >>> recipe_tables("simcse").before["objective"]["temperature"]
        0.05

    Raises:
        UserError: for a file that cannot be read or sets nothing, an unknown base, or a base next to presets.
    """
    read = read_recipe(recipe)
    if not recipe.endswith(".toml"):
        return RecipeTables(read)
    if not read.keys() - _ABOUT and not {"name", "title"} <= read.keys():  # with both, the defaults are meant
        raise UserError(f'{recipe}: has no settings; name a recipe to change (base = "simcse"), or give tables')
    stem = Path(recipe).stem
    about = {"name": read.get("name", stem), "title": read.get("title", stem)}
    explicit = frozenset(flatten({key: value for key, value in read.items() if key != "presets"}))
    if "base" not in read:
        return RecipeTables({**read, **about}, explicit=explicit)
    base, names = read["base"], recipe_names()
    if base not in names:
        near = nearest(str(base), names)
        raise UserError(f"{recipe}: base: no recipe {shortened(repr(base))}{near}; opencse recipes lists them")
    if "presets" in read:
        raise UserError(f"{recipe}: a recipe with a base has the base's presets; remove presets, or base")
    tables = {key: value for key, value in read_recipe(base).items() if key not in _ABOUT}
    presets = {
        name: {key: value for key, value in preset.items() if key not in _PUBLISHED}
        for name, preset in tables.get("presets", {}).items()
    }
    return RecipeTables({**tables, **about, "presets": presets}, tuple(in_order(_changes(recipe, read))), explicit)


def _changes(recipe: str, read: dict[str, Any]) -> list[Change]:
    """A change for each setting in a table of the file, and for each table or value that is not inside one."""
    changes = []
    for key, value in read.items():
        if key in ("base", "name", "title"):
            continue
        inside = {f"{key}.{inner}": each for inner, each in value.items()} if isinstance(value, dict) else {key: value}
        changes += [Change(recipe, path, each) for path, each in inside.items()]
    return changes


class DataSettings(Settings):
    """The ``[data]`` table.

    Attributes:
        max_length: longest training text in ids, special tokens included; longer ones are truncated. ``auto``: as
            many as the model reads, at most 256.
        near_duplicates: leave out rows that overlap with an earlier one by this much or more (Jaccard of five-character
            pieces, for instance 0.8; see `opencse.text.duplicates`). Unset uses all rows.
        scale: of graded pairs: the largest possible score, by which scores are divided. Unset: scores that are all from
            0 to 1 stay as they are, others are divided by the largest one in the data.
        rows: train on so many rows, drawn at random from those that are not left out otherwise; unset uses all. Of a
            view whose examples are several rows (``next_sentence``), it counts the anchors'. Further data sets
            are used in full.
        share: instead of ``rows``: this share of them.
        sample_seed: of that draw, whatever ``training.seed`` is; with one seed a smaller sample is part of a larger.
    """

    max_length: Annotated[int, Field(ge=3, le=1_048_576)] | Literal["auto"] = 32
    near_duplicates: float | None = Field(default=None, gt=0, le=1)
    scale: float | None = Field(default=None, gt=0)
    rows: int | None = Field(default=None, ge=2)
    share: float | None = Field(default=None, gt=0, le=1)
    sample_seed: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _one_size(self) -> DataSettings:
        if self.rows is not None and self.share is not None:
            raise ValueError("data.rows and data.share both say how many rows are trained on; set one of them")
        return self


def data_settings(recipe: str, *, model: str | None = None) -> DataSettings:
    """Reads the ``[data]`` table alone of a recipe, presets applied; the parts of its objective, and torch, stay out.

    Example:
        >>> data_settings("adapt:sentences", model="opencse-mini").max_length
        32

    Args:
        recipe: name or TOML file; presets may follow after colons.
        model: the model to train; its preset is applied too.

    Raises:
        UserError: if there is no such recipe or preset, or a wrong value in it.
    """
    name, requested = split_name(recipe)
    tables = recipe_tables(name)
    presets = presets_of(tables.before, name)
    changes = [*preset_changes(presets, name, choose(presets, name, requested, model)), *tables.changes]
    table = changed({"data": tables.before.get("data", {})}, [change for change in changes if change.path[0] == "data"])
    return validate(DataSettings, table["data"], name)


Family = Literal[
    "contrast",
    "views",
    "negatives",
    "dimensions",
    "weights",
    "networks",
    "teachers",
    "templates",
    "labels",
    "documents",
]
FAMILIES: Mapping[Family, str] = {
    "contrast": "A sentence and itself: the contrast alone",
    "views": "The positive is another text, or has changed inputs",
    "negatives": "More negatives, or other ones",
    "dimensions": "Losses between the dimensions of the vectors",
    "weights": "Perturbed weights",
    "networks": "A second network reads the vector",
    "teachers": "A frozen encoder teaches",
    "templates": "The text in a template, read at a mask token",
    "labels": "Text with labels",
    "documents": "Your documents, and new starts",
}
"""The groups of the recipes, in the order of the list, with the idea of each."""
