"""A training job: its recipe is resolved once, and its start named."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse import UserError
from opencse.recipes.recipe import load_recipe, resolve_recipe
from opencse.runs import job as job_module
from opencse.runs import resolving
from opencse.runs.job import TrainJob
from opencse.text.given import GivenTexts

TEXT = GivenTexts(tuple((f"Sentence number {n} is short.",) for n in range(12)))
SETTINGS = ("training.max_steps=1", "training.batch_size=4", "training.precision=float32")


def test_a_run_resolves_its_recipe_once(tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    resolve = resolve_recipe

    def counted(recipe: str, **options: object) -> object:
        calls.append(recipe)
        return resolve(recipe, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(resolving, "resolve_recipe", counted)
    TrainJob(text=TEXT, model=str(tiny_folder), settings=SETTINGS, dev=None).run(tmp_path / "run")
    assert calls == ["simcse"]


def test_the_name_of_a_preset_is_resolved_to_its_model() -> None:
    job = TrainJob(text=TEXT, model="bert-base")
    assert (job.start_model, job.resolved.preset) == ("google-bert/bert-base-uncased", "bert-base")
    assert TrainJob(text=TEXT, model="some/model").start_model == "some/model"
    assert TrainJob(text=TEXT, recipe=load_recipe("simcse"), model="some/model").start_model == "some/model"


def test_a_dry_run_writes_nothing(tiny_folder: Path, tmp_path: Path) -> None:
    plan = TrainJob(text=TEXT, model=str(tiny_folder), settings=SETTINGS, dev=None).dry_run(tmp_path / "run")
    assert plan.steps == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("every", "promise"), [(1, "continues from the checkpoint"), (9, "begins again, as no checkpoint was written")]
)
def test_a_model_that_cannot_be_written_says_what_resume_does(
    every: int, promise: str, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise UserError("run: the model cannot be written")

    settings = (*SETTINGS, "training.max_steps=3", f"training.checkpoint_every={every}")
    job = TrainJob(text=TEXT, model=str(tiny_folder), settings=settings, dev=None)
    with monkeypatch.context() as patched:
        patched.setattr(job_module, "write_outcome", full)
        with pytest.raises(UserError, match=f"written; the same .* --resume {promise}"):
            job.run(tmp_path / "run")
    job.run(tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "model.safetensors").is_file()
