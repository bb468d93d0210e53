"""The plan of a run in lines, and the identity made from it."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from helpers import filled
from opencse.adapting.selection import Selector
from opencse.modules.prompts import Prompts
from opencse.progress import Silent
from opencse.recipes.recipe import load_recipe
from opencse.runs.job import TrainJob
from opencse.runs.plan import Plan
from opencse.text import sample
from opencse.text.given import GivenTexts

SETTINGS = ("training.max_steps=2", "training.batch_size=4", "training.precision=float32")


@pytest.fixture
def plan(tiny_folder: Path) -> Plan:
    texts = GivenTexts(tuple((f"Sentence number {n} is short.",) for n in range(12)), "twelve sentences")
    return TrainJob(text=texts, model=str(tiny_folder), settings=SETTINGS, dev=None).prepare(Silent()).plan


def line(plan: Plan, name: str) -> str:
    (found,) = [line for line in plan.lines() if line.startswith(f"{name} ")]
    return found


def test_each_decision_has_its_line(plan: Plan) -> None:
    assert line(plan, "text").endswith("twelve sentences: 12 rows of 1 text, no duplicate rows")
    repeated = replace(plan, corpus=replace(plan.corpus, duplicates=3))
    assert line(repeated, "text").endswith("3 duplicate rows (equal texts in a batch are not each other's negatives)")
    assert "2 of batch 4; 12 examples are 3 batches per epoch, so 0.67 epochs" in line(plan, "steps")
    assert "3 per anchor" in line(plan, "negatives")
    assert "none: the last encoder is kept" in line(plan, "selection")
    assert not [one for one in plan.lines() if one.startswith(("near", "weights", "adapters", "processes"))]


@pytest.mark.parametrize(("recipe", "doubted"), [("next-sentence", True), ("simcse", False)])
def test_shuffled_lines_are_a_doubt_where_their_order_is_read(recipe: str, doubted: bool, tiny_folder: Path) -> None:
    lines = filled(sample.TRAIN)
    random.Random(0).shuffle(lines)
    texts = GivenTexts(tuple((line,) for line in lines), "lines")
    job = TrainJob(text=texts, recipe=recipe, model=str(tiny_folder), settings=SETTINGS, dev=None)
    plan = job.prepare(Silent()).plan
    shown = [one for one in plan.lines() if one.startswith("doubt ")]
    assert len(shown) == doubted
    assert all("lines: the lines seem to be shuffled" in one for one in shown)


def test_the_optimizer_and_the_encoder_that_is_kept(plan: Plan) -> None:
    assert line(plan, "rate").startswith("rate       3e-05, linear schedule, seed 42")
    recipe = load_recipe("ct:rmsprop:better")
    dev = SimpleNamespace(name="pairs", size="3 pairs")
    other = replace(plan, recipe=recipe, dev=cast(Selector, dev))
    rates = "1e-05, from step 502 8e-06, from step 1,002 6e-06, from step 1,502 4e-06, from step 2,002 2e-06"
    assert line(other, "rate") == f"rate       {rates}, constant schedule, RMSprop, seed 42"
    assert line(other, "selection") == "selection  best of both encoders on pairs (3 pairs), every 500 steps"


def test_optional_lines(plan: Plan) -> None:
    more = replace(plan, near_duplicates=3, chunks_reason="fits", replaced=("a = 1 (the preset x has 2)",))
    assert line(more, "near") == "near       3 rows that nearly repeat an earlier one, left out"
    assert line(more, "chunks") == "chunks     none (fits)"
    assert line(more, "setting") == "setting    a = 1 (the preset x has 2)"
    prompted = replace(plan, prompts=Prompts({"query": "ask: "}, default="query"))
    assert "before every text: 'ask: '" in line(prompted, "prompts")


def test_the_identity_is_the_settings_and_contents(plan: Plan) -> None:
    identity = plan.identity()
    assert identity.recipe["training"]["max_steps"] == 2
    assert "presets" not in identity.recipe
    assert (identity.text, identity.dev, identity.dev_pairs) == (plan.corpus.fingerprint, None, None)
    assert identity.difference(plan.record().identity) is None
