"""The guard in the language of the text refuses an encoder whose similarities moved too far."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from opencse import SentenceEncoder
from opencse.adapting.dev_choice import load_selector
from opencse.adapting.selection import History
from opencse.adapting.selection_by_questions import QuestionSelector
from opencse.adapting.similarity_guard import FEWEST, LEAST, TEXTS, SimilarityGuard
from opencse.adapting.trained_texts import TrainedTexts
from opencse.text import sample
from opencse.text.given import open_texts

THINGS = ["Kessel", "Hund", "Garten", "Zug", "Brief", "Topf", "Vogel", "Baum", "Tisch", "Regen", "Schnee", "Hof"]
GERMAN = [
    f"Das ist der {one} von dem Nachbarn, und er ist mit dem {two} auf dem Weg zu uns, Nummer {number}."
    for number, (one, two) in enumerate((one, two) for one in THINGS for two in THINGS)
]


def test_agreement_is_the_mean_rank_correlation_of_rows() -> None:
    rng = np.random.default_rng(0)
    before, after = (one + one.T for one in rng.normal(size=(2, 9, 9)))
    rows = [spearmanr(np.delete(before[row], row), np.delete(after[row], row)).statistic for row in range(9)]
    guard = SimilarityGuard(GERMAN[:9])
    assert guard.agreement(before, after) == pytest.approx(100 * np.mean(rows))
    assert guard.agreement(before, np.exp(before)) == 100
    assert guard.agreement(before, np.ones((9, 9))) == 0


def test_only_texts_that_are_not_english_have_it() -> None:
    guard = SimilarityGuard.of(GERMAN)
    assert guard is not None
    assert guard.language == "german"
    assert guard.name == f"similarities of {len(GERMAN)} held-out German texts"
    assert SimilarityGuard.of(sample.TRAIN.read_text(encoding="utf-8").splitlines()) is None
    assert SimilarityGuard.of(GERMAN[: FEWEST - 1]) is None
    many = SimilarityGuard.of(f"{text} {number}" for text in GERMAN for number in range(9))
    assert many is not None
    assert len(many.texts) == TEXTS
    assert set(many.texts) != set(GERMAN[:TEXTS])
    unclear = SimilarityGuard.of(f"M{number} x 40 DIN 933" for number in range(99))
    assert unclear is not None
    assert unclear.name == "similarities of 99 held-out texts"


def test_texts_that_are_trained_on_are_dropped() -> None:
    guard = SimilarityGuard(GERMAN[:60], "german")
    fewer = guard.without(TrainedTexts.among([(text,) for text in GERMAN[:5]], guard.texts))
    assert fewer is not None
    assert fewer.texts == GERMAN[5:60]
    assert fewer.fingerprint() != guard.fingerprint()
    assert guard.without(TrainedTexts.among([(text,) for text in GERMAN[:20]], guard.texts)) is None


def disturbed(encoder: SentenceEncoder, size: float) -> SentenceEncoder:
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weights in encoder.parameters():
            weights.add_(size * weights.std() * torch.randn(weights.shape, generator=generator))
    return encoder


@pytest.mark.every_general_question
def test_a_small_change_passes_and_one_without_agreement_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [f"Nummer {number} {text} Teil {number}." for text in GERMAN for number in range(5)]
    loaded = load_selector("text", open_texts(rows))
    assert isinstance(loaded, QuestionSelector)
    assert loaded.guard is not None
    assert loaded.language_guard is not None
    name = loaded.language_guard.name
    assert "German" in name
    assert loaded.size.endswith(f"; 1,560 general English questions and {name} guard against forgetting")
    selector = QuestionSelector(loaded.questions, None, loaded.language_guard)
    assert selector.size.endswith(f"; {name} guard against forgetting")
    assert selector.fingerprint() != QuestionSelector(loaded.questions).fingerprint()
    monkeypatch.setattr(SimilarityGuard, "known_by", lambda guard, encoder: True)
    start = selector.begin(SentenceEncoder.load(device="cpu"))
    assert start.agreement == 100
    small = selector.score(disturbed(SentenceEncoder.load(device="cpu"), 0.05))
    assert small.agreement is not None
    assert LEAST < small.agreement < 100
    assert not small.forgets
    noise = np.random.default_rng(0).normal(size=(len(loaded.language_guard.texts),) * 2)
    monkeypatch.setattr(SimilarityGuard, "values", lambda guard, encoder: noise)
    ruined = selector.score(SentenceEncoder.load(device="cpu"))
    assert ruined.agreement is not None
    assert ruined.agreement < LEAST
    assert ruined.forgets
    assert ruined.record()["agreement"] == ruined.agreement
    kept = selector.choose(History({0: start, 9: replace(small, value=start.value + 1)}), 9, None, lambda: False)
    assert f"{name} agree to {small.agreement:.0f} % with the start's" in kept.verdict
    refused = selector.choose(History({0: start, 9: replace(ruined, value=99.0)}), 9, None, lambda: False)
    assert refused.kept == "start"
    assert f"moved too far: {name} agree to" in refused.verdict
    monkeypatch.setattr(SimilarityGuard, "known_by", lambda guard, encoder: False)
    selector.begin(SentenceEncoder.load(device="cpu"))
    moved = replace(ruined, value=99.0, forgets=False)
    kept = selector.choose(History({0: start, 9: moved}), 9, None, lambda: False)
    assert kept.kept == "best"
    assert "with the start's, which knows little of their language" in kept.verdict


def test_a_start_knows_a_language_whose_words_it_does_not_split() -> None:
    start = SentenceEncoder.load(device="cpu")
    english = [line for line in sample.TRAIN.read_text(encoding="utf-8").splitlines() if line][:200]
    assert SimilarityGuard(english).known_by(start)
    prose = "Wer den Kessel nicht rechtzeitig entkalkt, muss deutlich länger auf heißes Wasser warten."
    assert not SimilarityGuard([prose], "german").known_by(start)
    assert not SimilarityGuard(["水を沸かす方法", "機械学習の入門"], "japanese").known_by(start)
