"""Which vectors a similarity is between (SimCSE++, Table 1), and how clean, mean and noisy ones are made."""

from __future__ import annotations

import itertools
import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers import json_in, objective_of
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.objective import Objective
from opencse.objective.sides.kinds import Noisy
from opencse.objective.vectors.represent import represent
from opencse.objective.vectors.requests import Clean, HardNegatives, Layer, Means, Sentences
from opencse.objective.vectors.step import Representations, Request, StepInputs
from opencse.streams import seed_of
from sides_cases import SEED, D, N, representations, sides, step_of

TAU = 0.3
KINDS: dict[str, dict[str, Any]] = {
    "views": {"kind": "views"},
    "anchors": {"kind": "anchors"},
    "clean": {"kind": "clean"},
    "mean": {"kind": "mean", "samples": 3},
    "shared mean": {"kind": "mean", "samples": 3, "shared": True},
    "noisy": {"kind": "noisy", "variance": 0.2},
    "noisy positives": {"kind": "noisy", "variance": 0.2, "both": False},
}


def of(positive: str, negatives: str, **data: Any) -> Objective:
    return objective_of(
        positive={"of": KINDS[positive]},
        negatives=[{"kind": "in_batch", "of": KINDS[negatives], "weight": 0.7}],
        temperature=TAU,
        **data,
    )


def generator(name: str) -> torch.Generator:
    return torch.Generator().manual_seed(seed_of(SEED, name))


def chosen(kind: str, reps: Representations, noise: torch.Generator) -> tuple[list[list[float]], list[list[float]]]:
    """The left and right vectors as the definitions have them."""
    clean, means = reps[Clean()], reps[Means(3)]
    if kind == "noisy":
        draws = [torch.randn(N, D, generator=noise, dtype=torch.float64) * math.sqrt(0.2) for _ in range(2)]
        return (reps.anchor + draws[0]).tolist(), (reps.positive + draws[1]).tolist()
    if kind == "noisy positives":
        draw = torch.randn(N, D, generator=noise, dtype=torch.float64) * math.sqrt(0.2)
        return reps.anchor.tolist(), (reps.positive + draw).tolist()
    if kind == "shared mean":
        one = [[(x + y) / 2 for x, y in zip(*rows, strict=True)] for rows in zip(*means.tolist(), strict=True)]
        return one, one
    vectors = {
        "views": (reps.anchor, reps.positive),
        "anchors": (reps.anchor, reps.anchor),
        "clean": (clean, clean),
        "mean": (means[0], means[1]),
    }[kind]
    return vectors[0].tolist(), vectors[1].tolist()


def cosine(u: list[float], v: list[float]) -> float:
    dot = sum(x * y for x, y in zip(u, v, strict=True))
    return dot / math.sqrt(sum(x * x for x in u)) / math.sqrt(sum(y * y for y in v))


