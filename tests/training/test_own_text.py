"""Runs that choose by their own text: nothing held out is trained on, and resuming changes nothing."""

from __future__ import annotations

import pytest

from opencse.progress import Silent
from opencse.runs.run import Run
from opencse.text import sample
from opencse.text.corpus import text_key
from opencse.text.readers import Source
from opencse.text.scripts import normalised
from opencse.training.questions import Questions

pytestmark = pytest.mark.slow

SETTINGS = (
    "training.max_steps=12",
    "training.batch_size=32",
    "training.evaluate_every=4",
    "training.checkpoint_every=5",
    "training.precision=float32",
)


@pytest.mark.parametrize(
    ("recipe", "source"),
    [
        ("next-sentence", Source(str(sample.TRAIN))),
        ("simcse-supervised", Source(str(sample.PAIRS), columns=("anchor", "positive"))),
    ],
)
def test_nothing_held_out_is_in_any_batch(recipe: str, source: Source) -> None:
    prepared = Run(text=source, recipe=recipe, settings=SETTINGS).open(Silent())
    chooser = prepared.selector
    assert isinstance(chooser, Questions)
    texts = source.read()
    out = chooser.left_out
    assert out is not None
    assert 0.05 < out.mean() < 0.3
    asked = {normalised(text) for row, left in zip(texts.rows, out, strict=True) if left for text in row}
    seen = {int(key) for step in range(prepared.batches.steps_per_epoch)
            for key in prepared.inputs.build(prepared.batches.batch(step), step).keys.flatten()}  # fmt: skip
    trained = [text for row in texts.rows for text in row if text_key(text) in seen]
    assert len(trained) > 1_000
    assert not [text for text in trained if normalised(text) in asked]
