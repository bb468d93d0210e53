"""Every part draws its noise for itself: what else an objective has, and in what order, moves no draw of a part."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.objective.inputs import InputBuilder
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.vectors.step import Representations, StepInputs
from opencse.settings import validate
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


def build(**data: Any) -> Objective:
    return Objective.from_settings(validate(ObjectiveSettings, data, "test"))


@pytest.fixture(scope="module")
def encoder(tiny_encoder: SentenceEncoder) -> SentenceEncoder:
    """The tiny model in evaluation mode."""
    return tiny_encoder.twin()


def vectors(step: int, noise_seed: int) -> Representations:
    """Other vectors at each step; the seed of the noise is the caller's."""
    random = torch.Generator().manual_seed(100 + step)
    anchor = torch.randn(N, D, generator=random)
    positive = anchor + 0.3 * torch.randn(N, D, generator=random)
    return Representations(
        anchor, positive, anchor.unsqueeze(1)[:, :0], torch.arange(2 * N).reshape(N, 2), noise_seed=noise_seed
    )


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
    objective = build(positive={"of": NOISY}, negatives=NEGATIVES, terms=TERMS)
    made = draws(objective, encoder, range(STEPS))
    assert list(made) == ["positive", *(f"negatives.{n['kind']}" for n in NEGATIVES), "terms.barlow_twins", "terms.dcl"]
    return made


def test_the_order_of_the_parts_moves_no_draw(encoder: SentenceEncoder, whole: dict[str, list[Tensor]]) -> None:
    turned = build(positive={"of": NOISY}, negatives=NEGATIVES[::-1], terms=TERMS[::-1])
    found = draws(turned, encoder, range(STEPS))
    assert found.keys() == whole.keys()
    for name, made in whole.items():
        assert equal(found[name], made), name


@pytest.mark.parametrize("alone", NEGATIVES, ids=lambda part: part["kind"])
def test_a_source_alone_draws_as_among_others(
    alone: dict[str, Any], encoder: SentenceEncoder, whole: dict[str, list[Tensor]]
) -> None:
    found = draws(build(negatives=[alone]), encoder, range(STEPS))
    name = f"negatives.{alone['kind']}"
    assert equal(found[name], whole[name])
    assert not equal(found["positive"], whole["positive"]), "those of a positive without noise"


def test_a_term_and_the_positives_alone_draw_as_among_others(
    encoder: SentenceEncoder, whole: dict[str, list[Tensor]]
) -> None:
    term = draws(build(negatives=[], terms=TERMS[:1]), encoder, range(STEPS))
    assert equal(term["terms.barlow_twins"], whole["terms.barlow_twins"])
    positive = draws(build(positive={"of": NOISY}), encoder, range(STEPS))
    assert equal(positive["positive"], whole["positive"])


@pytest.mark.parametrize("kind", NEGATIVES, ids=lambda part: part["kind"])
def test_two_parts_of_one_kind_draw_differently(
    kind: dict[str, Any], encoder: SentenceEncoder, whole: dict[str, list[Tensor]]
) -> None:
    found = draws(build(negatives=[kind, {"kind": "hard"}, kind]), encoder, range(STEPS))
    first, second = found[f"negatives.{kind['kind']}"], found[f"negatives.{kind['kind']}#2"]
    assert equal(first, whole[f"negatives.{kind['kind']}"])
    assert first[-1].shape == second[-1].shape == (N, N)
    others = ~torch.eye(N, dtype=torch.bool)
    assert not torch.isclose(first[-1], second[-1], rtol=1e-3)[others].any()


def test_equal_sides_of_positive_and_negatives_draw_differently() -> None:
    objective = build(positive={"of": NOISY}, negatives=[{"kind": "in_batch", "of": NOISY}])
    reps = vectors(0, 1)
    noise = objective.positive.of.noise(reps)
    (source,) = objective.negatives
    assert noise.initial_seed() != source.noise(reps).initial_seed()
    left, right = objective.positive.of.of(reps, lambda: objective.positive.of.noise(reps))
    assert not torch.isclose(left - reps.anchor, right - reps.positive, rtol=1e-3).any(), "nor do the two sides"


def test_another_step_draws_again(encoder: SentenceEncoder, whole: dict[str, list[Tensor]]) -> None:
    """The vectors of each step are the same, the seed of the noise is not; what draws nothing stays as it was."""
    objective = build(positive={"of": NOISY}, negatives=NEGATIVES, terms=TERMS)
    found = draws(objective, encoder, range(50, 50 + STEPS))
    for name, made in whole.items():
        if name == "terms.dcl":
            assert equal(found[name], made)
        else:
            for one, other in zip(found[name], made, strict=True):
                assert one.shape == other.shape
                assert one.numel() == 0 or not torch.equal(one, other), name


def test_the_same_seeds_draw_the_same(encoder: SentenceEncoder, whole: dict[str, list[Tensor]]) -> None:
    again = draws(build(positive={"of": NOISY}, negatives=NEGATIVES, terms=TERMS), encoder, range(STEPS))
    assert all(equal(again[name], made) for name, made in whole.items())


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
    alone = positives(encoder, corpus, build(view=view))
    among = build(view=view, positive={"of": NOISY}, negatives=NEGATIVES[:3], terms=TERMS)
    assert torch.equal(positives(encoder, corpus, among), alone)
    for other in ({"seed": 1}, {"step": 1}):
        assert (
            not torch.isclose(positives(encoder, corpus, build(view=view), **other), alone, rtol=1e-4).all(dim=1).any()
        )
    still = positives(encoder, corpus, build())
    assert not torch.isclose(still, alone, rtol=1e-4).all(dim=1).any()


def test_an_attack_reads_the_noise_that_the_loss_has(encoder: SentenceEncoder, corpus: Corpus) -> None:
    """The pass that finds the gradient draws what the one that counts does: fresh generators, the same seeds."""
    negatives = [{"kind": "in_batch"}, {"kind": "gaussian"}]
    objective = build(view={"kind": "output_fgsm", "epsilon": 0.01}, negatives=negatives)
    inputs = InputBuilder(corpus, encoder.tokenizer, objective, 0).build(np.arange(N), 0)
    reps = objective.represent(encoder, inputs)
    source = objective.negatives[1]
    columns = [source.columns(reps, objective.scoring).dense().logits for _ in range(2)]
    assert torch.equal(*columns)
    losses = [objective(objective.represent(encoder, inputs)).total.item() for _ in range(2)]
    assert losses[0] == losses[1]


@pytest.mark.parametrize("seed", [0, 2**63 - 1])
def test_names_give_generators_that_do_not_disturb_each_other(seed: int) -> None:
    reps = vectors(0, seed)
    names = ["view", "positive", "adversarial", "negatives.vae", "negatives.vae/fit", "negatives.vae#2", "terms.vae"]
    drawn = [torch.rand(3, generator=reps.noise(name)).tolist() for name in names]
    assert len({tuple(numbers) for numbers in drawn}) == len(names)
    first, second = reps.noise("view"), reps.noise("view")
    torch.rand(5, generator=first)
    assert torch.rand(3, generator=second).tolist() == drawn[0], "a new generator at each call"
