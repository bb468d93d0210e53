"""The composition: its report, when a run calls its parts, a second encoder."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from helpers import Heard, Stopped, objective_of
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.reading import load_masked_lm_head
from opencse.modules.dense import Dense
from opencse.objective.losses import masked_lm
from opencse.objective.objective import Objective, StepLosses
from opencse.objective.settings import SavedEncoder
from opencse.objective.vectors.requests import Clean, Layer, Masked
from opencse.objective.vectors.step import Representations, StepInputs
from opencse.progress import Silent
from opencse.recipes.recipe import Recipe
from opencse.runs.run import Run
from opencse.settings import validate
from opencse.text import sample
from opencse.text.readers import Source
from opencse.training.selection import DevScore, Selector
from opencse.training.trainer import Trainer


def example(hard: int = 0) -> Representations:
    random = torch.Generator().manual_seed(3)
    keys = torch.tensor([[1, 2, 20, 21], [3, 4, 2, 22], [1, 6, 23, 24], [7, 8, 25, 7]])[:, : 2 + hard]
    vectors = torch.randn(2 + hard, 4, 3, generator=random, dtype=torch.float64)
    return Representations(vectors[0], vectors[1], vectors[2:].transpose(0, 1), keys)


def test_parts_that_make_no_objective_are_reported_in_one_line() -> None:
    """Whoever puts the parts together, and where they stand in a recipe, with the recipe's name."""
    data = {"terms": [{"kind": "mlm"}, {"kind": "mlm", "weight": 1.0}]}
    with pytest.raises(UserError, match="'mlm' is given 2 times") as alone:
        objective_of(**data)
    with pytest.raises(UserError) as written:
        validate(Recipe, {"name": "mine", "title": "t", "objective": data}, "test.toml")
    assert str(written.value) == f"test.toml: {alone.value}"


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize("columns", ["positives", "positives_and_anchors"])
@pytest.mark.parametrize("hard", [0, 2])
def test_the_report_against_loops(hard: int, columns: str, mask: bool, similarity: str) -> None:
    sources: list[dict[str, Any]] = [{"kind": "in_batch", "columns": columns, "weight": 3.0}]
    if hard:
        sources.append({"kind": "hard", "alpha": 2.0})
    objective = objective_of(negatives=sources, mask_duplicates=mask, similarity=similarity, temperature=0.5)
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
    outcome: StepLosses = objective(replace(reps, anchor=a.clone().requires_grad_()))
    assert outcome.total.requires_grad
    report = outcome.report
    assert set(report) == {"positive_similarity", "negative_similarity", "duplicates_masked"}
    assert report["positive_similarity"].item() == pytest.approx(sum(sim(a[i], b[i]) for i in range(4)) / 4)
    assert report["negative_similarity"].item() == pytest.approx(sum(negative) / len(negative), rel=1e-5)
    assert report["duplicates_masked"].item() == masked
    assert (masked > 0) == mask
    assert not any(value.requires_grad for value in report.values())


def test_the_total_is_the_sum_of_the_weighted_losses() -> None:
    random = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(6, 9, generator=random), torch.tensor([0, 3, 8, 3, 2, 1])
    plain = example()
    reps = replace(plain, answers={Masked(0.15): masked_lm(logits, labels)})
    outcome = objective_of(terms=[{"kind": "mlm", "weight": 0.25}])(reps)
    cross_entropy = torch.nn.functional.cross_entropy(logits, labels).item()
    assert list(outcome.losses) == ["contrast", "mlm"]
    assert outcome.losses["contrast"].item() == objective_of()(plain).total.item()
    assert outcome.losses["mlm"].item() == pytest.approx(0.25 * cross_entropy, rel=1e-6)
    assert outcome.total.item() == pytest.approx(sum(loss.item() for loss in outcome.losses.values()), rel=1e-6)


N = 4
DUAL = (
    "objective.dual_encoder=true",
    "training.max_steps=8",
    "training.batch_size=8",
    "training.checkpoint_every=3",
    "training.learning_rate=1e-3",
    "training.precision=float32",
    'encoder.head.kind="mlp"',
)
WORDS = "backbone.embeddings.word_embeddings.weight"
HARD = [{"kind": "in_batch"}, {"kind": "hard"}]


@pytest.fixture
def encoder(encoder: SentenceEncoder, tiny_folder: Path) -> SentenceEncoder:
    """The tiny model with a training head and a masked-LM head."""
    encoder.projection = Dense.mlp_head(32, torch.Generator().manual_seed(1))
    encoder.lm_head = load_masked_lm_head(tiny_folder, encoder.backbone.get_input_embeddings())  # type: ignore[arg-type]
    return encoder.eval()


def begun(encoder: SentenceEncoder, **data: Any) -> tuple[Objective, SentenceEncoder]:
    objective = objective_of(dual_encoder=True, **data)
    assert objective.second is None
    objective.begin(encoder, batch_size=N, seed=1)
    assert objective.second is not None
    return objective, objective.second


def triples(encoder: SentenceEncoder, texts: list[str]) -> StepInputs:
    keys = torch.arange(3 * N).reshape(3, N).T.contiguous()
    return StepInputs(encoder.tokenizer.pad(encoder.tokenize(texts[: 3 * N])), N, keys)


