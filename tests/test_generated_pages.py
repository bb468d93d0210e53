"""Pages that are made from records and from the code are up to date, and records are gathered from runs."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest

import helpers
from opencse import SentenceEncoder
from opencse.analysis.inspection import AnalysisTexts, Subject, inspect
from opencse.api.study_file import study_of
from opencse.environment import Environment
from opencse.evaluation import read_scored_pairs
from opencse.evaluation.embedding import EmbeddingModel
from opencse.evaluation.record import DataRecord
from opencse.evaluation.sts.result import StsResult, StsScores
from opencse.objective.registry import built_in
from opencse.recipes.recipe import load_recipe
from opencse.recipes.recipe_files import recipe_names, recipe_text
from opencse.records import save_json
from opencse.studies.record import StudyRecord
from opencse.text import sample

DOCS = Path(__file__).parents[1] / "docs"


build_parts = helpers.script_of_docs("build_parts")


def test_the_page_of_parts_is_up_to_date(build_parts: ModuleType) -> None:
    written = build_parts.PAGE.read_text(encoding="utf-8")
    assert written == build_parts.page(), "run python docs/build_parts.py"
    kinds = [kind for role in ("view", "sides", "negatives", "term") for kind in built_in(role)]
    assert len(kinds) > 30
    assert all(f"\n### {kind}\n" in written for kind in kinds)


def test_every_recipe_obeys_the_schema(build_parts: ModuleType) -> None:
    written = build_parts.SCHEMA.read_text(encoding="utf-8")
    assert written == build_parts.schema(), "run python docs/build_parts.py"
    schema = json.loads(written)
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    for name in recipe_names():
        kind(schema).validate(tomllib.loads(recipe_text(name)))


@pytest.mark.parametrize(
    "wrong",
    [
        'objective.view = { kind = "crop", rat = 0.1 }',
        "training.epoch = 1",
    ],
)
def test_what_is_no_recipe_does_not(build_parts: ModuleType, wrong: str) -> None:
    recipe = tomllib.loads(f'name = "a"\ntitle = "A"\n{wrong}')
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(recipe, json.loads(build_parts.schema()))


def test_the_pictures_of_how_it_works_are_up_to_date() -> None:
    drawn = helpers.script(DOCS / "build_pictures.py").pictures()
    page = (DOCS / "how-it-works.md").read_text(encoding="utf-8")
    assert len(drawn) == 2
    for path, picture in drawn.items():
        assert path.read_text(encoding="utf-8") == picture, "run python docs/build_pictures.py"
        assert f"assets/{path.name}" in page


build_adapt = helpers.script_of_docs("build_adapt")


def test_the_page_of_adapt_is_up_to_date(build_adapt: ModuleType) -> None:
    adapt_runs = json.loads(build_adapt.RECORD.read_text(encoding="utf-8"))
    assert build_adapt.PAGE.read_text(encoding="utf-8") == build_adapt.page(adapt_runs), (
        "run python docs/build_adapt.py"
    )
    seeds = [run["seed"] for run in adapt_runs if (run["model"], run["pairs"]) == ("opencse-mini", "")]
    assert seeds.count(42) == seeds.count(None), "every collection has a run"


def adapt_run(seed: int | None, vectors: list[float], pairs: str = "", sts: float = 67.0) -> dict[str, Any]:
    """A run as benchmarks/adapt.py writes it: forty queries whose scores are ``vectors``, in turn."""
    both = [score + (4.5 if number % 4 < 2 else 5.5) for number, score in enumerate(vectors * 20)]
    by_query = {"bm25": [40.0] * 40, "ndcg@10": vectors * 20, "hybrid": both}
    after: dict[str, Any] = {name: sum(scores) / 40 for name, scores in by_query.items()}
    run: dict[str, Any] = {
        "collection": "scifact",
        "model": "opencse-mini",
        "seed": seed,
        "pairs": pairs,
        "date": "2026-01-01",
    }
    run |= {"environment": {"commit": "abc", "torch": "2"}, "after": {**after, "sts": sts, "by_query": by_query}}
    return run | ({} if seed is None else {"kept": "best", "seconds": 60.0, "scores": {"0": 50.0, "50": 58.0}})


@pytest.fixture
def adapt_runs(build_adapt: ModuleType, tmp_path: Path) -> list[dict[str, Any]]:
    made = [
        adapt_run(None, [44.0, 46.0], sts=68.0),
        adapt_run(42, [54.0, 56.0]),
        adapt_run(43, [56.0, 58.0], sts=67.5),
        adapt_run(42, [52.0, 58.0], pairs="all"),
        adapt_run(43, [43.0, 45.0], pairs="all"),
    ]
    (tmp_path / "records").mkdir()
    for number, run in enumerate(made):
        (tmp_path / "records" / f"{number}.json").write_text(json.dumps(run))
    gathered: list[dict[str, Any]] = json.loads(json.dumps(build_adapt.gather(tmp_path, "a machine")))
    return gathered


def test_runs_are_gathered_with_differences_over_queries(adapt_runs: list[dict[str, Any]]) -> None:
    start, first, _, with_pairs, _ = adapt_runs
    assert "by_query" not in start["after"]
    assert start["differences"] == {"hybrid - better part": [5.0, 4.84, 5.16]}
    assert first["differences"]["ndcg@10 - start"] == [10.0], "queries that all gain the same have no interval"
    gain, low, high = with_pairs["differences"]["ndcg@10 - start"]
    assert low < gain == 10.0 < high, "queries that gain differently have an interval"
    assert first["machine"] == "a machine"
    assert first["commit"] == "abc"


build_family = helpers.script_of_docs("build_family")


def test_the_page_of_family_is_up_to_date(build_family: ModuleType) -> None:
    scores = json.loads(build_family.RECORD.read_text(encoding="utf-8"))
    assert build_family.PAGE.read_text(encoding="utf-8") == build_family.page(scores), "run python docs/build_family.py"
    assert set(scores["mean"]["scores"]) <= set(build_family.systems_of_the_studies())
    assert "simcse" in scores["mean"]["scores"]


build_figures = helpers.script_of_docs("build_figures")


def test_the_page_of_figures_is_up_to_date(build_figures: ModuleType) -> None:
    record = json.loads(build_figures.RECORD.read_text(encoding="utf-8"))
    page, pictures = build_figures.page(record), build_figures.pictures(record)
    assert build_figures.PAGE.read_text(encoding="utf-8") == page, "run python docs/build_figures.py"
    assert len(pictures) == 3
    for name in pictures:
        assert f"figures/{name}" in page
        assert (build_figures.FIGURES / name).is_file()
    assert next(iter(record["encoders"])) == build_figures.START


def test_it_is_gathered_from_a_report_and_the_logs(
    build_figures: ModuleType, tiny_folder: Path, tmp_path: Path
) -> None:
    encoder = SentenceEncoder.load(tiny_folder, device="cpu")
    names = ("models/START", "simcse/42/last", "sscl/42/last")
    subjects = [Subject(EmbeddingModel(name, encoder.encode, "mean", "cpu"), encoder) for name in names]
    findings = inspect(subjects, AnalysisTexts(pairs=read_scored_pairs(sample.TEST)), resamples=10)
    save_json(tmp_path / "report.json", findings.model_dump(mode="json"))
    log = [{"step": step, "positive_similarity": 0.9, "negative_similarity": 1 / step} for step in (1, 2)]
    for recipe in ("simcse", "sscl"):
        run = tmp_path / "runs" / recipe / "42"
        run.mkdir(parents=True)
        (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log), encoding="utf-8")
    record = json.loads(json.dumps(build_figures.gather(tmp_path, tmp_path / "runs")))
    assert list(record["encoders"]) == [build_figures.START, "simcse", "sscl"]
    assert record["encoders"]["sscl"]["negative"] == {"1": 1.0, "2": 0.5}
    assert "negative" not in record["encoders"][build_figures.START]
    geometry = findings.subjects[0].geometry
    assert geometry is not None
    assert record["encoders"]["simcse"]["uniformity"] == round(geometry.uniformity, 4)
    record["paths"] = {"simcse": {"path": [[-1.0, 0.1], [-2.0, 0.2]], "dev": [50.0, 60.0]}}
    assert len(build_figures.pictures(record)) == 3


build_methods = helpers.script_of_docs("build_methods")


def rows(page: str) -> dict[str, list[str]]:
    """The cells of each row, by the recipe."""
    lines = [line for line in page.splitlines() if line.startswith("| ") and "`" in line]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return {row[1].strip("`"): row for row in cells}


def test_the_page_of_methods_is_up_to_date(build_methods: ModuleType) -> None:
    assert build_methods.PAGE.read_text(encoding="utf-8") == build_methods.page(), "run python docs/build_methods.py"


def test_every_recipe_has_a_row_with_its_published_average(build_methods: ModuleType) -> None:
    made = rows(build_methods.page())
    assert set(made) == set(recipe_names())
    for name, (system, _, idea, _, published) in made.items():
        assert system
        assert idea
        presets = load_recipe(name).presets
        expected = [
            presets[one].expected["sts.average"]
            for one in ("bert-base", "roberta-base")
            if one in presets and "sts.average" in presets[one].expected
        ]
        number = re.match(r"\d+\.\d\d", published)
        assert (float(number[0]) if number else None) == (expected[0] if expected else None), name
        if published:
            assert re.search(r"\(.{4,}\)$", published), f"{name} names its source"
    assert made["simcse"][4].startswith("76.25 (SimCSE, Tables 5")


ROOT = Path(__file__).parents[1]


STUDIES = ROOT / "benchmarks" / "studies"


GIVEN = {"text": "t", "out": "o", "data": "d"}


build_papers = helpers.script_of_docs("build_papers")


@pytest.fixture(scope="module")
def published(build_papers: ModuleType) -> dict[str, Any]:
    return tomllib.loads(build_papers.PUBLISHED.read_text(encoding="utf-8"))


def test_the_pages_are_up_to_date(build_papers: ModuleType, published: dict[str, Any]) -> None:
    scores = json.loads(build_papers.SCORES.read_text(encoding="utf-8"))
    pages, pictures = build_papers.pages(scores, published), build_papers.pictures(scores, published)
    assert [*pages] == ["papers.md", "ablations.md", "combinations.md"]
    for name, text in pages.items():
        assert (build_papers.RESULTS / name).read_text(encoding="utf-8") == text, "run python docs/build_papers.py"
    for text, picture in zip(list(pages.values())[:2], pictures, strict=True):
        assert f"figures/{picture}" in text
        assert (build_papers.FIGURES / picture).is_file()
    assert all(table["verdict"] for table in published["tables"])


def test_every_row_is_a_recipe_and_most_have_published_numbers(
    build_papers: ModuleType, published: dict[str, Any]
) -> None:
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
    known = [build_papers.of_paper(table, recipe) is not None for table, recipe in rows]
    assert sum(known) > 0.8 * len(known)
    dropout = published["tables"][0]
    values = [build_papers.of_paper(dropout, recipe) for _, recipe in dropout["rows"]]
    assert values == [71.1, 72.6, 81.1, 82.5, 81.4, 80.5, 71.0, 43.6]


def test_it_is_gathered_from_records(build_papers: ModuleType, published: dict[str, Any], tmp_path: Path) -> None:
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
        scores: dict[str, Any] = json.loads(json.dumps(build_papers.gather(folders)))
        return scores

    scores = gathered("systems", "tuned", "sweeps", "best_rates", "five_layers_best_rates", "processor")
    assert scores["sweeps"]["start"] == scores["systems"]["start"] - 1 == 50.0
    assert scores["sweeps"]["scores"]["esimcse"] == {"42": 63.0, "43": 65.1, "44": 63.9}
    assert build_papers.gather({"systems": None, "sweeps": [tmp_path]}).keys() == {"sweeps"}
    scores["tuned_sweeps"] = scores["sweeps"]
    systems, ablations, together = build_papers.pages(scores, published).values()
    assert "| `simcse` | 3e-5 | 69.00 ± 0.00 | 70.00 ± 0.00 |  |  |  |  |" in systems
    assert "| `esimcse` | 3e-5 | 71.43 ± 0.01 | 72.43 ± 0.01 | +2.02 | +2.43 ± 0.02 (p < .001) | holds " in systems
    assert "| SimCSE, Table 3: dropout | .1 | .1 |  |  | 2 of 8 | The same: .1 is" in ablations
    assert "| `esimcse++` | 3e-5 | 74.86 ± 0.02 | +4.86 ± 0.05 (p < .001) | 3e-5 | 74.86 ± 0.02 |" in together


def test_encoders_under_a_transform_have_the_names_of_their_runs(build_papers: ModuleType, tmp_path: Path) -> None:
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
    found = build_papers.transformed_scores(tmp_path / "file.json")
    assert found == {
        "metric": "sts.average",
        "scores": {
            "esimcse++:no-mlp + whitening": {42: 70.0},
            "esimcse (learning_rate=2e-4) + whitening": {43: 71.0},
            "start + whitening": {0: 50.0},
        },
    }
