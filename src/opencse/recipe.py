"""A recipe: TOML -> presets and overrides applied -> validated settings."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from opencse.encoder.head import HeadSettings
from opencse.encoder.pooling import Pooling
from opencse.errors import UserError, nearest
from opencse.objective.objective import ObjectiveSettings
from opencse.settings import Settings, validate
from opencse.training.settings import TrainingSettings


class DataSettings(Settings):
    """The ``[data]`` table.

    Attributes:
        max_length: longest training text in ids, special tokens counted; longer ones are cut.
    """

    max_length: int = Field(default=32, ge=3)


class EncoderSettings(Settings):
    """The ``[encoder]`` table.

    Attributes:
        pooling: from token vectors to a sentence vector; ``own`` keeps the start model's.
        head: the projection head of training.
        dropout: rate of every dropout of the backbone; unset keeps the model's own.
    """

    pooling: Pooling | None = None
    head: HeadSettings = HeadSettings()
    dropout: float | None = Field(default=None, ge=0, lt=1)


class Preset(Settings):
    """Settings of the recipe for one backbone.

    Attributes:
        model: Hub id of the backbone, or the built-in encoder.
        settings: dotted keys and values that replace the recipe's own.
        expected: published or measured scores, by dotted name (``sts.average``).
        note: where the numbers are from.
    """

    model: str
    settings: dict[str, Any] = Field(default_factory=dict)
    expected: dict[str, float] = Field(default_factory=dict)
    note: str = ""


class Recipe(Settings):
    """A method as data.

    Attributes:
        name: of the recipe.
        title: one line for a person.
        paper: authors, year, title, arXiv number; empty for our own.
        data: what is read.
        encoder: what is trained.
        objective: what it is trained for.
        training: how.
        presets: settings by backbone.
    """

    name: str
    title: str
    paper: str = ""
    data: DataSettings = DataSettings()
    encoder: EncoderSettings = EncoderSettings()
    objective: ObjectiveSettings = ObjectiveSettings()
    training: TrainingSettings = TrainingSettings()
    presets: dict[str, Preset] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _contrast_needs_a_batch_size(self) -> Recipe:
        if self.training.batch_tokens is not None:
            if self.objective.negatives:
                raise ValueError(
                    "training.batch_tokens puts texts of equal length together, which would make them one another's "
                    "negatives; set training.batch_size instead"
                )
            if self.training.batch_tokens < self.data.max_length:
                raise ValueError("training.batch_tokens cannot hold a text of data.max_length")
        return self

    def preset_for(self, model: str) -> str | None:
        """The preset called ``model`` or made for the Hub id ``model``; exact matches only."""
        if model in self.presets:
            return model
        return next((name for name, preset in self.presets.items() if preset.model == model), None)


def recipe_names() -> list[str]:
    """The recipes that come with the package."""
    folder = resources.files("opencse") / "recipes"
    return sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml"))


def recipe_text(recipe: str) -> str:
    """The TOML of a recipe, by name or file.

    Raises:
        UserError: naming the recipes there are.
    """
    if recipe.endswith(".toml"):
        path = Path(recipe)
        if not path.is_file():
            raise UserError(f"{recipe}: no such recipe file")
        return path.read_text(encoding="utf-8")
    names = recipe_names()
    if recipe not in names:
        raise UserError(f"unknown recipe {recipe!r}{nearest(recipe, names)}; there are: {', '.join(names)}")
    return (resources.files("opencse") / "recipes" / f"{recipe}.toml").read_text(encoding="utf-8")


def load_recipe(recipe: str, *, preset: str | None = None, overrides: Iterable[str] = ()) -> Recipe:
    """A recipe with a preset and then overrides applied.

    Args:
        recipe: a name, or the path of a TOML file.
        preset: one of the recipe's presets.
        overrides: ``key.path=value``, the value in TOML (a bare word is a string).

    Raises:
        UserError: naming the wrong key and the nearest valid one.
    """
    try:
        data = tomllib.loads(recipe_text(recipe))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{recipe}: not valid TOML ({error})") from None
    validated = validate(Recipe, data, recipe)
    if preset is not None:
        if preset not in validated.presets:
            known = ", ".join(validated.presets) or "none"
            raise UserError(f"{recipe}: no preset {preset!r}{nearest(preset, validated.presets)}; there are: {known}")
        for key, value in validated.presets[preset].settings.items():
            _set(data, key, value)
    where = recipe
    for override in overrides:
        key, value = parse_override(override)
        _set(data, key, value)
        where = f"--set {override}"
        validate(Recipe, data, where)
    return validate(Recipe, data, where)


def parse_override(override: str) -> tuple[str, Any]:
    """``key.path=value`` -> the key and the value, read as TOML; a bare word is a string."""
    key, sign, text = override.partition("=")
    if not sign or not key.strip():
        raise UserError(f"--set {override}: key.path=value is expected, for instance training.learning_rate=1e-4")
    try:
        return key.strip(), tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), text.strip()


def _set(data: dict[str, Any], key: str, value: object) -> None:
    """Puts ``value`` at a dotted key; digits index into lists (``objective.negatives.0.weight``)."""
    node: Any = data
    *path, last = key.split(".")
    for step in path:
        node = _child(node, step, key)
    if isinstance(node, list):
        node[_index(node, last, key)] = value
    elif isinstance(node, dict):
        if last == "kind" and node.get("kind") != value:
            node.clear()  # another part has other settings
        node[last] = value
    else:
        raise UserError(f"--set {key}: {path[-1]} is a plain value, it has no settings inside")


def _child(node: Any, step: str, key: str) -> Any:  # noqa: ANN401 - a TOML tree
    if isinstance(node, list):
        return node[_index(node, step, key)]
    if isinstance(node, dict):
        return node.setdefault(step, {})
    raise UserError(f"--set {key}: {step!r} is inside a plain value")


def _index(node: list[Any], step: str, key: str) -> int:
    if not step.isdecimal() or int(step) >= len(node):
        raise UserError(f"--set {key}: {step!r} is not a position in a list of {len(node)}")
    return int(step)


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as dotted keys, for comparing two of them."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
