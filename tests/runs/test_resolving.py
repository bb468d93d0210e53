"""The recipe of a run, resolved for the model that it starts from."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse import SentenceEncoder, UserError
from opencse.adapting.preset_names import CHOSEN
from opencse.model_folder.locate import BUILTIN
from opencse.recipes.recipe import load_recipe
from opencse.runs.resolving import require_settings, resolve_for_run


def test_word_vectors_are_trained_at_their_rate_under_any_name(tiny_folder: Path, tmp_path: Path) -> None:
    copy = str(tmp_path / "adapted-before")
    SentenceEncoder.load("opencse-mini").save(copy)
    builtin = resolve_for_run("simcse")
    assert builtin.preset == "opencse-mini"
    renamed = resolve_for_run("simcse", model=copy)
    assert (renamed.preset, renamed.model) == ("opencse-mini", copy)
    assert renamed.recipe.training == builtin.recipe.training
    more = resolve_for_run("simcse", model=copy, preset="crop-10", settings=("training.epochs=3",))
    assert (more.preset, more.recipe.training.epochs) == ("opencse-mini:crop-10", 3)
    assert more.recipe.training.learning_rate == builtin.recipe.training.learning_rate > 1e-4
    assert resolve_for_run("simcse", model=str(tiny_folder)).preset is None


def test_a_start_that_the_run_writes_itself_is_not_looked_into(tmp_path: Path) -> None:
    missing = str(tmp_path / "start")
    assert resolve_for_run("simcse", model=missing, is_new=True).preset is None
    with pytest.raises(UserError, match="start: no such folder"):
        resolve_for_run("simcse", model=missing)


def test_a_preset_for_another_model_is_refused() -> None:
    with pytest.raises(UserError, match=r"bert-base is a preset for .*; choose the model too, with --model bert-base"):
        resolve_for_run("simcse", preset="bert-base")


def test_a_recipe_made_in_python_is_taken_as_it_is() -> None:
    recipe = load_recipe("simcse")
    resolved = resolve_for_run(recipe, model="some/model")
    assert (resolved.recipe, resolved.preset, resolved.model) == (recipe, None, "some/model")
    with pytest.raises(UserError, match="preset and settings need a recipe's name"):
        resolve_for_run(recipe, settings=("training.epochs=3",))


def test_settings_have_to_suit_one_of_the_presets_that_may_be_chosen() -> None:
    """The view `dropout`, which loose sentences get, has a setting that the view of pairs lacks."""
    settings = ("objective.view.rates=[0.1, 0.2]",)
    require_settings("adapt", presets=CHOSEN, settings=settings, model=BUILTIN)
    with pytest.raises(UserError, match="rates"):
        require_settings("adapt", settings=settings, model=BUILTIN)
    with pytest.raises(UserError, match=r"did you mean 'epochs'"):
        require_settings("adapt", presets=CHOSEN, settings=("training.epoch=2",), model=BUILTIN)
