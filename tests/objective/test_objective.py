"""The composition: settings and their errors, the report, state, and a term without contrast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.masked_lm import load_masked_lm_head
from opencse.objective.inputs import InputBuilder
from opencse.objective.losses import masked_lm
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.step_losses import StepLosses
from opencse.objective.vectors.masking import MaskedCopy
from opencse.objective.vectors.represent import represent
from opencse.objective.vectors.requests import HardNegatives, LmHead, Masked, Sentences
from opencse.objective.vectors.step import Representations
from opencse.recipes.recipe import Recipe
from opencse.settings import validate
from opencse.text.corpus import tokenise
from opencse.text.readers import Source


def build(**data: Any) -> Objective:
    return Objective.from_settings(validate(ObjectiveSettings, data, "test.toml"))


def example(hard: int = 0) -> Representations:
    random = torch.Generator().manual_seed(3)
    keys = torch.tensor([[1, 2, 20, 21], [3, 4, 2, 22], [1, 6, 23, 24], [7, 8, 25, 7]])[:, : 2 + hard]
    vectors = torch.randn(2 + hard, 4, 3, generator=random, dtype=torch.float64)
    return Representations(vectors[0], vectors[1], vectors[2:].transpose(0, 1), keys)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"negatives": []}, ["at least one negative source or one term"]),
        ({"terms": [{"kind": "mlm"}, {"kind": "mlm", "weight": 1.0}]}, ["'mlm'", "2 times"]),
    ],
    ids=str,
)
def test_parts_that_make_no_objective_are_reported_in_one_line(data: dict[str, Any], words: list[str]) -> None:
    """Whoever puts the parts together, and where they stand in a recipe, with the recipe's name."""
    with pytest.raises(UserError) as alone:
        build(**data)
    with pytest.raises(UserError) as written:
        validate(Recipe, {"name": "mine", "title": "t", "objective": data}, "test.toml")
    assert str(written.value) == f"test.toml: {alone.value}"
    assert "\n" not in str(written.value)
    for word in words:
        assert word in str(alone.value)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize("columns", ["positives", "positives_and_anchors"])
@pytest.mark.parametrize("hard", [0, 2])
def test_the_report_against_loops(hard: int, columns: str, mask: bool, similarity: str) -> None:
    sources: list[dict[str, Any]] = [{"kind": "in_batch", "columns": columns, "weight": 3.0}]
    if hard:
        sources.append({"kind": "hard", "alpha": 2.0})
    objective = build(negatives=sources, mask_duplicates=mask, similarity=similarity, temperature=0.5)
    reps = example(hard)
    a, b, c, keys = reps.anchor, reps.positive, reps.hard, reps.keys.tolist()

    def sim(u: torch.Tensor, v: torch.Tensor) -> float:
        return float(u @ v / (u.norm() * v.norm() if similarity == "cosine" else 1.0))

    negative, masked = [], 0
    for i in range(4):
        for j in range(4):
            candidates = []
            if j != i:
                clash = bool(set(keys[i][:2]) & set(keys[j][:2]))
                candidates.append((clash, sim(a[i], b[j])))
                if columns == "positives_and_anchors":
                    candidates.append((clash, sim(a[i], a[j])))
            candidates += [(keys[j][2 + h] in keys[i][:2], sim(a[i], c[j, h])) for h in range(hard)]
            for clash, value in candidates:
                if mask and clash:
                    masked += 1
                else:
                    negative.append(value)
    leaf = Representations(a.clone().requires_grad_(), b, c, reps.keys)
    outcome: StepLosses = objective(leaf)
    assert outcome.total.requires_grad
    report = outcome.report
    assert set(report) == {"positive_similarity", "negative_similarity", "duplicates_masked"}
    assert report["positive_similarity"].item() == pytest.approx(sum(sim(a[i], b[i]) for i in range(4)) / 4)
    assert report["negative_similarity"].item() == pytest.approx(sum(negative) / len(negative), rel=1e-5)
    assert report["duplicates_masked"].item() == masked
    assert (masked > 0) == mask
    assert not any(value.requires_grad for value in report.values())


