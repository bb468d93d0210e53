"""Every part draws its noise for itself: what else an objective has, and in what order, moves no draw of a part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers import objective_of
from opencse.encoder.encoder import SentenceEncoder
from opencse.objective.inputs import InputBuilder
from opencse.objective.objective import Objective
from opencse.objective.vectors.step import Representations, StepInputs
from opencse.text.corpus import Corpus, tokenise
from opencse.text.readers import Source
from opencse.text.tokenizer import Tokens

N, D = 6, 32
STEPS = 3
NOISY: dict[str, Any] = {"kind": "noisy", "variance": 0.3}
NEGATIVES: list[dict[str, Any]] = [
    {"kind": "gaussian"},
    {"kind": "noisy_anchor"},
    {"kind": "in_batch", "of": NOISY},
    {"kind": "vae", "latent": 3, "hidden": 5},
    {"kind": "gmm", "components": 2},
]
TERMS: list[dict[str, Any]] = [{"kind": "barlow_twins", "artificial": 4}, {"kind": "dcl"}]
VIEWS: list[dict[str, Any]] = [
    {"kind": "input_gaussian", "sd": 0.5},
    {"kind": "input_gaussian_dropout", "sd": 0.5},
    {"kind": "input_bernoulli", "rate": 0.3},
    {"kind": "input_bernoulli", "rate": 0.3, "features": True},
    {"kind": "output_gaussian"},
    {"kind": "output_bernoulli", "rate": 0.3},
]


@pytest.fixture(scope="module")
def encoder(tiny_encoder: SentenceEncoder) -> SentenceEncoder:
    """The tiny model in evaluation mode."""
    return tiny_encoder.twin()


def vectors(step: int, noise_seed: int) -> Representations:
    """Other vectors at each step; the seed of the noise is the caller's."""
    random = torch.Generator().manual_seed(100 + step)
    anchor = torch.randn(N, D, generator=random)
    positive = anchor + 0.3 * torch.randn(N, D, generator=random)
    return replace(Representations.of(anchor, positive), noise_seed=noise_seed)


def draws(objective: Objective, encoder: SentenceEncoder, seeds: Sequence[int]) -> dict[str, list[Tensor]]:
    """What each part makes of its noise, step by step, with the fits in between; by the part's name."""
    objective.begin(encoder, batch_size=N, seed=0)
    ids = torch.zeros(N, 1, dtype=torch.int64)
    inputs = StepInputs(Tokens(ids, ids + 1), N, torch.zeros(1))
    made: dict[str, list[Tensor]] = {}
    before = torch.get_rng_state()
    for step, seed in enumerate(seeds):
        reps = vectors(step, seed)
        of = objective.positive.of
        made.setdefault(of.name, []).append(torch.cat(of.of(reps, partial(of.noise, reps))))
        for source in objective.negatives:
            made.setdefault(source.name, []).append(source.columns(reps, objective.scoring).dense().logits)
        for term in objective.terms:
            made.setdefault(term.name, []).append(term.loss(reps))
        with torch.no_grad():
            objective.after_backward(encoder, [inputs], [reps])
    assert torch.equal(torch.get_rng_state(), before), "dropout's generator is left alone"
    return made


def equal(one: list[Tensor], other: list[Tensor]) -> bool:
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.fixture(scope="module")
def whole(encoder: SentenceEncoder) -> dict[str, list[Tensor]]:
    objective = objective_of(positive={"of": NOISY}, negatives=NEGATIVES, terms=TERMS)
    made = draws(objective, encoder, range(STEPS))
    assert list(made) == ["positive", *(f"negatives.{n['kind']}" for n in NEGATIVES), "terms.barlow_twins", "terms.dcl"]
    return made


@pytest.mark.parametrize("alone", NEGATIVES, ids=lambda part: part["kind"])
def test_a_source_alone_draws_as_among_others(
    alone: dict[str, Any], encoder: SentenceEncoder, whole: dict[str, list[Tensor]]
) -> None:
    found = draws(objective_of(negatives=[alone]), encoder, range(STEPS))
    name = f"negatives.{alone['kind']}"
    assert equal(found[name], whole[name])
    assert not equal(found["positive"], whole["positive"]), "those of a positive without noise"


@pytest.mark.parametrize("kind", NEGATIVES, ids=lambda part: part["kind"])
def test_two_parts_of_one_kind_draw_differently(
    kind: dict[str, Any], encoder: SentenceEncoder, whole: dict[str, list[Tensor]]
) -> None:
    found = draws(objective_of(negatives=[kind, {"kind": "hard"}, kind]), encoder, range(STEPS))
    first, second = found[f"negatives.{kind['kind']}"], found[f"negatives.{kind['kind']}#2"]
    assert equal(first, whole[f"negatives.{kind['kind']}"])
    assert first[-1].shape == second[-1].shape == (N, N)
    others = ~torch.eye(N, dtype=torch.bool)
    assert not torch.isclose(first[-1], second[-1], rtol=1e-3)[others].any()


# Views


@pytest.fixture(scope="module")
def corpus(encoder: SentenceEncoder, tmp_path_factory: pytest.TempPathFactory, sentences: list[str]) -> Corpus:
    text = tmp_path_factory.mktemp("text") / "text.txt"
    text.write_text("\n".join(sentences[:N]))
    return tokenise(Source(str(text)), encoder.tokenizer, 16)


def positives(
    encoder: SentenceEncoder, corpus: Corpus, objective: Objective, *, seed: int = 0, step: int = 0
) -> Tensor:
    inputs = InputBuilder(corpus, encoder.tokenizer, objective, seed).build(np.arange(N), step)
    with torch.no_grad():
        return objective.represent(encoder, inputs).positive


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_a_views_noise_is_its_own(view: dict[str, Any], encoder: SentenceEncoder, corpus: Corpus) -> None:
    alone = positives(encoder, corpus, objective_of(view=view))
    among = objective_of(view=view, positive={"of": NOISY}, negatives=NEGATIVES[:3], terms=TERMS)
    assert torch.equal(positives(encoder, corpus, among), alone)
    for other in ({"seed": 1}, {"step": 1}):
        assert (
            not torch.isclose(positives(encoder, corpus, objective_of(view=view), **other), alone, rtol=1e-4)
            .all(dim=1)
            .any()
        )
    still = positives(encoder, corpus, objective_of())
    assert not torch.isclose(still, alone, rtol=1e-4).all(dim=1).any()
