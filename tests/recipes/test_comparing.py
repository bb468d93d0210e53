"""Which settings make another run."""

from __future__ import annotations

from typing import Any

import pytest

from opencse.recipes.comparing import OtherSetting, other_setting
from opencse.recipes.recipe import load_recipe
from opencse.recipes.recipe_files import recipe_names
from opencse.training.settings import TrainingSettings


def plain(name: str, *overrides: str) -> dict[str, Any]:
    return load_recipe(name, overrides=overrides).model_dump(mode="json", exclude={"presets"})


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_is_itself_without_a_setting_of_default_value(name: str) -> None:
    now = plain(name)
    assert other_setting(now, now) is None
    defaults = {
        key for key, value in TrainingSettings().model_dump(mode="json").items() if now["training"][key] == value
    }
    assert len(defaults) > 5
    before = {**now, "training": {key: now["training"][key] for key in now["training"] if key not in defaults}}
    assert other_setting(before, now) is None
    changed = {**now, "training": {**now["training"], "log_every": 7}}
    assert other_setting(before, changed) == OtherSetting("training.log_every", now["training"]["log_every"], 7)


def test_what_only_describes_a_recipe_may_differ() -> None:
    now = plain("simcse")
    assert other_setting({**now, "title": "", "paper": "", "family": None, "seeds": []}, now) is None
    assert other_setting({key: now[key] for key in now if key != "family"}, now) is None


def test_a_setting_that_this_version_does_not_know_is_another_one() -> None:
    now = plain("simcse")
    before = {**now, "training": {**now["training"], "removed": 1}}
    del before["training"]["patience"]
    assert other_setting(before, now) == OtherSetting("training.removed", 1, None)


def test_settings_within_a_list_of_parts_have_defaults_too() -> None:
    now = plain("tsdae")
    assert other_setting({**now, "objective": {**now["objective"], "terms": [{"kind": "denoising"}]}}, now) is None
    other = {**now, "objective": {**now["objective"], "terms": [{"kind": "denoising", "weight": 2.0}]}}
    assert str(other_setting(other, now)).startswith("another objective.terms")