def test_the_report_where_nothing_is_left() -> None:
    reps = example()
    same = Representations(reps.anchor, reps.positive, reps.hard, torch.ones(4, 2, dtype=torch.int64))
    report = build()(same).report
    assert report["negative_similarity"].item() == 0.0
    assert report["duplicates_masked"].item() == 12


def test_the_total_is_the_sum_of_the_weighted_losses() -> None:
    random = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(6, 9, generator=random), torch.tensor([0, 3, 8, 3, 2, 1])
    plain = example()
    reps = Representations(
        plain.anchor, plain.positive, plain.hard, plain.keys, {Masked(0.15): masked_lm(logits, labels)}
    )
    outcome = build(terms=[{"kind": "mlm", "weight": 0.25}])(reps)
    cross_entropy = torch.nn.functional.cross_entropy(logits, labels).item()
    assert list(outcome.losses) == ["contrast", "mlm"]
    assert outcome.losses["contrast"].item() == build()(plain).total.item()
    assert outcome.losses["mlm"].item() == pytest.approx(0.25 * cross_entropy, rel=1e-6)
    assert outcome.total.item() == pytest.approx(sum(loss.item() for loss in outcome.losses.values()), rel=1e-6)


def test_stateless_parts_have_no_state() -> None:
    objective = build(negatives=[{"kind": "in_batch"}, {"kind": "hard"}], terms=[{"kind": "mlm"}])
    assert not objective.state_dict()
    assert not list(objective.parameters())
    assert len(objective.parts) == 3  # so a part with state would be seen
    assert objective.diagnose(example(1)) == {}


def test_needs_are_those_of_all_parts() -> None:
    assert build().reads == {Sentences()}
    assert HardNegatives() not in build().reads
    objective = build(negatives=[{"kind": "in_batch"}, {"kind": "hard"}], terms=[{"kind": "mlm", "rate": 0.3}])
    assert objective.reads == {Sentences(), HardNegatives(), Masked(0.3), LmHead()}
    assert objective.negatives_per_anchor(64, 2) == 63 + 128


def test_a_term_alone_makes_no_sentence_forward(tiny_folder: Path, tmp_path: Path, sentences: list[str]) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(sentences[:20]))
    encoder = SentenceEncoder.load(tiny_folder, device="cpu")
    encoder.lm_head = load_masked_lm_head(tiny_folder, encoder.backbone.get_input_embeddings())  # type: ignore[arg-type]
    objective = build(negatives=[], terms=[{"kind": "mlm", "weight": 2.0, "rate": 0.5}])
    assert objective.reads == {Masked(0.5), LmHead()}
    assert objective.negatives_per_anchor(8, 0) == 0
    inputs = InputBuilder(tokenise(Source(str(text)), encoder.tokenizer, 16), encoder.tokenizer, objective, 1)
    step = inputs.build(torch.arange(8).numpy(), 0)
    copy = step.prepared[Masked(0.5)]
    assert isinstance(copy, MaskedCopy)
    seen: list[torch.Tensor] = []
    encoder.backbone.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(kwargs["input_ids"]), with_kwargs=True
    )
    reps = represent(encoder, step, objective.reads)
    assert len(seen) == 1
    assert torch.equal(seen[0], copy.masked.tokens.input_ids)
    assert reps.anchor.shape == reps.positive.shape == (8, 0)
    assert reps.hard.shape == (8, 0, 0)
    outcome = objective(reps)
    assert list(outcome.losses) == ["mlm"]
    assert outcome.report == {}
    assert outcome.total.item() > 1.0
    torch.autograd.backward(outcome.total)
    assert all(p.grad is not None for p in encoder.backbone.parameters())
    objective.after_backward(encoder, [step], [reps.detached()])
