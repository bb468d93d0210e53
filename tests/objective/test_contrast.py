"""The contrast of a batch: parts combined against loops, at once and in tiles; nested, learned and two-way."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from helpers import objective_of
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.dense import Dense
from opencse.objective.negatives.stored import MemoryBank, MomentumQueue
from opencse.objective.similarity import standard_normal
from opencse.objective.teachers.teacher import TaughtVectors, TeacherVectors
from opencse.objective.vectors.requests import Clean, Layer, Scores
from opencse.objective.vectors.step import Representations

N, D = 6, 6
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
    made = objective_of(**data, tile_bytes=tile_bytes)
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


def test_it_is_trained_and_stored() -> None:
    made = objective_of(learned_temperature=True, temperature=0.2)
    assert "learned_temperature.log_scale" in made.state_dict()
    assert [parameter.numel() for parameter in made.parameters()] == [1]
    assert math.exp(-float(made.state_dict()["learned_temperature.log_scale"])) == pytest.approx(0.2, rel=1e-6)
    assert not list(objective_of().parameters())


def test_it_does_not_go_with_truncated_vectors() -> None:
    with pytest.raises(UserError, match=r"objective\.matryoshka .* leave one of them out"):
        objective_of(learned_temperature=True, matryoshka={"dimensions": [2]})


def test_a_length_of_the_whole_vector_is_counted_once() -> None:
    lengths: tuple[list[int], list[int]] = ([2], [2, D])
    reps = Representations.of(*leaves())
    without, named = (float(objective_of(matryoshka={"dimensions": one})(reps).total.detach()) for one in lengths)
    assert named == without


def test_samples_that_climb_the_contrast_need_a_fixed_temperature() -> None:
    with pytest.raises(
        UserError,
        match=r"the gaussian negatives follow the contrast at a fixed temperature \(ascend\), and objective\.learned",
    ):
        objective_of(learned_temperature=True, negatives=[{"kind": "gaussian", "ascend": {"steps": 1}}])


@pytest.mark.parametrize(
    ("nested", "words"),
    [
        ({"dimensions": ()}, "dimensions"),
        ({"dimensions": (0, 4)}, "from 1"),
        ({"dimensions": (4, 4)}, "each once"),
        ({"dimensions": (4,), "weights": (1.0, 2.0)}, "2 weights for 1 dimensions"),
        ({"dimensions": (4,), "weights": (0.0,)}, "above 0"),
    ],
    ids=str,
)
def test_wrong_settings(nested: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as caught:
        objective_of(matryoshka=nested)
    assert words in str(caught.value)


def test_what_it_cannot_be_combined_with(tiny_folder: Path) -> None:
    encoder = SentenceEncoder.load(tiny_folder, pooling="cls", device="cpu")
    with pytest.raises(UserError, match="33 is above the 32 dimensions of this encoder"):
        objective_of(matryoshka={"dimensions": (8, 33)}).check_encoder(encoder)
    nested = objective_of(matryoshka={"dimensions": (8, 32)})
    nested.check_encoder(encoder)
    encoder.projection = Dense(32, 32)
    with pytest.raises(UserError, match=r"--set encoder\.head\.kind=none"):
        nested.check_encoder(encoder)
    with pytest.raises(UserError, match=r"matryoshka.*no negatives; add the in_batch"):
        objective_of(matryoshka={"dimensions": (8,)}, negatives=[], terms=[{"kind": "mlm"}])


@pytest.mark.parametrize(
    "source",
    [
        {"kind": "mixed"},
        {"kind": "layers", "columns": "own"},
        {"kind": "hard", "guide": {"effect": "zero_logit"}},
        {"kind": "in_batch", "guide": {"effect": "zero_logit"}},
    ],
    ids=str,
)
def test_a_source_of_similarities_is_refused_before_anything_is_read(source: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=rf"matryoshka: negatives\.{source['kind']} gives similarities, not vectors"):
        objective_of(matryoshka={"dimensions": (8,)}, negatives=[{"kind": "memory_bank"}, source])


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


@pytest.mark.parametrize("words", REFUSED)
def test_what_has_no_columns_direction_is_refused(words: str) -> None:
    objective_of(**REFUSED[words])
    with pytest.raises(UserError, match=words) as refused:
        objective_of(directions="both", **REFUSED[words])
    assert "objective.directions = both" in str(refused.value)
    assert "\n" not in str(refused.value)


PAIRED = torch.tensor([1.0, 0.0, 1.0, 0.0, 0.0, 1.0])


def leaves() -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(5)
    anchor, positive = torch.randn(2, N, D, generator=random, dtype=torch.float64)
    return anchor.requires_grad_(), positive.requires_grad_()


def step(anchor: Tensor, positive: Tensor, labels: Tensor = PAIRED) -> Representations:
    return replace(Representations.of(anchor, positive), answers={Scores(): labels})


def test_pairs_of_a_low_score_have_no_loss_but_their_texts_are_negatives() -> None:
    first, second = leaves()
    some, every = objective_of(positive={"least_score": 0.5}), objective_of()
    assert (some.label, every.label) == ("score", None)
    assert some(step(first, second, torch.ones(N))).total == every(step(first, second)).total
    assert some(step(first, second, torch.zeros(N))).total == 0
    anchors, positives = torch.autograd.grad(some(step(first, second)).total, (first, second))
    assert anchors[PAIRED == 0].abs().max() == 0
    assert positives[PAIRED == 0].abs().max() > 1e-4, "pushed away from the anchors of the others"


def test_what_cannot_be_combined() -> None:
    with pytest.raises(UserError, match=r"loss = binary is of single probabilities"):
        objective_of(loss="binary", positive={"copies": 2})
    with pytest.raises(UserError, match=r"positive\.least_score is read by a contrast alone"):
        objective_of(negatives=[], terms=[{"kind": "cosent"}], positive={"least_score": 0.5})


@pytest.mark.parametrize("kind", ["anchors", "positives", "clean"])
@pytest.mark.parametrize("view", ["pair", "next_sentence", "spans"])
def test_a_text_compared_with_itself_is_refused_where_the_positive_is_another_text(view: str, kind: str) -> None:
    with pytest.raises(UserError, match=rf"positive\.of = {kind} compares a text with itself.*view {view}"):
        objective_of(view={"kind": view}, positive={"of": {"kind": kind}})
    objective_of(view={"kind": "repeat_subwords"}, positive={"of": {"kind": kind}})  # as SSCL-BERT of single sentences
    objective_of(view={"kind": view}, negatives=[], terms=[{"kind": "dcl"}])
