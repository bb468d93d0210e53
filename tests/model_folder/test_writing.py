"""Saving: whole or not at all, beside whatever else is in the folder."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.files import write_new_json
from opencse.model_folder import writing
from opencse.model_folder.description import write_hybrid_weight
from opencse.modules.dense import Dense
from opencse.modules.pooling import Pooling
from opencse.modules.similarity import HybridWeight

TEXTS = ["A dog.", "A cat sits there.", ""]


def another(encoder: SentenceEncoder) -> SentenceEncoder:
    """The same encoder with other weights, another pooling and a dense layer."""
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(0.05)
    encoder.pooling = Pooling.TOP2
    encoder.dense.append(Dense(32, 4))
    return encoder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def last_file_fails(patch: pytest.MonkeyPatch) -> None:
    write = write_new_json

    def fail(path: Path, value: object, *, allow_nan: bool = False) -> None:
        full() if path.name == "modules.json" else write(path, value, allow_nan=allow_nan)

    patch.setattr(writing, "write_new_json", fail)


def test_a_full_disk_leaves_the_saved_model_unchanged(
    encoder: SentenceEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder.save(tmp_path)
    before, vectors = contents(tmp_path), encoder.encode(TEXTS)
    other = another(encoder)
    with monkeypatch.context() as patch:
        last_file_fails(patch)
        with pytest.raises(UserError, match=r"cannot be written.*No space left on device") as caught:
            other.save(tmp_path)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert contents(tmp_path) == before
    assert not list(tmp_path.glob(".writing-*"))
    assert np.array_equal(SentenceEncoder.load(tmp_path, device="cpu").encode(TEXTS), vectors)
    other.save(tmp_path)
    assert contents(tmp_path) != before, "without the failure it would have been changed"


class Killed(BaseException):
    """The end of the process, as far as the disk can tell."""


@pytest.mark.slow
@pytest.mark.parametrize("older", [False, True])
def test_killed_anywhere_in_the_move_no_loader_opens_another_model(
    encoder: SentenceEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, older: bool
) -> None:
    """Without config.json nothing opens: not as plain mean pooling, not with an older model's modules."""
    from transformers import AutoModel

    encoder.pooling = Pooling.CLS
    before = encoder.encode(TEXTS)
    new = another(encoder.twin())
    after = new.encode(TEXTS)
    replace, unlink = Path.replace, Path.unlink
    seen: list[bool] = []
    for kill_at in range(1, 40):
        folder = tmp_path / str(kill_at)
        if older:
            encoder.save(folder)
        steps = 0

        def step() -> None:
            nonlocal steps
            steps += 1
            if steps == kill_at:  # noqa: B023
                raise Killed

        def replaced(self: Path, target: Path) -> Path:
            step()
            return replace(self, target)

        def unlinked(self: Path, missing_ok: bool = False) -> None:
            step()
            unlink(self, missing_ok)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", replaced)
            patch.setattr(Path, "unlink", unlinked)
            try:
                new.save(folder)
                killed = False
            except Killed:
                killed = True
        try:
            got = SentenceEncoder.load(folder, device="cpu").encode(TEXTS)
        except (UserError, OSError):
            got = None
            with pytest.raises((OSError, ValueError)):
                AutoModel.from_pretrained(folder)
        seen.append(got is not None)
        if not killed:
            break
        if got is not None:
            assert older, "nothing is there before the last file"
            assert kill_at == 1
            assert np.array_equal(got, before)
        new.save(folder)
        assert np.array_equal(SentenceEncoder.load(folder, device="cpu").encode(TEXTS), after)
    assert not killed, "every step was a place of a kill"
    assert len(seen) > (8 if older else 0), "a new folder appears by one rename"
    assert got is not None
    assert np.array_equal(got, after)


def test_files_that_opencse_did_not_write_are_not_replaced(encoder: SentenceEncoder, tmp_path: Path) -> None:
    name = "1_Pooling/notes.txt"
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    with pytest.raises(UserError, match=f"holds {name.split('/')[0]} and no encoder that opencse wrote"):
        encoder.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name.split("/")[0]]
    assert (tmp_path / name).read_text() == "mine"


def test_saving_over_a_folder_never_writes_into_the_files_that_others_have_open(
    encoder: SentenceEncoder, tmp_path: Path
) -> None:
    """Weights may be mapped into the memory of other processes: those would read other numbers, or crash."""
    folder, links = tmp_path / "model", tmp_path / "links"
    encoder.save(folder)
    mapped = np.memmap(folder / "model.safetensors", mode="r")
    before = contents(folder)
    weights = mapped.copy()
    for name in before:
        (links / name).parent.mkdir(parents=True, exist_ok=True)
        os.link(folder / name, links / name)
    another(encoder).save(folder)
    write_hybrid_weight(folder, HybridWeight(0.3, "test"))
    assert contents(folder)["model.safetensors"] != before["model.safetensors"]
    assert contents(links) == before
    np.testing.assert_array_equal(mapped, weights)
