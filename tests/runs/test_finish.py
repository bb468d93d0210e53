"""The end of a run: which encoder is in the folder, and what the record says of it."""

from __future__ import annotations

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


def test_only_pretraining_keeps_the_masked_lm_head() -> None:
    def keeps(recipe: str) -> bool:
        return keeps_head(Objective.from_settings(load_recipe(recipe).objective))

    assert [keeps(recipe) for recipe in ("pretrain", "simcse", "simcse:mlm-0.1")] == [True, False, False]
