"""``opencse recipes``: the list, presets, resolved TOML, differences."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from helpers import Run, accepted
from opencse.recipes.recipe import load_recipe


def rows(table: str) -> list[list[str]]:
    """The cells of a printed table, lines of a row apart."""
    return [[cell.strip() for cell in line.strip("│┃").replace("┃", "│").split("│")]
            for line in table.splitlines() if line[:1] in "│┃"]  # fmt: skip


def whole_rows(table: str) -> dict[str, list[str]]:
    """The rows by the first line of their first cell, the lines of a cell together."""
    found: dict[str, list[str]] = {}
    begins = True
    for line in table.splitlines():
        if line[:1] == "│":
            cells = rows(line)[0]
            if begins:
                name = cells[0]
                found[name] = cells
            else:
                found[name] = ["\n".join(filter(None, both)) for both in zip(found[name], cells, strict=True)]
        begins = line[:1] != "│"
    return found


@pytest.mark.slow
def test_presets_are_listed_with_sort_changes_and_numbers(opencse: Run) -> None:
    stdout, _ = accepted(opencse("recipes", "presets", "esimcse"))
    found = whole_rows(stdout)
    recipe = load_recipe("esimcse")
    assert {name.partition(" ")[0] for name in found} == recipe.presets.keys()
    assert found["rate-0.24 (ablation)"][0].endswith("\nobjective.view.rate = 0.24")
    assert found["rate-0.24 (ablation)"][1].startswith("dev.stsb 84.24\n")
    assert "Table 9" in found["rate-0.24 (ablation)"][1]
    assert "objective.view = insert_mask(rate=0.32)" in stdout
    assert "reference (code)" in found
    assert found["bert-base (backbone)"][0].endswith("\ngoogle-bert/bert-base-uncased")
    assert found["bert-base (backbone)"][1].startswith("sts.average 78.27, sts.sts12 73.40")
    assert "with reference: objective.view.rate = 0.28" in stdout
    assert "google-bert/bert-large-uncased" in stdout


@pytest.mark.slow
def test_tables_fit_a_terminal_of_80_columns(opencse: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opencse.cli.recipes._WIDTH_OF_A_PIPE", 80)
    for words in ([], ["presets", "simcse"]):
        _, stdout, _ = opencse("recipes", *words)
        table = stdout.splitlines()[:-1]
        assert len(table) > 20
        assert max(map(len, table)) <= 80
    assert "objective.mask_duplicates = false" in stdout, "a setting is in one line"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["esimcse:roberta-large:reference:words", "pretrain"])
def test_show_prints_toml_that_loads_to_the_same_recipe(opencse: Run, tmp_path: Path, name: str) -> None:
    stdout, _ = accepted(opencse("recipes", "show", name))
    assert stdout.splitlines()[0] == f"# {name}"
    path = tmp_path / "shown.toml"
    path.write_text(stdout)
    assert load_recipe(str(path)) == load_recipe(name).model_copy(update={"presets": {}})


@pytest.mark.slow
def test_show_applies_presets_and_settings(opencse: Run) -> None:
    stdout, _ = accepted(
        opencse("recipes", "show", "simcse:crop-10", "--preset", "roberta-base", "--set", "training.epochs=3")
    )
    assert stdout.splitlines()[0] == "# simcse:roberta-base:crop-10 --set training.epochs=3"
    shown = tomllib.loads(stdout)
    assert (shown["training"]["batch_size"], shown["training"]["epochs"]) == (512, 3)
    assert shown["objective"]["view"] == {"kind": "crop", "rate": 0.1}


@pytest.mark.slow
def test_diff_lists_what_differs(opencse: Run) -> None:
    stdout, _ = accepted(opencse("recipes", "diff", "simcse", "esimcse"))
    head, *found = rows(stdout)
    assert head == ["setting", "simcse", "esimcse"]
    assert [row[0] for row in found] == [
        "objective.view",
        "objective.negatives.momentum_queue",
        "training.evaluate_every",
    ]
    assert found[1][1] == "-"
    assert found[1][2].startswith("momentum_queue(size=2.5x")
    assert found[2][1:] == ["250", "125"]
