"""`opencse.list_recipes`, `list_presets`, `show_recipe` and `diff_recipes`."""

from __future__ import annotations

import pytest

import opencse


def test_presets_and_settings_are_applied_in_order() -> None:
    resolved = opencse.show_recipe("simcse", preset="dropout-0.2", settings=["encoder.dropout=0.3"])
    assert resolved.recipe.encoder.dropout == 0.3
    assert opencse.show_recipe("simcse:dropout-0.2").recipe.encoder.dropout == 0.2


def test_unknown_recipes_are_refused_with_the_nearest_name() -> None:
    for call in (opencse.show_recipe, opencse.list_presets):
        with pytest.raises(opencse.UserError, match="did you mean 'simcse'"):
            call("simsce")
    assert opencse.diff_recipes("simcse", "simcse") == []
