"""A second encoder for the positives (SimCSE, Table 2): what it reads, that it is trained, and left out at the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from helpers import Heard, Stopped
from opencse import SentenceEncoder, UserError
from opencse.adapting.selection import DevScore, History, Selector
from opencse.errors import InterruptedRunError
from opencse.model_folder.masked_lm import load_masked_lm_head
from opencse.modules.dense import Dense
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings, SavedEncoder
from opencse.objective.vectors.requests import Clean, Layer
from opencse.objective.vectors.step import StepInputs
from opencse.objective.views.base import DerivesPositives
from opencse.objective.views.dropout import Dropout
from opencse.progress import Silent
from opencse.runs.job import TrainJob
from opencse.settings import validate
from opencse.text import sample
from opencse.text.readers import Source
from opencse.training.pace import seconds_per_step
from opencse.training.trainer import Trainer

N = 4
SETTINGS = (
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


def build(**data: Any) -> Objective:
    return Objective.from_settings(validate(ObjectiveSettings, data, "test"))


@pytest.fixture
def encoder(encoder: SentenceEncoder, tiny_folder: Path) -> SentenceEncoder:
    """The tiny model with a training head and a masked-LM head."""
    encoder.projection = Dense.mlp_head(32, torch.Generator().manual_seed(1))
    encoder.lm_head = load_masked_lm_head(tiny_folder, encoder.backbone.get_input_embeddings())  # type: ignore[arg-type]
    return encoder.eval()


def begun(encoder: SentenceEncoder, **data: Any) -> tuple[Objective, SentenceEncoder]:
    objective = build(dual_encoder=True, **data)
    assert objective.second is None
    objective.begin(encoder, batch_size=N, seed=1)
    assert objective.second is not None
    return objective, objective.second


def weights(encoder: SentenceEncoder) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in encoder.state_dict().items() if not name.startswith("lm_head")}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    assert a.keys() == b.keys()
    return all(torch.equal(a[name], b[name]) for name in a)


def test_it_starts_equal_and_is_its_own(encoder: SentenceEncoder) -> None:
    objective, second = begun(encoder)
    assert same(weights(second), weights(encoder))
    assert any(name.startswith("projection") for name in weights(second))
    assert not {id(p) for p in second.parameters()} & {id(p) for p in encoder.parameters()}
    storages = {p.data_ptr() for p in encoder.parameters()}
    assert not {p.data_ptr() for p in second.parameters()} & storages
    assert second.tokenizer is encoder.tokenizer
    assert second.lm_head is None
    assert encoder.lm_head is not None
    assert {id(p) for p in objective.parameters()} == {id(p) for p in second.parameters()}
    assert all(p.requires_grad for p in objective.parameters())
    objective.train()
    assert second.training
    assert not encoder.training


def test_without_the_setting_there_is_none(encoder: SentenceEncoder) -> None:
    objective = build()
    objective.begin(encoder, batch_size=N, seed=1)
    assert objective.second is None
    assert not list(objective.parameters())


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


def test_each_side_of_the_loss_moves_its_own_encoder(encoder: SentenceEncoder, sentences: list[str]) -> None:
    objective, second = begun(encoder, view={"kind": "pair"}, negatives=HARD)
    reps = objective.represent(encoder, triples(encoder, sentences))
    torch.autograd.backward(reps.anchor.square().sum(), retain_graph=True)
    assert (moved(encoder), moved(second)) == (True, False)
    encoder.zero_grad()
    torch.autograd.backward((reps.positive + reps.hard[:, 0]).square().sum())
    assert (moved(encoder), moved(second)) == (False, True)


def moved(encoder: SentenceEncoder) -> bool:
    """Whether any weight of it has a gradient."""
    return any(p.grad is not None and bool(p.grad.any()) for p in encoder.parameters())


class Turned(DerivesPositives, Dropout):
    """A view that makes the positives of the anchors' vectors."""

    def derive(self, anchors: Tensor, noise: torch.Generator) -> Tensor:
        return -anchors


def test_views_without_positive_rows_leave_it_nothing_to_read() -> None:
    Objective(Turned(), negatives=[InBatch()])
    with pytest.raises(UserError, match=r"^a second encoder would have nothing to read: the view dropout .*choose"):
        Objective(Turned(), negatives=[InBatch()], dual_encoder=True)


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
    assert build(saved_encoder="first").candidates(own) == [own]
    with pytest.raises(UserError, match=r"saved_encoder = second needs objective\.dual_encoder = true"):
        build(saved_encoder="second")


# Runs


def engine(folder: Path, model: Path, stop: int = -1, *settings: str) -> Trainer:
    job = TrainJob(text=Source(str(sample.TRAIN)), model=str(model), settings=(*SETTINGS, *settings), dev=None)
    prepared = job.prepare(Silent())
    folder.mkdir(parents=True, exist_ok=True)
    return prepared.trainer(folder, Stopped(stop), dev=None, start=None)


