"""A run whose files are damaged or whose inputs have changed: one line that says which, and what can be done."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from helpers import Run, Stopped, json_in, refused, write_lines
from opencse.errors import InterruptedRunError
from opencse.runs.folder import RunFolder
from opencse.runs.run import Run as TrainRun
from opencse.text import sample
from opencse.text.readers import Source
from opencse.training.callbacks import METRICS

pytestmark = pytest.mark.slow


SETTINGS = (
    "training.max_steps=4",
    "training.batch_size=4",
    "training.checkpoint_every=1",
    "training.log_every=1",
    "training.evaluate_every=2",
    "encoder.pooling=mean",
)
OPTIONS = [part for setting in SETTINGS for part in ("--set", setting)]


@pytest.fixture(scope="module")
def interrupted(tiny_folder: Path, sentences: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text, dev pairs, a start, and a run that was killed after its second step."""
    folder = tmp_path_factory.mktemp("interrupted")
    write_lines(folder / "text.txt", sentences[:12])
    shutil.copy(sample.DEV, folder / "dev.tsv")
    shutil.copytree(tiny_folder, folder / "start")
    job = TrainRun(
        text=Source(str(folder / "text.txt")), model=str(folder / "start"), settings=SETTINGS, dev=folder / "dev.tsv",
        device="cpu",
    )  # fmt: skip
    with pytest.raises(InterruptedRunError):
        job.train(folder / "run", progress=Stopped(2))
    run = RunFolder(folder / "run")
    for path in run.path.iterdir():  # a killed run has no model yet
        if path not in (run.record_file, run.checkpoint, run.start) and path.name != METRICS:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return folder


@pytest.fixture
def here(interrupted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(interrupted, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def resumed(opencse: Run, *more: object) -> tuple[int, str, str]:
    return opencse(
        "train", "text.txt", "-m", "start", "--dev", "dev.tsv", "-o", "run", *OPTIONS, "--device", "cpu", "--no-report",
        "--resume", *more,
    )  # fmt: skip


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


DAMAGE: dict[str, tuple[str, bytes | None, tuple[str, ...]]] = {
    "tensors truncated": ("checkpoint/tensors.safetensors", b"\x08\0\0\0\0", ("is damaged", "--resume begins again")),
    "state truncated": ("checkpoint/state.json", b'{"step": 2, "his', ("is damaged",)),
    "checksums a list": ("checkpoint/checksums.json", b"[]", ("an object was expected",)),
    "record empty": ("run.json", b"", ("cannot be read as the record of a run", "put back a copy")),
    "record without keys": ("run.json", b"{}", ("identity: field required",)),
    "log binary": ("metrics.jsonl", b'{"step": 1}\n\xff\xfe\0\n{"step": 2}\n', (", line 2: is no record of a step",)),
}  # fmt: skip


@pytest.mark.parametrize(("file", "content", "parts"), DAMAGE.values(), ids=DAMAGE.keys())
def test_resume_and_analyze_name_the_damaged_file(
    opencse: Run, here: Path, file: str, content: bytes | None, parts: tuple[str, ...]
) -> None:
    path = here / "run" / file
    path.unlink() if content is None else path.write_bytes(content)
    before = snapshot(here)
    refused(resumed(opencse), f"run/{file}", *parts)
    if file != "metrics.jsonl":  # which analyze does not read
        refused(opencse("analyze", "run", "-o", "page", "--device", "cpu"), f"run/{file}", *parts)
    shutil.rmtree(here / "page", ignore_errors=True)
    assert snapshot(here) == before


def rewritten(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def other_weights(here: Path) -> None:
    path = here / "start" / "model.safetensors"
    tensors = load_file(path)
    name = next(iter(tensors))
    save_file({**tensors, name: tensors[name] + 1}, path, metadata={"format": "pt"})


CHANGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "weights": (other_weights, "another start (start): these files have changed: model.safetensors"),
    "dev": (lambda here: rewritten(here / "dev.tsv", "a", "e"), "other dev data (dev.tsv): its content has changed"),
    "text": (lambda here: rewritten(here / "text.txt", "e", "a"), "another text: its content"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "told"), CHANGES.values(), ids=CHANGES.keys())
def test_changed_content_under_the_same_name_is_not_gone_on_with(
    opencse: Run, here: Path, change: Callable[[Path], None], told: str
) -> None:
    record = json_in(here / "run" / "run.json")
    record["identity"] |= {"model": "start", "dev": "dev.tsv"}
    (here / "run" / "run.json").write_text(json.dumps(record))
    change(here)
    before = snapshot(here)
    for more in ((), ("--dry-run",)):
        refused(resumed(opencse, *more), "run: cannot resume with", told, "start the new run in another --out")
    assert snapshot(here) == before
