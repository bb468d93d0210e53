"""The table ``[data]`` of a recipe: how a text is read."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from opencse.recipes.overrides import changed
from opencse.recipes.presets import choose, preset_changes, presets_of
from opencse.recipes.recipe_files import split_name
from opencse.recipes.recipe_tables import recipe_tables
from opencse.settings import Settings, validate


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
