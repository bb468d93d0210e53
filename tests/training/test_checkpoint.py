"""A checkpoint is found wherever a save was killed, and a damaged one is reported."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from opencse.errors import UserError
from opencse.training.checkpoint import Checkpoint, load_checkpoint, save_checkpoint


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


@pytest.mark.parametrize("name", ["tensors.safetensors", "state.json", "checksums.json"])
@pytest.mark.parametrize("damage", [truncated, emptied, flipped, Path.unlink])
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
    for kill in range(1, 10):  # the whole older one is not lost before there is a newer whole one
        if save_or_die(folder, 3, kill):
            break
        assert step_of(folder) in (1, 3)
    assert step_of(folder) == 3


def test_nothing_was_saved_yet(tmp_path: Path) -> None:
    assert load_checkpoint(tmp_path / "checkpoint") is None
    new = tmp_path / "checkpoint.new"
    new.mkdir()
    (new / "state.json").write_text(json.dumps({"step": 9}))
    assert load_checkpoint(tmp_path / "checkpoint") is None, "a first save that was cut off"
