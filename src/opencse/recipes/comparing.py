"""Compares the settings of two runs, of which one may be of an earlier version that did not know all settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from opencse.errors import UserError
from opencse.recipes.overrides import flatten
from opencse.recipes.recipe import Recipe

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
