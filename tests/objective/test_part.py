"""When a run calls its parts: `begin` before all, `after_backward` before the weights move, `diagnose` at the log."""

from __future__ import annotations

import json
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
import torch
from torch import Tensor

from helpers import Stopped
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import InterruptedRunError
from opencse.objective.columns import AnyColumns, Scoring
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.part import Part
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.vectors.requests import LmHead, Masked, Sentences
from opencse.objective.vectors.step import Representations, Request, StepInputs
from opencse.progress import Silent
from opencse.runs.job import TrainJob
from opencse.settings import PartSettings, validate
from opencse.text import sample
from opencse.text.readers import Source
from opencse.training.pace import seconds_per_step

STEPS = 7
SETTINGS = (
    f"training.max_steps={STEPS}",
    "training.batch_size=8",
    "training.log_every=3",
    "training.checkpoint_every=2",
    "training.learning_rate=1e-3",
    "training.seed=11",
    "training.precision=float32",
    'encoder.head.kind="mlp"',
)


SPY = f"objective.negatives.0.kind={__name__}:Spy"


@dataclass
class Notes:
    """What a spy has seen."""

    events: list[str] = field(default_factory=list)
    moved: list[bool] = field(default_factory=list)


class Spy(InBatch):
    """In-batch negatives that watch when they are called, and count their steps in a buffer made at the start."""

    class Settings(InBatch.Settings):
        """Those of in-batch negatives, under a kind of its own."""

        kind: Literal["spy"] = "spy"  # type: ignore[assignment]

    notes: ClassVar[Notes]
    wants_head: ClassVar[bool] = False

    def __init__(self, settings: InBatch.Settings) -> None:
        super().__init__(settings)
        self.encoder: list[SentenceEncoder] = []  # in a list, so that it is no module of the part
        self.forward_weights: list[Tensor] = []

    @property
    def reads(self) -> Set[Request[Any]]:
        return super().reads | ({LmHead()} if self.wants_head else set())

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        head = encoder.projection is not None
        self.notes.events.append(f"begin {batch_size} {seed} {head} {encoder.lm_head is not None}")
        self.encoder.append(encoder)
        self.register_buffer("steps_seen", torch.zeros((), dtype=torch.int64))

    def weights(self) -> list[Tensor]:
        return [p.detach().clone() for p in self.encoder[0].parameters()]

    def columns(self, reps: Representations, scoring: Scoring) -> AnyColumns:
        self.notes.events.append("forward")
        assert reps.anchor.requires_grad
        before, self.forward_weights = self.forward_weights, self.weights()
        if before:
            pairs = zip(before, self.forward_weights, strict=True)
            self.notes.moved.append(any(not torch.equal(a, b) for a, b in pairs))
        return super().columns(reps, scoring)

    def after_backward(
        self, encoder: SentenceEncoder, inputs: Sequence[StepInputs], reps: Sequence[Representations]
    ) -> None:
        self.notes.events.append("after_backward")
        assert encoder is self.encoder[0]
        assert not torch.is_grad_enabled()
        for given, made in zip(inputs, reps, strict=True):
            assert not any(t.requires_grad for t in (made.anchor, made.positive, made.hard))
            assert torch.equal(given.keys, made.keys)
            assert len(given.tokens) == 2 * len(made.anchor)
        gradients = [p.grad for p in encoder.parameters() if p.grad is not None]
        assert max(float(g.abs().max()) for g in gradients) > 0
        for then, now in zip(self.forward_weights, encoder.parameters(), strict=True):
            assert torch.equal(then, now), "the weights are those of the forward"
        self.get_buffer("steps_seen").add_(1)

    def diagnose(self, reps: Representations) -> dict[str, Tensor]:
        self.notes.events.append("diagnose")
        assert not torch.is_grad_enabled()
        assert not reps.anchor.requires_grad
        return {"seen": self.get_buffer("steps_seen").float(), "width": torch.tensor(float(reps.anchor.shape[1]))}


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> Notes:
    """What the spy sees; `job` puts it in the place of the in-batch negatives."""
    made = Notes()
    monkeypatch.setattr(Spy, "notes", made, raising=False)
    return made


def job(model: Path, *settings: str) -> TrainJob:
    return TrainJob(text=Source(str(sample.TRAIN)), model=str(model), settings=(*SETTINGS, SPY, *settings), dev=None)


