"""False negatives that a teacher finds: against loops, and against sentence-transformers' GISTEmbedLoss."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from opencse.errors import UserError
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.teachers.teacher import TaughtVectors, TeacherVectors
from opencse.objective.vectors.step import Representations
from opencse.settings import validate

N, D, T, TAU = 8, 5, 6, 0.3


def objective_of(*negatives: dict[str, Any]) -> Objective:
    return Objective.from_settings(
        validate(ObjectiveSettings, {"negatives": list(negatives), "temperature": TAU}, "test")
    )


def vectors(seed: int = 0) -> tuple[Representations, TaughtVectors]:
    random = torch.Generator().manual_seed(seed)

    def leaf(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random, dtype=torch.float64)

    anchors, positives, hard = (leaf(*shape).requires_grad_() for shape in ((N, D), (N, D), (N, 1, D)))
    reps = Representations.of(anchors, positives, hard)
    anchor = leaf(N, T)
    return reps, TaughtVectors(anchor, anchor + 0.7 * leaf(N, T), leaf(N, 1, T))


def losses(objective: Objective, reps: Representations, taught: TaughtVectors) -> Tensor:
    requests = [request for request in objective.reads if isinstance(request, TeacherVectors)]
    assert requests
    loss: Tensor = objective(replace(reps, answers=dict.fromkeys(requests, taught))).losses["contrast"]
    return loss


def leaves(reps: Representations) -> list[Tensor]:
    return [reps.anchor, reps.positive, reps.hard]


@pytest.mark.parametrize("strategy", ["absolute", "relative"])
@pytest.mark.parametrize("margin", [0.0, 0.2])
@pytest.mark.parametrize("hard", [False, True])
def test_the_loss_of_sentence_transformers(strategy: str, margin: float, hard: bool) -> None:
    from sentence_transformers.sentence_transformer.losses import gist_embed

    reps, taught = vectors()
    guide = {"strategy": strategy, "margin": margin}
    negatives: list[dict[str, Any]] = [
        {"kind": "in_batch", "columns": "positives_and_anchors", "guide": guide},
        {"kind": "in_batch", "of": {"kind": "positives"}, "guide": guide},
        *([{"kind": "hard", "guide": guide}] if hard else []),
    ]
    loss = losses(objective_of(*negatives), reps, taught)
    theirs = gist_embed.GISTEmbedLoss.__new__(gist_embed.GISTEmbedLoss)
    torch.nn.Module.__init__(theirs)
    columns = [reps.anchor, reps.positive, *([reps.hard[:, 0]] if hard else [])]
    guided = [taught.anchor, taught.positive, *([taught.hard[:, 0]] if hard else [])]
    attributes = {
        "model": columns,
        "guide": guided,
        "temperature": TAU,
        "similarity_fct": torch.nn.CosineSimilarity(dim=-1),
        "must_retokenize": False,
        "margin_strategy": strategy,
        "margin": margin,
        "contrast_anchors": True,
        "contrast_positives": True,
        "gather_across_devices": False,
        "cross_entropy_loss": torch.nn.CrossEntropyLoss(),
    }
    for name, value in attributes.items():
        object.__setattr__(theirs, name, value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gist_embed, "embed_columns", lambda model, features: list(model))
        expected = theirs.forward([{}] * len(columns), torch.zeros(N))
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=1e-10)
    made_of = leaves(reps)[: len(columns)]
    ours = torch.autograd.grad(loss, made_of)
    for one, other in zip(ours, torch.autograd.grad(expected, made_of), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("effect", ["left_out", "zero_logit"])
@pytest.mark.parametrize("centred", [False, True])
def test_a_fixed_limit_by_loops(effect: str, centred: bool) -> None:
    reps, taught = vectors()
    guide = {"strategy": "fixed", "limit": 0.25, "effect": effect, "centred": centred}
    loss = losses(objective_of({"kind": "in_batch", "guide": guide}), reps, taught)
    mean = (taught.anchor.sum(dim=0) + taught.positive.sum(dim=0)) / (2 * N) if centred else torch.zeros(T).double()
    total = torch.zeros((), dtype=torch.float64)
    masked = 0
    for i in range(N):
        terms = []
        for j in range(N):
            logit = torch.cosine_similarity(reps.anchor[i], reps.positive[j], dim=0) / TAU
            near = torch.cosine_similarity(taught.anchor[i] - mean, taught.positive[j] - mean, dim=0) > 0.25
            if j != i and near:
                masked += 1
                if effect == "left_out":
                    continue
                logit = 0.0 * logit
            terms.append(logit.exp())
        total = total - (torch.cosine_similarity(reps.anchor[i], reps.positive[i], dim=0) / TAU - sum(terms).log())  # type: ignore[union-attr]
    assert 0 < masked < N * (N - 1)
    torch.testing.assert_close(loss, total / N, rtol=1e-10, atol=1e-10)
    views = [reps.anchor, reps.positive]
    for one, other in zip(torch.autograd.grad(loss, views), torch.autograd.grad(total / N, views), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_every_setting_changes_the_loss_and_the_log_counts() -> None:
    reps, taught = vectors()
    every: list[dict[str, Any]] = [
        {},
        {"margin": 0.4},
        {"strategy": "relative", "margin": 0.4},
        {"strategy": "fixed", "limit": 0.2},
        {"strategy": "fixed", "limit": 0.2, "centred": True},
        {"strategy": "fixed", "limit": 0.2, "effect": "zero_logit"},
    ]
    seen = set()
    for guide in every:
        objective = objective_of({"kind": "in_batch", "guide": guide})
        seen.add(float(losses(objective, reps, taught).detach()))
        (request,) = (one for one in objective.reads if isinstance(one, TeacherVectors))
        count = float(objective.diagnose(replace(reps, answers={request: taught}))["guide_masked"])
        assert (count > 0) == bool(guide) or not guide
    assert len(seen) == len(every)


def test_left_and_right_are_the_texts_of_the_sides() -> None:
    reps, taught = vectors()
    by_sides = [
        float(
            losses(
                objective_of({"kind": "in_batch", "of": {"kind": kind}, "guide": {"margin": 0.5}}), reps, taught
            ).detach()
        )
        for kind in ("views", "anchors", "positives")
    ]
    assert len(set(by_sides)) == 3
    assert not any(math.isnan(loss) for loss in by_sides)


def test_data_without_hard_negatives_has_none_to_mask() -> None:
    reps, taught = vectors()
    none = Representations.of(reps.anchor, reps.positive)
    hard = {"kind": "hard", "guide": {"margin": 0.3}}
    loss = losses(objective_of({"kind": "in_batch"}, hard), none, replace(taught, hard=taught.hard[:, :0]))
    torch.testing.assert_close(loss, objective_of({"kind": "in_batch"})(none).total)


@pytest.mark.parametrize("guide", [{"strategy": "fixed", "margin": 0.1}, {"limit": 0.5}])
def test_a_number_without_effect_is_refused(guide: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="has no effect with strategy"):
        objective_of({"kind": "in_batch", "guide": guide})


def test_in_the_other_direction_the_positives_are_the_anchors() -> None:
    reps, taught = vectors()
    negatives = [{"kind": "in_batch", "guide": {"margin": 0.3}}]
    data = {"negatives": negatives, "temperature": TAU, "directions": "columns"}
    columns = losses(Objective.from_settings(validate(ObjectiveSettings, data, "test")), reps, taught)
    swapped = Representations.of(reps.positive, reps.anchor)
    exchanged = TaughtVectors(taught.positive, taught.anchor, taught.hard)
    torch.testing.assert_close(columns, losses(objective_of(*negatives), swapped, exchanged))
    assert abs(float(columns.detach() - losses(objective_of(*negatives), reps, taught).detach())) > 1e-6
