"""The guard in the language of the text refuses an encoder whose similarities moved too far."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from opencse import SentenceEncoder
from opencse.documents.dev_choice import Dev, UserQueries
from opencse.evaluation.retrieval.data import RetrievalTask
from opencse.text import sample
from opencse.text.given import open_texts
from opencse.training.questions import FEWEST_TEXTS as FEWEST
from opencse.training.questions import LEAST, TEXTS, Questions, SimilarityGuard
from opencse.training.selection import History

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
    keywords = [f"kettle {number}" for number in range(99)]
    english = RetrievalTask("toy", ["a"], [sample.TRAIN.read_text(encoding="utf-8")], keywords, keywords, [{}] * 99, 0)
    assert UserQueries(english).guarded().language_guard is None, "the documents tell the language of keywords"


def disturbed(encoder: SentenceEncoder, size: float) -> SentenceEncoder:
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weights in encoder.parameters():
            weights.add_(size * weights.std() * torch.randn(weights.shape, generator=generator))
    return encoder


@pytest.mark.slow
def test_a_small_change_passes_and_one_without_agreement_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [f"Nummer {number} {text} Teil {number}." for text in GERMAN for number in range(5)]
    loaded = Dev.of("text").open(open_texts(rows))
    assert isinstance(loaded, Questions)
    assert loaded.language_guard is not None
    name = loaded.language_guard.name
    selector = replace(loaded, guard=None)
    assert selector.size.endswith(f"; {name} guard against forgetting")
    assert selector.fingerprint() != replace(loaded, guard=None, language_guard=None).fingerprint()
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
    assert ruined.forgets
    kept = selector.choose(History({0: start, 9: replace(small, value=start.value + 1)}), 9, None, lambda: False)
    assert f"{name} agree to {small.agreement:.0f} % with the start's" in kept.verdict
    refused = selector.choose(History({0: start, 9: replace(ruined, value=99.0)}), 9, None, lambda: False)
    assert refused.kept == "start"
    assert f"moved too far: {name} agree to" in refused.verdict