def metrics(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_the_order_of_calls_in_a_run(tiny_folder: Path, tmp_path: Path, notes: Notes) -> None:
    job(tiny_folder).run(tmp_path / "run")
    expected = ["begin 8 11 True False"]
    for step in range(1, STEPS + 1):
        expected += ["forward", "after_backward", *(["diagnose"] if step in (1, 3, 6, 7) else [])]
    assert notes.events == expected
    assert notes.moved == [True] * (STEPS - 1), "every step moves the weights, so a late call would be seen"
    lines = metrics(tmp_path / "run")
    assert [(line["step"], line["seen"], line["width"]) for line in lines] == [
        (step, float(step), 32.0) for step in (1, 3, 6, 7)
    ]


@pytest.mark.slow
def test_what_a_part_began_with_is_replaced_by_the_checkpoint(tiny_folder: Path, tmp_path: Path, notes: Notes) -> None:
    with pytest.raises(InterruptedRunError, match="step 5"):
        job(tiny_folder).run(tmp_path / "run", progress=Stopped(5))
    assert notes.events.count("after_backward") == 5
    del notes.events[:]
    job(tiny_folder).run(tmp_path / "run", resume=True)
    assert notes.events[0] == "begin 8 11 True False"
    assert sum(event.startswith("begin") for event in notes.events) == 1
    assert notes.events.count("after_backward") == 2
    assert [line["seen"] for line in metrics(tmp_path / "run")] == [1, 3, 6, 7], "the count went on at 5"


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_after_backward_runs_in_the_precision_of_the_forward(
    tiny_folder: Path, tmp_path: Path, notes: Notes, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    cast: dict[str, list[bool]] = {"after": [], "diagnose": []}

    def after(self: Spy, encoder: object, inputs: object, reps: object) -> None:
        cast["after"].append(torch.is_autocast_enabled("cpu"))

    def diagnose(self: Spy, reps: object) -> dict[str, Tensor]:
        cast["diagnose"].append(torch.is_autocast_enabled("cpu"))
        return {}

    monkeypatch.setattr(Spy, "after_backward", after)
    monkeypatch.setattr(Spy, "diagnose", diagnose)
    job(tiny_folder, f"training.precision={precision}", "training.max_steps=2").run(tmp_path / "run")
    assert cast == {"after": [precision == "bf16"] * 2, "diagnose": [False] * 2}
    assert notes.events.count("forward") == 2


@pytest.mark.slow
@pytest.mark.usefixtures("timed_as_for_users")
def test_measuring_the_pace_calls_it_too_and_puts_the_state_back(tiny_folder: Path, notes: Notes) -> None:
    prepared = job(tiny_folder).prepare(Silent())
    training = prepared.plan.recipe.training
    (spy,) = prepared.objective.negatives
    spy.get_buffer("steps_seen").fill_(40)
    seconds_per_step(
        prepared.encoder, prepared.objective, prepared.inputs, prepared.batches, training, prepared.plan.precision
    )
    assert notes.events.count("after_backward") == notes.events.count("forward") == 14
    assert not any(notes.moved)
    assert spy.get_buffer("steps_seen").item() == 40


@pytest.mark.slow
@pytest.mark.parametrize("term", [False, True])
def test_a_part_may_copy_the_masked_lm_head_at_the_start(
    tiny_folder: Path, notes: Notes, monkeypatch: pytest.MonkeyPatch, term: bool
) -> None:
    """It is there when parts begin, and stays only where the masked copy of the step goes through it."""
    monkeypatch.setattr(Spy, "wants_head", True)
    terms = ['objective.terms=[{kind="mlm"}]'] if term else []
    prepared = job(tiny_folder, *terms).prepare(Silent())
    assert prepared.objective.reads == {Sentences(), LmHead(), *([Masked(0.15)] if term else [])}
    assert notes.events == ["begin 8 11 True True"]
    assert (prepared.encoder.lm_head is not None) == term


def test_every_part_is_called(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """View, the positive's sides, negatives with theirs, and terms, each once, in this order."""
    calls: list[tuple[str, str]] = []

    def begin(self: Part, encoder: object, *, batch_size: int, seed: int) -> None:
        calls.append((f"begin {batch_size} {seed}", type(self).__name__))

    def after_backward(self: Part, encoder: object, inputs: object, reps: object) -> None:
        calls.append(("after", type(self).__name__))

    def diagnose(self: Part, reps: object) -> dict[str, Tensor]:
        calls.append(("diagnose", type(self).__name__))
        return {type(self).__name__: torch.tensor(1.0)}

    data = {"negatives": [{"kind": "in_batch"}, {"kind": "hard"}], "terms": [{"kind": "mlm"}]}
    objective = Objective.from_settings(validate(ObjectiveSettings, data, "test"))
    for name, hook in (("begin", begin), ("after_backward", after_backward), ("diagnose", diagnose)):
        monkeypatch.setattr(Part, name, hook)
    encoder = SentenceEncoder.load(tiny_folder, device="cpu")
    vectors = torch.zeros(2, 3)
    reps = Representations(vectors, vectors, vectors.unsqueeze(1)[:, :0], torch.zeros(2, 2))
    inputs = StepInputs(encoder.tokenizer.pad(encoder.tokenize(["a", "b"])), 1, torch.zeros(1, 2))
    objective.begin(encoder, batch_size=5, seed=3)
    objective.after_backward(encoder, [inputs], [reps])
    found = objective.diagnose(reps)
    told = ["Dropout", "Views", "Views", "Hard", "MaskedLM"]  # the in-batch negatives tell their own sides
    assert calls == [(hook, name) for hook in ("begin 5 3", "after", "diagnose") for name in told]
    assert list(found) == ["Dropout", "Views", "Hard", "MaskedLM"]


class Bare(Part):
    """A part that is no more than its settings."""

    class Settings(PartSettings):
        """Its kind alone."""

        kind: Literal["bare"] = "bare"


def test_a_part_without_hooks_does_nothing(tiny_folder: Path) -> None:
    encoder, part = SentenceEncoder.load(tiny_folder, device="cpu"), Bare()
    vectors = torch.zeros(1, 3)
    reps = Representations(vectors, vectors, vectors.unsqueeze(1)[:, :0], torch.zeros(1, 2))
    part.begin(encoder, batch_size=2, seed=0)
    part.after_backward(encoder, [StepInputs(encoder.tokenizer.pad(encoder.tokenize(["a"])), 1, reps.keys)], [reps])
    assert part.diagnose(reps) == {}
    assert part.reads == set()
    assert not part.state_dict()