@pytest.mark.parametrize(("positive", "negatives"), list(itertools.product(KINDS, KINDS)))
def test_the_loss_of_every_pair_of_sides_as_loops(positive: str, negatives: str) -> None:
    reps = representations()
    (a, b) = chosen(positive, reps, generator("positive"))
    (c, d) = chosen(negatives, reps, generator("negatives.in_batch"))
    expected = 0.0
    for i in range(N):
        top = math.exp(cosine(a[i], b[i]) / TAU)
        below = top + sum(0.7 * math.exp(cosine(c[i], d[j]) / TAU) for j in range(N) if j != i)
        expected -= math.log(top / below) / N
    outcome = of(positive, negatives)(reps)
    assert outcome.total.item() == pytest.approx(expected, rel=1e-12)
    mean = sum(cosine(a[i], b[i]) for i in range(N)) / N
    assert outcome.report["positive_similarity"].item() == pytest.approx(mean, rel=1e-12)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"positive": {"of": {"kind": "means"}}}, ["positive.of", "means", "'mean'"]),
        ({"positive": {"of": {"kind": "mean", "samples": 0}}}, ["samples", "greater than or equal to 1"]),
        (
            {"positive": {"of": {"kind": "mean"}}, "dual_encoder": True},
            ["are of one forward pass, and objective.dual_encoder makes two; leave it out"],
        ),
        (
            {"positive": {"of": {"kind": "mean"}}, "view": {"kind": "dropout", "shared_mask": True}},
            ["are of one forward pass, and objective.view.shared_mask makes two; leave it out"],
        ),
    ],
    ids=str,
)
def test_what_cannot_be_is_reported_in_one_line(data: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        objective_of(**data)
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


BOTH: set[Request[Any]] = {Sentences(), Clean()}


# The forward without dropout


def with_dropout(folder: Path, target: Path, hidden: float, attention: float) -> SentenceEncoder:
    shutil.copytree(folder, target)
    config = json_in(target / "config.json")
    config |= {"hidden_dropout_prob": hidden, "attention_probs_dropout_prob": attention}
    (target / "config.json").write_text(json.dumps(config))
    return SentenceEncoder.load(target, pooling="mean", device="cpu").train()


def twice(encoder: SentenceEncoder, texts: list[str]) -> StepInputs:
    keys = torch.arange(len(texts)).unsqueeze(1).expand(-1, 2)
    return StepInputs(encoder.tokenizer.pad(encoder.tokenize(texts + texts)), len(texts), keys)


def rows_of(encoder: SentenceEncoder) -> list[int]:
    rows: list[int] = []
    encoder.backbone.register_forward_pre_hook(
        lambda module, args, kwargs: rows.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    return rows


@pytest.mark.parametrize(("hidden", "attention"), [(0.1, 0.1), (0.0, 0.8), (0.8, 0.0)])
def test_no_dropout_anywhere_in_the_negatives_and_all_of_it_in_the_positives(
    tiny_folder: Path, tmp_path: Path, sentences: list[str], hidden: float, attention: float
) -> None:
    encoder = with_dropout(tiny_folder, tmp_path / "model", hidden, attention)
    assert encoder.has_dropout
    inputs, rows = twice(encoder, sentences[:N]), rows_of(encoder)
    first, second = (represent(encoder, inputs, BOTH) for _ in range(2))
    assert rows == [2 * N, N] * 2
    clean = first[Clean()]
    with encoder.without_dropout(), torch.no_grad():
        expected = encoder(inputs.anchors).sentence
    assert torch.equal(clean, second[Clean()])
    assert torch.equal(clean, expected)
    for left, right in ((first.anchor, second.anchor), (first.anchor, first.positive), (first.anchor, clean)):
        assert (left - right).abs().amax(dim=1).min() > 1e-3


def test_an_encoder_without_dropout_makes_no_second_forward(
    tiny_folder: Path, tmp_path: Path, sentences: list[str]
) -> None:
    encoder = with_dropout(tiny_folder, tmp_path / "model", 0.0, 0.0)
    assert not encoder.has_dropout
    rows = rows_of(encoder)
    reps = represent(encoder, twice(encoder, sentences[:N]), BOTH)
    assert rows == [2 * N]
    assert torch.equal(reps[Clean()], reps.anchor)
    assert reps[Clean()].requires_grad
    torch.testing.assert_close(reps.anchor, reps.positive, rtol=0, atol=1e-6)


def test_means_are_of_the_right_texts(encoder: SentenceEncoder, sentences: list[str]) -> None:
    encoder.eval()
    plainly: set[Request[Any]] = {Sentences(), HardNegatives(), Layer(1)}
    reps = represent(encoder, step_of(encoder, sentences[: 3 * N], N), plainly | {Means(3)})
    plain = represent(encoder, step_of(encoder, sentences[: 3 * N], N), plainly)
    means = reps[Means(3)]
    assert torch.pdist(torch.cat([reps.anchor, reps.positive])).min() > 1e-2
    for left, right in (
        (means[0], reps.anchor),
        (means[1], reps.positive),
        (reps.hard, plain.hard),
        (reps[Layer(1)], plain[Layer(1)]),
    ):
        assert left.shape == right.shape
        assert torch.allclose(left, right, atol=1e-5)
    assert Means(3) not in plain.answers


def noisy(variance: float, name: str = "positive") -> Noisy:
    made = Noisy(Noisy.Settings(variance=variance))
    made.name = name
    return made


def test_moments_of_the_noise() -> None:
    zeros, count = torch.zeros(300, 100, dtype=torch.float64), 300 * 100
    ones = zeros + 1
    for variance in (0.1, 2.0):
        reps = replace(Representations.of(zeros, ones), noise_seed=4)
        left, right = sides(noisy(variance), reps)
        again, _ = sides(noisy(variance, "negatives.in_batch"), reps)
        for draw in (left, right - 1, again):
            assert abs(float(draw.mean())) < 5 * math.sqrt(variance / count)
            assert float(draw.var()) == pytest.approx(variance, rel=5 * math.sqrt(2 / count))
        for one, other in ((left, right - 1), (left, again)):  # fresh for each side and each use
            assert abs(float((one * other).mean())) < 5 * variance / math.sqrt(count)
        # on every number, not once a row or a column
        assert float(left.mean(dim=0).var()) == pytest.approx(variance / 300, rel=0.7)
        assert float(left.mean(dim=1).var()) == pytest.approx(variance / 100, rel=0.7)
