"""The models that a recipe names: which count, and that their files do."""

from __future__ import annotations

import shutil
from pathlib import Path

from opencse.objective.named_models import hash_named_models
from opencse.recipes.recipe import load_recipe, resolve_recipe


def test_a_copy_of_the_start_counts_with_the_start() -> None:
    assert {name: hash_named_models(load_recipe(name)) for name in ("gist", "rankcse", "diffcse")} == {
        "gist": {},
        "rankcse": {},
        "diffcse": {},
    }


def test_guides_teachers_and_generators_count_by_their_files(tiny_folder: Path, tmp_path: Path) -> None:
    model = Path(shutil.copytree(tiny_folder, tmp_path / "model"))
    teachers = f'[{{model="{model}"}}, {{model="start"}}]'
    fields = {
        "gist": f"objective.negatives.in_batch.guide.model={model}",
        "rankcse": f"objective.terms.distill.teachers={teachers}",
        "diffcse": f"objective.terms.replaced_tokens.generator={model}",
    }
    for name, setting in fields.items():
        recipe = resolve_recipe(name, overrides=[setting]).recipe
        before = hash_named_models(recipe)
        assert f"{model}/config.json" in before
        (model / "config.json").write_text((model / "config.json").read_text() + "\n")
        after = hash_named_models(recipe)
        assert [file for file in before if before[file] != after[file]] == [f"{model}/config.json"]
