"""The command line's streams: pipes, full disks, terminals and what they would obey, Ctrl-C, threads."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from helpers import Run, accepted, write_lines, write_rows
from opencse.commands import training
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.static import StaticEncoder
from opencse.errors import UserError, advice, plain_failures, printable, system_failure
from opencse.search.index import Index

COMMAND = [sys.executable, "-c", "from opencse.cli import main; main()"]


def start(*arguments: str, stdout: object = subprocess.PIPE, **environment: str) -> subprocess.Popen[bytes]:
    wanted = {"PATH": "", "PYTHONPATH": ":".join(sys.path), **environment}
    return subprocess.Popen([*COMMAND, *arguments], stdout=stdout, stderr=subprocess.PIPE, env=wanted)  # type: ignore[call-overload, no-any-return]


@pytest.mark.slow
def test_a_reader_that_went_away_ends_it_quietly() -> None:
    end, begin = os.pipe()
    os.close(end)
    process = start("--help", stdout=begin)
    os.close(begin)
    _, err = process.communicate()
    assert (process.returncode, err) == (1, b"")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("arguments", [("recipes", "show", "simcse"), ("--help",)])
def test_a_full_disk_behind_stdout_is_one_line(arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        process = start(*arguments, stdout=full)
        _, err = process.communicate()
    assert process.returncode == 2
    assert err.decode().splitlines() == [
        "opencse: the standard output cannot be written ([Errno 28] No space left on device); make room there"
    ]


@pytest.mark.slow
def test_ctrl_c_in_any_command_is_one_line(opencse: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*arguments: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(StaticEncoder, "encode", stopped)
    code, out, err = opencse("similarity", "opencse-mini", "a", "b")
    assert (code, out, err) == (130, "", "opencse: stopped\n")


@contextmanager
def standard_input(path: Path) -> Iterator[None]:
    kept = os.dup(0)
    try:
        with path.open("rb") as stream:
            os.dup2(stream.fileno(), 0)
        yield
    finally:
        os.dup2(kept, 0)
        os.close(kept)


@pytest.mark.slow
def test_text_from_standard_input(opencse: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one line\nanother line\n" * 2)
    with standard_input(path):
        code, out, err = opencse("check", "-")
    assert code == 0, err
    assert "standard input: 4 rows of 1 text" in out
    assert "advice      a pipe is read once: save its text in a file, and name that for FILE\n" in out
    assert out.endswith("next        opencse adapt FILE --out adapted\n")


READERS = {
    "adapt": ("adapt", "-", "--out", "out", "--dry-run"),
    "index build": ("index", "build", "out", "opencse-mini", "-"),
}


@pytest.mark.slow
@pytest.mark.parametrize("arguments", READERS.values(), ids=READERS.keys())
def test_documents_from_standard_input(
    opencse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    """What comes through a pipe comes once, and commands look at their text several times."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a.jsonl"
    rows = [{"_id": str(n), "title": f"Note {n}", "text": f"The valve {n} leaks. It was tightened."} for n in range(9)]
    write_rows(path, rows)
    with standard_input(path):
        code, _, err = opencse(*arguments)
    assert code == 0, err
    if arguments[0] == "index":
        assert len(Index.open("out").rows()) == 9
    path.write_text("")  # another command reads anew
    with standard_input(path):
        code, _, err = opencse(*arguments)
    assert code == 2
    assert "it is empty" in err or "exists already" in err or "holds an index" in err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "first"),
    [
        (("similarity", "opencse-mini", "-", "The kettle boils."), "1.0000  The kettle boils.\n"),
        (("index", "query", "index", "-"), "The kettle boils. (cosine)\n#1\t1.0000\t0\tThe kettle boils.\n"),
    ],
)
def test_texts_that_are_typed_come_from_standard_input_where_a_dash_is(
    opencse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], first: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a.txt"
    path.write_text("The kettle boils.\nThe train is late.\n")
    opencse("index", "build", "index", "opencse-mini", path)
    with standard_input(path):
        code, out, err = opencse(*arguments)
    assert (code, err) == (0, "")
    assert out.startswith(first)
    with standard_input(path):
        code, _, err = opencse(*arguments, "-")
    assert (code, err) == (2, "opencse: standard input (-) is named twice; it can be read once\n")


QUICK = [
    part
    for setting in (
        "training.max_steps=2", "training.batch_size=4", "training.checkpoint_every=1", "data.max_length=32",
        "training.precision=float32",
    )
    for part in ("--set", setting)
]  # fmt: skip


WORDS = "1,2"


