"""What is decided, told and refused before the first step."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers import filled
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.vectors.chunks import random_state, restore, seeded
from opencse.processes import Processes, gpu_of
from opencse.progress import Silent
from opencse.recipes.recipe import load_recipe
from opencse.runs import job as job_module
from opencse.runs.bounds import Sizes, bounded_settings
from opencse.runs.job import TrainJob, device_of_process
from opencse.runs.opened import longest_text
from opencse.runs.plan import Plan
from opencse.runs.resolving import resolve_for_run
from opencse.text import sample
from opencse.text.given import GivenTexts, open_texts
from opencse.text.readers import Source
from opencse.training.checkpoint import random_states, restore_random_states
from opencse.training.settings import TrainingSettings

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


PREPARED = ("training.batch_size=4", "training.precision=float32")


ROWS = tuple((f"Sentence number {n} is short.",) for n in range(12))


def test_a_budget_decides_the_steps_unless_they_are_known(tiny_folder: Path) -> None:
    job = TrainJob(text=GivenTexts(ROWS), model=str(tiny_folder), settings=PREPARED, dev=None)
    assert job.prepare(Silent()).plan.steps == 3
    assert job.prepare(Silent(), steps=7).plan.steps == 7


def test_one_example_is_refused(tiny_folder: Path) -> None:
    job = TrainJob(text=GivenTexts(ROWS[:1], "one"), model=str(tiny_folder), settings=PREPARED, dev=None)
    with pytest.raises(UserError, match="one: only one example; contrast needs at least two"):
        job.prepare(Silent())


@pytest.mark.parametrize(("reads", "longest"), [(16, 16), (256, 256), (400, 256)])
def test_auto_is_what_the_model_reads_up_to_a_bound(encoder: SentenceEncoder, reads: int, longest: int) -> None:
    encoder.max_length = reads
    assert longest_text(encoder, load_recipe("simcse", overrides=["data.max_length=auto"]), "M") == longest


def test_what_is_beyond_the_model_is_refused(encoder: SentenceEncoder) -> None:
    encoder.max_length = 40
    assert longest_text(encoder, load_recipe("simcse", overrides=["data.max_length=40"]), "M") == 40
    with pytest.raises(UserError, match=r"data\.max_length 41 is more than M reads \(40 ids\).*data\.max_length=40"):
        longest_text(encoder, load_recipe("simcse", overrides=["data.max_length=41"]), "M")


def test_a_batch_too_small_for_it_is_refused(encoder: SentenceEncoder) -> None:
    encoder.max_length = 40
    recipe = load_recipe("pretrain", overrides=["data.max_length=auto", "training.batch_tokens=39"])
    with pytest.raises(UserError, match=r"batch_tokens 39 cannot hold a text of 40 ids"):
        longest_text(encoder, recipe, "M")


def test_a_run_cuts_its_texts_there(tiny_folder: Path, tmp_path: Path) -> None:
    rows = [(f"a question about number {n}", "many words of an answer " * 40) for n in range(12)]
    settings = ("data.max_length=auto", "training.batch_size=4", "training.precision=float32")
    job = TrainJob(text=open_texts(rows), recipe="adapt", model=str(tiny_folder), settings=settings, dev=None)
    plan = job.prepare(Silent()).plan
    assert plan.corpus.max_length == min(256, SentenceEncoder.load(tiny_folder, device="cpu").max_length)
    assert plan.corpus.at_limit == 12


SIZES: dict[str, Any] = {
    "examples": 1_280,
    "batches_per_epoch": 20,
    "steps": 20,
    "batch_size": 64,
    "texts_per_step": 128,
    "stores": {},
    "evaluates": True,
}


FITS: dict[str, Any] = {"evaluate_every": 5, "checkpoint_every": 5}


CONSTANT: dict[str, Any] = {"schedule": "constant"}


@pytest.mark.parametrize(
    ("settings", "sizes", "told"),
    [
        ({}, {}, None),
        ({"max_steps": 10}, {"steps": 10}, None),
        ({"max_steps": 60}, {}, "training.epochs = 1 allows 20 steps; set training.epochs = 3 for 60"),
        ({"max_steps": 60, "tokens": 9}, {}, "training.max_steps = 60 is not reached: training.tokens allows 20 steps"),
        ({"epochs": 2.0, "tokens": 9}, {}, "training.epochs = 2 is not used: training.tokens decides"),
        ({"warmup": 0.01}, {}, "training.warmup = 0.01 of 20 steps rounds to no step"),
        (
            CONSTANT | {"rate_changes": ((5, 1e-4), (30, 1e-5), (40, 1e-6))},
            {},
            "from step 30 on are not reached: the run",
        ),
        ({"batch_size": 2_000}, {"batch_size": 1_280}, "is more than the 1,280 examples: all are in one batch"),
        ({"batch_size": 32, "batch_tokens": 500}, {}, "training.batch_size = 32 is not used"),
        ({"accumulate": 32}, {}, "training.accumulate = 32 is more than the 20 batches of an epoch"),
        ({"chunk": 128}, {}, "training.chunk = 128 is not less than the 128 texts of a batch"),
        ({"evaluate_every": 20}, {}, "the last step alone is evaluated"),
        ({}, {"stores": {"negatives.momentum_queue": 5_000}}, "more than the 1,280 examples"),
        ({}, {"steps": 10, "stores": {"negatives.memory_bank": 1_000}}, "the run makes about 640: it is never full"),
    ],
)
def test_what_is_bounded_is_named(settings: dict[str, Any], sizes: dict[str, Any], told: str | None) -> None:
    said = {f"training.{name}" for name in settings}
    lines = bounded_settings(TrainingSettings(**(FITS | settings)), said, Sizes(**(SIZES | sizes)))
    assert len(lines) == (told is not None), lines
    if told is not None:
        assert told in lines[0]


def test_the_bounds_of_a_preset_are_no_news() -> None:
    """The preset for the built-in encoder has an upper limit of steps, which little data does not reach."""
    cases: list[tuple[tuple[str, ...], list[str]]] = [
        ((), []),
        (("training.max_steps=399",), ["training.max_steps = 399 is not reached"]),
    ]
    for settings, expected in cases:
        job = TrainJob(text=Source(str(sample.PAIRS)), recipe="adapt", settings=settings, dev=None, device="cpu")
        plan = job.prepare(Silent()).plan
        assert plan.preset == "opencse-mini"
        assert [line[11:].split(":")[0] for line in plan.lines() if line.startswith("limit ")] == expected


def test_word_vectors_are_trained_at_their_rate_under_any_name(tiny_folder: Path, tmp_path: Path) -> None:
    copy = str(tmp_path / "adapted-before")
    SentenceEncoder.load("opencse-mini").save(copy)
    builtin = resolve_for_run("simcse")
    assert builtin.preset == "opencse-mini"
    renamed = resolve_for_run("simcse", model=copy)
    assert (renamed.preset, renamed.model) == ("opencse-mini", copy)
    assert renamed.recipe.training == builtin.recipe.training
    more = resolve_for_run("simcse", model=copy, preset="crop-10", settings=("training.epochs=3",))
    assert (more.preset, more.recipe.training.epochs) == ("opencse-mini:crop-10", 3)
    assert more.recipe.training.learning_rate == builtin.recipe.training.learning_rate > 1e-4
    assert resolve_for_run("simcse", model=str(tiny_folder)).preset is None


def test_a_recipe_made_in_python_is_taken_as_it_is() -> None:
    recipe = load_recipe("simcse")
    resolved = resolve_for_run(recipe, model="some/model")
    assert (resolved.recipe, resolved.preset, resolved.model) == (recipe, None, "some/model")
    with pytest.raises(UserError, match="preset and settings need a recipe's name"):
        resolve_for_run(recipe, settings=("training.epochs=3",))


TWELVE = GivenTexts(tuple((f"Sentence number {n} is short.",) for n in range(12)))


ONE_STEP = ("training.max_steps=1", "training.batch_size=4", "training.precision=float32")


def test_the_name_of_a_preset_is_resolved_to_its_model() -> None:
    job = TrainJob(text=TWELVE, model="bert-base")
    assert (job.start_model, job.resolved.preset) == ("google-bert/bert-base-uncased", "bert-base")
    assert TrainJob(text=TWELVE, model="some/model").start_model == "some/model"
    assert TrainJob(text=TWELVE, recipe=load_recipe("simcse"), model="some/model").start_model == "some/model"


@pytest.mark.parametrize(
    ("every", "promise"), [(1, "continues from the checkpoint"), (9, "begins again, as no checkpoint was written")]
)
def test_a_model_that_cannot_be_written_says_what_resume_does(
    every: int, promise: str, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise UserError("run: the model cannot be written")

    settings = (*ONE_STEP, "training.max_steps=3", f"training.checkpoint_every={every}")
    job = TrainJob(text=TWELVE, model=str(tiny_folder), settings=settings, dev=None)
    with monkeypatch.context() as patched:
        patched.setattr(job_module, "write_outcome", full)
        with pytest.raises(UserError, match=f"written; the same .* --resume {promise}"):
            job.run(tmp_path / "run")
    job.run(tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "model.safetensors").is_file()


def test_several_processes_do_not_share_a_numbered_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    assert device_of_process("cuda:1") == "cuda:1", "alone, any is fine"
    for name, value in (("WORLD_SIZE", "2"), ("RANK", "1"), ("LOCAL_RANK", "1")):
        monkeypatch.setenv(name, value)
    assert device_of_process("cpu") == "cpu"
    with pytest.raises(UserError, match=r"^--device cuda:0: 2 processes need a GPU each; use --device cuda"):
        device_of_process("cuda:0")


def test_the_generators_of_apples_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropout on mps draws from mps's own generator: asked for, put back, seeded and kept in checkpoints."""
    held = torch.Generator().manual_seed(1)
    monkeypatch.setattr(torch.mps, "get_rng_state", held.get_state)
    monkeypatch.setattr(torch.mps, "set_rng_state", held.set_state)
    monkeypatch.setattr(torch.mps, "manual_seed", held.manual_seed)
    device = torch.device("mps")
    before, own = random_state(device), torch.get_rng_state()
    assert torch.equal(before, torch.Generator().manual_seed(1).get_state())
    with seeded(5, device):
        assert torch.equal(held.get_state(), torch.Generator().manual_seed(5).get_state())
    assert torch.equal(held.get_state(), before)
    kept = random_states(device)
    torch.rand(3, generator=held)
    restore_random_states(kept, device)
    assert torch.equal(held.get_state(), before)
    restore(torch.Generator().manual_seed(2).get_state(), device)
    assert not torch.equal(held.get_state(), before)
    assert torch.equal(torch.get_rng_state(), own)
    assert set(random_states(torch.device("cpu"))) == {"cpu"}, "no GPU is looked at"


@pytest.mark.parametrize(("gpus", "expected"), [(4, [0, 1, 2, 3]), (3, [0, 1, 2, 0]), (1, [0, 0, 0, 0])])
def test_processes_share_gpus_where_there_are_fewer(
    gpus: int, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert [gpu_of(Processes(rank=n, count=4, local=n, on_machine=4)) for n in range(4)] == expected
