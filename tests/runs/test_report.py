"""What a run tells: its record, its card, its report, its next steps, and callbacks and trackers."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any, cast

import pytest
import torch
import typer
from huggingface_hub import ModelCard

import opencse
from helpers import Broken, Stopped, json_in, rows_in, write_lines
from opencse.cli.app import app
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import InterruptedRunError
from opencse.model_folder.layout import THIS_FOLDER
from opencse.progress import Silent
from opencse.recipes.recipe import Resolved, load_recipe
from opencse.runs.finish import TrainResult, open_checkpoint
from opencse.runs.folder import RunFolder
from opencse.runs.record import Identity
from opencse.runs.report import INDEX, losses_of, next_steps, open_subjects, write_run_report
from opencse.runs.run import Run
from opencse.text import sample
from opencse.text.given import TextSource
from opencse.text.readers import Source
from opencse.training.callbacks import Callback, Record

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
def job(tiny_folder: Path, tmp_path: Path, sentences: list[str]) -> Run:
    text = tmp_path / "text.txt"
    write_lines(text, sentences[:64])
    return Run(text=Source(str(text)), recipe="simcse", model=str(tiny_folder), settings=SETTINGS)


@pytest.mark.drawn
@pytest.mark.slow
def test_a_run_leaves_a_page_and_its_numbers(job: Run, tmp_path: Path) -> None:
    result = job.train(tmp_path / "run")
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
    assert f">{result.verdict.lower()}. " in text.lower()
    told = json_in(tmp_path / "run" / "report.json")
    assert list(losses_of(told["log"], RunFolder(tmp_path / "run").record())) == [1, 2, 3, 4]
    assert [one["name"] for one in told["findings"]["subjects"]] == ["start", "trained"]
    assert told["run"]["result"]["kept"] == result.kept
    dev = [line for line in told["log"] if "dev" in line]
    assert [line["step"] for line in dev] == [0, 2, 4]
    assert all(0 <= line["dev_alignment"] <= 4 and line["dev_uniformity"] < 0 for line in dev)
    spearman = told["findings"]["subjects"][0]["spearman"]
    assert spearman == pytest.approx(dev[0]["dev"]), "the start is judged as the run judged it"


@pytest.mark.slow
def test_a_run_that_is_still_going_can_be_looked_into(job: Run, tmp_path: Path) -> None:
    with pytest.raises(InterruptedRunError):
        job.train(tmp_path / "run", progress=Stopped(2))
    now = open_checkpoint(tmp_path / "run")
    start = SentenceEncoder.load(job.model, pooling="mean", device="cpu")
    texts = ["One sentence.", "Another one."]
    assert not torch.equal(torch.from_numpy(now.encode(texts)), torch.from_numpy(start.encode(texts)))
    opened = open_subjects([str(tmp_path / "run")], pooling=None, device=None, progress=Silent())
    assert opened[0].model.name == "run"
    job.train(tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "modules.json").is_file()


RECIPE: dict[str, Any] = {"name": "r", "title": "t", "paper": "p", "training": {"seed": 1}}


def identity(**changes: Any) -> Identity:
    values: dict[str, Any] = {
        "recipe": RECIPE,
        "model": "m",
        "text": "hash",
        "precision": "float32",
        "dev": "sample",
        "start": {"a": "1"},
        "dev_pairs": "hash",
        "parts": {"mine": "1"},
        "models": {"teacher/a": "1"},
    }
    return Identity(**(values | changes))


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({}, None),
        ({"recipe": {**RECIPE, "title": "another", "paper": "another"}}, None),
        ({"recipe": {**RECIPE, "training": {"seed": 2}}}, r"another recipe.training.seed (1 then, 2 now)"),
        ({"parts": {"mine": "2"}}, "other code of the recipe's parts: mine changed after the run was begun"),
        ({"models": {"teacher/a": "2"}}, "another model that the recipe names: teacher/a changed"),
        ({"text": "other"}, "another text"),
        ({"model": "n"}, None),
        ({"start": {"a": "2"}}, "another start (m): these files have changed: a"),
        ({"dev_pairs": "other"}, "other dev data (sample): its content has changed"),
    ],
)
def test_contents_make_a_run_the_same_and_names_do_not(changes: dict[str, Any], part: str | None) -> None:
    difference = identity().difference(identity(**changes))
    assert difference is None if part is None else part in str(difference)


QUICK = ["training.max_steps=4", "training.batch_size=8", "training.evaluate_every=2", "training.seed=7"]


def card_of(folder: Path) -> ModelCard:
    """The card, after what holds for all of them."""
    card: ModelCard = ModelCard.load(folder / "README.md")
    told: dict[str, Any] = card.data.to_dict()  # type: ignore[no-untyped-call]
    assert told["library_name"] == "sentence-transformers"
    assert told["pipeline_tag"] == "sentence-similarity"
    assert "opencse" in told["tags"]
    assert "base_model" not in told  # a folder of this machine is none
    assert not re.search(r"\{[a-z_]+\}", re.sub(r"```.*?```", "", card.text, flags=re.DOTALL))
    encoder = SentenceEncoder.load(folder, device="cpu")
    for line in (f"{encoder.dimension} dimensions", f"pooling {encoder.pooling}", "## Limits", "opencse calibrate"):
        assert line in card.text
    for block in re.findall(r"```python\n(.*?)```", card.text, flags=re.DOTALL):
        names: dict[str, object] = {}
        if "sentence_transformers" in block:
            pytest.importorskip("sentence_transformers")
        exec(block.replace(THIS_FOLDER, str(folder)), names)
        assert names["vectors"].shape == (2, encoder.dimension)  # type: ignore[attr-defined]
    return card


def test_of_a_plain_save(encoder: SentenceEncoder, tmp_path: Path) -> None:
    encoder.save(tmp_path / "out")
    card = card_of(tmp_path / "out")
    assert "Nothing is recorded here of how it was made" in card.text
    assert "opencse export onnx" in card.text


@pytest.mark.slow
def test_of_a_trained_encoder(tiny_folder: Path, tmp_path: Path) -> None:
    result = opencse.train(sample.TRAIN, tmp_path / "out", model=tiny_folder, settings=QUICK, dev="sample")
    opened = Run(text=Source(str(sample.TRAIN)), model=str(tiny_folder), settings=tuple(QUICK)).open(Silent())
    card = card_of(tmp_path / "out")
    assert "| recipe | simcse" in card.text
    assert opened.facts.fingerprint[:16] in card.text
    assert f"| start | {result.scores[0]:.2f} |" in card.text
    assert f"| last, step 4 | {result.scores[4]:.2f} |" in card.text
    assert "From one run, seed 7." in card.text
    assert f"| this model | {result.kept} |" in card.text
    assert "| this model | last |" in card_of(tmp_path / "out" / "last").text
    shares = "training.average_with_start=[0.5]"
    opencse.train(sample.TRAIN, tmp_path / "half", model=tiny_folder, settings=[*QUICK, shares], dev="sample")
    assert "| last, step" not in card_of(tmp_path / "half").text, "only its average with the start was scored"


KEPT = [("simcse", "best"), ("simcse", "start"), ("pretrain", "last")]


def told(recipe: str, kept: str, text: TextSource | None = None) -> list[tuple[str, str]]:
    resolved = Resolved(load_recipe(recipe), (), "some/start")
    job = Run(text=text or Source("my text.txt"), recipe=resolved, model="some/start")
    return next_steps(job, TrainResult(Path("a folder"), kept, "", {}, []))


@pytest.mark.parametrize(("recipe", "kept"), KEPT)
def test_every_command_exists_with_its_options(recipe: str, kept: str) -> None:
    lines = [line for _, command in told(recipe, kept) for line in command.splitlines()]
    assert lines
    for line in lines:
        command: Any = typer.main.get_command(app)
        words = shlex.split(line)[1:]
        while hasattr(command, "list_commands") and not words[0].startswith("-"):
            command, words = command.get_command(cast(Any, None), words[0]), words[1:]
        parsed = command.make_context("opencse", words).params
        given = [one for value in parsed.values() for one in (value if isinstance(value, list | tuple) else [value])]
        assert {"some/start", "a folder", INDEX} & set(map(str, given)), line


TRACKED = [
    "training.max_steps=6",
    "training.batch_size=8",
    "training.log_every=2",
    "training.checkpoint_every=4",
    "training.evaluate_every=3",
]


class Notes(Callback):
    def __init__(self) -> None:
        self.begun: list[int] = []
        self.lines: list[dict[str, Any]] = []
        self.others: list[tuple[Any, ...]] = []

    def on_begin(self, step: int) -> None:
        self.begun.append(step)

    def on_step(self, step: int, record: Record) -> None:
        assert "loss" in record
        self.lines.append(dict(record))

    def on_evaluate(self, step: int, record: Record) -> None:
        assert "dev" in record
        self.lines.append(dict(record))

    def on_checkpoint(self, step: int, folder: Path) -> None:
        assert (folder / "state.json").is_file() or any(folder.rglob("state.json"))
        self.others.append((step, "checkpoint"))

    def on_end(self, folder: Path, verdict: str) -> None:
        assert (folder / "config.json").is_file()
        self.others.append(("end", verdict))


@pytest.mark.slow
def test_callbacks_and_tensorboard(tiny_folder: Path, sentences: list[str], tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    notes, out = Notes(), tmp_path / "run"
    arguments: dict[str, Any] = {"model": tiny_folder, "settings": TRACKED, "dev": "sample", "track": "tensorboard"}
    with pytest.raises(InterruptedRunError):
        opencse.train(sentences[:80], out, **arguments, callbacks=[notes], progress=Broken(5))
    assert notes.begun == [0]
    assert notes.others == [(4, "checkpoint")]
    result = opencse.train(sentences[:80], out, **arguments, callbacks=[notes], resume=True)
    assert notes.begun == [0, 4]
    assert notes.others[1:] == [("end", result.verdict)]
    lines = rows_in(out / "metrics.jsonl")
    assert [line["step"] for line in lines] == [0, 1, 2, 3, 4, 6, 6]
    assert notes.lines == lines
    events = EventAccumulator(str(out / "tensorboard"))
    events.Reload()
    losses = {event.step: event.value for event in events.Scalars("train/loss")}
    assert losses == pytest.approx({line["step"]: line["loss"] for line in lines if "loss" in line}, rel=1e-6)
    dev = {event.step: event.value for event in events.Scalars("dev/dev")}
    assert dev == pytest.approx({line["step"]: line["dev"] for line in lines if "dev" in line}, rel=1e-6)
