"""The recipes that come with the package: every preset works, and the numbers are the papers'."""

from __future__ import annotations

import itertools
import tomllib
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from helpers import script
from opencse.model_folder.locate import BUILTIN
from opencse.objective.objective import Objective
from opencse.recipes.recipe import Recipe, load_recipe, to_toml
from opencse.recipes.recipe_files import recipe_names

TRANSFER = ("mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc")
TASKS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")
PUBLISHED = {
    "simcse": 76.25,
    "simcse-supervised": 81.57,
    "esimcse": 78.27,
    "esimcse-repetition": 77.43,
    "esimcse-queue": 77.54,
    "simcse++": 78.05,
    "simcse++-off-dropout": 77.13,
    "simcse++-dcl": 77.40,
    "sscl": 77.80,
    "sscl-progressive": 77.90,
    "sscl-bert": 62.42,
    "dcl-post": 67.07,
    "diffcse": 78.49,
    "sg-opt": 74.62,
    "whitenedcse": 78.78,
    "dclr": 77.22,
    "mixcse": 77.66,
    "distillcse": 78.02,
    "rankcse": 80.36,
    "denosent": 79.56,
    "infocse": 78.85,
    "ct": 72.05,
    "consert": 72.74,
    "scd": 74.19,
    "promptbert": 78.54,
    "cot-bert": 79.40,
    "sncse": 78.97,
    "gaussian-sampling": 76.38,
    "output-noise": 50.21,
    "input-noise": 75.57,
    "weight-perturbation": 75.25,
}
ROBERTA = {"declutr": 69.99}
"""Published on RoBERTa-base alone."""
THESIS = {"gaussian-sampling", "output-noise", "input-noise", "weight-perturbation"}
WITHOUT_CODE = THESIS | {"ct", "consert", "scd"}
SEEDS = (19984, 5838, 16822, 19294, 17173)
LABELLED = {"sbert", "sbert-regression", "cosent", "angle", "triplet", "simcse-joint", "margin-mse"}
OWN = {"adapt", "opencse-mini", "pretrain", "next-sentence", "queue-dcl", "esimcse++", "gist"}
LAYERED = {"sscl", "sscl-progressive", "sscl-bert", "diffcse"} | {"declutr", "sg-opt"}
OWN |= {"rankencoder", "nt-xent", "ct-improved"}
OWN |= {"tsdae", "is-bert"}
LAYERED |= {"tsdae", "denosent", "infocse", "is-bert", "promptbert", "cot-bert", "sncse"}
MISPRINTED = {
    ("simcse", "untrained-sbert"): 74.86,
    ("sbert", "bert-base"): 74.863,
    ("sscl-progressive", "bert-base"): 77.749,
    ("sscl-progressive", "bert-large"): 79.594,
}
MISPRINTED_TRANSFER = {("simcse", "roberta-base-mlm"): 86.884, ("sscl-progressive", "bert-base"): 85.59}
ROWS = [(name, preset) for name in recipe_names() for preset in load_recipe(name).presets]


@cache
def recipe_called(name: str) -> Recipe:
    return load_recipe(name)


def plain(recipe: Recipe) -> Recipe:
    return recipe.model_copy(update={"presets": {}})


def test_the_recipes_are_those_of_the_papers_and_our_own() -> None:
    assert set(recipe_names()) == PUBLISHED.keys() | ROBERTA.keys() | OWN | LABELLED


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_names_itself_and_can_be_built(name: str) -> None:
    recipe = recipe_called(name)
    assert recipe.name == name
    Objective.from_settings(recipe.objective)
    if name not in LAYERED | {"pretrain"}:
        assert recipe.preset_for(BUILTIN) == BUILTIN, "the built-in encoder needs settings of its own"
        mini = load_recipe(name, preset=BUILTIN)
        assert (mini.encoder.pooling, mini.encoder.head.kind) == ("mean", "none")
    else:
        assert recipe.preset_for(BUILTIN) is None


