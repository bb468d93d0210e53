"""Crosses recipes with values of settings, for ``opencse compare --grid training.batch_size=64,128``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from opencse.errors import UserError
from opencse.recipes.recipe import resolve_recipe

_OPENING, _CLOSING = "[{(", "]})"


@dataclass(frozen=True)
class Variant:
    """A recipe with one combination of the values of a grid.

    Attributes:
        recipe: name with presets, or a TOML file.
        values: the text of each value by dotted key, as typed; empty without a grid.
    """

    recipe: str
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def settings(self) -> tuple[str, ...]:
        """The values as settings of a run."""
        return tuple(f"{key}={value}" for key, value in self.values.items())


def parse_grid(grid: Iterable[str], option: str = "--grid") -> dict[str, list[str]]:
    """Reads ``key.path=value,value`` of each entry: the values by key, as ``--set`` reads them.

    Commas within brackets, braces or quotes belong to a value. Messages call the list ``option``.

    Example:
        >>> parse_grid(["training.batch_size=64,128", "objective.negatives.layers.layers=[1,2],[3]"])
        {'training.batch_size': ['64', '128'], 'objective.negatives.layers.layers': ['[1,2]', '[3]']}

    Raises:
        UserError: for an entry without values, or a key or value that is there twice.
    """
    values: dict[str, list[str]] = {}
    for entry in grid:
        key, sign, text = entry.partition("=")
        key, parts = key.strip(), _split(text)
        if not sign or not key or not all(parts):
            raise UserError(
                f"{option} {entry}: key.path=value,value is expected, for instance training.batch_size=64,128"
            )
        if key in values:
            raise UserError(f"{option} {key}: is there twice; list all its values in one: {key}=64,128")
        if len(set(parts)) < len(parts):
            raise UserError(f"{option} {entry}: a value is there twice")
        values[key] = parts
    return values


def variants(
    recipes: Sequence[str], grid: Iterable[str], settings: Sequence[str] = (), option: str = "--grid"
) -> dict[str, Variant]:
    """Crosses ``recipes`` with all combinations of the values of ``grid``; by the name that tables show.

    Args:
        recipes: names with presets, or TOML files.
        grid: see `parse_grid`.
        settings: ``key.path=value`` of every run, which the grid must not repeat.
        option: the name of the grid in messages.

    Raises:
        UserError: for an unknown key or a wrong value, naming the nearest key, or for two values that are the same.

    Example:
        >>> list(variants(["simcse"], ["training.batch_size=64,128"]))
        ['simcse (batch_size=64)', 'simcse (batch_size=128)']
    """
    values = parse_grid(grid, option)
    fixed = {setting.partition("=")[0].strip() for setting in settings}
    for key in values:
        if key in fixed:
            raise UserError(f"{key} is in --set and in {option}; leave it out of one")
        if key == "training.seed":
            raise UserError("training.seed is set by the comparison; choose its seeds with --seeds instead")
    labels = _labels(values)
    crossed: dict[str, Variant] = {}
    for recipe in recipes:
        resolved: dict[str, str] = {}
        for combination in product(*values.values()):
            one = Variant(recipe, dict(zip(values, combination, strict=True)))
            label = ", ".join(f"{labels[key]}={value}" for key, value in one.values.items())
            name = f"{recipe} ({label})" if label else recipe
            if name in crossed:
                raise UserError(f"the recipe {recipe!r} is named twice; name it once")
            if values:
                content = _content(one, settings, option)
                if (same := resolved.setdefault(content, name)) != name:
                    raise UserError(f"{option}: {same} and {name} are the same; name each value once")
            crossed[name] = one
    return crossed


def find_baseline(name: str | None, crossed: Mapping[str, Variant]) -> str | None:
    """The row that ``name`` means: itself, or the first row of that recipe; None if there is none.

    Example:
        >>> find_baseline("simcse", variants(["dcl-post", "simcse"], ["training.batch_size=64,128"]))
        'simcse (batch_size=64)'
    """
    if name is None or name in crossed:
        return name or next(iter(crossed), None)
    return next((row for row, one in crossed.items() if one.recipe == name), None)


def first_of_each(crossed: Mapping[str, Variant]) -> dict[str, Variant]:
    """Of each recipe the first variant."""
    return best_of_each(crossed, dict.fromkeys(crossed, 0.0))


def best_of_each(crossed: Mapping[str, Variant], scores: Mapping[str, float]) -> dict[str, Variant]:
    """Of each recipe the variant with the highest score; of equal ones the first.

    Args:
        crossed: see `variants`.
        scores: by the same names.

    Example:
        >>> tried = variants(["simcse", "esimcse"], ["training.batch_size=64,128"])
        >>> list(best_of_each(tried, dict(zip(tried, [70.1, 70.4, 71.0, 70.9]))))
        ['simcse (batch_size=128)', 'esimcse (batch_size=64)']
    """
    best: dict[str, str] = {}
    for name, variant in crossed.items():
        if variant.recipe not in best or scores[name] > scores[best[variant.recipe]]:
            best[variant.recipe] = name
    return {name: crossed[name] for name in best.values()}


def _content(variant: Variant, settings: Sequence[str], option: str) -> str:
    """All settings of a variant as text; refuses a key or a value that the recipe does not take."""
    try:
        return resolve_recipe(variant.recipe, overrides=(*settings, *variant.settings)).recipe.model_dump_json()
    except UserError as error:
        message = str(error)
        at_fault = next((one for one in variant.settings if message.startswith(f"--set {one}")), None)
        raise UserError(message if at_fault is None else f"{option}{message.removeprefix('--set')}") from None


def _labels(values: Mapping[str, object]) -> dict[str, str]:
    """A short name of each key: its last step, or all of it where two keys end the same way."""
    last = {key: key.rsplit(".", 1)[-1] for key in values}
    return {key: name if [*last.values()].count(name) == 1 else key for key, name in last.items()}


def _split(text: str) -> list[str]:
    """Splits at the commas outside brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in _OPENING:
            depth += 1
        elif letter in _CLOSING:
            depth -= 1
        elif letter == "," and not depth:
            parts.append("")
            continue
        parts[-1] += letter
    return [part.strip() for part in parts]
