"""Parts from other packages: by their place, by entry point, and what is said of those that cannot be found."""

from __future__ import annotations

import importlib
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from opencse.errors import UserError
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.registry import built_in, find
from opencse.objective.settings import ObjectiveSettings
from opencse.recipes.recipe import load_recipe, to_toml
from opencse.settings import validate

MODULE = '''
from typing import Literal

from pydantic import Field

from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.terms.base import Term
from opencse.objective.views.dropout import Dropout
from opencse.settings import PartSettings


class Zero(Term):
    """A loss of nothing."""

    class Settings(PartSettings):
        kind: Literal["zero"] = "zero"
        weight: float = Field(default=1.0, gt=0)
        steepness: int = 2

    def loss(self, reps):
        return 0 * reps.anchor.sum()


class Half(InBatch):
    class Settings(InBatch.Settings):
        kind: Literal["half"] = "half"
        weight: float = 0.5


class Heir(Dropout):
    """Another view under the settings of `Dropout`."""


class Nameless(Term):
    class Settings(PartSettings):
        weight: float = 1.0

    def loss(self, reps):
        return reps.anchor.sum()


class Room:
    class Inside(Zero):
        class Settings(Zero.Settings):
            kind: Literal["inside"] = "inside"


class NoPart:
    """A class, and no part."""


number = 5
'''


def objective(**data: Any) -> ObjectiveSettings:
    return validate(ObjectiveSettings, data, "mine")


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Path]:
    """A folder on the path with a module of parts."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "parts_of_mine.py").write_text(MODULE)
    (folder / "broken_parts.py").write_text("from nowhere_at_all import nothing\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        importlib.invalidate_caches()
        yield folder
    sys.modules.pop("parts_of_mine", None)


@pytest.fixture
def installed(parts: Path) -> Path:
    """The same module as a package's that gives its parts as entry points."""
    folder = parts / "parts_of_mine-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: parts-of-mine\nVersion: 1.0\n")
    entries = """
        [opencse.parts]
        zero = parts_of_mine:Zero
        other_name = parts_of_mine:Half
        wrong = parts_of_mine:NoPart
        in_batch = parts_of_mine:Half
    """
    (folder / "entry_points.txt").write_text(dedent(entries))
    importlib.invalidate_caches()
    return parts


def test_what_is_wrong_with_a_kind_is_reported_with_its_place(parts: Path) -> None:
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"terms": [{"kind": "mln"}]}, "mine: terms.0.kind: no part 'mln' among the terms (did you mean 'mlm'?)"),
        ({"view": {"kind": "parts_of_mine:Zero"}}, "mine: view.kind: parts_of_mine:Zero is none of the views"),
        ({"terms": [{"kind": "parts_of_mine:NoPart"}]}, "terms.0.kind: parts_of_mine:NoPart is none of the terms"),
        ({"terms": [{"kind": "parts_of_mine:number"}]}, "terms.0.kind: parts_of_mine:number is none of the terms"),
        ({"terms": [{"kind": "parts_of_mine:None"}]}, "the module parts_of_mine has no 'None'"),
        ({"terms": [{"kind": "parts_of_mine:Nameless"}]}, "has no Settings with a kind of its own"),
        ({"terms": [{"kind": "broken_parts:Part"}]}, "'broken_parts' cannot be imported (No module named 'nowhere"),
        ({"terms": [{"weight": 1.0}]}, "mine: terms.0: a part needs its kind; there are: angle, barlow_twins, "),
        ({"terms": [{"kind": 3}]}, "mine: terms.0: a part needs its kind"),
        ({"terms": ["mlm"]}, "mine: terms.0: a part is a table with its kind"),
        ({"terms": [None]}, "mine: terms.0: a part is a table with its kind"),
    )
    for data, words in wrong:
        with pytest.raises(UserError) as caught:
            objective(**data)
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_part_is_imported_from_its_place(parts: Path) -> None:
    settings = objective(terms=[{"kind": "parts_of_mine:Zero", "weight": 3.0}], negatives=[])
    (term,) = Objective.from_settings(settings).terms
    module = sys.modules["parts_of_mine"]
    assert type(term) is module.Zero
    assert (term.kind, term.weight, term.settings.steepness) == ("zero", 3.0, 2)
    assert term.name == "terms.zero"
    assert find("term", "parts_of_mine:Zero") is module.Zero
    assert find("term", "parts_of_mine:Room.Inside") is module.Room.Inside
    assert "zero" not in built_in("term")
    with pytest.raises(UserError, match="no part 'zero' among the terms"):
        find("term", "zero")


