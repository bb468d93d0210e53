"""`opencse.finish`: folders that hold no run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import opencse
from helpers import Broken, Heard
from opencse.adapting.continuing import FILE as DOCUMENTS
from opencse.adapting.saved_questions import FILE as QUESTIONS
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import InterruptedRunError, UserError
from opencse.model_folder.hybrid_weight import read_hybrid_weight


def test_folders_without_a_run_are_named_for_what_they_are(tmp_path: Path, tiny_folder: Path) -> None:
    for folder, message in (
        (tmp_path / "missing", "no such folder"),
        (tmp_path, "holds no run"),
        (tiny_folder, "holds a model and no run"),
    ):
        with pytest.raises(UserError, match=message):
            opencse.finish(folder)
    with pytest.raises(TypeError, match="folder is a path"):
        opencse.finish(["a"])  # type: ignore[arg-type]


@pytest.mark.parametrize("end", [KeyboardInterrupt(), RuntimeError("killed")])
def test_a_stopped_adapt_run_is_finished_as_one_that_ends_by_itself(tmp_path: Path, end: BaseException) -> None:
    documents = [
        (
            f"The {noun} of house {n}",
            f"The {noun} {n} is made of part {7 * n}. It weighs {n} grams with its box {3 * n}.",
        )
        for n in range(240)
        for noun in ("kettle", "lantern")
    ]
    settings = [
        "training.max_steps=6", "training.evaluate_every=2", "training.checkpoint_every=2", "training.batch_size=8",
    ]  # fmt: skip

    def adapt(name: str, **options: Any) -> None:
        opencse.adapt(documents, tmp_path / name, settings=settings, device="cpu", report=False, **options)

    adapt("complete")
    assert not (tmp_path / "complete" / QUESTIONS).exists()
    with pytest.raises((InterruptedRunError, RuntimeError)):
        adapt("stopped", progress=Broken(4, end))
    stopped, heard = tmp_path / "stopped", Heard()
    assert read_hybrid_weight(stopped) is None
    assert (stopped / QUESTIONS).is_file()
    opencse.finish(stopped, report=False, progress=heard)
    names = {one.name for one in (tmp_path / "complete").iterdir()}
    assert {one.name for one in stopped.iterdir()} == names | {"checkpoint"}
    assert (stopped / DOCUMENTS).read_bytes() == (tmp_path / "complete" / DOCUMENTS).read_bytes()
    weight, other = read_hybrid_weight(stopped), read_hybrid_weight(tmp_path / "complete")
    assert weight is not None
    assert other is not None
    assert weight.source == other.source
    assert sum(line.startswith("hybrid ") for line in heard.said) == 1
    assert SentenceEncoder.load(stopped, device="cpu").hybrid_weight == weight
    adapt("stopped", resume=True)
    for name in ("model.safetensors", "metrics.jsonl", DOCUMENTS, "config_sentence_transformers.json"):
        assert (stopped / name).read_bytes() == (tmp_path / "complete" / name).read_bytes()
    assert {one.name for one in stopped.iterdir()} == names
