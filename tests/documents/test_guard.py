"""The guard against forgetting refuses large drops and tolerates noise."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from opencse import SentenceEncoder
from opencse.documents.dev_choice import Dev
from opencse.text import sample
from opencse.text.readers import Source
from opencse.training.questions import OF_OWN_WORDS, TOLERANCE, Guard, Questions


def test_what_is_lost_beyond_noise_is_refused_and_some_is_tolerated_for_what_people_ask() -> None:
    watch = Guard.of_pairs((f"question {n}", f"answer {n}") for n in range(80))
    good = np.random.default_rng(0).choice([0.0, 50.0, 100.0], 80)
    noisier = good.copy()
    noisier[:16] = 100 - noisier[:16]
    noisier[16:22] = 0
    assert good.mean() - noisier.mean() > TOLERANCE, "more than is tolerated, but no more than noise"
    cases = [(good, 0, 0), (0 * good, 1, 1), (noisier, 0, 0)]
    cases += [(good - lost, lost > OF_OWN_WORDS, lost > TOLERANCE) for lost in (0.5, 2, 3)]
    for after, by_text, by_people in cases:
        change = watch.compare(good, after)
        assert watch.refuses(change, own_words=True) == by_text
        assert watch.refuses(change, own_words=False) == by_people


@pytest.mark.in_full
@pytest.mark.slow
def test_the_built_in_guard_knows_a_good_encoder_from_a_ruined_one() -> None:
    chosen = Dev.of("text").open(Source(str(sample.TRAIN)))
    assert isinstance(chosen, Questions)
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
    assert chosen.guard.refuses(chosen.guard.compare(before, chosen.guard.values(encoder)), own_words=False)
