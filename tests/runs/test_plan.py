"""What is decided, told and refused before the first step."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.progress import Silent
from opencse.recipes.recipe import load_recipe
from opencse.runs import run as run_module
from opencse.runs.run import Run
from opencse.runs.setup import longest_text
from opencse.text.given import GivenTexts

SETTINGS = ("training.max_steps=2", "training.batch_size=4", "training.precision=float32")


@pytest.fixture
def plan(tiny_folder: Path) -> list[str]:
    texts = GivenTexts(tuple((f"Sentence number {n} is short.",) for n in range(12)), "twelve sentences")
    return Run(text=texts, model=str(tiny_folder), settings=SETTINGS, dev=None).open(Silent()).describe()


def line(plan: list[str], name: str) -> str:
    (found,) = [line for line in plan if line.startswith(f"{name} ")]
    return found


def test_each_decision_has_its_line(plan: list[str]) -> None:
    assert line(plan, "text").endswith("twelve sentences: 12 rows of 1 text, no duplicate rows")
    assert "2 of batch 4; 12 examples are 3 batches per epoch, so 0.67 epochs" in line(plan, "steps")
    assert "3 per anchor" in line(plan, "negatives")
    assert "none: the last encoder is kept" in line(plan, "selection")
    assert not [one for one in plan if one.startswith(("near", "weights", "adapters", "processes"))]


PREPARED = ("training.batch_size=4", "training.precision=float32")


ROWS = tuple((f"Sentence number {n} is short.",) for n in range(12))


def test_a_budget_decides_the_steps_unless_they_are_known(tiny_folder: Path) -> None:
    job = Run(text=GivenTexts(ROWS + ROWS[:3]), model=str(tiny_folder), settings=PREPARED, dev=None)
    assert job.open(Silent()).steps == 4
    told = line(job.describe(), "text")
    assert told.endswith("3 duplicate rows (equal texts in a batch are not each other's negatives)")
    assert job.open(Silent(), steps=7).steps == 7


def test_one_example_is_refused(tiny_folder: Path) -> None:
    job = Run(text=GivenTexts(ROWS[:1], "one"), model=str(tiny_folder), settings=PREPARED, dev=None)
    with pytest.raises(UserError, match="one: only one example; contrast needs at least two"):
        job.open(Silent())


@pytest.mark.parametrize(("reads", "longest"), [(16, 16), (256, 256), (400, 256)])
def test_auto_is_what_the_model_reads_up_to_a_bound(encoder: SentenceEncoder, reads: int, longest: int) -> None:
    encoder.max_length = reads
    assert longest_text(encoder, load_recipe("simcse", overrides=["data.max_length=auto"]), "M") == longest


def test_what_is_beyond_the_model_is_refused(encoder: SentenceEncoder) -> None:
    encoder.max_length = 40
    assert longest_text(encoder, load_recipe("simcse", overrides=["data.max_length=40"]), "M") == 40
    with pytest.raises(UserError, match=r"data\.max_length 41 is more than M reads \(40 ids\).*data\.max_length=40"):
        longest_text(encoder, load_recipe("simcse", overrides=["data.max_length=41"]), "M")


def test_what_is_bounded_is_named(tiny_folder: Path) -> None:
    for settings, told in (
        (("training.batch_size=4",), []),
        (
            ("training.batch_size=4", "training.max_steps=9"),
            ["training.epochs = 1 allows 3 steps; set training.epochs = 3 for 9"],
        ),
        (
            ("training.batch_size=4", "training.max_steps=99", "training.tokens=200"),
            ["training.max_steps = 99 is not reached: the budget of minutes or tokens allows"],
        ),
        (("training.batch_size=64",), ["is more than the 12 examples: all are in one batch"]),
    ):
        job = Run(text=GivenTexts(ROWS), model=str(tiny_folder), settings=settings, dev=None)
        limits = [one for one in job.open(Silent()).describe() if one.startswith("limit ")]
        assert len(limits) == len(told), limits
        assert all(words in limit for words, limit in zip(told, limits, strict=True)), limits


TWELVE = GivenTexts(tuple((f"Sentence number {n} is short.",) for n in range(12)))


ONE_STEP = ("training.max_steps=1", "training.batch_size=4", "training.precision=float32")


@pytest.mark.parametrize(
    ("every", "promise"), [(1, "continues from the checkpoint"), (9, "begins again, as no checkpoint was written")]
)
def test_a_model_that_cannot_be_written_says_what_resume_does(
    every: int, promise: str, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise UserError("run: the model cannot be written")

    settings = (*ONE_STEP, "training.max_steps=3", f"training.checkpoint_every={every}")
    job = Run(text=TWELVE, model=str(tiny_folder), settings=settings, dev=None)
    with monkeypatch.context() as patched:
        patched.setattr(run_module, "write_outcome", full)
        with pytest.raises(UserError, match=f"written; the same .* --resume {promise}"):
            job.train(tmp_path / "run")
    job.train(tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "model.safetensors").is_file()
