"""Averages of trained weights with the start's, and the points between that are tried at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import Distance, Heard
from opencse.encoder.encoder import SentenceEncoder
from opencse.runs.job import TrainJob
from opencse.runs.report import series
from opencse.text.readers import Source
from opencse.training.averages import average, points_between
from opencse.training.callbacks import Callback, Record
from opencse.training.metrics import AVERAGE_OF, MetricsLog

SETTINGS = (
    "training.max_steps=4",
    "training.batch_size=4",
    "training.evaluate_every=2",
    "training.precision=float32",
    "training.learning_rate=1e-3",
    "encoder.pooling=mean",
)


@settings(max_examples=20, deadline=None)
@given(st.floats(0.1, 1.0), st.floats(0.1, 1.0))
def test_a_point_made_from_another_average_is_that_of_the_weights_themselves(share: float, other: float) -> None:
    draw = torch.Generator().manual_seed(1)
    start, trained = ({"w": torch.randn(5, generator=draw), "n": torch.tensor([3])} for _ in range(2))
    from_average = dict(points_between(start, average(start, trained, share), share, [other, share]))
    assert set(from_average) == {other} - {share}
    for one, weights in from_average.items():
        torch.testing.assert_close(weights["w"], average(start, trained, one)["w"], atol=1e-4, rtol=1e-4)
        assert weights["n"].tolist() == [3]


@pytest.fixture
def run(tiny_folder: Path, sentences: list[str], tmp_path: Path) -> Callable[..., Heard]:
    (tmp_path / "text.txt").write_text("\n".join(sentences[:24]) + "\n")

    def make(dev: Distance, out: str, *more: str, callbacks: tuple[Callback, ...] = ()) -> Heard:
        text, progress = Source(str(tmp_path / "text.txt")), Heard()
        settings = (*SETTINGS, *more)
        job = TrainJob(text=text, model=str(tiny_folder), settings=settings, dev=dev, device="cpu")
        job = replace(job, callbacks=callbacks)
        job.run(tmp_path / out, progress=progress)
        return progress

    return make


class Seen(Callback):
    def __init__(self) -> None:
        self.records: list[Record] = []

    def on_evaluate(self, step: int, record: Record) -> None:
        self.records.append(record)


def moved(dev: Distance, folder: Path) -> float:
    return -dev.score(SentenceEncoder.load(folder, device="cpu")).value


def test_the_point_between_that_scores_best_is_kept(run: Callable[..., Heard], tmp_path: Path) -> None:
    full = Distance(best_at=1e6)
    run(full, "full")
    way = 1e6 - moved(full, tmp_path / "full")
    assert way > 0.01
    dev = Distance(best_at=0.27 * way)
    told = run(dev, "out", "training.averages_at_end=[0.75,0.5,0.25]", "training.evaluate_every=4")
    assert [line for line in told.said if line.startswith("average")][-1].startswith(
        "average    the model of step 4, averaged with the start (25% trained)"
    )
    assert moved(dev, tmp_path / "out") == pytest.approx(0.02 * way, rel=0.05)
    last = SentenceEncoder.load(tmp_path / "out" / "last", device="cpu").state_dict()
    unchanged = SentenceEncoder.load(tmp_path / "full" / "last", device="cpu").state_dict()
    assert all(torch.equal(last[name], unchanged[name]) for name in unchanged), "the last weights are not averaged"


def test_where_the_guard_refuses_every_step_a_point_nearer_to_the_start_may_pass(
    run: Callable[..., Heard], tmp_path: Path
) -> None:
    full = Distance(best_at=1e6)
    run(full, "full")
    way = 1e6 - moved(full, tmp_path / "full")
    dev = Distance(best_at=way, refuses_from=0.3 * way)
    run(dev, "out", "training.averages_at_end=[0.75,0.5,0.25]", "training.evaluate_every=4")
    assert way - moved(dev, tmp_path / "out") == pytest.approx(0.25 * way, rel=0.05)


def test_the_log_has_every_average_once(run: Callable[..., Heard], tmp_path: Path) -> None:
    settings = ("training.averages_at_end=[0.75,0.5]", "training.evaluate_every=4", "training.checkpoint_every=1")
    seen = Seen()
    run(Distance(best_at=1e6), "out", *settings, callbacks=(seen,))
    log = MetricsLog(tmp_path / "out" / "metrics.jsonl")
    averages = [line for line in log.read() if AVERAGE_OF in line]
    last = max(line["step"] for line in log.read())
    values = [(line["step"], line[AVERAGE_OF], line["dev_share"]) for line in averages]
    assert values == [(last, last, 0.75), (last, last, 0.5)]
    assert all("dev" in line for line in averages)
    assert [record for record in seen.records if AVERAGE_OF in record] == averages
    assert [*series(log.read(), "dev")] == [0, 4]
    log.rewind(int(last))
    assert not [line for line in log.read() if AVERAGE_OF in line], "they are evaluated again when the run is resumed"


def test_none_is_kept_that_is_not_better(run: Callable[..., Heard], tmp_path: Path) -> None:
    plain = run(Distance(best_at=1e6), "one")
    tried = run(Distance(best_at=1e6), "two", "training.averages_at_end=[0.75,0.25]")
    assert not [line for line in (*plain.said, *tried.said) if line.startswith("average")]
    assert (tmp_path / "one" / "model.safetensors").read_bytes() == (
        tmp_path / "two" / "model.safetensors"
    ).read_bytes()
