"""SimCSE++'s off-dropout negatives (eq. 3): the formula as loops, its m, and the forward without dropout behind it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.vectors.represent import represent
from opencse.objective.vectors.requests import Clean, Sentences
from opencse.objective.vectors.step import Representations, Request, StepInputs
from opencse.settings import validate

N, D = 5, 4
# Equal texts: anchors 0 and 3; positive of 1 and anchor 2.
DUPLICATES = [[1, 2], [3, 4], [4, 6], [1, 8], [9, 10]]
DISTINCT = [[10 * i, 10 * i + 1] for i in range(N)]
BOTH: set[Request[Any]] = {Sentences(), Clean()}


def off_dropout(*, weight: float = 1.0, scale: float = 1.0, columns: str = "positives", **data: Any) -> Objective:
    negatives = [{"kind": "in_batch", "of": {"kind": "clean"}, "weight": weight, "columns": columns}]
    positive = {"scale": scale}
    return Objective.from_settings(
        validate(ObjectiveSettings, {"negatives": negatives, "positive": positive, **data}, "test")
    )


def representations(keys: list[list[int]]) -> Representations:
    random = torch.Generator().manual_seed(1)
    anchor, positive, clean = (torch.randn(N, D, generator=random, dtype=torch.float64) for _ in range(3))
    leaves = [t.requires_grad_() for t in (anchor, positive, clean)]
    return Representations(
        leaves[0], leaves[1], anchor.detach().unsqueeze(1)[:, :0], torch.tensor(keys), {Clean(): leaves[2]}
    )


def oracle(reps: Representations, tau: float, weight: float, scale: float, *, dot: bool, twice: bool) -> list[Tensor]:
    """-log(e^(scale s+) / (e^(scale s+) + weight * sum over j != i of e^(s-))), one term after the other."""

    def sim(u: Tensor, v: Tensor) -> Tensor:
        return (u * v).sum() if dot else (u * v).sum() / ((u * u).sum() ** 0.5 * (v * v).sum() ** 0.5)

    keys, c = reps.keys.tolist(), reps[Clean()]
    losses = []
    for i in range(N):
        positive = torch.exp(scale * sim(reps.anchor[i], reps.positive[i]) / tau)
        below = positive
        for j in range(N):
            if j != i and not set(keys[i]) & set(keys[j]):
                below = below + weight * (2 if twice else 1) * torch.exp(sim(c[i], c[j]) / tau)
        losses.append(-torch.log(positive / below))
    return losses


@pytest.mark.parametrize("keys", [DISTINCT, DUPLICATES], ids=["distinct", "duplicates"])
@pytest.mark.parametrize("columns", ["positives", "positives_and_anchors"])
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize(("weight", "scale"), [(1.0, 1.0), (0.9, 1.0), (1.7, 1.0), (1.0, 0.9), (0.6, 1.4)])
def test_loss_and_gradient_as_in_the_paper(
    weight: float, scale: float, similarity: str, columns: str, keys: list[list[int]]
) -> None:
    objective = off_dropout(weight=weight, scale=scale, columns=columns, similarity=similarity, temperature=0.4)
    ours, theirs = representations(keys), representations(keys)
    total = objective(ours).total
    twice = columns == "positives_and_anchors"
    expected = torch.stack(oracle(theirs, 0.4, weight, scale, dot=similarity == "dot", twice=twice)).mean()
    assert total.item() == pytest.approx(expected.item(), rel=1e-12)
    total.backward()
    expected.backward()  # type: ignore[no-untyped-call]
    for name in ("anchor", "positive", "clean"):
        made = [reps[Clean()] if name == "clean" else getattr(reps, name) for reps in (ours, theirs)]
        mine, wanted = (vectors.grad for vectors in made)
        assert mine is not None
        assert wanted is not None
        assert torch.allclose(mine, wanted, rtol=1e-10, atol=1e-13), name
        assert wanted.abs().max() > 1e-3, name


def test_both_sides_of_a_negative_receive_gradient() -> None:
    """With one example pushed from one other, both of them move: neither side is a constant."""
    reps = representations(DISTINCT)
    (source,) = off_dropout().negatives
    columns = source.columns(reps, off_dropout().scoring).dense()
    columns.logits[0, 3].backward()  # type: ignore[no-untyped-call]
    gradient = reps[Clean()].grad
    assert gradient is not None
    assert gradient.abs().sum(dim=1).gt(1e-6).tolist() == [True, False, False, True, False]
    assert reps.anchor.grad is None
    assert reps.positive.grad is None


def test_the_columns_of_an_anchor() -> None:
    """N - 1 of them, the diagonal and equal texts left out, the latter only where they are masked."""
    for keys, mask, missing in (
        (DISTINCT, True, []),
        (DUPLICATES, True, [[0, 3], [1, 2], [2, 1], [3, 0]]),
        (DUPLICATES, False, []),
    ):
        objective = off_dropout(mask_duplicates=mask)
        (source,) = objective.negatives
        columns = source.columns(representations(keys), objective.scoring).dense()
        kept = (~columns.left_out).tolist()
        for i in range(N):
            for j in range(N):
                assert kept[i][j] == (i != j and [i, j] not in missing)
    assert off_dropout().negatives_per_anchor(64, 2) == 63


@pytest.mark.parametrize(
    ("m", "paper", "code"),
    [(0.5, 0.104, 9.93), (0.9, 0.187, 1.18), (1.0, 0.207, 0.207), (1.2, 0.248, 0.006)],
)
def test_where_m_acts(m: float, paper: float, code: float) -> None:
    """|dL / dcos+| at cos+ = .95, tau = .05 and 63 negatives of about .5: the paper's m and the authors' code's."""
    n, negative = 64, 0.5148
    unit = torch.eye(n + 1, dtype=torch.float64)
    own, shared = unit[:n], unit[n]
    clean = (1 - negative) ** 0.5 * own + negative**0.5 * shared
    for objective, wanted in ((off_dropout(weight=m), paper), (off_dropout(scale=m), code)):
        cosine = torch.tensor(0.95, dtype=torch.float64, requires_grad=True)
        positive = cosine * own + (1 - cosine**2).sqrt() * shared
        keys = torch.arange(2 * n).reshape(n, 2)
        reps = Representations(own, positive, own.unsqueeze(1)[:, :0], keys, {Clean(): clean})
        outcome = objective(reps)
        assert outcome.report["positive_similarity"].item() == pytest.approx(0.95)
        assert outcome.report["negative_similarity"].item() == pytest.approx(negative)
        outcome.total.backward()
        assert cosine.grad is not None
        assert cosine.grad.item() == pytest.approx(-wanted, abs=6e-3 if wanted > 1 else 6e-4)