def second_of(trainer: Trainer) -> SentenceEncoder:
    assert trainer.objective.second is not None
    return trainer.objective.second


@pytest.mark.slow
@pytest.mark.parametrize("stop", [2, 6])
def test_it_is_trained_and_a_resumed_run_is_the_same(tiny_folder: Path, tmp_path: Path, stop: int) -> None:
    whole = engine(tmp_path / "whole", tiny_folder)
    start = {name: tensor.clone() for name, tensor in whole.encoder.state_dict().items()}
    optimized = {id(p) for group in whole.optimizer.param_groups for p in group["params"]}
    assert optimized == {id(p) for e in (whole.encoder, second_of(whole)) for p in e.parameters()}
    whole.run(resume=False)
    ends = [e.state_dict() for e in (whole.encoder, second_of(whole))]
    matrices = [name for name, tensor in start.items() if tensor.ndim == 2 and "position" not in name]
    for end in ends:
        assert all(not torch.equal(end[name], start[name]) for name in matrices), "both have moved"
    assert not same(*ends), "and each in its own way"

    stopped = engine(tmp_path / "stopped", tiny_folder, stop)
    with pytest.raises(InterruptedRunError, match=f"step {stop} of 8"):
        stopped.run(resume=False)
    saved = load_file(tmp_path / "stopped" / "checkpoint" / "tensors.safetensors")
    for name, tensor in second_of(stopped).state_dict().items():
        assert torch.equal(saved[f"objective.second.{name}"], tensor)
        assert torch.equal(saved[f"encoder.{name}"], stopped.encoder.state_dict()[name])
    resumed = engine(tmp_path / "stopped", tiny_folder)
    resumed.run(resume=True)
    assert same(resumed.encoder.state_dict(), ends[0])
    assert same(second_of(resumed).state_dict(), ends[1])
    assert (tmp_path / "stopped" / "metrics.jsonl").read_text() == (tmp_path / "whole" / "metrics.jsonl").read_text()


@pytest.mark.slow
def test_the_folder_holds_the_first_encoder_alone(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Trainer] = []
    run = Trainer.run

    def keep(self: Trainer, *, resume: bool) -> History:
        kept.append(self)
        return run(self, resume=resume)

    monkeypatch.setattr(Trainer, "run", keep)
    texts = [line for line in sample.TRAIN.read_text().splitlines() if line][:5]
    folders = {}
    for dual in (True, False):
        settings = (*SETTINGS, f"objective.dual_encoder={str(dual).lower()}")
        folders[dual] = tmp_path / str(dual)
        TrainJob(text=Source(str(sample.TRAIN)), model=str(tiny_folder), settings=settings, dev=None).run(folders[dual])
    names = [sorted(str(p.relative_to(f)) for p in f.rglob("*") if p.is_file()) for f in folders.values()]
    assert names[0] == names[1]
    tensors = [load_file(folder / "model.safetensors") for folder in folders.values()]
    assert tensors[0].keys() == tensors[1].keys()
    saved = SentenceEncoder.load(folders[True], device="cpu").encode(texts)
    assert (saved == kept[0].encoder.eval().encode(texts)).all()
    assert not (saved == second_of(kept[0]).eval().encode(texts)).all()
    assert not (saved == SentenceEncoder.load(folders[False], device="cpu").encode(texts)).all()


@pytest.mark.slow
def test_measuring_the_pace_leaves_both_as_they_were(tiny_folder: Path, tmp_path: Path) -> None:
    trainer = engine(tmp_path / "run", tiny_folder)
    before = [{k: v.clone() for k, v in e.state_dict().items()} for e in (trainer.encoder, second_of(trainer))]
    seconds_per_step(
        trainer.encoder, trainer.objective, trainer.inputs, trainer.batches, trainer.settings, trainer.precision
    )
    for encoder, state in zip((trainer.encoder, second_of(trainer)), before, strict=True):
        assert same(encoder.state_dict(), state)
        assert all(p.grad is None for p in encoder.parameters())


@dataclass
class NormOfTheWeights:
    """Prefers large or small weights, and remembers what it has scored."""

    sign: float = 1.0
    scored: list[float] = field(default_factory=list)

    def score(self, encoder: SentenceEncoder) -> DevScore:
        self.scored.append(float(encoder.state_dict()[WORDS].norm()))
        return DevScore(value=self.sign * self.scored[-1])


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


def test_the_better_one_needs_dev_data(tiny_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="saved_encoder = better needs dev data to choose by; add --dev"):
        engine(tmp_path, tiny_folder, -1, "objective.saved_encoder=better")
