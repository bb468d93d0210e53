"""The files of recipes: names with presets, what is read, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse.errors import UserError
from opencse.recipes.recipe_files import read_recipe, recipe_names, recipe_text, split_name


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("simcse", ("simcse", [])),
        ("simcse++:bert-base", ("simcse++", ["bert-base"])),
        ("simcse:bert-base:dropout-0.2", ("simcse", ["bert-base", "dropout-0.2"])),
        ("mine.toml", ("mine.toml", [])),
        ("a/mine.toml:one:two", ("a/mine.toml", ["one", "two"])),
        ("C:\\recipes\\mine.toml", ("C:\\recipes\\mine.toml", [])),
        ("C:\\recipes\\mine.toml:one", ("C:\\recipes\\mine.toml", ["one"])),
        ("a:b/mine.toml", ("a:b/mine.toml", [])),
        ("a.toml:b/mine.toml:one", ("a.toml:b/mine.toml", ["one"])),
        ("a/b:c", ("a/b:c", [])),
    ],
)
def test_presets_follow_the_recipe_and_colons_of_a_path_are_the_paths(name: str, split: tuple[str, list[str]]) -> None:
    assert split_name(name) == split


@pytest.mark.parametrize("name", ["simcse:", "simcse::bert-base", "a/mine.toml:", "mine.toml:one:"])
def test_an_empty_preset_is_refused(name: str) -> None:
    with pytest.raises(UserError, match="preset's name is missing"):
        split_name(name)


def test_a_recipe_is_read_by_name_or_path(tmp_path: Path) -> None:
    copy = tmp_path / "copy.toml"
    copy.write_text(recipe_text("simcse"), encoding="utf-8")
    assert read_recipe(str(copy)) == read_recipe("simcse")
    assert "simcse" in recipe_names()
    assert "backbones" not in recipe_names()


def test_what_is_no_toml_is_refused_in_one_line(tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text("name = \n")
    with pytest.raises(UserError, match=r"broken.toml: not valid TOML"):
        read_recipe(str(broken))
    with pytest.raises(UserError, match="no such recipe file"):
        read_recipe(str(tmp_path / "none.toml"))
