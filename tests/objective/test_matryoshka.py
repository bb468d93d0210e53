"""Nested dimensions: the naive sum over prefixes, tiles, chunks, and what cannot go with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from helpers import Heard
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.vectors.chunks import WHOLE, Chunks
from opencse.objective.vectors.step import Representations
from opencse.runs.job import TrainJob
from opencse.settings import validate
from opencse.text.readers import Source
from opencse.training.step import Step, step_inputs


def build(**data: Any) -> Objective:
    return Objective.from_settings(validate(ObjectiveSettings, data, "test.toml"))


def example() -> tuple[Representations, list[Tensor]]:
    random = torch.Generator().manual_seed(3)
    keys = torch.arange(15).reshape(5, 3)
    vectors = torch.randn(3, 5, 8, generator=random, dtype=torch.float64)
    parts = [part.clone().requires_grad_() for part in vectors]
    return Representations(parts[0], parts[1], parts[2].unsqueeze(1), keys), parts


def naive(anchor: Tensor, positive: Tensor, hard: Tensor, length: int) -> Tensor:
    """SimCSE's eq. 5 of vectors cut to ``length``, pair by pair."""
    losses = []
    for i in range(len(anchor)):
        a = anchor[i, :length]
        columns = [positive[j, :length] for j in range(len(anchor))] + [hard[j, :length] for j in range(len(anchor))]
        logits = torch.stack([a @ c / (a.norm() * c.norm()) / 0.05 for c in columns])
        losses.append(torch.logsumexp(logits, 0) - logits[i])
    return torch.stack(losses).mean()


@pytest.mark.parametrize("weights", [None, (0.5, 2.0)])
@pytest.mark.parametrize("tile_bytes", [2**24, 64])
def test_loss_and_gradients_are_the_naive_sum_over_prefixes(weights: tuple[float, ...] | None, tile_bytes: int) -> None:
    nested = {"dimensions": (2, 5), "weights": weights}
    negatives = [{"kind": "in_batch"}, {"kind": "hard"}]
    objective = build(negatives=negatives, matryoshka=nested, tile_bytes=tile_bytes)
    reps, parts = example()
    outcome = objective(reps)
    found = torch.autograd.grad(outcome.total, parts)
    given = weights or (1.0, 1.0)
    anchor, positive, hard = parts
    losses = [naive(anchor, positive, hard, length) for length in (2, 5, 8)]
    expected = (given[0] * losses[0] + given[1] * losses[1] + losses[2]) / (1 + sum(given))
    torch.testing.assert_close(outcome.total, expected, rtol=1e-10, atol=1e-12)
    for one, other in zip(found, torch.autograd.grad(expected, parts), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)
    plain = build(negatives=negatives)(reps)
    assert abs(float(plain.total.detach() - outcome.total.detach())) > 1e-3
    for name, value in plain.report.items():  # the figures are of full vectors
        torch.testing.assert_close(outcome.report[name], value, check_dtype=False)


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
        build(matryoshka=nested)
    assert words in str(caught.value)


def test_what_it_cannot_be_combined_with(tiny_folder: Path) -> None:
    encoder = SentenceEncoder.load(tiny_folder, pooling="cls", device="cpu")
    with pytest.raises(UserError, match="not below the 32 dimensions of this encoder"):
        build(matryoshka={"dimensions": (8, 32)}).begin(encoder, batch_size=4, seed=0)
    build(matryoshka={"dimensions": (8, 31)}).begin(encoder, batch_size=4, seed=0)
    with pytest.raises(UserError, match="needs at least one negative source"):
        build(matryoshka={"dimensions": (8,)}, negatives=[], terms=[{"kind": "mlm"}])


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
        build(matryoshka={"dimensions": (8,)}, negatives=[{"kind": "memory_bank"}, source])


def test_chunks_give_the_gradient_of_the_whole_batch(
    tiny_folder: Path, tmp_path: Path, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENCSE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "a.txt"
    path.write_text("\n".join(sentences[:32]))
    settings = (
        "objective.matryoshka={dimensions=[4,16]}",
        "encoder.head.kind=none",
        "encoder.pooling=mean",
        "encoder.dropout=0",
        "training.batch_size=16",
        "training.precision=float32",
    )
    run = TrainJob(
        text=Source(str(path)), recipe="simcse", model=str(tiny_folder), settings=settings, dev=None, device="cpu"
    ).prepare(Heard())
    encoder = run.encoder.train().double()
    step = Step(encoder, run.objective, run.plan.precision)
    found = []
    for chunks in (WHOLE, Chunks(5)):
        encoder.zero_grad()
        step.gradients(step_inputs(run.inputs, run.batches, 0, 1, encoder, chunks))
        found.append([p.grad.clone() for p in encoder.parameters() if p.grad is not None])
    assert len(found[0]) > 10
    assert max(float(one.abs().max()) for one in found[0]) > 1e-3
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)


def test_a_head_that_is_dropped_is_refused(
    tiny_folder: Path, tmp_path: Path, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENCSE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "a.txt"
    path.write_text("\n".join(sentences[:32]))
    job = TrainJob(
        text=Source(str(path)),
        recipe="simcse",
        model=str(tiny_folder),
        settings=("objective.matryoshka={dimensions=[4,16]}", "encoder.pooling=cls"),
        dev=None,
        device="cpu",
    )
    with pytest.raises(UserError, match=r"--set encoder\.head\.kind=none"):
        job.prepare(Heard())
