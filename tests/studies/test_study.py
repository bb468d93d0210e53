"""What a comparison is made of, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse.errors import UserError
from opencse.studies.study import RunSpec, Study, SuiteChoice, folder_name
from opencse.text.readers import Source


def study(**changes: object) -> Study:
    given: dict[str, object] = {
        "text": Source("text.txt"),
        "out": Path("out"),
        "recipes": ["simcse", "esimcse:reference"],
        "starts": ["models/a", "models/b"],
        "seeds": [1, 2],
        "suites": [SuiteChoice("sts", Path("data"))],
    }
    return Study(**(given | changes))  # type: ignore[arg-type]


def test_runs_go_seed_by_seed() -> None:
    runs = list(study().runs())
    assert len(runs) == 8
    assert [run.seed for run in runs] == [1, 1, 1, 1, 2, 2, 2, 2]
    assert runs[1] == RunSpec("esimcse:reference", "models/a", 1)
    assert len({study().folder(run) for run in runs}) == 8


def test_folders_are_readable() -> None:
    assert study().folder(RunSpec("esimcse:reference", "models/a/", 7)) == Path("out/runs/a/esimcse_reference/7")
    assert study().folder(RunSpec("dir/my recipe.toml", "org/name", 7)) == Path("out/runs/name/my_recipe.toml/7")
    assert folder_name("simcse++") == "simcse++"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"recipes": []}, "no recipe given"),
        ({"starts": []}, "no start given"),
        ({"seeds": []}, "no seed given"),
        ({"seeds": [3, 3]}, "two seeds would share the folder '3'"),
        ({"starts": ["x/model", "y/model"]}, "two starts would share the folder 'model' .x/model"),
        ({"suites": []}, "no suite given"),
        ({"suites": [SuiteChoice("stss", Path("data"))]}, "unknown suite 'stss' .did you mean 'sts'"),
        ({"pairs": {1: (1, 5), 2: (1, 5)}}, "data order 1 with dropout 5 is there twice; name each seed once"),
        ({"settings": ["training.seed=3"]}, "training.seed is set by the comparison"),
        ({"precision": "half"}, "unknown precision 'half'; known: float32, bf16"),
    ],
)
def test_what_cannot_be_compared_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        study(**changes)


def test_what_was_asked_for_names_every_setting() -> None:
    run = RunSpec("simcse:dropout-0.2", "opencse-mini", 5)
    asked = study(settings=["training.epochs=2"]).request_of(run)
    assert asked["precision"] is None
    assert study(precision="bf16").request_of(run)["precision"] == "bf16"
    assert asked["recipe"]["training"]["seed"] == 5
    assert asked["recipe"]["training"]["epochs"] == 2
    assert asked["recipe"]["encoder"]["dropout"] == 0.2
    assert asked["presets"] == "opencse-mini:dropout-0.2"
    assert asked["suites"] == {"sts": {"folder": "data", "tasks": None, "fast": False, "logistic": False}}


def test_recipes_that_cannot_work_with_the_text_or_the_dev_data_are_refused(tmp_path: Path) -> None:
    lines, pairs = tmp_path / "lines.txt", tmp_path / "pairs.tsv"
    lines.write_text("Rain falls.\nA lamp is lit.\n")
    pairs.write_text("anchor\tpositive\nRain falls.\tIt rains.\nA lamp is lit.\tThe lamp is on.\n")
    for text, recipe, message in (
        (lines, "angle:in-batch", r"^angle:in-batch: .*lines\.txt: no columns for pairs with a score"),
        (lines, "simcse-supervised", r"^simcse-supervised: .*: the pair view needs two or three texts per row, not 1"),
        (pairs, "simcse", r"^simcse: .*: the dropout view reads one text per row, not 2"),
        (pairs, "next-sentence", r"^next-sentence: .*: the next_sentence view reads one text per row, not 2"),
        (pairs, "declutr", r"^declutr: .*: the spans view reads one text per row, not 2"),
        (lines, "ct:better", r"^ct:better: objective\.saved_encoder = better needs dev data to choose by"),
    ):
        columns = ("anchor", "positive") if text is pairs else None
        comparison = study(text=Source(str(text), columns=columns), recipes=[recipe], starts=["opencse-mini"])
        with pytest.raises(UserError, match=message):
            comparison.require_fitting(None)
    study(text=Source(str(lines)), recipes=["simcse", "esimcse"], starts=["opencse-mini"]).require_fitting(None)