def test_anchors_go_through_the_first_and_the_rest_through_the_second(
    encoder: SentenceEncoder, sentences: list[str]
) -> None:
    objective, second = begun(encoder, view={"kind": "pair"}, negatives=HARD)
    with torch.no_grad():
        for parameter in second.parameters():
            parameter.mul_(1.3)
    inputs, reads = triples(encoder, sentences), objective.reads | {Layer(1)}
    rows: dict[str, list[int]] = {"first": [], "second": []}
    for name, module in (("first", encoder), ("second", second)):
        module.backbone.register_forward_pre_hook(
            lambda module, args, kwargs, name=name: rows[name].append(len(kwargs["input_ids"])), with_kwargs=True
        )
    objective.reads = reads
    reps = objective.represent(encoder, inputs)
    assert rows == {"first": [N], "second": [2 * N]}
    first, other = (e(inputs.tokens, layers=[1]) for e in (encoder, second))
    assert not torch.allclose(first.sentence, other.sentence, atol=1e-2)
    assert torch.allclose(reps.anchor, first.sentence[:N], atol=1e-6)
    assert torch.allclose(reps.positive, other.sentence[N : 2 * N], atol=1e-6)
    assert torch.allclose(reps.hard[:, 0], other.sentence[2 * N :], atol=1e-6)
    layers = torch.cat([first.layers[1][:N], other.layers[1][N : 2 * N]])
    assert torch.allclose(reps[Layer(1)], layers, atol=1e-6)
    objective.reads = reads | {Clean()}
    clean = objective.represent(encoder, inputs)[Clean()]
    assert torch.allclose(clean, first.sentence[:N], atol=1e-6)


def test_which_of_the_two_may_be_saved(encoder: SentenceEncoder) -> None:
    own = encoder.state_dict()
    for choice, wanted in (("first", [1]), ("second", [2]), ("better", [1, 2])):
        objective, second = begun(encoder, saved_encoder=choice)
        with torch.no_grad():
            for parameter in second.parameters():
                parameter.mul_(2)
        candidates = objective.candidates(own)
        assert len(candidates) == len(wanted)
        for tensors, factor in zip(candidates, wanted, strict=True):
            assert tensors.keys() == own.keys()
            assert torch.equal(tensors[WORDS], factor * own[WORDS])
            head = next(name for name in own if name.startswith("lm_head"))
            assert torch.equal(tensors[head], own[head]), "masked copies go through the first"
    assert objective_of(saved_encoder="first").candidates(own) == [own]
    with pytest.raises(UserError, match=r"saved_encoder = second needs objective\.dual_encoder = true"):
        objective_of(saved_encoder="second")


# Runs


def engine(folder: Path, model: Path, stop: int = -1, *settings: str) -> Trainer:
    job = Run(
        text=Source(str(sample.TRAIN)),
        model=str(model),
        settings=(*DUAL, *settings),
        dev=None,
    )
    prepared = job.open(Silent())
    folder.mkdir(parents=True, exist_ok=True)
    return prepared.trainer(folder, Stopped(stop))


def second_of(trainer: Trainer) -> SentenceEncoder:
    assert trainer.objective.second is not None
    return trainer.objective.second


@dataclass
class NormOfTheWeights:
    """Prefers large or small weights, and remembers what it has scored."""

    sign: float = 1.0
    scored: list[float] = field(default_factory=list)

    def score(self, encoder: SentenceEncoder) -> DevScore:
        self.scored.append(float(encoder.state_dict()[WORDS].norm()))
        return DevScore(value=self.sign * self.scored[-1])


@pytest.mark.slow
@pytest.mark.parametrize(("choice", "sign"), [("second", 1.0), ("better", 1.0), ("better", -1.0)])
def test_the_chosen_encoder_is_evaluated_and_kept(
    choice: SavedEncoder, sign: float, tiny_folder: Path, tmp_path: Path
) -> None:
    dev = NormOfTheWeights(sign=sign)
    trainer = engine(tmp_path, tiny_folder, -1, "objective.saved_encoder=second", "training.max_steps=2")
    trainer.objective.saved_encoder = choice
    trainer.start, progress = DevScore(-1e9), Heard()
    trainer.evaluations.dev, trainer.evaluations.progress = cast(Selector, dev), progress
    with torch.no_grad():
        second_of(trainer).get_parameter(WORDS).mul_(3)
    trainer.run(resume=False)
    second = second_of(trainer).state_dict()
    chosen_second = choice == "second" or sign > 0
    assert torch.equal(trainer.evaluations.best[WORDS], second[WORDS]) is chosen_second
    assert len(dev.scored) == (1 if choice == "second" else 2)
    named = "" if choice == "second" else f" of the {'second' if chosen_second else 'first'} encoder"
    assert f"dev {max(sign * norm for norm in dev.scored):.2f}{named} (start" in progress.notes[-1]
    assert torch.equal(trainer.encoder.state_dict()[WORDS], second[WORDS]) is chosen_second, "the last one"


@pytest.mark.slow
def test_the_better_one_needs_dev_data(tiny_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="saved_encoder = better needs dev data to choose by; add --dev"):
        engine(tmp_path, tiny_folder, -1, "objective.saved_encoder=better")
