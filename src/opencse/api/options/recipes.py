"""Options of `opencse.show_recipe`."""

from __future__ import annotations

from typing import Annotated

from opencse.api.declaring import Option
from opencse.api.options.shared import SettingOptions


class ShowRecipeOptions(SettingOptions, total=False):
    """The preset and settings that are applied to a recipe before it is shown."""

    preset: Annotated[str | None, Option(None, "More presets, joined by colons.")]
