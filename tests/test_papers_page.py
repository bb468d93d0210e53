"""The pages of the papers' tables are what scores and published tables make, and their tables are the recipes' own."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import helpers
from opencse.api.study_file import study_of
from opencse.environment import Environment
from opencse.evaluation.record import DataRecord
from opencse.evaluation.sts.result import StsResult, StsScores
from opencse.recipes.recipe import resolve_recipe
from opencse.records import save_json
from opencse.statistics import paired_seeds
from opencse.studies.record import StudyRecord

ROOT = Path(__file__).parents[1]
STUDIES = ROOT / "benchmarks" / "studies"
GIVEN = {"text": "t", "out": "o", "data": "d"}
script = helpers.script_of_docs("build_papers")


@pytest.fixture(scope="module")
def published(script: ModuleType) -> dict[str, Any]:
    return tomllib.loads(script.PUBLISHED.read_text(encoding="utf-8"))


def test_the_pages_are_up_to_date(script: ModuleType, published: dict[str, Any]) -> None:
    scores = json.loads(script.SCORES.read_text(encoding="utf-8"))
    pages, pictures = script.pages(scores, published), script.pictures(scores, published)
    assert [*pages] == ["papers.md", "ablations.md", "combinations.md"]
    for name, text in pages.items():
        assert (script.RESULTS / name).read_text(encoding="utf-8") == text, "run python docs/build_papers.py"
    for text, picture in zip(list(pages.values())[:2], pictures, strict=True):
        assert f"figures/{picture}" in text
        assert (script.FIGURES / picture).is_file()
    assert all(table["verdict"] for table in published["tables"])


def test_every_row_is_a_recipe_and_most_have_published_numbers(script: ModuleType, published: dict[str, Any]) -> None:
    studies = [study_of({**tomllib.loads(file.read_text()), **GIVEN}) for file in sorted(STUDIES.glob("papers*.toml"))]
    assert len(studies) == 7
    steps = {s for study in studies for s in study.options()["settings"] if s.startswith("training.max_steps")}
    assert len(steps) == 2, "of two starts: of the systems, and of the tuned one"
    run = {recipe for study in studies for recipe in study.recipes}
    rows = [(table, recipe) for table in published["tables"] for _, recipe in table["rows"]]
    listed = {recipe for _, recipe in rows} | {*published["systems"], *published["combination"]}
    assert listed >= run - {"simcse:batch-128", "queue-dcl"}
    assert run >= {recipe for _, recipe in rows}
    assert all(table["base"] in [recipe for _, recipe in table["rows"]] for table in published["tables"])
    known = [script.of_paper(table, recipe) is not None for table, recipe in rows]
    assert sum(known) > 0.8 * len(known)
    dropout = published["tables"][0]
    values = [script.of_paper(dropout, recipe) for _, recipe in dropout["rows"]]
    assert values == [71.1, 72.6, 81.1, 82.5, 81.4, 80.5, 71.0, 43.6]


@pytest.mark.parametrize("file", sorted(STUDIES.glob("papers-sweeps*.toml")), ids=lambda file: file.stem)
def test_the_settings_of_a_study_leave_its_presets_alone(file: Path) -> None:
    """A setting given with a preset wins, so a study must not set what its rows differ in."""
    study = study_of({**tomllib.loads(file.read_text()), **GIVEN})
    for name in study.recipes:
        changed = resolve_recipe(name, overrides=study.options()["settings"]).recipe
        preset = name.partition(":")[2]
        for key, value in changed.presets[preset].settings.items() if preset else ():
            if key.startswith("encoder.") or key == "training.batch_size":
                part: object = changed
                for step in key.split("."):
                    part = getattr(part, step)
                expected = resolve_recipe(name).recipe
                for step in key.split("."):
                    expected = getattr(expected, step)
                assert part == expected, f"{name}: {key} = {value}"


def test_it_is_gathered_from_records(script: ModuleType, published: dict[str, Any], tmp_path: Path) -> None:
    here = Environment.here("cpu")

    def put(folder: Path, score: float, recipe: str | None = None, seed: int | None = None) -> None:
        StudyRecord(
            recipe=recipe, start="m", seed=seed, asked={}, judged="last", environment=here, judge_seconds=1.0, data={},
            results={"dev.stsb": score, "sts.average": score + 1},
        ).write(folder)  # fmt: skip

    put(tmp_path / "starts" / "m" / "cls", 50.0)
    put(tmp_path / "tuned" / "starts" / "m" / "cls", 50.0)
    put(tmp_path / "tuned" / "tuning" / "starts" / "m" / "cls", 50.0)
    at_rates = {"simcse": {"3e-5": 70.0, "1e-5": 60.0}, "esimcse": {"3e-5": 71.0, "1e-5": 60.0}, "esimcse++": {}}
    for number, (recipe, rates) in enumerate(at_rates.items()):
        for rate, score in rates.items():
            put(
                tmp_path / "tuned" / "tuning" / "runs" / "m" / f"{recipe}{rate}" / "40",
                score,
                f"{recipe} (learning_rate={rate})",
                40,
            )
        for seed in (42, 43, 44):
            name = f"{recipe} (learning_rate=3e-5)"
            put(
                tmp_path / "tuned" / "runs" / "m" / recipe / str(seed),
                69.0 + 2 * number + number * seed / 100,
                name,
                seed,
            )
    by_recipe = {"simcse": {42: 60.0, 43: 62.0, 44: 61.0}, "esimcse": {42: 63.0, 43: 65.1, 44: 63.9}}
    for recipe, seeds in by_recipe.items():
        for seed, score in seeds.items():
            put(tmp_path / "runs" / "m" / recipe / str(seed), score, recipe, seed)
    put(tmp_path / "runs" / "m" / "simcse_dropout-0" / "42", 55.0, "simcse:dropout-0", 42)

    def gathered(*names: str) -> dict[str, Any]:
        folders: dict[str, Any]
        folders = {name: tmp_path / "tuned" if name.endswith("best_rates") else tmp_path for name in names}
        folders |= {name: [tmp_path] for name in names if name == "sweeps"}
        scores: dict[str, Any] = json.loads(json.dumps(script.gather(folders)))
        return scores

    scores = gathered("systems", "tuned", "sweeps", "best_rates", "five_layers_best_rates", "processor")
    assert scores["sweeps"]["start"] == scores["systems"]["start"] - 1 == 50.0
    assert scores["sweeps"]["scores"]["esimcse"] == {"42": 63.0, "43": 65.1, "44": 63.9}
    assert script.gather({"systems": None, "sweeps": [tmp_path]}).keys() == {"sweeps"}
    scores["tuned_sweeps"] = scores["sweeps"]
    systems, ablations, together = script.pages(scores, published).values()
    assert "| the start |  | 50.00 | 51.00 |  |  |  |  |" in systems
    assert "| `simcse` | 3e-5 | 69.00 ± 0.00 | 70.00 ± 0.00 |  |  |  |  |" in systems
    assert (
        "| `esimcse` | 3e-5 | 71.43 ± 0.01 | 72.43 ± 0.01 | +2.02 | +2.43 ± 0.02 (p < .001) | holds "
        "| +3.00 ± 0.25 (p < .001), holds |" in systems
    )
    assert (
        "each, SimCSE gains +19.00 over its start (3 seeds). Of the published gains over it, that of `esimcse` holds."
        in systems
    )
    assert "too low for SimCSE (+11.00 ± 2.48 (p = .003)), those of `esimcse` hold.\n" in systems
    assert "score among 1e-5, 3e-5, at\n" in systems
    assert "not adjusted: `esimcse++` +4.86 ± 0.05 (p < .001)." in systems
    assert "the first five layers made a language model in the same way (51.00)" in systems
    assert "The processor gives the same: `esimcse` 65.00 ± 1.05, `simcse` 62.00 ± 1.00, " in systems
    assert (
        "`esimcse++` has +2.43 ± 0.02 (p < .001) over `esimcse`, the best single system (3 paired seeds). From"
        in together
    )
    assert "| `esimcse++` | 3e-5 | 74.86 ± 0.02 | +4.86 ± 0.05 (p < .001) | 3e-5 | 74.86 ± 0.02 |" in together
    assert "| `esimcse++:no-mlp` |" not in together
    assert "Two systems at once" not in together
    with_search = script.pages(scores | gathered("search"), published)["combinations.md"]
    assert "(40): `esimcse` 64.00, `simcse` 61.00, `simcse:dropout-0` 56.00.\n" in with_search
    assert "| SimCSE, Table 3: dropout | .1 | .1 |  |  | 2 of 8 | The same: .1 is" in ablations
    assert "SimCSE, Table 1: augmentations;" in ablations.partition("- Not run from the start above: ")[2]
    assert list(script.pictures(scores, published)) == ["papers-gains.svg", "papers-ablations.svg"]
    assert "Two settings of two papers" not in ablations
    name = "simcse:temperature-0.01:delete-one-word-no-dropout"
    for seed in (42, 43):
        put(tmp_path / "runs" / "m" / "both" / str(seed), 60.0 + seed, name, seed)
    both = script.pages(scores | gathered("combination"), published)["ablations.md"]
    assert "above `simcse` at 2\n" in both.partition("Two settings of two papers")[2]
    assert "an AMD EPYC" in both.partition("Combination: ")[2]


def test_a_combination_stands_next_to_its_parts_on_both_starts(
    script: ModuleType, published: dict[str, Any], tmp_path: Path
) -> None:
    here = Environment.here("cpu")

    def evaluation(model: str, score: float, transform: str = "all-but-the-top") -> dict[str, Any]:
        return StsResult(
            model=f"{model} + {transform} (target)", data=DataRecord(source="d", text="raw", sha256={}),
            environment=here, seconds=1.0, sts=StsScores(tasks={}, average=score),
        ).to_dict()  # fmt: skip

    for name, best in (("systems", 60.0), ("five_layers", 50.0)):
        starts = tmp_path / name / "starts" / "m" / "mean"
        StudyRecord(
            start="m", asked={}, judged="last", environment=here, judge_seconds=1.0, data={},
            results={"dev.stsb": 1.0, "sts.average": best - 9},
        ).write(starts)  # fmt: skip
        evaluations = [evaluation("START", best - 3), evaluation("START", best + (name == "five_layers"), "whitening")]
        bare = 2.0 if name == "systems" else -2.0
        gains = {
            "simcse": -5.0,
            "simcse++": 0.0,
            "esimcse++": 1.0,
            "simcse++:no-mlp": bare,
            "esimcse++:no-mlp": bare + 1,
        }
        for recipe, gain in gains.items():
            for seed in (42, 43, 44):
                folder, score = Path("runs") / "m" / recipe.replace(":", "_") / str(seed), best + gain + seed / 100
                StudyRecord(
                    recipe=recipe, start="m", seed=seed, asked={}, judged="last", environment=here, judge_seconds=1.0,
                    data={}, results={"dev.stsb": score, "sts.average": score},
                ).write(tmp_path / name / folder)  # fmt: skip
                evaluations.append(evaluation(f"{name}/{folder}/last", score + 2 + gain / 2 * (seed - 42)))
        save_json(tmp_path / f"{name}.json", evaluations)
    folders: dict[str, Any] = {name: tmp_path / name for name in ("systems", "five_layers")}
    folders |= {"tuned": tmp_path / "systems", "sweeps": [tmp_path / "systems"]}
    files = {f"{name}_transformed": tmp_path / f"{name}.json" for name in ("systems", "five_layers")}
    scores = json.loads(json.dumps(script.gather(folders | files)))
    scores["tuned_sweeps"] = scores["sweeps"]
    at_4 = {
        "simcse (learning_rate=4e-4)": {42: 62.42, 43: 62.43, 44: 62.41},
        "esimcse (learning_rate=4e-4)": {42: 61.42, 43: 61.43, 44: 61.41},
        "simcse++:no-mlp (learning_rate=3e-5)": {42: 61.0, 43: 61.2, 44: 61.4},
        "esimcse++:no-mlp (learning_rate=3e-5)": {42: 63.42, 43: 63.45, 44: 63.39},
    }
    scores |= {name: {**scores["systems"], "scores": at_4} for name in ("best_rates", "best_rates_dev", "processor")}
    scores["best_rates_tried"] = {**scores["systems"], "scores": {"simcse (learning_rate=4e-4)": {40: 80.0}}}
    scores["five_layers_best_rates"] = scores["best_rates"]
    page = script.pages(scores, published)["combinations.md"]
    assert "| the start | 51.00 | 41.00 |" in page
    assert "first start: `esimcse++:no-mlp` has +1.00 ± 0.05 (p < .001) over `simcse`, the best single" in page
    assert "| all-but-the-top alone | 57.00 | 47.00 |" in page
    assert "| `simcse++` | 60.43 ± 0.01 | 50.43 ± 0.01 |" in page
    assert "| `esimcse++`, then all-but-the-top | 63.93 ± 0.51 | 53.93 ± 0.51 |" in page
    assert (
        "`esimcse++`, then all-but-the-top: from the first start +1.50 ± 1.24 (p = .035) above `simcse++`, then "
        "all-but-the-top (3 paired seeds), from the second +1.50" in page
    )
    assert "| `esimcse++:no-mlp`, then all-but-the-top | 66.93 ± 1.51 |" in page


@pytest.mark.parametrize(
    ("gains", "published", "wanted"),
    [
        ([2.0, 2.1, 1.9, 2.0, 2.05], 5.0, "holds"),  # also where the paper gained more
        ([0.1, -0.1, 0.0, 0.1, -0.05], 1.5, "not seen here"),
        ([-2.0, -2.1, -1.9, -2.0, -2.05], 1.5, "not seen here"),
        ([3.0, -2.0, 1.0, 2.0, -1.0], 1.5, "not decided"),
        ([2.0], 1.5, "not decided"),
    ],
)
def test_the_verdict(script: ModuleType, gains: list[float], published: float, wanted: str) -> None:
    pair = paired_seeds(dict(enumerate(gains)), dict.fromkeys(range(len(gains)), 0.0))
    assert script.verdict(pair, published) == wanted


def test_encoders_under_a_transform_have_the_names_of_their_runs(script: ModuleType, tmp_path: Path) -> None:
    models = {
        "runs/m/esimcse++_no-mlp/42/last": 70.0,
        "runs/m/esimcse_learning_rate_2e-4_/43/last": 71.0,
        "START": 50.0,
    }
    lines = [
        StsResult(
            model=f"{model} + whitening (target)", data=DataRecord(source="d", text="raw", sha256={}),
            environment=Environment.here("cpu"), seconds=1.0, sts=StsScores(tasks={}, average=score),
        ).to_dict()
        for model, score in models.items()
    ]  # fmt: skip
    save_json(tmp_path / "file.json", lines)
    found = script.transformed_scores(tmp_path / "file.json")
    assert found == {
        "metric": "sts.average",
        "scores": {
            "esimcse++:no-mlp + whitening": {42: 70.0},
            "esimcse (learning_rate=2e-4) + whitening": {43: 71.0},
            "start + whitening": {0: 50.0},
        },
    }
    further = {"metric": "sts.average", "scores": {"start + whitening": {0: 51.0}}}
    assert script.added(found, further)["scores"]["start + whitening"] == {0: 51.0}


def test_further_seeds_are_added(script: ModuleType) -> None:
    old = {"start": 50.0, "date": "2026-01-02", "scores": {"a": {"42": 1.0}, "b": {"42": 2.0}}}
    new = {"start": 51.0, "date": "2026-01-01", "scores": {"a": {42: 9.0, 43: 3.0}}}
    assert script.added(old, new) == {
        "start": 50.0,
        "date": "2026-01-02",
        "scores": {"a": {42: 9.0, 43: 3.0}, "b": {42: 2.0}},
    }
