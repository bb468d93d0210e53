"""A disk that is full, in every command that writes: one line, exit code 2, nothing half written, and it can go on.

A limit of file sizes stands for the full disk: like it, it lets a file grow to some length and then refuses.
"""

from __future__ import annotations

import contextlib
import errno
import re
import resource
import shutil
import signal
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import opencse as package
from helpers import Run
from opencse.api import training
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError, advice, plain_failures, system_failure

QUICK = [
    part
    for setting in (
        "training.max_steps=2", "training.batch_size=4", "training.checkpoint_every=1", "data.max_length=32",
        "training.precision=float32",
    )
    for part in ("--set", setting)
]  # fmt: skip
WORDS = "1,2"

COMMANDS: dict[str, list[str]] = {
    "train": ["train", "text.txt", "-m", "model", "--dev", "sample", "--out", "new", *QUICK],
    "train with report": ["train", "text.txt", "-m", "model", "--dev", "none", "--out", "new", "--report", *QUICK],
    "adapt": ["adapt", "text.txt", "-m", "model", "--dev", "none", "--out", "new", "--no-report", *QUICK],
    "pretrain": [
        "pretrain", "text.txt", "--out", "new", "--vocabulary", "200", "--layers", "1", "--hidden", "32", "--heads",
        "2", "--positions", "64", "--no-report", "--set", "training.max_steps=2", "--set", "data.max_length=32",
    ],
    "compare": [
        "compare", "text.txt", "--recipes", "simcse", "--seeds", WORDS, "--starts", "model", "--dev", "none",
        "--suites", "sts", "--data", "sts", "--out", "new", *QUICK,
    ],
    "whiten": ["whiten", "model", "text.txt", "--out", "new", "--dimension", "8"],
    "static": ["static", "text.txt", "--out", "new", "--vocabulary", "200", "--dimension", "16"],
    "merge": ["merge", "adapters/adapter", "--out", "new"],
    "export onnx": ["export", "onnx", "model", "--out", "new"],
    "export static": ["export", "static", "model", "--corpus", "text.txt", "--out", "new"],
    "analyze": ["analyze", "model", "--text", "text.txt", "--out", "new"],
    "calibrate": ["calibrate", "model", "text.txt"],
    "evaluate": ["evaluate", "model", "--suite", "sts", "--data", "sts", "--json", "new.json"],
    "check": ["check", "text.txt", "--json", "new.json"],
    "encode to a file": ["encode", "model", "text.txt", "--out", "new.npy"],
    "encode to a folder": ["encode", "model", "text.txt", "--out", "new"],
    "index build": ["index", "build", "new", "model", "text.txt"],
    "index build hnsw": ["index", "build", "new", "model", "text.txt", "--kind", "hnsw"],
}  # fmt: skip
"""Every command that writes, on a small model and text; each writes to a name that begins with ``new``."""


@contextlib.contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """No file grows beyond ``size`` bytes within the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


@pytest.fixture(scope="module")
def good(tiny_folder: Path, small_sts: Path, sentences: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, adapters, a text and evaluation data."""
    folder = tmp_path_factory.mktemp("full")
    (folder / "text.txt").write_text("\n".join(sentences[:60]) + "\n")
    SentenceEncoder.load(tiny_folder, pooling="mean", device="cpu", layers=1).save(folder / "model")
    shutil.copytree(small_sts, folder / "sts")
    settings = ["training.max_steps=1", "training.batch_size=4", "encoder.lora.rank=2"]
    training.train(folder / "text.txt", folder / "adapters", model=folder / "model", settings=settings, dev=None)
    return folder


