"""Recipes: TOML, names with presets, what a preset changes, and their errors."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from pydantic import ValidationError

from opencse.errors import UserError
from opencse.model_folder.locate import BUILTIN
from opencse.recipes.backbones import completed
from opencse.recipes.overrides import flatten
from opencse.recipes.recipe import Recipe, load_recipe, model_named, resolve_recipe, to_toml
from opencse.recipes.recipe_files import recipe_text
from opencse.runs.job import TrainJob
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


def test_overrides_reach_into_lists_and_come_last() -> None:
    overrides = ["objective.negatives.0.weight=0.5", "training.learning_rate=7e-5"]
    recipe = load_recipe("simcse", preset="bert-large", overrides=overrides)
    assert recipe.objective.negatives[0].weight == 0.5  # type: ignore[attr-defined]
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
        load_recipe("simcse", overrides=["training.epochs=2", override])
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"--set {override}: ")
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


def test_the_recipes_differ_only_where_their_papers_do() -> None:
    one = flatten(
        Recipe(**completed(tomllib.loads(recipe_text("simcse")))).model_dump(mode="json", exclude={"presets"})
    )
    two = flatten(
        Recipe(**completed(tomllib.loads(recipe_text("next-sentence")))).model_dump(mode="json", exclude={"presets"})
    )
    different = {key for key in one.keys() | two.keys() if one.get(key) != two.get(key)}
    assert different == {"name", "family", "title", "paper", "objective.view.kind", "objective.view.window"} | {
        key for key, value in one.items() if key.startswith("objective.view.") and value is not None
    }


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

    def test_whole_lists_are_replaced(self, mine: str) -> None:
        assert [n.kind for n in load_recipe(f"{mine}:small").objective.negatives] == ["in_batch", "hard"]
        (only,) = load_recipe(f"{mine}:alone").objective.negatives
        assert (only.kind, only.weight) == ("in_batch", 0.5)  # type: ignore[attr-defined]

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

    def test_reference_must_exist(self) -> None:
        with pytest.raises(UserError, match="pretrain: no preset 'reference'"):
            load_recipe("pretrain:reference")

    @pytest.mark.parametrize("wrong", ['"a:b" = {}', '"" = {}', 'paper = { model = "x" }', "reference.reference.x = 1"])
    def test_presets_that_could_not_be_named_are_refused(self, wrong: str) -> None:
        with pytest.raises(ValidationError, match="preset"):
            Recipe.model_validate(tomllib.loads(f'name = "x"\ntitle = "t"\n[presets]\n{wrong}\n'))

    def test_sorts(self, mine: str) -> None:
        recipe = load_recipe(mine)
        assert [recipe.sort_of(p) for p in ("small", "reference", "paper", "short")] == [
            "backbone", "code", "code", "ablation",
        ]  # fmt: skip

    def test_the_models_own_by_exact_name_or_hub_id_only(self, mine: str) -> None:
        recipe = load_recipe("simcse")
        assert recipe.preset_for("bert-base") == "bert-base"
        assert recipe.preset_for("google-bert/bert-base-uncased") == "bert-base"
        assert recipe.preset_for("someone/my-bert-base") is None
        assert load_recipe(mine).preset_for("short") is None, "an ablation is no model"
        with pytest.raises(UserError, match="did you mean 'bert-base'"):
            load_recipe("simcse", preset="bert-bse")


class TestJob:
    def resolve(self, recipe: str, model: str, preset: str | None = None) -> tuple[float, str | None, str | None]:
        asked = TrainJob(text=Source("x.txt"), recipe=recipe, model=model, preset=preset).resolved
        return asked.recipe.training.epochs, asked.model, asked.preset

    def test_the_models_preset_is_applied_by_itself(self, mine: str) -> None:
        assert self.resolve(mine, "small") == (2, "some/small", "small")
        assert self.resolve(mine, "some/small") == (2, "some/small", "small")
        assert self.resolve(f"{mine}:short", "small") == (7, "some/small", "small:short")
        assert self.resolve(mine, "some/other") == (1, "some/other", None)
        assert self.resolve(f"{mine}:short", "some/other", "reference") == (7, "some/other", "reference:short")

    def test_what_set_puts_in_the_place_of_a_preset_is_told(self, mine: str) -> None:
        def replaced(*settings: str) -> tuple[str, ...]:
            return TrainJob(
                text=Source("x.txt"), recipe=f"{mine}:small", model="some/small", settings=settings
            ).resolved.replaced

        assert replaced("training.epochs=5", "training.seed=3") == (
            f"training.epochs = 5 (the preset {mine}:small has 2)",
        )
        assert replaced("training.epochs=2") == ()

    def test_another_backbones_preset_takes_its_place_and_a_name_is_still_a_model(self, mine: str) -> None:
        assert self.resolve(f"{mine}:large", "small") == (1, "some/small", "large")
        assert self.resolve(mine, "folder", "small") == (2, "folder", "small")

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
        ("dcl-post", "training.batch_tokens=512"),
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


def test_the_name_of_a_preset_names_its_model() -> None:
    for recipe in ("simcse", "simcse:crop-10"):
        assert model_named(recipe, "bert-base") == "google-bert/bert-base-uncased"
        assert model_named(recipe, "crop-10") == "crop-10"
        assert resolve_recipe(recipe, model="bert-base").model == "google-bert/bert-base-uncased"


ADAPTERS = "encoder.lora.rank=4"


@pytest.mark.parametrize(
    ("recipe", "settings", "rate"),
    [
        ("simcse", [], 3e-5),
        ("simcse", [ADAPTERS], 3e-4),
        ("simcse:roberta-base", ["encoder.lora={alpha=8}"], 1e-4),
        ("adapt", [ADAPTERS], 5e-4),
        ("adapt:whole", [ADAPTERS], 2e-4),
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


@pytest.mark.parametrize(
    ("more", "preset", "rate"),
    [
        ("[encoder.lora]\nrank = 2\n", None, 3e-4),
        ("[encoder.lora]\nrank = 2\n[training]\nlearning_rate = 1e-3\n", None, 1e-3),
        ('[presets]\nslim = { settings = { "encoder.lora.rank" = 2 } }\n', "slim", 3e-4),
        (
            '[presets]\nslim = { settings = { "encoder.lora.rank" = 2, "training.learning_rate" = 2e-4 } }\n',
            "slim",
            2e-4,
        ),
    ],
)
def test_the_rate_that_a_file_or_a_preset_sets_for_adapters_is_kept(
    more: str, preset: str | None, rate: float, tmp_path: Path
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('name = "mine"\ntitle = "A recipe"\n' + more, encoding="utf-8")
    resolved = resolve_recipe(str(file), preset=preset).recipe
    assert resolved.training.learning_rate == rate
    written = tmp_path / "written.toml"
    written.write_text(to_toml(resolved), encoding="utf-8")
    assert load_recipe(str(written)) == resolved.model_copy(update={"presets": {}}), "the rate is not raised again"
