"""The report of a training run, and a look at a run that is still going."""

from __future__ import annotations

import json
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
import torch

from helpers import Stopped
from opencse.analysis.inspection import Subject
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import InterruptedRunError, UserError
from opencse.progress import Silent
from opencse.runs import report
from opencse.runs.best_so_far import open_checkpoint
from opencse.runs.folder import RunFolder
from opencse.runs.job import TrainJob
from opencse.runs.report import losses_of, open_subjects, write_run_report
from opencse.text.readers import Source
from opencse.training.metrics import MetricsLog

SETTINGS = (
    "training.max_steps=4",
    "training.batch_size=8",
    "training.evaluate_every=2",
    "training.checkpoint_every=2",
    "training.log_every=1",
    "training.learning_rate=1e-3",
    "encoder.pooling=mean",
)


@pytest.fixture
def job(tiny_folder: Path, tmp_path: Path, sentences: list[str]) -> TrainJob:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(sentences[:64]) + "\n")
    return TrainJob(text=Source(str(text)), recipe="simcse", model=str(tiny_folder), settings=SETTINGS)


@pytest.mark.slow
def test_a_run_leaves_a_page_and_its_numbers(job: TrainJob, tmp_path: Path) -> None:
    result = job.run(tmp_path / "run")
    page = write_run_report(job, result, Silent())
    text = page.read_text()
    assert page == tmp_path / "run" / "report.html"
    for part in (
        "Training curves",
        "Nearest neighbours",
        "Every setting",
        "training.batch_size = 8",
        "Load the",
    ):
        assert part in text
    told = json.loads((tmp_path / "run" / "report.json").read_text())
    assert [one["name"] for one in told["findings"]["subjects"]] == ["start", "trained"]
    assert told["run"]["result"]["kept"] == result.kept
    dev = [line for line in told["log"] if "dev" in line]
    assert [line["step"] for line in dev] == [0, 2, 4]
    assert all(0 <= line["dev_alignment"] <= 4 and line["dev_uniformity"] < 0 for line in dev)
    spearman = told["findings"]["subjects"][0]["spearman"]
    assert spearman == pytest.approx(dev[0]["dev"]), "the start is judged as the run judged it"


@pytest.mark.slow
def test_questions_that_selected_come_before_the_general_pairs(
    job: TrainJob, tmp_path: Path, sentences: list[str]
) -> None:
    text = tmp_path / "documents.txt"
    text.write_text("".join("\n".join(sentences[n : n + 12]) + "\n\n" for n in range(0, 1_200, 12)))
    asked = TrainJob(text=Source(str(text)), recipe="next-sentence", model=job.model, settings=SETTINGS, dev="text")
    result = asked.run(tmp_path / "run")
    page = unescape(write_run_report(asked, result, Silent()).read_text())
    told = page.index(f'class="verdict">{result.verdict[0].upper()}{result.verdict[1:]}')
    assert told < page.index("On general pairs, which selected nothing: trained is")
    assert page.count('class="verdict') == 1
    assert "ndcg@10 x 100 by step" in page.lower()


def test_the_smaller_last_batch_of_an_epoch_is_no_point_of_the_curve(job: TrainJob, tmp_path: Path) -> None:
    settings = (*SETTINGS, "training.batch_size=24", "training.epochs=2", "training.max_steps=6")
    result = TrainJob(text=job.text, recipe=job.recipe, model=job.model, settings=settings, dev=None).run(
        tmp_path / "run"
    )
    folder = RunFolder(result.folder)
    log = MetricsLog(folder.metrics_file).read()
    assert list(losses_of(log, folder.record())) == [1, 2, 4, 5], "64 rows: 24, 24 and 16"
    even = folder.record().model_copy(update={"examples": 72})
    assert list(losses_of(log, even)) == [1, 2, 3, 4, 5, 6]
    every_epoch = [line for line in log if line["step"] in (1, 3, 6)]
    assert list(losses_of(every_epoch, folder.record())) == [3, 6], "mostly smaller ones: a curve of these"


@pytest.mark.slow
def test_without_dev_pairs_there_is_a_page_too(job: TrainJob, tmp_path: Path) -> None:
    plain = TrainJob(text=job.text, recipe=job.recipe, model=job.model, settings=SETTINGS, dev=None)
    page = write_run_report(plain, plain.run(tmp_path / "run"), Silent())
    assert "Nearest neighbours" in page.read_text()


@pytest.mark.slow
def test_a_run_that_is_still_going_can_be_looked_into(job: TrainJob, tmp_path: Path) -> None:
    with pytest.raises(InterruptedRunError):
        job.run(tmp_path / "run", progress=Stopped(2))
    now = open_checkpoint(tmp_path / "run")
    start = SentenceEncoder.load(job.model, pooling="mean", device="cpu")
    texts = ["One sentence.", "Another one."]
    assert not torch.equal(torch.from_numpy(now.encode(texts)), torch.from_numpy(start.encode(texts)))
    opened = open_subjects([str(tmp_path / "run")], pooling=None, device=None, progress=Silent())
    assert opened[0].model.name == "run"
    job.run(tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "modules.json").is_file()


@pytest.mark.slow
def test_what_weighs_tokens_is_in_the_page_and_in_a_run_that_is_still_going(
    job: TrainJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weighed = replace(job, settings=(*SETTINGS, "encoder.token_weights=idf"))
    with pytest.raises(InterruptedRunError):
        weighed.run(tmp_path / "run", progress=Stopped(2))
    now = open_checkpoint(tmp_path / "run").token_weights
    result = weighed.run(tmp_path / "run", resume=True)
    wanted = result.plan.token_weights
    assert now is not None
    assert wanted is not None
    assert torch.equal(now.weights, wanted.weights)
    seen: list[SentenceEncoder] = []
    own = report.subject

    def subject(name: str, encoder: SentenceEncoder) -> Subject:
        seen.append(encoder)
        return own(name, encoder)

    monkeypatch.setattr(report, "subject", subject)
    write_run_report(weighed, result, Silent())
    assert seen[0].token_weights is None, "the start is the model as it was given"


def test_no_checkpoint_yet(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no checkpoint of a run"):
        open_checkpoint(tmp_path)
