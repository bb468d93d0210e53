"""The contrast of a batch: parts combined against loops; dense up to the bytes it needs, then in tiles."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from opencse.encoder.encoder import SentenceEncoder
from opencse.modules.dense import Dense
from opencse.objective.columns import LogitColumns, VectorColumns
from opencse.objective.negatives.memory_bank import MemoryBank
from opencse.objective.negatives.momentum_queue import MomentumQueue
from opencse.objective.noise import standard_normal
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.teachers.teacher import TaughtVectors, TeacherVectors
from opencse.objective.vectors.requests import Clean, Layer
from opencse.objective.vectors.row_labels import Scores
from opencse.objective.vectors.step import Representations
from opencse.settings import validate

N, D, H = 12, 6, 2
FEW = 4  # examples of the loops
KEYS = [[1, 2, 20, 21], [3, 4, 2, 22], [1, 6, 23, 3], [7, 8, 25, 7]]
LABELS = [1.0, 0.0, 0.4, 0.9]
IN_BATCH: dict[str, Any] = {"kind": "in_batch"}
GUIDE: dict[str, Any] = {"strategy": "relative", "margin": 0.6}
ZERO: dict[str, Any] = {"strategy": "fixed", "limit": 0.1, "centred": True, "effect": "zero_logit"}
COMBINED: dict[str, dict[str, Any]] = {
    "queues, guided hard negatives": {
        "negatives": [
            {**IN_BATCH, "guide": GUIDE, "hardness": 2.0},
            {"kind": "hard", "alpha": 3.0, "guide": GUIDE, "hardness": 1.5, "hardness_of": "all"},
            {"kind": "memory_bank", "weight": 2.0, "hardness": 1.0},
            {"kind": "momentum_queue", "weight": 0.5},
        ],
    },
    "guided to zero by nearness": {
        "negatives": [
            {**IN_BATCH, "guide": ZERO, "hardness": 9.0, "weight": 0.5},
            {"kind": "hard", "alpha": 2.0, "guide": ZERO, "hardness": 5.0},
        ],
        "learned_temperature": True,
    },
    "nested, a queue, both directions": {
        "negatives": [
            {**IN_BATCH, "columns": "positives_and_anchors", "hardness": 1.0},
            {"kind": "hard", "alpha": 2.0},
            {"kind": "momentum_queue"},
        ],
        "matryoshka": {"dimensions": [2, 3], "weights": [0.5, 2.0]},
        "directions": "both",
    },
    "smoothed with weights": {
        "negatives": [
            {**IN_BATCH, "weight": 0.3, "hardness": 2.0},
            {"kind": "hard", "alpha": 4.0, "hardness": 3.0, "hardness_of": "others"},
            {"kind": "memory_bank", "weight": 2.0},
        ],
        "label_smoothing": 0.2,
        "positive": {"scale": 1.7, "copies": 2},
        "directions": "both",
        "partition": "joint",
    },
    "layers averaged, hard, a bank, both directions": {
        "negatives": [
            IN_BATCH,
            {"kind": "layers", "layers": [-2, 0], "average_with_plain": True, "weight": 1.5},
            {"kind": "hard"},
            {"kind": "memory_bank"},
        ],
        "directions": "both",
        "label_smoothing": 0.1,
    },
    "own layers, learned temperature": {
        "negatives": [{**IN_BATCH, "of": {"kind": "clean"}}, {"kind": "layers", "columns": "own", "weight": "batch"}],
        "learned_temperature": True,
        "positive": {"scale": 0.8},
    },
    "noise, learned temperature, some pairs": {
        "negatives": [{**IN_BATCH, "hardness": 3.0}, {"kind": "gaussian", "count": 1.5, "weight": 0.4}],
        "learned_temperature": True,
        "positive": {"least_score": 0.5},
        "directions": "columns",
    },
    "binary, dot products, duplicates": {
        "negatives": [{**IN_BATCH, "of": {"kind": "clean"}, "weight": 2.0}, {"kind": "hard", "alpha": 2.0}],
        "loss": "binary",
        "similarity": "dot",
        "mask_duplicates": False,
        "temperature": 4.0,
    },
}
"""What no recipe has together."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Loops:
    """The contrast of an objective by its formulas alone, anchor by anchor and column by column.

    ``sets`` has the vectors by name; ``fixed`` the same as they were, for what takes no gradient.
    """

    data: dict[str, Any]
    keys: list[list[int]]
    sets: dict[str, Array]
    fixed: dict[str, Array]
    stored: dict[str, tuple[Array, list[int]]] = field(default_factory=dict)
    noise: Array | None = None

    def loss(self) -> float:
        nested = self.data.get("matryoshka", {"dimensions": [], "weights": []})
        lengths = [(D, 1.0), *zip(nested["dimensions"], nested["weights"], strict=True)]
        total = sum(weight * self.of_length(length) for length, weight in lengths)
        return float(total / sum(weight for _, weight in lengths))

    def sim(self, u: Array, v: Array, length: int) -> float:
        product = float(u[:length] @ v[:length])
        if self.data.get("similarity") == "dot":
            return product
        return product / math.sqrt(float(u[:length] @ u[:length]) * float(v[:length] @ v[:length]))

    def mirrored(self) -> Loops:
        def swap(sets: dict[str, Array]) -> dict[str, Array]:
            layers = {k: np.concatenate([v[FEW:], v[:FEW]]) for k, v in sets.items() if k.startswith("layer")}
            return {**sets, **layers, "a": sets["b"], "b": sets["a"], "hard": sets["hard"][:, :0]}

        return replace(self, keys=[[k[1], k[0]] for k in self.keys], sets=swap(self.sets), fixed=swap(self.fixed))

    def false(self, i: int, column: Array, guide: dict[str, Any]) -> bool:
        anchor, positive = self.sets["ta"], self.sets["tb"]
        mean = np.concatenate([anchor, positive]).mean(axis=0) if guide.get("centred") else 0.0

        def cosine(u: Array, v: Array) -> float:
            return float((u - mean) @ (v - mean) / np.linalg.norm(u - mean) / np.linalg.norm(v - mean))

        own = cosine(anchor[i], positive[i])
        limit = guide["limit"] if guide["strategy"] == "fixed" else own - guide["margin"] * abs(own)
        return bool(cosine(anchor[i], column) > limit)

    def columns(self, source: dict[str, Any], i: int, length: int, scale: float) -> Iterator[float]:
        """The logits of anchor i's columns that count."""
        kind, sets, fixed = source["kind"], self.sets, self.fixed
        mine = set(self.keys[i][:2]) if self.data.get("mask_duplicates", True) else set()
        weight = FEW if source.get("weight") == "batch" else source.get("weight", 1.0)

        def logit(u: str, v: Array, still: Array, weight: float, hardness: float = 0.0) -> float:
            near = hardness * self.sim(fixed[u][i], still, length) if hardness else 0.0
            return scale * self.sim(sets[u][i], v, length) + math.log(weight) + near

        if kind == "in_batch":
            left, right = ("clean", "clean") if "of" in source else ("a", "b")
            for side in (right, *([left] if source.get("columns") else [])):
                for j in (j for j in range(FEW) if j != i and not mine & set(self.keys[j][:2])):
                    if "guide" in source and self.false(i, sets["t" + side][j], source["guide"]):
                        if source["guide"].get("effect"):
                            yield math.log(weight)
                        continue
                    yield logit(left, sets[side][j], fixed[side][j], weight, source.get("hardness", 0.0))
        elif kind == "hard":
            for j in range(FEW):
                for h in (h for h in range(sets["hard"].shape[1]) if self.keys[j][2 + h] not in mine):
                    of = source.get("hardness_of", "own")
                    hardness = source.get("hardness", 0.0) if of == "all" or (of == "own") == (j == i) else 0.0
                    alpha = source.get("alpha", 1.0) if j == i else 1.0
                    if "guide" in source and self.false(i, sets["thard"][j, h], source["guide"]):
                        if source["guide"].get("effect"):
                            yield math.log(alpha)
                        continue
                    yield logit("a", sets["hard"][j, h], fixed["hard"][j, h], alpha, hardness)
        elif kind == "layers":
            for layer in source.get("layers", [-2]):
                for k, vector in enumerate(sets[f"layer {layer}"]):
                    own = k % FEW == i
                    if own or ("columns" not in source and not mine & set(self.keys[k % FEW][:2])):
                        yield logit("a", vector, vector, weight)
        elif kind == "gaussian":
            assert self.noise is not None
            mean, sd = fixed["a"].mean(axis=0), fixed["a"].std(axis=0, ddof=1)
            yield from (logit("a", mean + sd * row, row, weight) for row in self.noise)
        else:
            vectors, keys = self.stored[kind]
            for vector, key in zip(vectors, keys, strict=True):
                if key not in mine:
                    yield logit("a", vector, vector, weight, source.get("hardness", 0.0))

    def of_length(self, length: int) -> float:
        data, positive = self.data, self.data.get("positive", {})
        scale, total = 1 / data["temperature"], 0.0
        directions = {"rows": [self], "columns": [self.mirrored()], "both": [self, self.mirrored()]}
        averaged = any(source.get("average_with_plain") for source in data["negatives"])
        for i in (i for i in range(FEW) if LABELS[i] >= positive.get("least_score", 0.0)):
            own = positive.get("scale", 1.0) * scale * self.sim(self.sets["a"][i], self.sets["b"][i], length)
            losses = []
            for plain in [False, *([True] if averaged else [])]:
                sources = [s for s in data["negatives"] if not (plain and s.get("average_with_plain"))]
                each = [
                    [logit for source in sources for logit in one.columns(source, i, length, scale)]
                    for one in directions[data.get("directions", "rows")]
                ]
                softmaxes = [[logit for one in each for logit in one]] if data.get("partition") == "joint" else each
                losses += [self.of_softmax(own, negatives) for negatives in softmaxes]
            total += sum(losses) / len(losses)
        return total / FEW

    def of_softmax(self, own: float, negatives: list[float]) -> float:
        logits = [own] * self.data.get("positive", {}).get("copies", 1) + negatives
        normaliser = math.log(sum(map(math.exp, logits)))
        if self.data.get("loss") == "binary":
            shares = [math.exp(logit - normaliser) for logit in logits]
            return -(math.log(shares[0]) + sum(math.log(1 - share) for share in shares[1:])) / len(shares)
        smoothing = self.data.get("label_smoothing", 0.0)
        uniform = sum(normaliser - logit for logit in logits) / len(logits)
        return float((1 - smoothing) * (normaliser - own) + smoothing * uniform)


