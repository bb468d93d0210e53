"""What the table ``[data]`` accepts, and reading it alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from opencse.errors import UserError
from opencse.recipes.data_settings import DataSettings, data_settings
from opencse.recipes.recipe import resolve_recipe
from opencse.recipes.recipe_files import recipe_names


def test_lengths() -> None:
    assert DataSettings.model_validate({"max_length": "auto"}).max_length == "auto"
    for wrong in (2, "long"):
        with pytest.raises(ValidationError):
            DataSettings.model_validate({"max_length": wrong})


@pytest.mark.parametrize("model", [None, "opencse-mini", "google-bert/bert-base-uncased", "roberta-large"])
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
