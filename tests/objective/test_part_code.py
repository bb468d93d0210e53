"""The code of parts that are not the package's own: what counts as another code, and what does not."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opencse.objective.part_code import code_of_parts
from opencse.objective.settings import ObjectiveSettings
from opencse.recipes.recipe import load_recipe

PARTS = """
from typing import Literal
from opencse.objective.terms.base import Term
from opencse.settings import PartSettings
import {prefix}formulas
from {prefix}formulas import scaled

class Twice(Term):
    class Settings(PartSettings):
        kind: Literal["twice"] = "twice"
        weight: float = 1.0

    def loss(self, reps):
        return scaled(reps.anchor).sum()
"""
FORMULAS = "def scaled(x):\n    return 2 * x\n"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module with a part, next to one that it imports."""
    prefix = f"{tmp_path.name}_"
    (tmp_path / f"{prefix}parts.py").write_text(PARTS.format(prefix=prefix))
    (tmp_path / f"{prefix}formulas.py").write_text(FORMULAS)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / f"{prefix}parts.py"
    for name in (f"{prefix}parts", f"{prefix}formulas"):
        sys.modules.pop(name, None)


def settings(module: Path) -> ObjectiveSettings:
    return ObjectiveSettings.model_validate({"terms": [{"kind": f"{module.stem}:Twice"}]})


def test_the_packages_own_parts_have_none() -> None:
    assert code_of_parts(load_recipe("diffcse")) == {}


def test_the_module_of_a_part_counts_and_what_it_imports_from_its_folder(module: Path) -> None:
    formulas = module.with_name(module.name.replace("parts", "formulas"))
    before = code_of_parts(settings(module))
    assert [*before] == [formulas.stem, module.stem]
    formulas.write_text(FORMULAS.replace("2", "3"))
    after = code_of_parts(settings(module))
    assert [name for name in before if before[name] != after[name]] == [formulas.stem]


def test_comments_and_spacing_do_not_count(module: Path) -> None:
    before = code_of_parts(settings(module))
    module.write_text("# a comment\n\n" + module.read_text().replace("weight: float = 1.0", "weight: float = (1.0)"))
    assert code_of_parts(settings(module)) == before
    module.write_text(module.read_text().replace("weight: float = (1.0)", "weight: float = 2.0"))
    assert code_of_parts(settings(module)) != before


def test_parts_of_further_data_sets_count(module: Path) -> None:
    recipe = load_recipe("simcse")
    further = {"name": "b", "data": "b.txt", "objective": settings(module).model_dump(mode="json")}
    values = recipe.model_dump(mode="json", exclude={"presets"}) | {"datasets": [further]}
    assert [*code_of_parts(type(recipe).model_validate(values))] == [*code_of_parts(settings(module))]


def test_a_class_without_readable_source_is_left_out() -> None:
    source = PARTS.replace("import {prefix}formulas\n", "").replace("from {prefix}formulas import scaled", "")
    typed: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, "<prompt>", "exec", dont_inherit=True), typed)
    assert code_of_parts(ObjectiveSettings(terms=(typed["Twice"].Settings(),))) == {}
