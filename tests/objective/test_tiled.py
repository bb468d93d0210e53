"""The contrast made tile by tile against the dense one: losses, gradients, figures, and memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from helpers import objective_of
from opencse.encoder.encoder import SentenceEncoder
from opencse.modules.dense import Dense
from opencse.objective.negatives import generated
from opencse.objective.negatives.stored import MomentumQueue
from opencse.objective.objective import Objective
from opencse.objective.teachers.teacher import TaughtVectors, Teacher, TeacherSettings, TeacherVectors
from opencse.objective.vectors.requests import Clean, Layer, Means, Scores
from opencse.objective.vectors.step import Representations, Request

N, D, H = 12, 6, 2
IN_BATCH: dict[str, Any] = {"kind": "in_batch"}
HARD: dict[str, Any] = {"kind": "hard", "alpha": 2.5}
GUIDE: dict[str, Any] = {"strategy": "fixed", "limit": 0.3}
# What the objective's tables say, and the tensors that get a gradient.
OBJECTIVES: dict[str, dict[str, Any]] = {
    "both views": {"negatives": [{**IN_BATCH, "columns": "positives_and_anchors", "weight": 0.3}]},
    "means": {"negatives": [{**IN_BATCH, "of": {"kind": "mean", "samples": 3, "shared": True}}]},
    "counted twice": {"negatives": [IN_BATCH], "positive": {"copies": 2}, "directions": "both", "partition": "joint"},
    "some pairs": {
        "negatives": [IN_BATCH, {"kind": "gaussian"}, {"kind": "layers", "columns": "own"}],
        "positive": {"least_score": 0.5},
    },
    "others by nearness": {"negatives": [IN_BATCH, {**HARD, "hardness": 1.5, "hardness_of": "others"}]},
    "queues by nearness": {
        "negatives": [{"kind": "memory_bank", "hardness": 2.0}, {"kind": "momentum_queue", "hardness": 0.7}]
    },
    "hard alone": {"negatives": [HARD]},
    "guided": {"negatives": [{**IN_BATCH, "columns": "positives_and_anchors", "guide": GUIDE}]},
    "guided to zero": {"negatives": [{**IN_BATCH, "guide": {**GUIDE, "effect": "zero_logit"}}]},
    "own layers": {"negatives": [IN_BATCH, {"kind": "layers", "columns": "own", "average_with_plain": True}]},
    "vae": {"negatives": [IN_BATCH, {"kind": "vae", "latent": 3, "hidden": 5}]},
    "empty queue": {"negatives": [IN_BATCH, {"kind": "momentum_queue", "size": 1_000}]},
    "noisy anchors of others": {"negatives": [{"kind": "noisy_anchor", "own": False}]},
    "hardest of many": {"negatives": [IN_BATCH, {"kind": "vae", "latent": 3, "hidden": 5, "pool": 4}]},
    "hardest of each": {"negatives": [IN_BATCH, {"kind": "gaussian", "count": 0.5, "pool": 4, "hardest": "anchor"}]},
    "mixed": {"negatives": [IN_BATCH, {"kind": "mixed"}]},
    "every mixture": {
        "negatives": [IN_BATCH, {"kind": "mixed", "columns": "all", "mirrored": True, "collisions": "zero"}]
    },
    "everything": {
        "negatives": [
            {**IN_BATCH, "columns": "positives_and_anchors"},
            HARD,
            {"kind": "layers", "average_with_plain": True},
            {"kind": "gaussian"},
            {"kind": "memory_bank"},
            {"kind": "noisy_anchor"},
        ]
    },
}
CHOICES: dict[str, dict[str, Any]] = {
    "cosine": {},
    "dot, sharp": {"similarity": "dot", "temperature": 0.02},
    "duplicates count": {"mask_duplicates": False, "label_smoothing": 0.2},
}


def begun(data: Mapping[str, Any], encoder: SentenceEncoder, tile_bytes: int) -> Objective:
    """Begun, in float64, with sources that have seen a step."""
    objective = objective_of(**data, tile_bytes=tile_bytes)
    objective.begin(encoder, batch_size=N, seed=0)
    earlier = replace(representations(seed=9, dtype=torch.float32), noise_seed=4).detached()
    for source in objective.negatives:
        if source.kind == "momentum_queue":
            if source.settings.size != 1_000:
                assert isinstance(source, MomentumQueue)
                source.queue.push(earlier.positive, earlier.keys[:, 1])
        else:
            source.after_backward(encoder, [], [earlier])
    return objective.double()


def representations(seed: int = 0, duplicates: bool = True, dtype: torch.dtype = torch.float64) -> Representations:
    random = torch.Generator().manual_seed(seed)

    def leaf(*shape: int) -> Tensor:
        return torch.randn(*shape, D, generator=random, dtype=torch.float64).to(dtype).requires_grad_()

    keys = torch.arange(N * (2 + H)).reshape(N, 2 + H)
    if duplicates:
        keys[3] = keys[1]  # an example twice
        keys[5, 0] = keys[7, 1]  # a text once as anchor, once as positive
        keys[6, 2] = keys[6, 1]  # a hard negative that is its own positive
        keys[8, 3] = keys[2, 0]  # one that is another's anchor
    answers = taught(leaf(N).detach(), leaf(N).detach(), leaf(N, H).detach())
    return Representations(
        anchor=leaf(N),
        positive=leaf(N),
        hard=leaf(N, H),
        keys=keys,
        answers={
            Scores(): torch.arange(N) / N,
            Clean(): leaf(N),
            Layer(-2): leaf(2 * N),
            Layer(0): leaf(2 * N),
            Means(3): leaf(2, N),
            **answers,
        },
        noise_seed=11,
    )


def taught(anchor: Tensor, positive: Tensor, hard: Tensor) -> dict[Request[Any], Any]:
    """A teacher's vectors, as sources read them."""
    vectors, teacher = TaughtVectors(anchor, positive, hard), Teacher(TeacherSettings(), "test")
    return {
        TeacherVectors(TeacherSettings(), "views", teacher): vectors,
        TeacherVectors(TeacherSettings(), "all", teacher): vectors,
    }


