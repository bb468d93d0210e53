"""Recipe files that are based on a recipe of the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse.errors import UserError
from opencse.recipes.data_settings import data_settings
from opencse.recipes.recipe import load_recipe, resolve_recipe
from opencse.recipes.recipe_files import recipe_names
from opencse.recipes.summary import differences

BASED = """
base = "simcse"
[objective]
negatives = [{ kind = "in_batch" }, { kind = "gaussian" }]
[training]
learning_rate = 1e-4
"""


def write(folder: Path, text: str) -> str:
    path = folder / "more.toml"
    path.write_text(text)
    return str(path)


def test_a_file_without_name_and_title_is_called_after_itself(tmp_path: Path) -> None:
    recipe = load_recipe(write(tmp_path, '[encoder]\npooling = "cls"\n'))
    assert (recipe.name, recipe.title) == ("more", "more")
    named = load_recipe(write(tmp_path, 'name = "mine"\ntitle = "My recipe"\nbase = "simcse"\n'))
    assert (named.name, named.title) == ("mine", "My recipe")


def test_a_file_differs_from_its_base_in_what_it_sets(tmp_path: Path) -> None:
    based, base = load_recipe(write(tmp_path, BASED)), load_recipe("simcse")
    changed = {one.key for one in differences(base, based)}
    assert changed == {"objective.negatives.gaussian", "training.learning_rate"}
    assert (based.name, based.paper, based.family) == ("more", "", None)


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_can_be_a_base_with_its_presets(tmp_path: Path, name: str) -> None:
    based, base = load_recipe(write(tmp_path, f'base = "{name}"')), load_recipe(name)
    assert differences(base, based) == []
    assert based.presets.keys() == base.presets.keys()
    assert not any(preset.expected or preset.note for preset in based.presets.values())


def test_the_file_comes_after_presets_and_before_settings(tmp_path: Path) -> None:
    file = write(tmp_path, BASED)
    resolved = resolve_recipe(file, model="opencse-mini")
    plain = resolve_recipe("simcse", model="opencse-mini")
    assert resolved.recipe.encoder == plain.recipe.encoder, "the preset of the start"
    assert resolved.recipe.training.learning_rate == 1e-4
    assert any(line.startswith("training.learning_rate = 0.0001 (the preset") for line in resolved.replaced)
    assert load_recipe(file, overrides=["training.learning_rate=1e-6"]).training.learning_rate == 1e-6


def test_only_what_the_file_sets_is_chosen_by_the_user(tmp_path: Path) -> None:
    explicit = resolve_recipe(write(tmp_path, BASED)).explicit
    assert "training.learning_rate" in explicit
    assert "encoder.pooling" not in explicit, "a start keeps its pooling, as with the base"


def test_the_data_of_a_file_with_a_base_can_be_read_alone(tmp_path: Path) -> None:
    assert data_settings(write(tmp_path, 'base = "simcse"\n[data]\nmax_length = 77\n')).max_length == 77
    assert data_settings(write(tmp_path, 'base = "simcse"\n')).max_length == 32


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('base = "simsce"', "base: no recipe 'simsce' (did you mean 'simcse'?)"),
        ('base = "simcse:reference"', "base: no recipe 'simcse:reference'"),
        ("base = 3", "base: no recipe 3"),
        ('base = ["simcse"]', "base: no recipe ['simcse']"),
        ('base = "simcse"\n[presets.a]\n', "remove presets, or base"),
        ('base = "simcse"\n[objectiv]\ntemperature = 1\n', "unknown key 'objectiv' (did you mean 'objective'?)"),
        ('base = "simcse"\n[objective]\ntemprature = 1\n', "more.toml: unknown key 'objective.temprature'"),
        ('base = "simcse"\nobjective = 1\n', "objective"),
        ("", 'has no settings; name a recipe to change (base = "simcse")'),
        ('name = "x"', "has no settings"),
        ('name = 3\nbase = "simcse"', "more.toml: name"),
    ],
)
def test_a_wrong_file_is_reported_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        load_recipe(write(tmp_path, text))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