WRITING: dict[str, list[str]] = {
    "train": ["train", "text.txt", "-m", "model", "--dev", "sample", "--out", "new", *QUICK],
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
    "export onnx": ["export", "onnx", "words", "--out", "new"],
    "analyze": ["analyze", "model", "--text", "text.txt", "--out", "new"],
    "calibrate": ["calibrate", "model", "text.txt"],
    "evaluate": ["evaluate", "model", "--suite", "sts", "--data", "sts", "--json", "new.json"],
    "encode to a file": ["encode", "model", "text.txt", "--out", "new.npy"],
    "index build": ["index", "build", "new", "model", "text.txt"],
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
    """A folder with a model, its word embeddings alone, adapters, a text and evaluation data."""
    folder = tmp_path_factory.mktemp("full")
    write_lines(folder / "text.txt", sentences[:60])
    SentenceEncoder.load(tiny_folder, pooling="mean", device="cpu", layers=1).save(folder / "model")
    SentenceEncoder.load(tiny_folder, pooling="mean", device="cpu", layers=0).save(folder / "words")
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
@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit of file sizes")
@pytest.mark.parametrize(("name", "size"), [(name, 3_000 * (n % 2)) for n, name in enumerate(WRITING, 1)])
def test_a_full_disk_is_one_line_and_the_command_can_be_run_again(
    opencse: Run, here: Path, name: str, size: int
) -> None:
    command, before = WRITING[name], snapshot(here)
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
        (OSError(errno.EROFS, "Read-only file system", "a"), "a: Read-only file system; the file system is read-only"),
        (
            OSError("12000 requested and 512 written"),
            "only a part could be written, so the disk may be full; make room",
        ),
        (sqlite3.OperationalError("database or disk is full"), "database or disk is full; make room there"),
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


@pytest.mark.parametrize("error", [RuntimeError("a bug"), FileNotFoundError("no number")])
def test_other_errors_are_not_hidden(error: Exception) -> None:
    assert system_failure(error) is None
    assert advice(error) == ""

    @plain_failures
    def broken() -> None:
        raise error

    with pytest.raises(type(error)):
        broken()


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
        assert code in (1, 2), err
        assert "Traceback" not in err
        assert err.splitlines()[-1].startswith("opencse: ")


HOSTILE = "a\x1b[31mdog\x07\x9b2J\u202e\x7f"


SHOWN = r"a\x1b[31mdog\x07\x9b2J\u202e\x7f"


def quiet(text: str) -> bool:
    return not any(c in text for c in "\x1b\x07\x9b\u202e\x7f\r")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (HOSTILE, SHOWN),
        ("a\nb\r\tc\u2028", r"a\nb\r\tc\u2028"),
        ("\udc80", r"\udc80"),
        ("Größe 猫 🙂 \u200d \u0627\u200f", "Größe 猫 🙂 \u200d \u0627\u200f"),
    ],
)
def test_what_a_terminal_would_obey_is_shown(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable("a\nb\tc", keep="\n\t") == "a\nb\tc"


@pytest.mark.slow
def test_texts_and_names_of_the_commands(tiny_folder: Path, tmp_path: Path, opencse: Run) -> None:
    folder = tmp_path / f"m[/x]{HOSTILE}"  # rich would take [/x] for the end of a style
    folder.parent.mkdir()
    folder.symlink_to(tiny_folder)
    text = tmp_path / "text.txt"
    text.write_text(f"{HOSTILE} one\n{HOSTILE} one\ntwo\nthree\n", encoding="utf-8")
    shutil.copy(text, tmp_path / "my.toml")
    for command in (
        ["recipes", "show", "simcse", "--set", f"title={HOSTILE}"],
        ["recipes", "show", tmp_path / "my.toml", "--source"],
        ["similarity", folder, "two", HOSTILE],
        ["nearest", folder, "--corpus", text, "-q", HOSTILE],
        ["check", text, "--model", folder],
        ["encode", folder, text, "-o", tmp_path / f"{HOSTILE}.npy"],
    ):
        out, err = accepted(opencse(*command))
        assert out
        assert quiet(out), command[0]
        assert quiet(err), command[0]
        assert "x1b" in out or command[0] == "evaluate", "a long name is broken over lines there"


OUTSIDE = {k: v for k, v in os.environ.items() if k not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_NUM_THREADS")}


THREADS = """
import ctypes, sys
from opencse.cli import main
library = sys.argv.pop()
try:
    main()
finally:
    ctypes.CDLL(library)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="torch comes with GNU's threads on Linux")
@pytest.mark.parametrize(
    ("given", "told"),
    [({}, "5000"), ({"GOMP_SPINCOUNT": "77"}, "77"), ({"OMP_WAIT_POLICY": "passive"}, "0")],
    ids=("by itself", "spins given", "policy given"),
)
def test_threads_wait_briefly_unless_told_otherwise(given: dict[str, str], told: str) -> None:
    """As PyTorch's library of threads says when it is loaded, which takes seconds with PyTorch around it."""
    (library,) = (Path(torch.__file__).parent / "lib").glob("libgomp*")
    environment = {**OUTSIDE, "OMP_DISPLAY_ENV": "verbose", "PYTHONPATH": ":".join(sys.path), **given}
    command = [sys.executable, "-c", THREADS, "--version", str(library)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert f"GOMP_SPINCOUNT = '{told}'" in done.stderr
