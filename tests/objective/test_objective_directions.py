"""The contrast of rows, columns or both, with a softmax each or one together, against loops."""

from __future__ import annotations

import math
from typing import Any, Literal

import pytest
import torch
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from torch import Tensor

from opencse.errors import UserError
from opencse.objective.negatives.hard import Hard
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.vectors.requests import Layer
from opencse.objective.vectors.step import Representations
from opencse.objective.views.dropout import Dropout
from opencse.settings import validate

N, D, TAU = 5, 3, 0.3
KEYS = [[1, 2, 11], [3, 4, 12], [4, 6, 13], [1, 8, 14], [9, 10, 1]]


def objective(**settings: Any) -> Objective:
    return Objective.from_settings(validate(ObjectiveSettings, {"temperature": TAU, **settings}, "test"))


def vectors(keys: list[list[int]] | None = None, seed: int = 0) -> Representations:
    random = torch.Generator().manual_seed(seed)
    anchor, positive, hard = (torch.randn(N, D, generator=random, dtype=torch.float64) for _ in range(3))
    reps = Representations.of(anchor, positive, hard.unsqueeze(1))
    layer = torch.randn(2 * N, D, generator=random, dtype=torch.float64)
    texts = reps.keys if keys is None else torch.tensor(keys)
    return Representations(anchor, positive, reps.hard, texts, {Layer(-2): layer}, noise_seed=0)


def cosine(a: Tensor, b: Tensor) -> float:
    x, y = a.tolist(), b.tolist()
    product: float = sum(p * q for p, q in zip(x, y, strict=True))
    return product / (math.hypot(*x) * math.hypot(*y))


def loops(reps: Representations, directions: str, partition: str, own_side: bool, hard: bool) -> float:
    """The mean loss, example by example."""
    sides = {"rows": (reps.anchor, reps.positive), "columns": (reps.positive, reps.anchor)}
    names = ["rows", "columns"] if directions == "both" else [directions]
    total = 0.0
    for i in range(N):
        positive = math.exp(cosine(reps.anchor[i], reps.positive[i]) / TAU)
        sums = []
        for name in names:
            left, right = sides[name]
            negatives = 0.0
            for j in range(N):
                same = set(reps.keys[i, :2].tolist()) & set(reps.keys[j, :2].tolist())
                if j != i and not same:
                    negatives += math.exp(cosine(left[i], right[j]) / TAU)
                    negatives += math.exp(cosine(left[i], left[j]) / TAU) if own_side else 0.0
                if hard and name == "rows" and int(reps.keys[j, 2]) not in reps.keys[i, :2].tolist():
                    negatives += math.exp(cosine(left[i], reps.hard[j, 0]) / TAU)
            sums.append(negatives)
        if partition == "joint":
            sums = [sum(sums)]
        total += sum(-math.log(positive / (positive + negatives)) for negatives in sums) / len(sums)
    return total / N


@pytest.mark.parametrize("tile_bytes", [2**24, 80], ids=["at once", "in tiles"])
@pytest.mark.parametrize("own_side", [False, True])
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize(
    ("directions", "partition"),
    [("rows", "separate"), ("columns", "separate"), ("both", "separate"), ("both", "joint")],
)
def test_directions_by_loops(directions: str, partition: str, hard: bool, own_side: bool, tile_bytes: int) -> None:
    reps = vectors(KEYS)
    columns = "positives_and_anchors" if own_side else "positives"
    negatives = [{"kind": "in_batch", "columns": columns}, *([{"kind": "hard"}] if hard else [])]
    made = objective(directions=directions, partition=partition, negatives=negatives, tile_bytes=tile_bytes)
    loss = made(reps).losses["contrast"]
    assert loss.item() == pytest.approx(loops(reps, directions, partition, own_side, hard), rel=1e-12)


def test_every_direction_and_partition_is_another_loss() -> None:
    reps = vectors()
    choices = [("rows", "separate"), ("columns", "separate"), ("both", "separate"), ("both", "joint")]
    losses = {float(objective(directions=d, partition=p)(reps).total) for d, p in choices}
    assert len(losses) == len(choices)


def test_both_directions_are_sentence_transformers_with_a_softmax_each() -> None:
    reps = vectors()
    theirs = MultipleNegativesRankingLoss(
        model=None,  # only the loss of vectors is called
        scale=1 / TAU,
        directions=("query_to_doc", "doc_to_query"),
        partition_mode="per_direction",
    ).compute_loss_from_embeddings([reps.anchor, reps.positive], torch.empty(0))
    assert objective(directions="both")(reps).total.item() == pytest.approx(theirs.item(), rel=1e-12)