def test_log_m_on_the_negatives_is_no_scale_of_the_positive() -> None:
    reps = representations(DISTINCT)
    assert off_dropout(weight=0.9)(reps).total.item() != pytest.approx(off_dropout(scale=0.9)(reps).total.item())
    assert off_dropout(weight=1.0)(reps).total.item() == off_dropout(scale=1.0)(reps).total.item()


# The forward without dropout


def with_dropout(folder: Path, target: Path, hidden: float, attention: float) -> SentenceEncoder:
    shutil.copytree(folder, target)
    config = json.loads((target / "config.json").read_text())
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


def test_gradient_reaches_every_weight_through_the_clean_vectors_alone(
    tiny_folder: Path, tmp_path: Path, sentences: list[str]
) -> None:
    encoder = with_dropout(tiny_folder, tmp_path / "model", 0.5, 0.5)
    inputs = twice(encoder, sentences[:N])

    def gradients(vectors: Tensor) -> list[Tensor]:
        encoder.zero_grad()
        torch.autograd.backward((vectors * torch.arange(1.0, 33.0)).sum())
        return [p.grad.clone() for p in encoder.parameters() if p.grad is not None]

    mine = gradients(represent(encoder, inputs, BOTH)[Clean()])
    with encoder.without_dropout():
        wanted = gradients(encoder(inputs.anchors).sentence)
    assert len(mine) == len(wanted) == len(list(encoder.parameters()))
    for gradient, expected in zip(mine, wanted, strict=True):
        assert torch.equal(gradient, expected)
    assert max(float(g.abs().max()) for g in mine) > 1e-2


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


def test_the_clean_forward_draws_nothing(tiny_folder: Path, sentences: list[str]) -> None:
    """The masks of a run are the same with and without it."""
    encoder = SentenceEncoder.load(tiny_folder, device="cpu").train()
    inputs, made = twice(encoder, sentences[:N]), []
    alone: set[Request[Any]] = {Sentences()}
    for reads in (BOTH, alone):
        torch.manual_seed(0)
        made.append([represent(encoder, inputs, reads).positive for _ in range(2)])
    for left, right in zip(*made, strict=True):
        assert torch.equal(left, right)


def test_every_module_goes_back_into_its_mode(tiny_folder: Path, sentences: list[str]) -> None:
    encoder = SentenceEncoder.load(tiny_folder, device="cpu").train()
    frozen = encoder.backbone.get_input_embeddings()
    assert isinstance(frozen, nn.Module)
    frozen.eval()
    modes = [part.training for part in encoder.modules()]
    assert len(set(modes)) == 2
    with encoder.without_dropout():
        assert not any(part.training for part in encoder.modules())
    assert [part.training for part in encoder.modules()] == modes
    with pytest.raises(ZeroDivisionError), encoder.without_dropout():
        raise ZeroDivisionError
    assert [part.training for part in encoder.modules()] == modes
    represent(encoder, twice(encoder, sentences[:2]), BOTH)
    assert [part.training for part in encoder.modules()] == modes
    broken = StepInputs(twice(encoder, sentences[:2]).tokens, 2, torch.zeros(2, 2, dtype=torch.int64))
    broken.tokens.input_ids[0, 0] = 10**6
    with pytest.raises(IndexError):
        represent(encoder, broken, BOTH)
    assert [part.training for part in encoder.modules()] == modes


def test_dropout_that_no_configuration_names_is_found(tiny_folder: Path) -> None:
    encoder = SentenceEncoder.load(tiny_folder, dropout=0.0, device="cpu")
    assert not encoder.has_dropout
    encoder.backbone.add_module("own", nn.Dropout(0.3))
    assert encoder.has_dropout


def test_dropout_that_no_module_holds_is_found(tiny_folder: Path) -> None:
    """Attention's rate is a number that a kernel is called with, in many models."""
    encoder = SentenceEncoder.load(tiny_folder, dropout=0.0, device="cpu")
    encoder.backbone.config.attention_probs_dropout_prob = 0.1
    assert encoder.has_dropout
