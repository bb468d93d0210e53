"""Models through Python: opened, checked with text, made, exported, and the machine that they run on."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

import opencse
from opencse.commands.demo import EXAMPLES, split_sample
from opencse.commands.doctor import lacking
from opencse.commands.opening import open_encoder
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.evaluation import read_scored_pairs
from opencse.export.distil import DistilSettings
from opencse.progress import Silent
from opencse.text import sample
from opencse.text.scripts import normalised


def test_an_encoder_in_memory_is_taken_as_it_is() -> None:
    encoder = SentenceEncoder.load(device="cpu")
    assert open_encoder(encoder, Silent()) is encoder
    with pytest.raises(UserError, match="pooling and device are chosen when a model is loaded"):
        open_encoder(encoder, Silent(), pooling="mean")


TEXTS = ["The kettle boils.", "Snow fell on the hills.", "The train is late.", "A dog barks at night."]


def test_whitening_keeps_the_given_encoder(tmp_path: Path) -> None:
    encoder = opencse.SentenceEncoder(device="cpu")
    before = encoder.encode(TEXTS)
    whitened = opencse.whiten(encoder, TEXTS, tmp_path / "white", dimension=2)
    assert whitened.encoder.encode(TEXTS).shape == (4, 2)
    assert (encoder.encode(TEXTS) == before).all()


def test_a_dimension_above_the_model_is_refused(tiny_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not 9999"):
        opencse.export_static(tiny_folder, tmp_path / "table", settings=DistilSettings(dimension=9_999), device="cpu")


def test_text_that_the_builtin_encoder_does_not_know_gets_another_model() -> None:
    german = ["Das Ventil der Pumpe ist undicht.", "Der Motor läuft in der Nacht zu heiß."]
    english = ["The valve of the pump is leaking.", "The engine runs too hot at night."]
    assert any("knows little German" in line and "--model" in line for line in opencse.check(german).advice)
    assert not any("knows little" in line for line in opencse.check(english).advice)


def test_missing_and_old_packages_are_named_with_their_mend() -> None:
    assert lacking(["numpy>=2", "torch"]) == []
    assert lacking(["no-such-package>=1"]) == ["no-such-package is not installed; pip install 'no-such-package>=1'"]
    (old,) = lacking(["numpy>=999"])
    assert ">=999 is needed; pip install 'numpy>=999'" in old


def test_what_the_demo_evaluates_on_is_not_trained_on() -> None:
    """Texts, pairs and questions: none of those evaluated is in the text or the pairs that are written for training."""
    parts = split_sample()
    pairs = [text for row in csv.reader(io.StringIO(parts.pairs.decode())) for text in row]
    trained = {normalised(text) for text in (*parts.text.splitlines(), *pairs)}
    graded = read_scored_pairs(sample.TEST)
    asked = [text for query in parts.queries for text in query]
    assert len(parts.queries) > 100
    assert len(trained) > 4_000
    evaluated = {normalised(text) for text in (*asked, *EXAMPLES, *graded.first, *graded.second)}
    assert trained & evaluated == set()
    whole = {normalised(line) for line in sample.TRAIN.read_text().splitlines() if line}
    assert {normalised(answer) for _, answer in parts.queries} <= whole, "what is asked for is among what is searched"
