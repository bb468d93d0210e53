"""What may be written to, one process at a time; nothing else is touched, and a killed one can be run again."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
from pathlib import Path

import pytest

from forked import Forks
from helpers import Run, refused, write_lines
from opencse import SentenceEncoder, train
from opencse.errors import UserError
from opencse.outputs import LOCK
from opencse.progress import Silent
from opencse.runs.finish import TrainResult
from opencse.runs.folder import FolderState, RunFolder, held, require_free

QUICK = ("training.max_steps=2", "training.batch_size=4", "training.checkpoint_every=1", "encoder.pooling=mean")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory, sentences: list[str]) -> Path:
    file = tmp_path_factory.mktemp("text") / "text.txt"
    write_lines(file, sentences[:12])
    return file


@pytest.fixture(scope="module")
def finished(text: Path, tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(text, tmp_path_factory.mktemp("run") / "out", tiny_folder).folder


def trained(text: Path, out: Path | str, model: Path, *, resume: bool = False, overwrite: bool = False) -> TrainResult:
    return train(
        text, out, model=str(model), settings=QUICK, dev=None, device="cpu", resume=resume, overwrite=overwrite
    )


def contents(folder: Path) -> dict[str, bytes | None]:
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("model.safetensors", ()),
        ("last/mine.txt", ("--overwrite",)),
        (".git/config", ("--dry-run",)),
        ("run.json", ("--overwrite",)),
        (".writing-notes/a.txt", ()),
    ],
)
def test_what_is_not_ours_is_left_as_it_is(
    opencse: Run, text: Path, tmp_path: Path, name: str, option: tuple[str, ...]
) -> None:
    out = tmp_path / "out"
    (out / name).parent.mkdir(parents=True, exist_ok=True)
    (out / name).write_text("mine")
    before = contents(tmp_path)
    for command in ("train", "pretrain", "static", "compare"):
        more = {"static": (), "compare": ("-r", "simcse", "--data", tmp_path)}.get(command, option)
        if command in ("static", "compare") and option:
            continue
        code, _, err = opencse(command, text, "--out", out, *more)
        assert code == 2, err
        assert len(err.strip().splitlines()) == 1, err
        assert str(out) in err
        assert contents(tmp_path) == before, command


@pytest.mark.slow
def test_a_model_of_ours_is_replaced_when_asked_and_other_files_stay(
    text: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    SentenceEncoder.load(tiny_folder, pooling="cls", device="cpu").save(out)
    (out / "notes.txt").write_text("mine")
    (out / "2_Results").mkdir()
    before = contents(out)
    with pytest.raises(UserError, match="holds a model already; choose another --out, or replace it with --overwrite"):
        trained(text, out, tiny_folder)
    with pytest.raises(UserError, match="give one of them"):
        trained(text, out, tiny_folder, resume=True, overwrite=True)
    assert contents(out) == before
    for name in ("adapter_config.json", "adapter_model.safetensors", "calibration.json"):
        (out / name).write_text("{}")
    trained(text, out, tiny_folder, overwrite=True)
    assert not [name for name in ("adapter_config.json", "calibration.json") if (out / name).exists()]
    assert RunFolder(out).state() is FolderState.FINISHED
    assert (out / "notes.txt").read_text() == "mine"
    assert (out / "2_Results").is_dir()
    assert not (out / LOCK).exists()
    first = (out / "run.json").stat().st_mtime_ns
    (out / "report.html").write_text("of the first run")
    trained(text, out, tiny_folder, overwrite=True)
    assert (out / "run.json").stat().st_mtime_ns != first, "a new record, maybe of the same second"
    assert not (out / "report.html").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("how", "dry"), [("link", False), ("relative", True), ("inside", False), ("around", False)])
def test_the_start_is_never_written_over(
    opencse: Run, finished: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, dry: bool
) -> None:
    model = tmp_path / "model"
    shutil.copytree(finished, model)
    (tmp_path / "link").symlink_to(model)
    monkeypatch.chdir(tmp_path)
    names = {
        "link": (model, tmp_path / "link"),
        "relative": (model, Path("model")),
        "inside": (model / "last", model),
        "around": (model, model / "last"),
    }
    start, out = names[how]
    before = contents(tmp_path)
    for option in ("--overwrite", "--resume"):
        if how == "around" and option == "--resume":
            continue
        refused(
            opencse("train", text, "-m", start, "-o", out, option, *["--dry-run"][: int(dry)]),
            f"{out}: the start {start} would be overwritten; choose another --out",
        )
        assert contents(tmp_path) == before


@pytest.mark.slow
def test_leftovers_of_killed_processes_are_removed_by_the_next_start(
    finished: Path, text: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    for name in (
        ".writing-1-run.json",
        ".writing-1-run/model.safetensors",
        "last/.writing-1-last/a",
        "checkpoint/state.json",
    ):
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_text("left")
    (run / LOCK).write_text("host a, process 1")
    before = contents(finished)
    trained(text, run, tiny_folder, resume=True)
    left = contents(run)
    assert left.keys() == before.keys()
    assert {name for name in left if left[name] != before[name]} <= {"run.json"}


@pytest.mark.parametrize("option", ["resume", "overwrite", "neither"])
def test_a_start_that_was_being_written_is_ours(tmp_path: Path, option: str) -> None:
    folder = RunFolder(tmp_path)
    folder.staged_start.mkdir()
    (folder.staged_start / "half").write_text("of a tokenizer")
    with folder.held(Silent(), resume=option == "resume", overwrite=option == "overwrite") as record:
        assert record is None
        assert not folder.staged_start.exists()


@pytest.mark.slow
def test_killed_at_every_step_of_replacing_the_same_command_goes_on(
    finished: Path, text: Path, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    record = RunFolder(finished).record()
    unlink, rmtree = Path.unlink, shutil.rmtree
    for kill_at in range(1, 60):
        out = tmp_path / str(kill_at)
        shutil.copytree(finished, out)
        steps = 0

        def step(path: Path) -> None:
            nonlocal steps
            if path.exists() and path.name != LOCK:  # a lock is given back by the system
                steps += 1
                if steps == kill_at:  # noqa: B023
                    raise Killed

        def unlinked(self: Path, missing_ok: bool = False) -> None:
            step(self)
            unlink(self, missing_ok)

        def removed(path: Path, ignore_errors: bool = False) -> None:
            step(path)
            rmtree(path, ignore_errors)

        folder = RunFolder(out)
        killed = False
        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", unlinked)
            patch.setattr(shutil, "rmtree", removed)
            try:
                with folder.held(Silent(), overwrite=True):
                    folder.begin(lambda: record)
            except Killed:
                killed = True
        if not killed:
            break
        folder.require(resume=False, overwrite=True, start=tiny_folder)
        assert (folder.state() is FolderState.FINISHED) == (kill_at == 1)
        if kill_at > 2:
            with pytest.raises((UserError, OSError)):
                SentenceEncoder.load(out, device="cpu")
    assert not killed
    assert kill_at > 8


CHILD = """
import sys, time
from pathlib import Path
from opencse.runs.folder import held
with held(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
def test_the_second_process_is_told_of_the_first_and_a_dead_ones_lock_is_taken_over(
    tmp_path: Path, forked: Forks
) -> None:
    file, program = tmp_path / "run.lock", tmp_path / "holds.py"
    program.write_text(CHILD)
    child = forked.start(file, program=program)
    assert child.stdout.readline() == "held\n"
    who = rf"in use by another process \(host {re.escape(socket.gethostname())}, process {child.pid}, since 20\d\d-"
    content = file.read_bytes()
    with pytest.raises(UserError, match=who), held(file):
        pass
    with pytest.raises(UserError, match=who):
        require_free(file)
    assert file.read_bytes() == content
    child.send_signal(signal.SIGKILL)
    child.wait()
    require_free(file)
    with held(file) as before:
        assert f"process {child.pid}, " in before
        assert f"process {os.getpid()}, " in file.read_text()
        with pytest.raises(UserError, match=f"process {os.getpid()}"), held(file):
            pass
    assert not file.exists()
    with held(file) as before:
        assert before == ""
