"""The end of a run: which encoder is in the folder, and what the record says of it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import opencse
from opencse import SentenceEncoder
from opencse.adapting.selection import DevScore
from opencse.adapting.selection_by_graded_pairs import GradedPairSelector
from opencse.encoder.fingerprint import fingerprint
from opencse.objective.objective import Objective
from opencse.recipes.recipe import load_recipe
from opencse.runs.finish import TrainResult, keeps_head
from opencse.runs.folder import RunFolder
from opencse.text import sample

QUICK = [
    "training.max_steps=2",
    "training.evaluate_every=1",
    "training.batch_size=8",
    "training.precision=float32",
    "training.learning_rate=1e-3",
]


@pytest.mark.parametrize(("scores", "kept"), [((50.0, 60.0, 55.0), "best"), ((50.0, 40.0, 30.0, 40.0, 50.0), "start")])
def test_the_kept_encoder_the_last_one_and_the_record(
    scores: tuple[float, ...], kept: str, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = iter(scores)
    monkeypatch.setattr(GradedPairSelector, "score", lambda self, encoder: DevScore(next(values)))
    monkeypatch.setattr(GradedPairSelector, "worse", lambda self, trained, start: True)
    result = opencse.train(sample.TRAIN, tmp_path / "out", model=str(tiny_folder), settings=QUICK, dev="sample")
    folder = RunFolder(tmp_path / "out")
    record = folder.record()
    assert record.result is not None
    assert result.kept == record.result.kept == kept
    assert TrainResult.of(folder, record.result, result.plan) == result
    assert (record.result.step, record.result.steps) == (1 if kept == "best" else 0, 2)
    assert not folder.has_checkpoint()
    encoder = SentenceEncoder.load(folder.path)
    start = SentenceEncoder.load(tiny_folder, pooling=encoder.pooling)
    assert (fingerprint(encoder) == fingerprint(start)) == (kept == "start")
    assert fingerprint(SentenceEncoder.load(folder.last)) != fingerprint(encoder), "the last step is another one"


def without_dev(model: Path, out: Path, *settings: str) -> RunFolder:
    opencse.train(sample.TRAIN, out, model=str(model), settings=[*QUICK, *settings], dev=None)
    return RunFolder(out)


WEIGHTS = ["model.safetensors"]
LORA_WEIGHTS = [*WEIGHTS, "adapter/adapter_model.safetensors"]


@pytest.mark.parametrize(("settings", "files"), [((), WEIGHTS), (("encoder.lora.rank=2",), LORA_WEIGHTS)])
def test_weights_of_the_last_step_that_are_kept_are_on_the_disk_once(
    settings: tuple[str, ...], files: list[str], tiny_folder: Path, tmp_path: Path
) -> None:
    run = without_dev(tiny_folder, tmp_path / "out", *settings)
    assert sorted(str(path.relative_to(run.last)) for path in run.last.rglob("*.safetensors")) == sorted(files)
    assert all((run.path / name).samefile(run.last / name) for name in files)
    assert not (run.path / "README.md").samefile(run.last / "README.md"), "texts may be edited in place"
    assert not list(run.path.rglob(".writing-*"))
    before = fingerprint(SentenceEncoder.load(run.path))
    SentenceEncoder.load(tiny_folder).save(run.path)
    assert fingerprint(SentenceEncoder.load(run.path)) != before
    assert fingerprint(SentenceEncoder.load(run.last)) == before, "replacing one leaves the other"
    SentenceEncoder.load(run.last).save(run.path)
    run.share_weights()
    shutil.rmtree(run.last)
    assert fingerprint(SentenceEncoder.load(run.path)) == before, "deleting one leaves the other"


def test_runs_over_and_after_shared_weights_leave_what_links_to_them(tiny_folder: Path, tmp_path: Path) -> None:
    run = without_dev(tiny_folder, tmp_path / "out")
    outside = tmp_path / "linked.safetensors"
    os.link(run.path / "model.safetensors", outside)
    before = outside.read_bytes()
    opencse.train(
        sample.TRAIN, run.path, model=str(tiny_folder), settings=[*QUICK, "training.seed=5"], dev=None, overwrite=True
    )
    assert (run.path / "model.safetensors").samefile(run.last / "model.safetensors")
    assert not (run.path / "model.safetensors").samefile(outside)
    assert outside.read_bytes() == before != (run.path / "model.safetensors").read_bytes()


def test_a_file_system_without_links_has_copies(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    run = without_dev(tiny_folder, tmp_path / "out")
    assert not (run.path / "model.safetensors").samefile(run.last / "model.safetensors")
    assert fingerprint(SentenceEncoder.load(run.path)) == fingerprint(SentenceEncoder.load(run.last))
    assert not list(run.path.rglob(".writing-*"))


def test_weights_of_the_same_size_that_differ_stay_apart(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    for folder, content in ((run.path, b"one"), (run.last, b"two"), (run.start, b"one")):
        folder.mkdir(exist_ok=True)
        (folder / "model.safetensors").write_bytes(content)
    run.share_weights()
    assert (run.last / "model.safetensors").read_bytes() == b"two"
    assert (run.start / "model.safetensors").samefile(run.path / "model.safetensors")


def test_only_pretraining_keeps_the_masked_lm_head() -> None:
    def keeps(recipe: str) -> bool:
        return keeps_head(Objective.from_settings(load_recipe(recipe).objective))

    assert [keeps(recipe) for recipe in ("pretrain", "simcse", "simcse:mlm-0.1")] == [True, False, False]
