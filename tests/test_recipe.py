"""Recipes: TOML, presets, overrides, and their errors."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from opencse.encoder.locate import BUILTIN
from opencse.errors import UserError
from opencse.recipe import Recipe, flatten, load_recipe, parse_override, recipe_names, recipe_text


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_and_preset_is_valid_and_names_itself(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.name == name
    if recipe.objective.negatives:  # pretraining begins with a backbone of its own
        assert recipe.preset_for(BUILTIN) == BUILTIN, "the built-in encoder needs settings of its own"
    for preset in recipe.presets:
        load_recipe(name, preset=preset)


@pytest.mark.parametrize(
    ("text", "value"),
    [("a=1", 1), ("a=1e-4", 1e-4), ("a=true", True), ("a=mean", "mean"), ('a="x y"', "x y"), ("a=[1,2]", [1, 2])],
)
def test_overrides_are_toml_values(text: str, value: object) -> None:
    assert parse_override(text) == ("a", value)


def test_overrides_reach_into_lists_and_come_last() -> None:
    overrides = ["objective.negatives.0.weight=0.5", "training.learning_rate=7e-5"]
    recipe = load_recipe("simcse", preset="bert-large", overrides=overrides)
    assert recipe.objective.negatives[0].weight == 0.5  # type: ignore[union-attr]
    assert recipe.training.learning_rate == 7e-5


def test_another_kind_drops_the_settings_of_the_old_one() -> None:
    recipe = load_recipe("next-sentence", overrides=["objective.view.kind=dropout"])
    assert recipe.objective.view.kind == "dropout"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.learning_rat=1", "did you mean 'learning_rate'"),
        ("objective.temprature=1", "did you mean 'temperature'"),
        ("objective.view.kind=dropot", "dropout"),
        ("objective.negatives.0.wight=1", "did you mean 'weight'"),
        ("objective.negatives.3.weight=1", "not a position"),
        ("training.batch_size=1", "greater than or equal to 2"),
        ("training.batch_size.x=1", "plain value"),
        ("nonsense", "key.path=value"),
        ("encoder.pooling=average", "encoder.pooling"),
        ("objective.negatives=[]", "at least one negative source or one term"),
    ],
)
def test_wrong_settings_are_one_line_with_the_nearest_key(override: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        load_recipe("simcse", overrides=[override])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_recipe_file_is_read_like_a_built_in_one(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(recipe_text("simcse").replace('name = "simcse"', 'name = "mine"'))
    assert load_recipe(str(path)).name == "mine"
    path.write_text("name = 'x'\ntitle = \n")
    with pytest.raises(UserError, match=r"mine\.toml: not valid TOML"):
        load_recipe(str(path))
    with pytest.raises(UserError, match="no such recipe file"):
        load_recipe(str(tmp_path / "none.toml"))


def test_presets_apply_by_exact_name_or_hub_id_only() -> None:
    recipe = load_recipe("simcse")
    assert recipe.preset_for("bert-base") == "bert-base"
    assert recipe.preset_for("google-bert/bert-base-uncased") == "bert-base"
    assert recipe.preset_for("someone/my-bert-base") is None
    with pytest.raises(UserError, match="did you mean 'bert-base'"):
        load_recipe("simcse", preset="bert-bse")


def test_the_recipes_differ_only_where_their_papers_do() -> None:
    one = flatten(Recipe(**tomllib.loads(recipe_text("simcse"))).model_dump(mode="json", exclude={"presets"}))
    two = flatten(Recipe(**tomllib.loads(recipe_text("next-sentence"))).model_dump(mode="json", exclude={"presets"}))
    different = {key for key in one.keys() | two.keys() if one.get(key) != two.get(key)}
    assert different == {"name", "title", "paper", "objective.view.kind", "objective.view.window"}