def test_settings_of_an_imported_part_go_through_toml(parts: Path, tmp_path: Path) -> None:
    own = ['objective.terms=[{ kind = "parts_of_mine:Zero", weight = 2.5 }]']
    nested = ['objective.terms=[{ kind = "parts_of_mine:Room.Inside", steepness = 7 }]']
    half = ['objective.negatives=[{ kind = "in_batch" }, { kind = "parts_of_mine:Half", of = { kind = "anchors" } }]']
    for overrides, key, written in (
        (own, "terms", {"kind": "parts_of_mine:Zero", "weight": 2.5, "steepness": 2}),
        (nested, "terms", {"kind": "parts_of_mine:Room.Inside", "weight": 1.0, "steepness": 7}),
        (half, "negatives", {"kind": "parts_of_mine:Half", "of": {"kind": "anchors"}, "weight": 0.5}),
    ):
        recipe = load_recipe("simcse", overrides=overrides)
        path = tmp_path / "again.toml"
        path.write_text(to_toml(recipe))
        assert tomllib.loads(path.read_text())["objective"][key][-1].items() >= written.items()
        assert load_recipe(str(path)).objective == recipe.objective
        assert ObjectiveSettings.model_validate(recipe.objective.model_dump()) == recipe.objective
        assert ObjectiveSettings.model_validate_json(recipe.objective.model_dump_json()) == recipe.objective


def test_a_subclass_without_settings_of_its_own_is_not_mistaken_for_its_parent(parts: Path) -> None:
    with pytest.raises(UserError, match=r"parts_of_mine:Heir has no Settings"):
        find("view", "parts_of_mine:Heir")


def test_parts_of_an_installed_package_have_short_names(installed: Path) -> None:
    assert find("term", "zero").__name__ == "Zero"
    settings = objective(terms=[{"kind": "zero"}], negatives=[{"kind": "other_name"}, {"kind": "in_batch"}])
    made = Objective.from_settings(settings)
    assert [type(part).__name__ for part in made.parts] == ["Half", "InBatch", "Zero"]
    assert type(made.negatives[1]) is InBatch, "nobody takes the place of the package's own"
    dumped = settings.model_dump(mode="json")
    assert dumped["terms"][0] == {"kind": "zero", "weight": 1.0, "steepness": 2}
    assert objective(**dumped) == settings
    for role, kind in (("term", "other_name"), ("term", "wrong"), ("view", "zero")):
        with pytest.raises(UserError, match=rf"^{kind} is none of the {role}s"):
            find(role, kind)  # type: ignore[arg-type]


def test_a_part_is_found_in_a_file_of_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "local_parts.py").write_text(MODULE)
    paths = list(sys.path)
    with pytest.raises(UserError, match="neither installed nor a file in the working folder"):
        find("term", "local_parts:Zero")
    monkeypatch.chdir(tmp_path)
    try:
        assert find("term", "local_parts:Zero").__name__ == "Zero"
    finally:
        sys.modules.pop("local_parts", None)
    assert sys.path == paths


def test_what_a_file_of_the_working_folder_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lacking_parts.py").write_text("import nowhere_to_be_found\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"cannot be imported .*nowhere_to_be_found"):
        find("term", "lacking_parts:Zero")


def test_an_installed_package_that_cannot_be_imported_is_reported(installed: Path) -> None:
    (installed / "parts_of_mine-1.0.dist-info" / "entry_points.txt").write_text(
        "[opencse.parts]\nzero = broken_parts:Zero\n"
    )
    importlib.invalidate_caches()
    with pytest.raises(UserError, match=r"^broken_parts:Zero: 'broken_parts' cannot be imported"):
        find("term", "zero")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"negatives": [{"kind": "in_batch"}, {"kind": "hard", "alfa": 2}]}, ["negatives.1.hard.alfa", "'alpha'"]),
        ({"view": {"kind": "crop", "raet": 0.1}}, ["unknown key 'view.crop.raet' (did you mean 'rate'?)"]),
        ({"positive": {"of": {"kind": "mean", "sample": 2}}}, ["positive.of.mean.sample", "did you mean 'samples'"]),
        (
            {"negatives": [{"kind": "in_batch", "of": {"kind": "noisy", "varianc": 1}}]},
            ["negatives.0.in_batch.of.noisy.varianc", "did you mean 'variance'", "valid: both, kind, variance"],
        ),
        ({"negatives": [{"kind": "in_batch", "of": {"kind": "nosy"}}]}, ["negatives.0.in_batch.of.kind: ", "'noisy'"]),
        ({"terms": [{"kind": "mlm", "rate": 2}]}, ["terms.0.mlm.rate: ", "less than 1, got 2"]),
        (
            {"terms": [{"kind": "parts_of_mine:Zero", "weigth": 2}]},
            ["parts_of_mine:Zero.weigth", "did you mean 'weight'"],
        ),
        (
            {"terms": [{"kind": "parts_of_mine:Zero", "weight": -2}]},
            ["parts_of_mine:Zero.weight: ", "greater than 0, got -2"],
        ),
    ],
    ids=str,
)
def test_a_wrong_key_in_a_part_is_named_with_the_nearest_valid_one(
    parts: Path, data: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(UserError) as caught:
        objective(**data)
    assert str(caught.value).startswith("mine: ")
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)
