"""The contrast of whitened copies: which rows are whitened together, the loss by loops, and what goes with what."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.dense import Dense
from opencse.objective.context import Context
from opencse.objective.losses import group_whitening
from opencse.objective.objective import Objective
from opencse.objective.terms.whitened import WhitenedContrast
from opencse.objective.vectors.requests import Draws
from opencse.objective.vectors.step import Representations, StepInputs
from opencse.objective.views.dropout import Dropout

N, D = 6, 32


def begun(encoder: SentenceEncoder, **chosen: Any) -> WhitenedContrast:
    term = WhitenedContrast(WhitenedContrast.Settings.model_validate(chosen))
    term.name = "terms.whitened"
    term.begin(encoder, batch_size=N, seed=0)
    assert isinstance(term.layer, Dense)
    term.layer.linear.weight.data *= 20
    return term.double()


def reps_of(copies: Tensor) -> Representations:
    made = Representations.of(copies[0], copies[1])
    return replace(made, answers={Draws(len(copies) - 2): copies[2:]} if len(copies) > 2 else {}, noise_seed=4)


def vectors(copies: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    base = torch.randn(N, D, generator=generator, dtype=torch.float64)
    noise = torch.randn(copies, N, D, generator=generator, dtype=torch.float64)
    return (base + 0.5 * noise).requires_grad_()


def orders(term: WhitenedContrast, reps: Representations, count: int) -> list[Tensor]:
    noise = term.noise(reps)
    return [torch.rand(D, generator=noise).argsort() for _ in range(count)]


def naive(term: WhitenedContrast, copies: Tensor, same: set[tuple[int, int]]) -> Tensor:
    """The loss sentence by sentence; copies are whitened one by one."""
    settings, layer = term.settings, term.layer
    assert isinstance(layer, Dense)
    linear = layer.linear
    count = len(copies)
    order = orders(term, reps_of(copies), count)
    options: dict[str, Any] = {"size": settings.group_size, "epsilon": settings.epsilon, "detached": settings.detached}
    if settings.rows == "copy":
        white = [list(group_whitening(copies[c], order[c], **options)) for c in range(count)]
    else:
        rows = [copies[c, i] for i in range(N) for c in range(count)]
        parts = [group_whitening(torch.stack(rows[p * N : (p + 1) * N]), order[p], **options) for p in range(count)]
        joined = [row for part in parts for row in part]
        white = [[joined[i * count + c] for i in range(N)] for c in range(count)]
    z = [[torch.tanh(linear.weight @ row + linear.bias) for row in copy] for copy in white]
    unit = [[row / row.norm() for row in copy] for copy in z]
    total = torch.zeros((), dtype=torch.float64)
    for c in range(1, count):
        for i in range(N):
            exps = {
                j: torch.exp(unit[0][i] @ unit[c][j] / settings.temperature) for j in range(N) if (i, j) not in same
            }
            total = total - torch.log(exps[i] / sum(exps.values())) / N
    return total


@pytest.mark.parametrize(
    "chosen", [{}, {"copies": 2}, {"copies": 4, "group_size": 5}, {"rows": "thirds"}, {"detached": True}]
)
def test_loss_and_gradients_by_loops(encoder: SentenceEncoder, chosen: dict[str, Any]) -> None:
    term, copies = begun(encoder, **chosen), vectors(chosen.get("copies", 3))
    reps = reps_of(copies)
    ours, theirs = term.loss(reps), naive(term, copies, set())
    assert abs(ours - theirs) < 1e-10
    of = [copies, *term.layer.parameters()]
    for a, b in zip(torch.autograd.grad(ours, of), torch.autograd.grad(theirs, of), strict=True):
        assert (a - b).abs().max() < 1e-10
        assert b.abs().max() > 1e-5


def test_equal_texts_are_no_negatives_unless_set(encoder: SentenceEncoder) -> None:
    copies = vectors()
    keys = torch.arange(2 * N).reshape(N, 2)
    keys[3] = keys[1]
    reps = replace(reps_of(copies), keys=keys)
    term = begun(encoder)
    assert abs(term.loss(reps) - naive(term, copies, {(1, 3), (3, 1)})) < 1e-10
    term = begun(encoder, mask_duplicates=False)
    assert abs(term.loss(reps) - naive(term, copies, set())) < 1e-10


def test_each_setting_counts(encoder: SentenceEncoder) -> None:
    copies = vectors()
    base = begun(encoder).loss(reps_of(copies))
    others: list[dict[str, Any]] = [{"temperature": 0.1}, {"group_size": 4}, {"rows": "thirds"}, {"epsilon": 0.1}]
    for chosen in others:
        assert abs(begun(encoder, **chosen).loss(reps_of(copies)) - base) > 1e-3, chosen
    another = replace(reps_of(copies), noise_seed=5)
    assert abs(begun(encoder).loss(another) - base) > 1e-3, "groups are drawn for each step"


def test_the_third_copy_is_another_dropout_draw(encoder: SentenceEncoder, sentences: list[str]) -> None:
    tokens = encoder.tokenizer.pad(encoder.tokenizer.encode(sentences[:N] * 2, 16))
    inputs = StepInputs(tokens, N, torch.arange(2 * N).reshape(N, 2))
    objective = Objective(Dropout(), terms=[WhitenedContrast()])
    objective.begin(encoder, batch_size=N, seed=0)
    drawn = objective.represent(encoder.train(), inputs)
    copies = [drawn.anchor, drawn.positive, drawn[Draws(1)][0]]
    for a in range(3):
        for b in range(a):
            assert (copies[a] - copies[b]).abs().max() > 1e-3
    still = objective.represent(encoder.eval(), inputs)
    torch.testing.assert_close(still[Draws(1)][0], still.anchor)


def test_what_it_refuses(encoder: SentenceEncoder) -> None:
    objective = Objective(Dropout(), terms=[WhitenedContrast()])
    objective.check(Context(objective, encoder=encoder))
    encoder.projection = Dense(D, D)
    with pytest.raises(UserError, match="has a layer of its own after the whitening"):
        objective.check(Context(objective, encoder=encoder))
    with pytest.raises(UserError, match=r"further dropout draws do not go with objective.dual_encoder"):
        Objective(Dropout(), terms=[WhitenedContrast()], dual_encoder=True)
    Objective(Dropout(), terms=[WhitenedContrast(WhitenedContrast.Settings(copies=2))], dual_encoder=True)
