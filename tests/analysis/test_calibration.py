"""A calibration in a model's folder: made from text, found again, and refused once the model is another."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from opencse.analysis.calibration import Calibration, calibrate, labels
from opencse.analysis.random_pairs import random_pairs
from opencse.analysis.thresholds import at_precision, best_f1
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import fingerprint
from opencse.errors import UserError
from opencse.evaluation import ScoredPairs, cosine_of_rows, read_scored_pairs
from opencse.text import sample


@pytest.fixture(scope="module")
def pairs() -> ScoredPairs:
    whole = read_scored_pairs(sample.DEV)
    return ScoredPairs("dev", whole.scores[:40], whole.first[:40], whole.second[:40])


@pytest.mark.slow
def test_it_is_made_of_its_parts(encoder: SentenceEncoder, pairs: ScoredPairs, sentences: list[str]) -> None:
    texts = sentences[:30]
    found = calibrate(encoder, [*texts, *texts[:9]], labelled=pairs, cut=3.0, precision=0.4, corpus="c", resamples=9)
    assert found.model == fingerprint(encoder)
    assert found.random_pairs == random_pairs(encoder.encode(texts))
    assert (found.random_pairs.texts, found.random_pairs.pairs) == (30, 435)
    cosines, alike = cosine_of_rows(encoder.encode(pairs.first), encoder.encode(pairs.second)), pairs.scores >= 3
    assert found.best_f1 is not None
    assert found.best_f1.f1 == best_f1(cosines, alike, resamples=9).f1
    assert found.best_f1.cosine == pytest.approx(best_f1(cosines, alike, resamples=9).cosine, abs=1e-6)
    assert found.at_precision is not None
    assert found.at_precision.recall == at_precision(cosines, alike, 0.4, resamples=9).recall
    assert found.percentile_of(0.9) == found.random_pairs.percentile_of(0.9)
    plain = calibrate(encoder, texts, limit=10)
    assert (plain.best_f1, plain.at_precision, plain.random_pairs.texts) == (None, None, 10)
    assert plain.random_pairs == calibrate(encoder, texts, limit=10).random_pairs
    assert plain.random_pairs != calibrate(encoder, texts, limit=10, seed=1).random_pairs


def test_it_is_kept_in_the_folder_and_refused_for_another_model(
    encoder: SentenceEncoder, sentences: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    assert Calibration.load(folder) is None
    encoder.save(folder)
    assert Calibration.load(folder) is None
    made = calibrate(encoder, sentences[:12])
    made.save(folder)
    assert Calibration.load(folder) == made
    assert Calibration.load(folder, encoder) == made
    other = SentenceEncoder.load(folder, device="cpu", pooling="cls")
    with pytest.raises(UserError, match=r"calibration.json: was made for a model of other weights or settings") as told:
        Calibration.load(folder, other)
    assert "\n" not in str(told.value)
    with torch.no_grad():
        next(encoder.backbone.parameters())[5, 3] += 1e-3
    encoder.save(folder)
    with pytest.raises(UserError, match=f"hash {made.model}, this one's is {fingerprint(encoder)}"):
        Calibration.load(folder)
    with pytest.raises(UserError, match="no such folder; save the model there first"):
        made.save(tmp_path / "nowhere")


def test_a_spoilt_file_is_refused(encoder: SentenceEncoder, sentences: list[str], tmp_path: Path) -> None:
    calibrate(encoder, sentences[:5]).save(tmp_path)
    file = tmp_path / "calibration.json"
    good = json.loads(file.read_text())
    for spoilt, told in (
        ("{", "cannot be read"),
        ("[]", "a result is a JSON object"),
        (json.dumps({**good, "more": 1}), "unknown key 'more'"),
        (json.dumps({**good, "random_pairs": {**good["random_pairs"], "cosines": [0.1]}}), "must be of one length"),
    ):
        file.write_text(spoilt)
        with pytest.raises(UserError, match=f"calibration.json: .*{told}"):
            Calibration.load(tmp_path, encoder)


def test_labels_are_zeros_and_ones_or_scores_with_a_cut(pairs: ScoredPairs) -> None:
    binary = ScoredPairs("b", np.array([0.0, 1, 1]), ["a"] * 3, ["b"] * 3)
    assert labels(binary).tolist() == [False, True, True]
    graded = ScoredPairs("g", np.array([0.0, 1, 3.5]), ["a"] * 3, ["b"] * 3)
    assert labels(graded, 1.0).tolist() == [False, True, True]
    assert labels(graded, 1.1).tolist() == [False, False, True]
    with pytest.raises(UserError, match=r"^g, pair 3: its score is 3.5, not a label 0 or 1; give the cut"):
        labels(graded)
    for cut in (0.0, 3.6):
        with pytest.raises(UserError, match=r"leaves pairs of one kind \(scores are 0 to 3.5\)"):
            labels(graded, cut)


def test_wrong_requests_are_refused(encoder: SentenceEncoder, pairs: ScoredPairs) -> None:
    with pytest.raises(UserError, match="1 different text"):
        calibrate(encoder, ["a", "a"])
    with pytest.raises(UserError, match="limit is the number of texts encoded"):
        calibrate(encoder, ["a", "b"], limit=1)
    for cut, precision in ((2.0, None), (None, 0.9)):
        with pytest.raises(UserError, match="needs labelled pairs"):
            calibrate(encoder, ["a", "b"], cut=cut, precision=precision)
    with pytest.raises(UserError, match="not a label 0 or 1"):
        calibrate(encoder, ["a", "b"], labelled=pairs)
