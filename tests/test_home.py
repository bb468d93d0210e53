"""A ``~`` at the beginning of a path is the home folder, wherever the path is written."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

import opencse
from opencse.home import in_home
from opencse.objective.teachers.teacher import TeacherSettings
from opencse.objective.views.substitution import Synonym
from opencse.recipes.files import split_name
from opencse.recipes.recipe import DataSetSettings
from opencse.text.corpus import cache_root


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder; the working folder is another one, in which no folder ``~`` may be made."""
    for folder in ("home", "here"):
        (tmp_path / folder).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "home"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("~", "{home}"),
        ("~/a b", "{home}/a b"),
        ("words:~/glove.txt", "words:{home}/glove.txt"),
        ("ditto-2-3:~/bert", "ditto-2-3:{home}/bert"),
        ("./~/a", "./~/a"),
        ("~nobody-has-this-name/a", "~nobody-has-this-name/a"),
        ("notes:~/a", "notes:~/a"),
    ],
)
def test_only_a_tilde_at_the_beginning_is_the_home_folder(home: Path, path: str, expected: str) -> None:
    assert in_home(path) == expected.format(home=home)


def test_a_path_is_taken_as_it_is(home: Path) -> None:
    assert in_home(Path("./~/a")) == Path("~/a")
    opencse.Index.build(Path("~/index"), ["Rain falls."], opencse.load()).close()
    assert (Path.cwd() / "~" / "index").is_dir()


def test_a_user_has_a_home_folder_too() -> None:
    user = pwd.getpwuid(os.getuid())
    assert in_home(f"~{user.pw_name}/a") == os.path.join(user.pw_dir, "a")  # noqa: PTH118 - the root's is "/root"


def test_paths_of_settings_recipes_and_the_cache_follow_the_rule(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert TeacherSettings(model="~/teacher").model == f"{home}/teacher"
    assert DataSetSettings(name="more", data="~/more.txt").data == f"{home}/more.txt"
    assert Synonym.Settings(wordnet="~/wordnet").wordnet == f"{home}/wordnet"
    assert split_name("~/mine.toml:small") == (f"{home}/mine.toml", ["small"])
    monkeypatch.setenv("OPENCSE_CACHE", "~/cache")
    assert cache_root() == home / "cache"
