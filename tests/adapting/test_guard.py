"""The guard against forgetting refuses large drops and tolerates noise."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from opencse import SentenceEncoder
from opencse.adapting.dev_choice import load_selector
from opencse.adapting.guard import TOLERANCE, Forgotten, Guard
from opencse.adapting.selection_by_questions import QuestionSelector
from opencse.text import sample
from opencse.text.readers import Source


def test_the_guard_refuses_a_large_drop_and_lets_noise_pass() -> None:
    watch = Guard.of_pairs((f"question {n}", f"answer {n}") for n in range(80))
    good = np.random.default_rng(0).choice([0.0, 50.0, 100.0], 80)
    same = watch.compare(good, good)
    assert (same.value, same.lost, same.too_much) == (good.mean(), 0.0, False)
    ruined = watch.compare(good, 0 * good)
    assert ruined.lost > 30
    assert ruined.too_much
    other = good.copy()
    other[:16] = 100 - other[:16]
    other[16:22] = 0
    noisier = watch.compare(good, other)
    assert same.value - noisier.value > TOLERANCE, "more than is tolerated, but no more than noise"
    assert not noisier.too_much
    assert watch.compare(0 * good, good).lost < -30


def test_the_tolerance_counts_beyond_the_noise() -> None:
    assert not Forgotten(50.0, lost=TOLERANCE).too_much
    assert Forgotten(50.0, lost=TOLERANCE + 0.01).too_much


def test_the_guard_asks_each_pair_among_all_answers() -> None:
    watch = Guard.of_pairs([("who", "A man."), ("what", "A thing."), ("which one", "A thing.")])
    assert watch.questions.candidates == ["A man.", "A thing."]
    assert watch.questions.answers.tolist() == [0, 1, 1]
    assert len(watch) == 3
    other = Guard.of_pairs([("who", "A man."), ("what", "A thing."), ("which one", "A man.")])
    assert watch.fingerprint() != other.fingerprint()


@pytest.mark.every_general_question
@pytest.mark.slow
def test_the_built_in_guard_knows_a_good_encoder_from_a_ruined_one() -> None:
    chosen = load_selector("text", Source(str(sample.TRAIN)))
    assert isinstance(chosen, QuestionSelector)
    assert chosen.guard is not None
    assert len(chosen.guard) == 1560
    encoder = SentenceEncoder.load(device="cpu")
    before = chosen.guard.values(encoder)
    asked = chosen.guard.questions
    vectors = encoder.encode([*asked.queries, *asked.candidates], normalize_embeddings=True)
    found = vectors[: len(before)] @ vectors[len(before) :].T
    right = found[np.arange(len(before)), asked.answers]
    ranks = (found > right[:, None]).sum(axis=1) + 1
    assert before.mean() == pytest.approx(np.where(ranks <= 10, 100 / np.log2(ranks + 1), 0).mean(), abs=0.05)
    with torch.no_grad():
        for weights in encoder.parameters():
            weights.add_(weights.std() * torch.randn(weights.shape, generator=torch.Generator().manual_seed(0)))
    assert chosen.guard.compare(before, chosen.guard.values(encoder)).too_much