@pytest.fixture
def here(good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(good, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("OPENCSE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "work"


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file that was there before."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and path.name != "calibration.json"
        and not path.relative_to(folder).parts[0].startswith("new")
    }


@pytest.mark.slow
@pytest.mark.usefixtures("not_drawn")
@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit of file sizes")
@pytest.mark.parametrize(
    ("name", "size"), [(name, size) for name in COMMANDS for size in (0, 3_000) if size or name != "export onnx"]
)
def test_a_full_disk_is_one_line_and_the_command_can_be_run_again(
    opencse: Run, here: Path, name: str, size: int
) -> None:
    command, before = COMMANDS[name], snapshot(here)
    with files_up_to(size):
        code, _, err = opencse(*command)
    assert code in (0, 2), err
    assert "Traceback" not in err
    assert snapshot(here) == before
    if code == 2:
        *_, last = err.splitlines()
        assert last.startswith("opencse: "), err
        assert "; " in last, f"{last} does not say what helps"
        assert re.search("ile too large|disk I/O error|only a part could be written", last), last
        new = here / "new"
        for opened in ("config.json", "modules.json"):
            if (new / opened).is_file() and not name.startswith(("encode", "index")):
                SentenceEncoder.load(new, device="cpu")  # whole, or not there
        assert not list(here.rglob(".writing-*")), "no half-written file stays"
    succeeded = code == 0
    resumed = (here / "new" / "run.json").is_file() and name != "compare"
    code, _, err = opencse(*command, *(["--resume"] if resumed else []))
    assert code == 0 or (succeeded and re.search("exists already|is there already|holds", err)), err


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "a.bin"), "a.bin: No space left on device; make room there"),
        (OSError(errno.EDQUOT, "Disk quota exceeded", "a"), "a: Disk quota exceeded; make room in your quota"),
        (OSError(errno.EROFS, "Read-only file system", "a"), "a: Read-only file system; the file system is read-only"),
        (PermissionError(errno.EACCES, "Permission denied", "a"), "a: Permission denied; name a file or folder"),
        (OSError(errno.EIO, "Input/output error"), "Input/output error; the disk or the network file system fails"),
        (
            OSError("12000 requested and 512 written"),
            "only a part could be written, so the disk may be full; make room",
        ),
        (sqlite3.OperationalError("database or disk is full"), "database or disk is full; make room there"),
        (sqlite3.OperationalError("attempt to write a readonly database"), "attempt to write a readonly database; the"),
        (RuntimeError("Error: I/O error: No space left on device (os error 28)\nmore"), "Error: I/O error: No space"),
        (RuntimeError("[enforce fail at inline_container.cc:659] . unexpected pos 64 vs 0"), "[enforce fail at"),
    ],
)
def test_what_the_system_refused_is_said_with_what_helps(error: Exception, told: str) -> None:
    failure = system_failure(error)
    assert failure is not None
    assert failure.startswith(told)
    assert "\n" not in failure
    wrapped = ValueError("writing failed")
    wrapped.__cause__ = error
    assert system_failure(wrapped) == failure
    assert failure.endswith(advice(error).removeprefix("; "))

    @plain_failures
    def broken() -> None:
        raise error

    with pytest.raises(UserError) as caught:
        broken()
    assert str(caught.value) == failure
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    "error", [RuntimeError("a bug"), KeyError("size"), FileNotFoundError(errno.ENOENT, "No such file", "a"), OSError()]
)
def test_other_errors_are_not_hidden(error: Exception) -> None:
    assert system_failure(error) is None
    assert advice(error) == ""

    @plain_failures
    def broken() -> None:
        raise error

    with pytest.raises(type(error)):
        broken()


def test_every_function_that_users_call_says_what_the_system_refused() -> None:
    functions = [getattr(package, name) for name in package.__all__ if name[0].islower() and name != "__version__"]
    assert len(functions) > 30
    decorated = plain_failures(lambda: None).__code__
    for function in functions:
        layers = [function]
        while hasattr(layers[-1], "__wrapped__"):
            layers.append(layers[-1].__wrapped__)
        assert decorated in [layer.__code__ for layer in layers], f"{function.__name__} lacks plain_failures"


def test_what_is_nested_too_deeply_is_one_line(opencse: Run, here: Path) -> None:
    (here / "deep.json").write_text("[" * 200_000)
    (here / "model" / "config.json").write_text('{"a":' * 200_000)
    (here / "recipe.toml").write_text("a = " + "[" * 200_000)
    for command in (
        ["encode", "model", "text.txt", "--out", "new.npy"],
        ["recipes", "show", "recipe.toml"],
        ["evaluate", "model", "--suite", "sts", "--data", "sts"],
    ):
        code, _, err = opencse(*command)
        assert code == 2, err
        assert "Traceback" not in err
        assert err.splitlines()[-1].startswith("opencse: ")
