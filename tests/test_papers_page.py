"""The page of the papers' tables is what its scores and verdicts make, and its tables are the recipes' own."""

from __future__ import annotations

import importlib
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from opencse.environment import Environment
from opencse.recipes.recipe import resolve_recipe
from opencse.studies.record import StudyRecord
from opencse.studies.study_file import study_of

ROOT = Path(__file__).parents[1]
STUDIES = ROOT / "benchmarks" / "studies"
GIVEN = {"text": "t", "out": "o", "data": "d"}


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs"))
        yield importlib.import_module("build_papers")


def test_the_page_is_up_to_date(script: ModuleType) -> None:
    kept = json.loads(script.SCORES.read_text(encoding="utf-8"))
    verdicts = tomllib.loads(script.VERDICTS.read_text(encoding="utf-8"))
    assert script.PAGE.read_text(encoding="utf-8") == script.page(kept, verdicts), "run python docs/build_papers.py"
    pictures = script.pictures(kept)
    assert pictures
    for name in pictures:
        assert f"figures/{name}" in script.PAGE.read_text(encoding="utf-8")
        assert (script.FIGURES / name).is_file()
    told = {"chosen", "systems_budget", "sweeps_budget", "summary", "systems", "combination", "longer", "supervised"}
    told |= {"next-sentence", "transfer"}
    told |= {f"{part}_machine" for part in ("systems", "combination", "second", "sweeps")} | {"second"}
    keys = {table.key for table in script.TABLES} | told
    assert verdicts.keys() <= keys


def test_every_row_is_a_recipe_and_most_have_published_numbers(script: ModuleType) -> None:
    studies = [study_of({**tomllib.loads(file.read_text()), **GIVEN}) for file in sorted(STUDIES.glob("papers*.toml"))]
    assert len(studies) == 3
    assert len({study.settings[:2] for study in studies}) == 1, "of one start, cut alike"
    run = {recipe for study in studies for recipe in study.recipes}
    rows = [(table, recipe) for table in script.TABLES for _, recipe in table.rows]
    assert {recipe for _, recipe in rows} | {*script.SYSTEMS, *script.COMBINATION} >= run - {"simcse:batch-128"}
    assert run >= {recipe for _, recipe in rows}
    assert all(table.base in [recipe for _, recipe in table.rows] for table in script.TABLES)
    known = [table.of_paper(recipe) is not None for table, recipe in rows]
    assert sum(known) > 0.8 * len(known)
    dropout = script.TABLES[0]
    assert [dropout.of_paper(recipe) for _, recipe in dropout.rows] == [71.1, 72.6, 81.1, 82.5, 81.4, 80.5, 71.0, 43.6]


def test_the_settings_of_a_study_leave_its_presets_alone() -> None:
    """A setting given beside a preset wins, so a study must not set what its rows differ in."""
    study = study_of({**tomllib.loads((STUDIES / "papers-sweeps.toml").read_text()), **GIVEN})
    for name in study.recipes:
        changed = resolve_recipe(name, overrides=study.settings).recipe
        preset = name.partition(":")[2]
        for key, value in changed.presets[preset].settings.items() if preset else ():
            if key.startswith("encoder.") or key == "training.batch_size":
                part: object = changed
                for step in key.split("."):
                    part = getattr(part, step)
                wanted = resolve_recipe(name).recipe
                for step in key.split("."):
                    wanted = getattr(wanted, step)
                assert part == wanted, f"{name}: {key} = {value}"


def test_it_is_gathered_from_records(script: ModuleType, tmp_path: Path) -> None:
    here = Environment.here("cpu")

    def put(folder: Path, score: float, recipe: str | None = None, seed: int | None = None) -> None:
        StudyRecord(
            recipe=recipe, start="m", seed=seed, asked={}, judged="last", environment=here, judge_seconds=1.0, data={},
            results={"dev.stsb": score, "sts.average": score + 1},
        ).write(folder)  # fmt: skip

    put(tmp_path / "starts" / "m" / "cls", 50.0)
    scores = {"simcse": {42: 60.0, 43: 62.0, 44: 61.0}, "esimcse": {42: 63.0, 43: 65.1, 44: 63.9}}
    for recipe, own in scores.items():
        for seed, score in own.items():
            put(tmp_path / "runs" / "m" / recipe / str(seed), score, recipe, seed)
    put(tmp_path / "runs" / "m" / "simcse_dropout-0" / "42", 55.0, "simcse:dropout-0", 42)
    kept = json.loads(json.dumps(script.gather(tmp_path, None, tmp_path)))
    assert kept["sweeps"]["start"] == kept["systems"]["start"] - 1 == 50.0
    assert kept["sweeps"]["scores"]["esimcse"] == {"42": 63.0, "43": 65.1, "44": 63.9}
    assert script.gather(None, None, tmp_path).keys() == {"sweeps"}
    names = ("chosen", "systems_budget", "sweeps_budget", "systems_machine", "sweeps_machine", "summary")
    told = dict.fromkeys(names, "s")
    page = script.page(kept, told | {"dropout": "**Same shape.** So it is."})
    assert "| the start |  | 50.00 |  | 51.00 |" in page
    assert "| esimcse | 3 | 64.00 ± 1.05 |  | 65.00 ± 1.05 | +14.00 ± 2.62" in page
    assert "+3.00 ± 0.25 (p < .001) | +2.02 | yes |" in page
    assert "| 0 | `simcse:dropout-0` | 71.10 | 55.00 | -5.00 |  | 1 |" in page
    assert "| SimCSE, Table 3: dropout | .1 | .1 |  | 2 of 8 | Same shape |" in page
    assert "SimCSE, Table 1: augmentations;" in page.partition("## Not run")[2]
    assert list(script.pictures(kept)) == ["papers-dropout.svg"]
    assert "## A combination" not in page
    put(tmp_path / "runs" / "m" / "both" / "42", 70.0, "simcse:temperature-0.01", 42)
    kept |= json.loads(json.dumps(script.gather(None, tmp_path, None)))
    told |= {"combination_machine": "another machine", "combination": "It gains."}
    both = script.page(kept, told).partition("## A combination")[2]
    assert "| simcse:temperature-0.01 | 1 | 70.00 |  | 71.00 |" in both
    assert "It gains." in both


def test_further_seeds_are_added(script: ModuleType) -> None:
    there = {"start": 50.0, "date": "2026-01-02", "scores": {"a": {"42": 1.0}, "b": {"42": 2.0}}, "over_pairs": {}}
    found = {
        "start": 51.0,
        "date": "2026-01-01",
        "scores": {"a": {42: 9.0, 43: 3.0}},
        "over_pairs": {"a": {43: [0, 1]}},
    }
    assert script.added(there, found) == {
        "start": 50.0,
        "date": "2026-01-02",
        "scores": {"a": {42: 9.0, 43: 3.0}, "b": {42: 2.0}},
        "over_pairs": {"a": {43: [0, 1]}},
    }
