"""The settings of further data sets."""

from __future__ import annotations

import tomllib

import pytest
from pydantic import ValidationError

from opencse.objective.settings import ObjectiveSettings
from opencse.recipes.data_sets import DataSetSettings, check_data_sets
from opencse.recipes.recipe import Recipe, load_recipe, to_toml
from opencse.recipes.summary import made_of
from opencse.training.settings import TrainingSettings


def test_a_table_has_an_objective_a_weight_and_a_batch_size_of_its_own() -> None:
    recipe = load_recipe("simcse-joint")
    assert recipe.datasets is not None
    (one,) = recipe.datasets
    assert (one.name, one.batch_size, one.weight, one.data) == ("sentences", 64, None, None)
    assert one.objective is not None
    assert one.objective.view.kind == "dropout"
    again = Recipe.model_validate(tomllib.loads(to_toml(recipe)))
    assert again.datasets == recipe.datasets
    assert load_recipe("simcse-joint:turns").mixing == "round_robin"


@pytest.mark.parametrize("values", [{"name": ""}, {"name": "a", "weight": 0}, {"name": "a", "batch_size": 1}])
def test_values_that_cannot_be(values: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        DataSetSettings.model_validate(values)


def test_sets_that_go_together() -> None:
    settings = ObjectiveSettings(), TrainingSettings()
    check_data_sets([DataSetSettings(name="a", weight=2.0), DataSetSettings(name="b")], None, *settings)
    check_data_sets([DataSetSettings(name="a")], "round_robin", *settings)


def test_a_table_of_recipes_names_them() -> None:
    assert made_of(load_recipe("simcse-joint")).endswith(" + also sentences (dropout, in_batch)")