def figures(
    objective: Objective, reps: Representations, autocast: bool = False
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Losses and report; gradients of whatever has one."""
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        outcome = objective(reps)
    leaves = {"anchor": reps.anchor, "positive": reps.positive, "hard": reps.hard}
    leaves |= {
        str(request): answer for request, answer in reps.answers.items() if getattr(answer, "requires_grad", False)
    }
    found = torch.autograd.grad(outcome.total, list(leaves.values()), allow_unused=True)
    gradients = {name: g for name, g in zip(leaves, found, strict=True) if g is not None}
    return {**outcome.losses, **outcome.report}, gradients


@pytest.fixture(scope="module")
def encoder(tiny_encoder: SentenceEncoder) -> SentenceEncoder:
    """The tiny model with a training head, whose vectors have another number of dimensions."""
    encoder = tiny_encoder.twin()
    encoder.projection = Dense(32, D)
    return encoder


@pytest.mark.parametrize("choices", CHOICES.values(), ids=CHOICES)
@pytest.mark.parametrize("data", OBJECTIVES.values(), ids=OBJECTIVES)
def test_tiles_give_the_dense_loss_and_gradients(
    data: dict[str, Any], choices: dict[str, Any], encoder: SentenceEncoder
) -> None:
    dense, dense_gradients = figures(begun({**data, **choices}, encoder, 10**9), representations())
    for tile_bytes in (1, 8 * N * 5):  # one anchor in a tile; a few, and fewer in the last
        tiled, gradients = figures(begun({**data, **choices}, encoder, tile_bytes), representations())
        assert list(tiled) == list(dense)
        for name, wanted in dense.items():
            tolerance = 1e-10 if wanted.dtype == torch.float64 else 1e-5  # dense sums of figures are in float32
            torch.testing.assert_close(tiled[name].double(), wanted.double(), rtol=tolerance, atol=tolerance)
        assert list(gradients) == list(dense_gradients)
        for name, wanted in dense_gradients.items():
            assert wanted.abs().max() > 1e-6, name
            torch.testing.assert_close(gradients[name], wanted, rtol=1e-10, atol=1e-10)


def test_rows_in_which_nothing_counts(encoder: SentenceEncoder) -> None:
    for temperature in (0.3, 0.001):  # exp(1 / 0.001) is infinite in float64 too
        data = {"negatives": [IN_BATCH], "temperature": temperature, "label_smoothing": 0.1}
        reps = representations()
        alike = replace(reps, keys=torch.ones_like(reps.keys), positive=(-10 * reps.anchor.detach()).requires_grad_())
        for tile_bytes in (1, 10**9):
            outcome = begun(data, encoder, tile_bytes)(alike)
            assert outcome.total.item() == pytest.approx(0.0, abs=1e-12)
            assert outcome.report["negative_similarity"] == 0
            assert outcome.report["duplicates_masked"] == N * (N - 1)
            gradients = torch.autograd.grad(outcome.total, (alike.anchor, alike.positive))
            assert all(g.abs().max() < 1e-12 for g in gradients)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_half_precision_is_raised_and_autocast_lowers_nothing(encoder: SentenceEncoder, dtype: torch.dtype) -> None:
    data = {**OBJECTIVES["everything"], "temperature": 0.4}
    found = {}
    for tile_bytes in (64, 10**9):
        objective = begun(data, encoder, tile_bytes).float()
        found[tile_bytes] = figures(objective, representations(dtype=dtype), autocast=True)
    (tiled, gradients), (dense, wanted) = found.values()
    for name, value in dense.items():
        assert tiled[name].dtype == torch.float32
        torch.testing.assert_close(tiled[name], value, rtol=1e-5, atol=1e-5)
    for name, gradient in wanted.items():
        assert gradients[name].dtype == dtype
        rel, most = (1e-4, 1e-6) if dtype == torch.float32 else (3e-2, 3e-3)  # dense sums gradients in half
        torch.testing.assert_close(gradients[name], gradient, rtol=rel, atol=most)


def test_the_gradient_can_be_taken_twice_but_not_differentiated(encoder: SentenceEncoder) -> None:
    reps = representations()
    total = begun(OBJECTIVES["others by nearness"], encoder, 1)(reps).total
    for factor in (1, 3):  # by 1 the gradients that were made with the loss are given as they are
        first = torch.autograd.grad(factor * total, reps.anchor, retain_graph=True)[0]
        before = first.clone()
        for _ in range(2):
            total.backward(retain_graph=True)
        second = torch.autograd.grad(factor * total, reps.anchor, retain_graph=True)[0]
        assert torch.equal(first, before)
        assert torch.equal(second, before)
    with pytest.raises(RuntimeError, match="first derivatives only"):
        torch.autograd.grad(total, reps.anchor, create_graph=True)


class _Largest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The most elements of any tensor that is made."""

    most = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        for one in made if isinstance(made, tuple | list) else [made]:
            if isinstance(one, Tensor):
                self.most = max(self.most, one.numel(), one.untyped_storage().nbytes() // max(1, one.element_size()))
        return made


def largest(n: int, tile_bytes: int, data: dict[str, Any], encoder: SentenceEncoder) -> int:
    """The most numbers in any tensor of a step's loss, its report, and its backward pass, at ``n`` examples."""
    objective = objective_of(**data, tile_bytes=tile_bytes)
    objective.begin(encoder, batch_size=n, seed=0)
    random = torch.Generator().manual_seed(0)

    def leaf(*shape: int) -> Tensor:
        return torch.randn(*shape, D, generator=random).requires_grad_()

    keys = torch.arange(4 * n).reshape(n, 4)
    keys[7] = keys[5]
    answers: dict[Request[Any], Any] = {
        Scores(): torch.arange(n) / n,
        Clean(): leaf(n),
        Layer(-2): leaf(2 * n),
        Layer(0): leaf(2 * n),
        Means(3): leaf(2, n),
    }
    answers |= taught(leaf(n).detach(), leaf(n).detach(), leaf(n, H).detach())
    reps = Representations(leaf(n), leaf(n), leaf(n, H), keys, answers, noise_seed=1)
    for source in objective.negatives:
        if isinstance(source, MomentumQueue):
            source.queue.push(reps.positive.detach(), keys[:, 1])
        else:
            source.after_backward(encoder, [], [reps.detached()])
    watch = _Largest()  # type: ignore[no-untyped-call]
    with watch:
        outcome = objective(reps)
        outcome.total.backward()
        with torch.no_grad():
            objective.diagnose(reps.detached())
    assert reps.anchor.grad is not None
    return watch.most


BIG = 600


_ALL_AT_ONCE = ("empty queue", "guided to zero", "every mixture", "hardest of each")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in OBJECTIVES if name not in _ALL_AT_ONCE])
def test_no_tensor_of_a_batch_by_batch_size_is_made(
    name: str, encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    tile = 4 * 6_000
    monkeypatch.setattr(generated, "DRAWN_BYTES", tile)
    monkeypatch.setattr(generated, "POOL_BYTES", tile)
    vectors = 4 * BIG * D  # the largest set of vectors: two layers of both views
    most = largest(BIG, tile, OBJECTIVES[name], encoder)
    assert most <= max(vectors, tile // 4, 8 * BIG) < BIG * BIG / 20
    if name == "everything":
        assert largest(BIG, 10**12, OBJECTIVES[name], encoder) >= BIG * BIG, "the dense loss would be seen"
