"""What a run leaves on the disk: checkpoints and the log, killed and damaged; signals and callbacks."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from opencse.errors import UserError
from opencse.training.callbacks import MetricsLog
from opencse.training.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from opencse.training.trainer import stop_requests


class Killed(BaseException):
    """The end of the process, as far as the disk can tell."""


@contextmanager
def killed_at(step: int) -> Iterator[None]:
    """Ends at the ``step``-th change of names: a rename, a removal, a new folder."""
    done = 0

    def watched(change: Callable[..., object]) -> Callable[..., object]:
        def wrapper(*arguments: object, **named: object) -> object:
            nonlocal done
            done += 1
            if done == step:
                raise Killed
            return change(*arguments, **named)

        return wrapper

    with pytest.MonkeyPatch.context() as patch:
        for name in ("rename", "replace", "mkdir"):
            patch.setattr(Path, name, watched(getattr(Path, name)))
        patch.setattr(shutil, "rmtree", watched(shutil.rmtree))
        yield


def of(step: int) -> Checkpoint:
    return Checkpoint({"encoder.w": torch.full((3,), float(step))}, {"step": step})


def step_of(folder: Path) -> int:
    found = load_checkpoint(folder)
    assert found is not None
    step = int(found.values["step"])
    assert found.tensors["encoder.w"].tolist() == [step] * 3
    return step


def save_or_die(folder: Path, step: int, kill: int) -> bool:
    try:
        with killed_at(kill):
            save_checkpoint(folder, of(step))
    except Killed:
        return False
    return True


@pytest.mark.slow
def test_killed_at_every_change_and_again_in_the_next_save(tmp_path: Path) -> None:
    places = 0
    found_after_one, found_after_two = set(), set()
    for first in range(1, 20):
        for second in range(1, 20):
            folder = tmp_path / f"{first}-{second}" / "checkpoint"
            save_checkpoint(folder, of(1))
            whole = save_or_die(folder, 2, first)
            after_one = step_of(folder)
            assert after_one >= (2 if whole else 1)
            found_after_one.add((after_one, folder.exists()))
            done = save_or_die(folder, 3, second)
            after_two = step_of(folder)
            assert after_two >= (3 if done else after_one), (first, second)
            found_after_two.add(after_two)
            save_checkpoint(folder, of(4))
            assert step_of(folder) == 4
            assert [path.name for path in folder.parent.iterdir()] == ["checkpoint"]
            places += 1
            if done:
                break
        if whole:
            break
    assert whole
    assert done, "every change of both saves was a place of a kill"
    assert places > 20
    assert (2, False) in found_after_one, "a kill between the two renames: the whole new one counts"
    assert found_after_two == {1, 2, 3}


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("tensors.safetensors", truncated),
        ("tensors.safetensors", flipped),
        ("state.json", emptied),
        ("checksums.json", Path.unlink),
    ],
)
def test_damage_is_reported_and_an_older_complete_one_is_used_with_a_warning(
    tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    folder = tmp_path / "checkpoint"
    save_checkpoint(folder, of(1))
    shutil.copytree(folder, tmp_path / "old one")
    save_checkpoint(folder, of(2))
    damage(folder / name)
    with pytest.raises(UserError) as caught:
        load_checkpoint(folder)
    for part in (str(folder), name if name != "checksums.json" else "checkpoint", "--resume begins again at step 0"):
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)
    (tmp_path / "old one").rename(tmp_path / "checkpoint.old")
    told: list[str] = []
    found = load_checkpoint(folder, told.append)
    assert found is not None
    assert found.values["step"] == 1
    assert len(told) == 1
    assert "the checkpoint before it is complete and is used instead" in told[0]


LINES = b'{"step": 1, "loss": 0.5}\n{"step": 2, "loss": NaN}\n{"step": 3, "loss": 1e-05}\n'


def test_a_cut_off_last_line_is_left_out(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    for rest in (b"", b'{"step": 4, "lo', b"\0\0\0", b"\xff"):
        log.path.write_bytes(LINES + rest)
        assert [record["step"] for record in log.read()] == [1, 2, 3]
    log.path.write_bytes(LINES[:-1])
    assert [record["step"] for record in log.read()] == [1, 2, 3], "whole but for its end of line"
    log.rewind(2)
    assert log.path.read_bytes() == LINES[: LINES.index(b'{"step": 3')]
    log.write({"step": 3})
    assert [record["step"] for record in log.read()] == [1, 2, 3]


def test_any_other_bad_line_is_named(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    for line in (b"{]", b"\xff\xfe\0binary", b"[1]", b'{"loss": 1}', b"", b'{"step": "x"}'):
        content = LINES + line + b"\n" + LINES
        log.path.write_bytes(content)
        for use in (log.read, lambda: log.rewind(3)):
            with pytest.raises(UserError, match=r"metrics\.jsonl, line 4: is no record of a step .*; delete the line"):
                use()
        assert log.path.read_bytes() == content


def test_a_signal_sets_the_event_and_the_handlers_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([1.0, 1.0, 1.9, 2.1])
    monkeypatch.setattr("opencse.training.trainer.time.monotonic", lambda: next(clock))
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with stop_requests(once=True) as stop:
        assert not stop.is_set()
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)  # as `timeout` does: to the process, then to its group
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    monkeypatch.undo()
    with stop_requests(once=False) as stop:
        for _ in range(2):
            signal.raise_signal(signal.SIGTERM)
        assert stop.is_set()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