@pytest.mark.parametrize(("name", "preset"), ROWS)
def test_every_preset_can_be_built_changes_something_and_reads_back(name: str, preset: str) -> None:
    recipe = load_recipe(f"{name}:{preset}")
    Objective.from_settings(recipe.objective)
    assert Recipe.model_validate(tomllib.loads(to_toml(recipe))) == plain(recipe)
    given = recipe.presets[preset]
    if recipe.sort_of(preset) != "backbone" and preset not in ("neutral-too", "data-nli"):
        rate = load_recipe(name, overrides=["encoder.dropout=0.1"]) if preset == "dropout-0.1" else None
        changed = plain(recipe) != plain(recipe_called(name)) or bool(str(given.judged))
        assert changed or recipe == rate or preset == "layer-11"
    if recipe.sort_of(preset) != "code" and "reference" in recipe.presets:
        beside = load_recipe(f"{name}:{preset}:reference")
        Objective.from_settings(beside.objective)
        assert not given.reference or plain(beside) != plain(load_recipe(f"{name}:reference"))
    if recipe.sort_of(preset) == "ablation":
        assert given.note, "an ablation names its table"


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_average_for_bert_base_and_the_code_preset(name: str) -> None:
    recipe = recipe_called(name)
    assert recipe.presets["bert-base"].expected["sts.average"] == PUBLISHED[name]
    assert not recipe.presets["bert-base"].settings, "the recipe itself is BERT-base's"
    assert ("reference" in recipe.presets) is (name not in WITHOUT_CODE)
    assert recipe.seeds == (SEEDS if name in THESIS else ())


@pytest.mark.parametrize(("name", "preset"), ROWS)
def test_averages_are_those_of_the_seven_tasks(name: str, preset: str) -> None:
    expected = recipe_called(name).presets[preset].expected
    seven = [expected[f"sts.{task}"] for task in TASKS if f"sts.{task}" in expected]
    assert len(seven) in (0, 1, 7), "one: SSCL's Table 1 has STS-B alone"
    if len(seven) == 7:
        average = MISPRINTED.get((name, preset), expected["sts.average"])
        assert mean(seven) == pytest.approx(average, abs=0.0101)
    tasks = [expected[f"transfer.{task}"] for task in TRANSFER if f"transfer.{task}" in expected]
    assert len(tasks) in (0, 7)
    if tasks:
        printed = MISPRINTED_TRANSFER.get((name, preset), expected["transfer.average"])
        assert mean(tasks) == pytest.approx(printed, abs=0.0101)
    assert all(20 < score < 100 for score in expected.values())


def test_there_are_as_many_rows_of_seven_as_the_papers_have() -> None:
    rows = [(n, p) for n, p in ROWS if "sts.sts12" in recipe_called(n).presets[p].expected]
    assert len(rows) == 87


@pytest.mark.parametrize(
    ("row", "key", "value"),
    [
        ("simcse:crop-10", "dev.stsb", 77.8),
        ("simcse:delete-one-word-no-dropout", "dev.stsb", 74.2),
        ("simcse:dropout-fixed-0.1", "dev.stsb", 43.6),
        ("simcse:first-last", "dev.stsb", 81.2),
        ("simcse-supervised:temperature-0.05", "dev.stsb", 86.2),
        ("simcse-supervised:data-entailment", "dev.stsb", 84.9),
        ("next-sentence:window-3-two-encoders", "dev.stsb", 68.8),
        ("esimcse:roberta-large", "sts.average", 79.45),
        ("esimcse:rate-0.24", "dev.stsb", 84.24),
        ("esimcse:stop-words", "dev.stsb", 81.72),
        ("esimcse:queue-3x", "dev.stsb", 82.66),
        ("simcse++:m-0.5", "dev.stsb", 68.55),
        ("simcse:label-smoothing", "sts.average", 67.49),
        ("simcse:untuned-bert-large", "sts.average", 76.39),
        ("simcse:untuned-roberta-large", "sts.average", 76.53),
        ("simcse:layers-10", "sts.stsb", 70.45),
        ("simcse:roberta-base", "transfer.trec", 84.60),
        ("simcse-supervised:roberta-large-mlm", "transfer.average", 90.23),
        ("sscl-progressive:bert-large", "probing.coordination_inversion", 60.18),
        ("sscl-bert:mean", "transfer.average", 83.68),
        ("gaussian-sampling:memory-bank", "sts.average", 76.52),
        ("gaussian-sampling:gmm", "sts.average", 75.67),
        ("gaussian-sampling:batch-sd", "sts.average", 75.13),
        ("output-noise:fgsm", "sts.average", 41.22),
        ("input-noise:bernoulli", "sts.average", 74.34),
        ("weight-perturbation:fgsm-inputs", "sts.average", 75.66),
        ("simcse++:sbert-large", "sts.average", 80.63),
        ("diffcse:simcse++", "sts.average", 78.69),
        ("sbert:bert-base", "sts.average", 74.89),
        ("sbert:difference-product", "dev.stsb", 78.37),
        ("simcse++-off-dropout:negatives-less-noise", "sts.average", 77.06),
        ("simcse++-dcl:barlow-twins-704", "sts.average", 76.08),
        ("sscl-bert:mean", "sts.average", 62.56),
        ("sscl-progressive:dimension-256", "sts.average", 77.97),
    ],
)
def test_rows_of_the_papers(row: str, key: str, value: float) -> None:
    name, preset = row.split(":")
    given = recipe_called(name).presets["bert-base" if preset == "temperature-0.05" else preset]
    assert given.expected[key] == value


