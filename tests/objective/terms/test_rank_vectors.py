"""Similarities of ranks over the texts of earlier steps: against loops, from the first step on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from scipy.stats import spearmanr

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.teachers.teacher import TaughtVectors
from opencse.objective.terms.rank_vectors import RankVectors
from opencse.objective.vectors.step import Representations, Request
from opencse.settings import validate

N, D, T = 5, 4, 32


def begun(encoder: SentenceEncoder, **data: Any) -> RankVectors:
    term = RankVectors(validate(RankVectors.Settings, {"kind": "rank_vectors", **data}, "test"))
    term.begin(encoder.double(), batch_size=N, seed=0)
    return term


def step(term: RankVectors, seed: int) -> Representations:
    random = torch.Generator().manual_seed(seed)
    anchor, positive = (torch.randn(N, D, generator=random, dtype=torch.float64).requires_grad_() for _ in range(2))
    taught = torch.randn(N, T, generator=random, dtype=torch.float64)
    taught[1] = taught[0] + 0.3 * taught[1]
    answers: dict[Request[Any], Any] = {term.request: TaughtVectors(taught, taught, taught.unsqueeze(1)[:, :0])}
    return replace(Representations.of(anchor, positive), answers=answers)


def test_the_loss_by_loops(encoder: SentenceEncoder) -> None:
    term = begun(encoder, corpus=12, least=10, low=0.4, high=0.999)
    earlier = [step(term, seed) for seed in range(3)]
    for number, reps in enumerate(earlier):
        assert float(term.loss(reps).detach()) == 0 or number == 2
        assert (term.diagnose(reps)["rank_pairs"] > 0) == (number == 2)
        term.after_backward(encoder, [], [reps.detached()])
    reps = step(term, 9)
    corpus = torch.cat([one[term.request].anchor for one in earlier])[-12:]
    taught = reps[term.request].anchor
    ranks = [[float(torch.cosine_similarity(text, other, dim=0)) for other in corpus] for text in taught]
    terms = []
    for i in range(N):
        for j in range(N):
            rho = spearmanr(ranks[i], ranks[j]).statistic
            if 0.4 <= rho <= 0.999:
                terms.append((torch.cosine_similarity(reps.anchor[i], reps.positive[j], dim=0) - rho) ** 2)
    assert 2 <= len(terms) < N * (N - 1)
    wanted = torch.stack(terms).mean()
    loss = term.loss(reps)
    torch.testing.assert_close(loss, wanted, rtol=1e-10, atol=1e-10)
    for one, other in zip(
        torch.autograd.grad(loss, (reps.anchor, reps.positive)),
        torch.autograd.grad(wanted, (reps.anchor, reps.positive)),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("data", "words"), [({"low": 0.9, "high": 0.5}, "is above high"), ({"corpus": 10}, "least .* is above corpus")]
)
def test_settings_that_contradict_each_other(data: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        validate(RankVectors.Settings, {"kind": "rank_vectors", **data}, "test")
