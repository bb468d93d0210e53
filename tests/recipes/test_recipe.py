"""Recipes: TOML, names with presets, what a preset changes, recipes based on others, and their errors."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from opencse.errors import UserError
from opencse.model_folder.locate import BUILTIN
from opencse.recipes.files import DataSettings, data_settings, recipe_names, split_name
from opencse.recipes.recipe import Recipe, load_recipe, resolve_recipe, to_toml
from opencse.recipes.summary import differences
from opencse.runs.run import Run
from opencse.text.readers import Source

MINE = """
name = "mine"
title = "A recipe of three presets"
[objective]
negatives = [{ kind = "in_batch" }, { kind = "hard" }]
[presets.small]
model = "some/small"
settings = { "training.epochs" = 2, "data.max_length" = 20 }
reference = { "data.max_length" = 30, "training.batch_size" = 6 }
[presets.large]
model = "some/large"
[presets.reference]
settings = { "training.epochs" = 5, "training.batch_size" = 5 }
[presets]
short = { settings = { "training.epochs" = 7 }, reference = { "training.batch_size" = 7 } }
alone = { settings = { "training.epochs" = 9, "objective.negatives" = [{ kind = "in_batch", weight = 0.5 }] } }
"""


@pytest.fixture
def mine(tmp_path: Path) -> str:
    path = tmp_path / "a:b" / "mine.toml"
    path.parent.mkdir()
    path.write_text(MINE)
    return str(path)


def training(recipe: str, **more: str) -> tuple[float, int, int | str]:
    resolved = load_recipe(recipe, **more)
    return resolved.training.epochs, resolved.training.batch_size, resolved.data.max_length


class TestNames:
    def test_a_file_in_a_folder_with_a_colon(self, mine: str) -> None:
        assert load_recipe(mine).training.epochs == 1
        assert load_recipe(f"{mine}:alone").training.epochs == 9


class TestPresets:
    def test_backbone_then_code_then_ablations_in_the_order_given(self, mine: str) -> None:
        assert training(mine) == (1, 64, 32)
        assert training(f"{mine}:small") == (2, 64, 20)
        for name in (f"{mine}:reference:small", f"{mine}:small:reference"):
            assert training(name) == (5, 6, 30), "what reference adds to the backbone comes with reference"
        for name in (f"{mine}:reference:short", f"{mine}:short:reference", f"{mine}:small:short:reference"):
            assert training(name)[:2] == (7, 7)
        assert training(f"{mine}:short") == (7, 64, 32)
        assert training(f"{mine}:short:alone")[0] == 9
        assert training(f"{mine}:alone:short")[0] == 7
        assert resolve_recipe(f"{mine}:alone:short:reference:small").presets == ("small", "reference", "alone", "short")

    def test_the_option_adds_to_the_name(self, mine: str) -> None:
        assert training(f"{mine}:small", preset="reference") == (5, 6, 30)
        assert training(f"{mine}:small", preset="reference:short") == (7, 7, 30)

    def test_paper_is_the_recipe_as_it_stands(self, mine: str) -> None:
        assert training(f"{mine}:paper") == training(mine)
        assert resolve_recipe(f"{mine}:paper:small").presets == ("small", "paper")

    @pytest.mark.parametrize(
        ("presets", "message"),
        [
            ("smal", "no preset 'smal' (did you mean 'small'?); see opencse recipes presets"),
            ("small:large", "small and large are presets of two backbones"),
            ("paper:reference", "contradict"),
            ("short:alone:short", "'short' is named 2 times"),
        ],
    )
    def test_what_does_not_go_together_is_refused(self, mine: str, presets: str, message: str) -> None:
        for more in ({"preset": presets}, {}):
            with pytest.raises(UserError) as caught:
                load_recipe(mine if more else f"{mine}:{presets}", **more)
            assert message in str(caught.value)
            assert "\n" not in str(caught.value)


class TestJob:
    def resolve(self, recipe: str, model: str, preset: str | None = None) -> tuple[float, str | None, str | None]:
        asked = Run(text=Source("x.txt"), recipe=recipe, model=model, preset=preset).resolved
        return asked.recipe.training.epochs, asked.model, asked.preset

    def test_the_models_preset_is_applied_by_itself(self, mine: str) -> None:
        assert self.resolve(mine, "small") == (2, "some/small", "small")
        assert self.resolve(mine, "some/small") == (2, "some/small", "small")
        assert self.resolve(f"{mine}:short", "small") == (7, "some/small", "small:short")
        assert self.resolve(mine, "some/other") == (1, "some/other", None)
        assert self.resolve(f"{mine}:short", "some/other", "reference") == (7, "some/other", "reference:short")

    def test_what_set_puts_in_the_place_of_a_preset_is_told(self, mine: str) -> None:
        def replaced(*settings: str) -> tuple[str, ...]:
            return Run(
                text=Source("x.txt"), recipe=f"{mine}:small", model="some/small", settings=settings
            ).resolved.replaced

        assert replaced("training.epochs=5", "training.seed=3") == (
            f"training.epochs = 5 (the preset {mine}:small has 2)",
        )
        assert replaced("training.epochs=2") == ()

    def test_the_builtin_encoder_does_not_take_a_big_models_settings(self, mine: str) -> None:
        with pytest.raises(UserError, match=r"small is a preset for some/small, .* --model small"):
            self.resolve(f"{mine}:small", BUILTIN)
        assert self.resolve("simcse", BUILTIN)[1:] == (BUILTIN, "opencse-mini")
        assert self.resolve("simcse:opencse-mini", BUILTIN)[1:] == (BUILTIN, "opencse-mini")


class TestToml:
    def test_what_is_unset_is_left_out_and_presets_are_baked_in(self, mine: str) -> None:
        text = to_toml(load_recipe(f"{mine}:small:alone"))
        assert tomllib.loads(text)["objective"]["negatives"][0]["weight"] == 0.5
        assert "presets" not in tomllib.loads(text)
        assert "max_steps" not in text
        assert Recipe.model_validate(tomllib.loads(text)) == load_recipe(f"{mine}:small:alone").model_copy(
            update={"presets": {}}
        )


@pytest.mark.parametrize(
    ("recipe", "setting"),
    [
        ("simcse", "training.batch_tokens=512"),
        ("pretrain", 'objective.negatives=[{kind="in_batch"}]'),
    ],
)
def test_contrast_among_texts_of_equal_length_is_refused(recipe: str, setting: str) -> None:
    with pytest.raises(UserError, match=r"would then be compared with each other; set training\.batch_size"):
        load_recipe(recipe, overrides=[setting])


def test_a_batch_below_the_longest_text_is_refused() -> None:
    with pytest.raises(UserError, match=r"training\.batch_tokens cannot hold a text of data\.max_length"):
        load_recipe("pretrain", overrides=["training.batch_tokens=127"])
    assert load_recipe("pretrain", overrides=["training.batch_tokens=128"]).training.batch_tokens == 128


ADAPTERS = "encoder.lora.rank=4"


@pytest.mark.parametrize(
    ("recipe", "settings", "rate"),
    [
        ("simcse", [ADAPTERS], 3e-4),
        ("simcse:roberta-base", ["encoder.lora={alpha=8}"], 1e-4),
        ("adapt:opencse-mini", [ADAPTERS], 3e-2),
        ("adapt", [ADAPTERS, "training.learning_rate=5e-5"], 5e-5),
    ],
)
def test_adapters_get_ten_times_the_rate_of_a_whole_model_unless_it_is_set(
    recipe: str, settings: list[str], rate: float
) -> None:
    resolved = resolve_recipe(recipe, overrides=settings)
    assert resolved.recipe.training.learning_rate == rate
    lines = [line for line in resolved.replaced if "not for adapters" in line]
    assert len(lines) == (len(settings) == 1), "only where the rate is raised"
    assert all(f"learning_rate = {rate:g} (10 times" in line for line in lines)


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


@pytest.mark.parametrize("model", [None, "roberta-large"])
def test_the_table_alone_is_that_of_the_complete_recipe(model: str | None) -> None:
    tables = {name: data_settings(name, model=model) for name in recipe_names()}
    assert tables == {name: resolve_recipe(name, model=model).recipe.data for name in tables}
    assert len({table.max_length for table in tables.values()}) > 2, "else any table would do"


def test_presets_are_applied_and_wrong_ones_refused(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(
        'name = "mine"\ntitle = "t"\n[data]\nmax_length = 40\nrows = 9\n'
        '[presets.long.settings]\n"data.max_length" = 90\n"training.epochs" = 2\n'
        "[presets.fresh.settings]\ndata = { max_length = 7 }\n"
    )
    assert data_settings(str(mine)) == DataSettings(max_length=40, rows=9)
    assert data_settings(f"{mine}:long") == DataSettings(max_length=90, rows=9)
    assert data_settings(f"{mine}:fresh") == DataSettings(max_length=7)
    with pytest.raises(UserError, match="did you mean 'long'"):
        data_settings(f"{mine}:lon")
    mine.write_text('name = "mine"\ntitle = "t"\n[data]\nmax_lenght = 40\n')
    with pytest.raises(UserError, match="did you mean 'max_length'"):
        data_settings(str(mine))


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("simcse:bert-base:dropout-0.2", ("simcse", ["bert-base", "dropout-0.2"])),
        ("a/mine.toml:one:two", ("a/mine.toml", ["one", "two"])),
        ("C:\\recipes\\mine.toml:one", ("C:\\recipes\\mine.toml", ["one"])),
        ("a.toml:b/mine.toml:one", ("a.toml:b/mine.toml", ["one"])),
    ],
)
def test_presets_follow_the_recipe_and_colons_of_a_path_are_the_paths(name: str, split: tuple[str, list[str]]) -> None:
    assert split_name(name) == split


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


def test_a_file_differs_from_its_base_in_what_it_sets(tmp_path: Path) -> None:
    based, base = load_recipe(write(tmp_path, BASED)), load_recipe("simcse")
    changed = {one.key for one in differences(base, based)}
    assert changed == {"objective.negatives.gaussian", "training.learning_rate"}
    assert (based.name, based.paper, based.family) == ("more", "", None)


def test_every_recipe_can_be_a_base_with_its_presets(tmp_path: Path) -> None:
    for name in recipe_names():
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('base = "simsce"', "base: no recipe 'simsce' (did you mean 'simcse'?)"),
        ('base = "simcse"\n[presets.a]\n', "remove presets, or base"),
        ('base = "simcse"\n[objective]\ntemprature = 1\n', "more.toml: unknown key 'objective.temprature'"),
        ("", 'has no settings; name a recipe to change (base = "simcse")'),
        ('name = 3\nbase = "simcse"', "more.toml: name"),
    ],
)
def test_a_wrong_file_is_reported_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        load_recipe(write(tmp_path, text))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
