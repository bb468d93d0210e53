"""Distillation within the batch: which similarities are compared, and that every setting counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from opencse.errors import UserError
from opencse.objective.losses.distillation import list_mle, list_net
from opencse.objective.teachers.teacher import TaughtVectors
from opencse.objective.terms.distill import Distill
from opencse.objective.vectors.step import Representations, Request
from opencse.settings import validate

N, D = 6, 4


def term(**data: Any) -> Distill:
    made = Distill(validate(Distill.Settings, {"kind": "distill", **data}, "test"))
    made.name = "terms.distill"
    return made


def step(made: Distill, n: int = N) -> Representations:
    random = torch.Generator().manual_seed(0)
    anchor, positive = (torch.randn(n, D, generator=random, dtype=torch.float64).requires_grad_() for _ in range(2))
    answers: dict[Request[Any], Any] = {}
    for request in made.panel.requests:
        left, right = (torch.randn(n, 3, generator=random, dtype=torch.float64) for _ in range(2))
        answers[request] = TaughtVectors(left, right, left.unsqueeze(1)[:, :0])
    return replace(Representations.of(anchor, positive), answers=answers)


def cosines(left: Tensor, right: Tensor, own: bool) -> Tensor:
    rows = [[torch.cosine_similarity(left[i], right[j], dim=0) for j in range(N) if own or j != i] for i in range(N)]
    return torch.stack([torch.stack(row) for row in rows])


@pytest.mark.parametrize("loss", ["list_net", "list_mle"])
@pytest.mark.parametrize(("of", "own"), [("anchors", False), ("views", False), ("views", True)])
def test_the_compared_similarities(loss: str, of: str, own: bool) -> None:
    made = term(loss=loss, of=of, own=own, student_temperature=0.3, teacher_temperature=0.2)
    reps = step(made)
    taught = reps[made.panel.requests[0]]
    student = cosines(reps.anchor, reps.anchor if of == "anchors" else reps.positive, own)
    teacher = cosines(taught.anchor, taught.anchor if of == "anchors" else taught.positive, own)
    wanted = (
        list_net(student, teacher, student_temperature=0.3, teacher_temperature=0.2)
        if loss == "list_net"
        else list_mle(student, teacher, student_temperature=0.3)
    )
    ours = made.loss(reps)
    torch.testing.assert_close(ours, wanted, rtol=1e-10, atol=1e-10)
    gradients = [torch.autograd.grad(one, reps.anchor)[0] for one in (ours, wanted)]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-10, atol=1e-10)


def test_shuffling_exchanges_the_students_similarities() -> None:
    plain, shuffled = term(), term(shuffle=1.0)
    reps = step(shuffled)
    first = shuffled.loss(reps)
    assert first == shuffled.loss(reps), "the draws are those of the step"
    assert first != shuffled.loss(replace(reps, noise_seed=1))
    assert first != plain.loss(reps)
    torch.testing.assert_close(term(shuffle=1e-3).loss(reps), plain.loss(reps))


def test_every_setting_changes_the_loss() -> None:
    every: list[dict[str, Any]] = [
        {},
        {"loss": "list_mle"},
        {"of": "views"},
        {"of": "views", "own": True},
        {"student_temperature": 0.1},
        {"teacher_temperature": 0.1},
        {"shuffle": 0.5},
        {"teachers": [{}, {"pooling": "cls", "weight": 2.0}]},
    ]
    losses = {float(made.loss(step(made)).detach()) for made in (term(**data) for data in every)}
    assert len(losses) == len(every)


def test_the_log_says_how_far_student_and_teachers_agree() -> None:
    made = term()
    reps = step(made)
    request = made.panel.requests[0]
    same = TaughtVectors(reps.anchor.detach(), reps.positive.detach(), reps.anchor.detach()[:, None, :0])
    assert made.diagnose(replace(reps, answers={request: same}))["teacher_agreement"] == 1
    assert 0 < made.diagnose(reps)["teacher_agreement"] < 1


def test_too_few_examples_and_an_anchor_with_itself_are_refused() -> None:
    made = term()
    with pytest.raises(UserError, match="at least 3 in a batch"):
        made.loss(step(made, n=2))
    with pytest.raises(UserError, match="an anchor has cosine 1 with itself"):
        term(own=True)