@pytest.mark.parametrize("tile_bytes", [2**24, 80], ids=["at once", "in tiles"])
@pytest.mark.parametrize("own_side", [False, True])
def test_one_softmax_is_sentence_transformers_with_the_positive_once_per_direction(
    own_side: bool, tile_bytes: int
) -> None:
    reps = vectors()
    sides = [side.clone().requires_grad_() for side in (reps.anchor, reps.positive)]
    loss = MultipleNegativesRankingLoss(
        model=None,
        scale=1 / TAU,
        directions=("query_to_doc", "doc_to_query", *(["query_to_query", "doc_to_doc"] if own_side else [])),
        partition_mode="joint",
    )
    theirs = loss.compute_loss_from_embeddings(sides, torch.empty(0))
    negatives = [{"kind": "in_batch", "columns": "positives_and_anchors" if own_side else "positives"}]
    settings: dict[str, Any] = {"directions": "both", "partition": "joint", "negatives": negatives}
    settings |= {"tile_bytes": tile_bytes}
    some = Representations(sides[0], sides[1], reps.hard[:, :0], reps.keys[:, :2], noise_seed=0)
    ours = objective(positive={"copies": 2}, **settings)(some).total
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    gradients = [torch.autograd.grad(total, sides) for total in (ours, theirs)]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-10, atol=1e-10)
    assert objective(**settings)(some).total < ours - 1e-3, "once"


def test_layers_are_exchanged_with_their_sides() -> None:
    reps = vectors()
    exchanged = Representations(
        reps.positive,
        reps.anchor,
        reps.hard[:, :0],
        reps.keys[:, [1, 0]],
        {Layer(-2): torch.cat([reps[Layer(-2)][N:], reps[Layer(-2)][:N]])},
        noise_seed=0,
    )
    negatives = [{"kind": "in_batch"}, {"kind": "layers", "views": "anchor"}]
    columns = objective(directions="columns", negatives=negatives)(reps).total
    torch.testing.assert_close(columns, objective(negatives=negatives)(exchanged).total, rtol=1e-12, atol=0)
    assert columns != objective(negatives=negatives)(reps).total


def test_gradients_of_both_directions() -> None:
    reps = vectors()

    def loss(anchor: Tensor, positive: Tensor) -> Tensor:
        some = Representations(anchor, positive, reps.hard, reps.keys, noise_seed=0)
        total: Tensor = objective(directions="both", partition="joint")(some).total
        return total

    inputs = [side.clone().requires_grad_() for side in (reps.anchor, reps.positive)]
    assert torch.autograd.gradcheck(loss, inputs, atol=1e-8)


LAYERS: dict[str, Any] = {"kind": "layers", "views": "anchor"}
REFUSED: dict[str, dict[str, Any]] = {
    "leaves no negatives for the positives.*set it to rows": {"negatives": [{"kind": "hard"}]},
    "average_with_plain leaves its own out": {"negatives": [{"kind": "hard"}, {**LAYERS, "average_with_plain": True}]},
    "of = clean has the same vectors in both directions": {
        "negatives": [{"kind": "in_batch"}, {"kind": "in_batch", "of": {"kind": "clean"}}]
    },
    "of = mean has the same vectors in both directions": {
        "negatives": [{"kind": "in_batch", "of": {"kind": "mean", "shared": True}}]
    },
    "the positives have no intermediate layers.*view output_gaussian": {
        "negatives": [{"kind": "in_batch"}, LAYERS],
        "view": {"kind": "output_gaussian"},
    },
}


@pytest.mark.parametrize("directions", ["columns", "both"])
@pytest.mark.parametrize("words", REFUSED)
def test_what_has_no_columns_direction_is_refused(words: str, directions: str) -> None:
    objective(**REFUSED[words])
    with pytest.raises(UserError, match=words) as refused:
        objective(directions=directions, **REFUSED[words])
    assert f"objective.directions = {directions}" in str(refused.value)
    assert "\n" not in str(refused.value)


class AveragedHard(Hard):
    """Hard negatives of the anchors, with which the loss is averaged."""

    class Settings(Hard.Settings):
        kind: Literal["averaged_hard"] = "averaged_hard"  # type: ignore[assignment]

    @property
    def averaged_with_plain(self) -> bool:
        return True


@pytest.mark.parametrize("partition", ["separate", "joint"])
def test_a_source_of_the_anchors_alone_that_is_averaged(partition: Literal["separate", "joint"]) -> None:
    """The mean of the losses with and without it, as of any other source."""
    both: dict[str, Any] = {"temperature": TAU, "directions": "both", "partition": partition}
    reps = vectors()
    averaged, with_it, without = (
        Objective(Dropout(), negatives=[InBatch(), *more], **both)(reps).total
        for more in ([AveragedHard()], [Hard()], [])
    )
    torch.testing.assert_close(averaged, (with_it + without) / 2, rtol=1e-12, atol=0)
