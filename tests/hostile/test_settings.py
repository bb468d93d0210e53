"""Numbers of a recipe, a static encoder and a new backbone, one case per kind of fault; recipes that do not exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import Run
from hostile.harness import Case, cases, refuse
from hostile.worlds import BAD_RECIPES

pytestmark = pytest.mark.slow

HUGE = 10**30


WRONG = {"learning_rate": ("nan", "inf", "abc", "-1"), "batch_size": (str(HUGE), "1.5"), "seed": ("-1",)}
QUEUE = """--set 'objective.negatives=[{kind="momentum_queue"}]' --set objective.negatives.0.momentum="""
NUMBERS = [
    *(
        Case(f"recipes show simcse --set 'training.{key}={value}'", (f"--set training.{key}=", key))
        for key, values in WRONG.items()
        for value in values
    ),
    *(Case(f"recipes show simcse {QUEUE}{value}", ("momentum",)) for value in ("nan", "-1", "2")),
    *(
        Case(f"static good.txt --out new --model tiny --set 'dimension={value}'", ("dimension",))
        for value in ("nan", "-1", "1.5")
    ),
    *(Case(f"pretrain good.txt --out new --layers={value}", ("layers",)) for value in ("abc", "-1", str(HUGE))),
]

FILES = [
    Case(line.format(recipe=name), (name,))
    for line in (
        "train good.txt --out new --model tiny --recipe {recipe}",
        "recipes show {recipe}",
        "recipes diff simcse {recipe}",
    )
    for name in (*BAD_RECIPES, "latin1.toml", "missing.toml", "folder.toml", "file/inside.toml")
]

OTHER = [
    Case("recipes show nope", ("unknown recipe 'nope'",)),
    Case("recipes show simcse:nope", ("no preset 'nope'",)),
    Case("recipes show simcse:bert-base:roberta-base", ("two backbones",)),
    Case("recipes show simcse:paper:reference", ("contradict",)),
    Case("recipes show simcse --preset nope", ("no preset 'nope'",)),
    Case("recipes show simcse --source --preset paper", ("--source",)),
    Case("recipes presets nope", ("unknown recipe",)),
    Case("recipes presets simcse:paper", ("name the recipe alone",)),
    Case("recipes diff simcse simcs", ("did you mean 'simcse'",)),
    Case("recipes nope", ("nope",)),
    Case("recipes show", ("Missing argument",)),
    *(
        Case(f"recipes show simcse --set '{wrong}'", (says,))
        for wrong, says in (
            ("training.epochs", "key.path=value is expected"),
            ("data.max_length=2", "data.max_length: input should be greater than or equal to 3, got 2"),
            ("data.max_length=automatic", "data.max_length: "),
            (f"data.max_length={HUGE}", "data.max_length: "),
            ("training.epoch=1", "did you mean 'epochs'"),
            ("trainin.epochs=1", "unknown key 'trainin'"),
            ("training=1", "training"),
            ("training.epochs.x=1", "plain value"),
            ("objective.view.kind=crap", "objective.view"),
            ("objective.negatives.7.weight=1", "not a position in a list of 1"),
            (f"objective.negatives.{'9' * 5_000}.weight=1", "not a position in a list of 1"),
            ("objective.negatives=[]", "at least one negative source"),
            ("objective.view.kind=math:pi", "none of the views"),
            ("objective.view.kind=no_such_module:View", "cannot be imported"),
            ("objective.negatives.in_bach.weight=1", "there are: in_batch"),
            ("objective.terms=[{}]", "objective.terms"),
            ("encoder.pooling=nope", "encoder.pooling"),
            ("training.batch_size=" + "[" * 5_000, "training.batch_size"),
        )
    ),
]


@cases(NUMBERS)
def test_numbers(case: Case, opencse: Run, world: Path) -> None:
    refuse(case, opencse, world)


@cases(FILES)
def test_recipe_files(case: Case, opencse: Run, world: Path) -> None:
    refuse(case, opencse, world)


@cases(OTHER)
def test_recipes(case: Case, opencse: Run, world: Path) -> None:
    refuse(case, opencse, world)