def settings_of(recipe: str) -> dict[str, object]:
    resolved = load_recipe(recipe).model_dump(mode="json")
    return {"view": resolved["objective"]["view"], "negatives": resolved["objective"]["negatives"],
            "terms": resolved["objective"]["terms"], "positive": resolved["objective"]["positive"],
            "dropout": resolved["encoder"]["dropout"], "rate": resolved["training"]["learning_rate"]}  # fmt: skip


def test_esimcse_and_its_code_by_backbone() -> None:
    paper, code = settings_of("esimcse:roberta-large"), settings_of("esimcse:roberta-large:reference")
    assert paper["view"] == {"kind": "repeat_subwords", "rate": 0.32, "rule": "paper", "redraw": "step"}
    assert code["view"] == {"kind": "repeat_subwords", "rate": 0.28, "rule": "reference", "redraw": "once"}
    queue = {"kind": "momentum_queue", "momentum": 0.995, "weight": 1.0, "hardness": 0.0}
    assert paper["negatives"][1] == queue | {"size": "2.5x", "init": "pretrained", "head": "momentum"}  # type: ignore[index]
    assert code["negatives"][1] == queue | {"size": 128, "init": "random", "head": "online"}  # type: ignore[index]
    assert [settings_of(f"esimcse:bert-large{code}")["dropout"] for code in ("", ":reference")] == [0.15, 0.1]
    assert settings_of("esimcse:roberta-base:reference:rate-0.08")["view"]["rate"] == 0.08  # type: ignore[index]


def test_simcse_plus_plus_and_where_its_m_stands() -> None:
    def m(recipe: str) -> tuple[float, float]:
        resolved = load_recipe(recipe).objective
        return resolved.negatives[0].weight, resolved.positive.scale  # type: ignore[attr-defined]

    assert m("simcse++") == m("simcse++-off-dropout") == (0.9, 1.0)
    assert m("simcse++:reference") == m("simcse++-off-dropout:reference") == (1.0, 0.9)
    assert m("simcse++:m-0.5") == (0.5, 1.0)
    assert m("simcse++:m-0.5:reference") == m("simcse++:reference:m-0.5") == (1.0, 0.5)
    assert m("simcse++-off-dropout:reference:positives-more-noise") == (1.0, 1.0)


def test_sscl_by_the_paper_and_by_the_code() -> None:
    for name, layers in (("sscl", [-2]), ("sscl-progressive", [-2, -3]), ("sscl-bert", [-2, -3])):
        paper, code = settings_of(name)["negatives"][1], settings_of(f"{name}:reference")["negatives"][1]  # type: ignore[index]
        shared = {"kind": "layers", "layers": layers, "detach": False}
        own = {"columns": "own", "views": "anchor", "average_with_plain": False, "weight": "batch"}
        assert paper == shared | own
        assert code == shared | {"columns": "all", "views": "both", "average_with_plain": True, "weight": 1.0}
    positive: Any = settings_of("sscl-bert")["positive"]
    assert (positive["of"], positive["scale"]) == ({"kind": "anchors"}, 1.0)
    assert load_recipe("sscl-progressive:stack-11").objective.negatives[1].layers == tuple(range(-2, -13, -1))  # type: ignore[attr-defined]
    singles = [load_recipe(f"sscl:layer-{n}").objective.negatives[1].layers for n in range(1, 12)]  # type: ignore[attr-defined]
    assert list(itertools.chain(*singles)) == list(range(1, 12))


TRAINED_BY_THE_AUTHORS_CODE = sorted((PUBLISHED.keys() | ROBERTA.keys()) - WITHOUT_CODE)