@pytest.fixture(scope="module")
def six(tiny_encoder: SentenceEncoder) -> SentenceEncoder:
    """The tiny model with vectors of six dimensions."""
    encoder = tiny_encoder.twin()
    encoder.dense.append(Dense(32, D))
    return encoder


@pytest.mark.parametrize("tile_bytes", [2**24, 100], ids=["at once", "in tiles"])
@pytest.mark.parametrize("data", COMBINED.values(), ids=COMBINED)
def test_parts_combined_are_the_loops_of_their_formulas(
    data: dict[str, Any], tile_bytes: int, six: SentenceEncoder
) -> None:
    data = {"temperature": 0.5, **data}
    made = Objective.from_settings(validate(ObjectiveSettings, {**data, "tile_bytes": tile_bytes}, "test"))
    made.begin(six, batch_size=FEW, seed=0)
    made.double()
    random = torch.Generator().manual_seed(4)
    shapes = {
        "a": (FEW,),
        "b": (FEW,),
        "hard": (FEW, 2),
        "clean": (FEW,),
        "layer -2": (2 * FEW,),
        "layer 0": (2 * FEW,),
    }
    shapes |= {"ta": (FEW,), "tb": (FEW,), "thard": (FEW, 2)}
    sets = {
        name: torch.randn(*shape, D, generator=random, dtype=torch.float64).requires_grad_(name[0] != "t")
        for name, shape in shapes.items()
    }
    taught = TaughtVectors(sets["ta"], sets["tb"], sets["thard"])
    answers: dict[Any, Any] = {request: taught for request in made.reads if isinstance(request, TeacherVectors)}
    answers |= {Clean(): sets["clean"], Layer(-2): sets["layer -2"], Layer(0): sets["layer 0"]}
    answers[Scores()] = torch.tensor(LABELS)
    reps = Representations(sets["a"], sets["b"], sets["hard"], torch.tensor(KEYS), answers, noise_seed=5)
    still = {name: tensor.detach().numpy().copy() for name, tensor in sets.items()}
    loops = Loops(data, KEYS, still, still)
    for source in made.negatives:
        if isinstance(source, MemoryBank | MomentumQueue):
            assert source.queue is not None
            source.queue.push(torch.randn(FEW, D, generator=random, dtype=torch.float64), torch.tensor([30, 3, 31, 32]))
            loops.stored[source.kind] = (source.queue.vectors.numpy(), source.queue.keys.tolist())
        elif source.kind == "gaussian":
            shape = (source.settings.rows(FEW), D)
            loops = replace(loops, noise=standard_normal(shape, sets["a"].detach(), source.noise(reps)).numpy())
    total = made(reps).total
    assert total.item() == pytest.approx(loops.loss(), rel=1e-6)  # a learned temperature begins as a float32
    leaves = {name: tensor for name, tensor in sets.items() if tensor.requires_grad}
    gradients = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
    moves = {name: torch.randn(tensor.shape, generator=random, dtype=torch.float64) for name, tensor in leaves.items()}
    slope = sum(float((g * moves[name]).sum()) for name, g in zip(leaves, gradients, strict=True) if g is not None)
    moved = [
        replace(loops, sets=still | {k: still[k] + h * m.numpy() for k, m in moves.items()}) for h in (1e-5, -1e-5)
    ]
    assert slope == pytest.approx((moved[0].loss() - moved[1].loss()) / 2e-5, rel=1e-5)
    assert abs(slope) > 1e-2


def test_the_dense_loss_is_taken_up_to_the_bytes_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    whole = VectorColumns.dense

    def dense(columns: VectorColumns) -> LogitColumns:
        made.append(columns.shape[1])
        return whole(columns)

    monkeypatch.setattr(VectorColumns, "dense", dense)
    anchor, positive = torch.randn(2, N, D, dtype=torch.float64)
    hard = torch.randn(N, H, D, dtype=torch.float64)
    reps = Representations(anchor, positive, hard, torch.arange(N * (2 + H)).reshape(N, 2 + H))
    needed = 8 * N * (N + H * N)  # float64: in-batch and two hard negatives
    losses = []
    for tile_bytes, columns in ((needed, [N, H * N]), (needed - 1, [])):
        made.clear()
        data = {"negatives": [{"kind": "in_batch"}, {"kind": "hard", "alpha": 2.5}], "tile_bytes": tile_bytes}
        losses.append(Objective.from_settings(validate(ObjectiveSettings, data, "test")).double()(reps).total)
        assert made == columns
    torch.testing.assert_close(*losses, rtol=1e-12, atol=0)