@pytest.mark.parametrize("name", TRAINED_BY_THE_AUTHORS_CODE)
def test_the_authors_code_has_the_adamw_of_transformers_4(name: str) -> None:
    assert load_recipe(name).training.adamw == "torch"
    assert load_recipe(f"{name}:reference").training.adamw == "transformers"


def test_no_other_recipe_has_a_code_preset() -> None:
    assert {name for name in recipe_names() if "reference" in recipe_called(name).presets} == set(
        TRAINED_BY_THE_AUTHORS_CODE
    )


def test_rows_borrowed_from_other_papers_are_run_as_there() -> None:
    smoothed = load_recipe("simcse:label-smoothing")
    assert smoothed.seeds == SEEDS
    assert (smoothed.training.seed, smoothed.training.evaluate_every) == (SEEDS[0], 125)
    for preset in ("temperature-0.001", "temperature-0.01", "temperature-0.1", "batch-128"):
        assert load_recipe(f"simcse:{preset}").training.evaluate_every == 125
        assert "SSCL" in recipe_called("simcse").presets[preset].note
    assert load_recipe("simcse").training.evaluate_every == load_recipe("simcse:crop-10").training.evaluate_every == 250
    assert load_recipe("simcse").seeds == ()


def test_table_1_of_simcse_plus_plus_by_the_paper_and_by_the_code() -> None:
    def both(row: str) -> list[dict[str, object]]:
        parts = [load_recipe(f"simcse++-off-dropout:{row}{code}").objective for code in ("", ":reference")]
        assert [part.positive.scale for part in parts] == [1.0, 1.0]
        sides = [part.positive.of if row.startswith("positives") else part.negatives[0].of for part in parts]  # type: ignore[attr-defined]
        return [side.model_dump() for side in sides]

    noise = [{"kind": "noisy", "both": True, "variance": 0.1}, {"kind": "noisy", "both": False, "variance": 0.1**2}]
    for row in ("positives-more-noise", "negatives-more-noise"):
        paper, code = both(row)
        assert paper == noise[0]
        assert code == pytest.approx(noise[1])
    ten = {"kind": "mean", "samples": 10, "shared": False}
    assert both("positives-less-noise") == [ten, ten], "their code has no means for the positives"
    assert both("negatives-less-noise") == [ten, {"kind": "mean", "samples": 5, "shared": True}]


def test_barlow_twins_by_the_paper_and_by_the_code() -> None:
    for preset, artificial in (("barlow-twins", 0), ("barlow-twins-704", 704)):
        paper, code = settings_of(f"simcse++-dcl:{preset}"), settings_of(f"simcse++-dcl:{preset}:reference")
        shared = {"kind": "barlow_twins", "weight": 0.1, "artificial": artificial, "centre": False, "projector": []}
        assert paper["terms"] == [shared | {"scaling": "unit", "off_diagonal": 0.005}]
        assert code["terms"] == [shared | {"scaling": "batch_norm", "off_diagonal": 0.012}]


def test_starts_from_sbert() -> None:
    for name in ("simcse", "simcse++"):
        mean, cls = (load_recipe(f"{name}:{preset}") for preset in ("sbert-base", "sbert-base-cls"))
        assert mean.presets["sbert-base"].model == "sentence-transformers/bert-base-nli-mean-tokens"
        assert cls.presets["sbert-base-cls"].model == "sentence-transformers/bert-base-nli-cls-token"
        assert (mean.training.learning_rate, cls.training.learning_rate) == (3e-5, 1e-5)
        assert mean.encoder == cls.encoder == recipe_called(name).encoder


def test_learning_rates_by_backbone() -> None:
    rates = {
        "simcse:bert-base": 3e-5, "simcse:roberta-large": 3e-5, "esimcse:bert-large": 1e-5,
        "esimcse:roberta-base": 1e-5, "simcse++:bert-large": 8e-6, "simcse++:sbert-base": 3e-5,
        "sscl-progressive:bert-large": 1e-5, "simcse-supervised:bert-base": 5e-5,
    }  # fmt: skip
    assert {recipe: settings_of(recipe)["rate"] for recipe in rates} == rates


def test_the_page_of_recipes_is_up_to_date() -> None:
    page = Path(__file__).parents[2] / "docs" / "build_recipes.py"
    module = script(page)
    written = page.with_name("recipes.md").read_text(encoding="utf-8")
    assert written == module.page(), "run python docs/build_recipes.py"
    for name, preset in ROWS:
        assert f"| `{preset}` |" in written.partition(f"## {name}\n")[2].partition("\n## ")[0]
