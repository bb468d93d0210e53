from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers import Run
from numbered import LINES, interrupted, settings_of
from opencse import SentenceEncoder
from opencse.bulk.encoding_settings import EncodingSettings
from opencse.bulk.forms import Form
from opencse.bulk.streaming import EncodedFile, encode_file
from opencse.crash_safe import GrowingFile
from opencse.encoder.encoding import encode_in_batches
from opencse.errors import UserError
from opencse.text.readers import Source


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "v.npy"


def beside(out: Path) -> list[str]:
    return sorted(path.name for path in out.parent.iterdir() if path.suffix != ".txt")


def begun(monkeypatch: pytest.MonkeyPatch, source: Source, out: Path, encoder: SentenceEncoder, **how: Any) -> None:
    """A call that is broken off after two windows of five."""
    with interrupted(monkeypatch, 2, KeyboardInterrupt()), pytest.raises(KeyboardInterrupt):
        encode_file(source, out, settings_of(encoder, how), window=5, **how)
    assert beside(out) == ["v.npy.partial", "v.npy.partial.json"]


def told(source: Source, out: Path, encoder: SentenceEncoder | str, **how: Any) -> str:
    with pytest.raises(UserError) as caught:
        encode_file(source, out, settings_of(encoder, how), **how)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("normalize", [False, True])
def test_the_file_is_what_numpy_would_save(
    source: Source, out: Path, encoder: SentenceEncoder, tmp_path: Path, normalize: bool
) -> None:
    calls: list[tuple[int, int]] = []
    settings = EncodingSettings(model=encoder, form=Form(normalize=normalize))
    made = encode_file(source, out, settings, progress=lambda d, n: calls.append((d, n)))
    np.save(tmp_path / "whole.npy", encoder.encode(LINES, normalize_embeddings=normalize))
    assert out.read_bytes() == (tmp_path / "whole.npy").read_bytes()
    assert (made.rows, made.dimension, made.before) == (23, 32, 0)
    assert calls[-1] == (23, 23)
    assert beside(out) == ["v.npy", "whole.npy"]


def test_memory_holds_one_window(
    source: Source, out: Path, encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[int, int]] = []
    with interrupted(monkeypatch, 99, KeyboardInterrupt()) as sizes:
        encode_file(
            source,
            out,
            EncodingSettings(model=encoder),
            window=5,
            progress=lambda done, rows: calls.append((done, rows)),
        )
    assert sizes == [5, 5, 5, 5, 3]
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert calls[-1] == (23, 23)
    assert np.allclose(np.load(out), encoder.encode(LINES), atol=1e-6)


def test_interrupted_it_continues_and_ends_with_the_same_file(
    source: Source, out: Path, encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode_file(source, out, EncodingSettings(model=encoder), window=5)
    whole = out.read_bytes()
    out.unlink()
    begun(monkeypatch, source, out, encoder)
    with out.with_name("v.npy.partial").open("ab") as stream:
        stream.write(b"half a window that was on its way when the process was killed")
    out.with_name(".writing-1-v.npy.partial.json").write_text("so was its record")
    said: list[str] = []
    with interrupted(monkeypatch, 99, KeyboardInterrupt()) as sizes:
        made = encode_file(source, out, EncodingSettings(model=encoder), window=5, say=said.append)
    assert said == ["v.npy.partial: continues after 10 of 23 texts"]
    assert (made.before, sizes) == (10, [5, 5, 3])
    assert out.read_bytes() == whole
    assert beside(out) == ["v.npy"]


def test_a_wrong_precision_removes_nothing(
    source: Source, out: Path, encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(monkeypatch, source, out, encoder)
    before = {path: path.read_bytes() for path in out.parent.iterdir()}
    with pytest.raises(UserError, match="unknown precision 'bf61'"):
        encode_file(source, out, settings_of(encoder, {"precision": "bf61"}), window=5)
    assert {path: path.read_bytes() for path in out.parent.iterdir()} == before


def again(source: Source, out: Path, encoder: SentenceEncoder, **how: Any) -> str:
    """The line that a call prints which starts again."""
    said: list[str] = []
    made: EncodedFile = encode_file(source, out, settings_of(encoder, {**how}), window=5, say=said.append)
    assert made.before == 0
    prompt = str(how.get("prompt", ""))
    texts = [row[0] for row in source.read().rows]
    expected = encoder.encode(texts, prompt=prompt, normalize_embeddings="form" in how)
    assert np.allclose(np.load(out), expected, atol=1e-6)
    assert beside(out) == ["v.npy"]
    (line,) = said
    return line


def test_another_text_model_or_setting_starts_again(
    source: Source, out: Path, encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch, tiny_folder: Path
) -> None:
    begun(monkeypatch, source, out, encoder)
    assert again(source, out, encoder, form=Form(normalize=True)) == (
        "v.npy.partial: was begun with another normalize; starting again"
    )
    out.unlink()
    begun(monkeypatch, source, out, encoder)
    assert "another prompt" in again(source, out, encoder, prompt="query: ")
    out.unlink()
    begun(monkeypatch, source, out, encoder)
    other = SentenceEncoder.load(tiny_folder, pooling="cls", device="cpu")
    assert "another model" in again(source, out, other)
    out.unlink()
    begun(monkeypatch, source, out, encoder)
    Path(source.location).write_text("\n".join(reversed(LINES)))
    assert "another text" in again(source, out, encoder)


@pytest.mark.parametrize("where", [-1, 128, 3])
def test_damage_to_what_is_made_is_seen(
    source: Source, out: Path, encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch, where: int
) -> None:
    begun(monkeypatch, source, out, encoder)
    partial = out.with_name("v.npy.partial")
    content = bytearray(partial.read_bytes())
    content[where] ^= 1
    partial.write_bytes(content)
    assert "is damaged (its checksum is another)" in again(source, out, encoder)


@pytest.mark.parametrize("content", [None, "", "{}", "[]", '{"identity": [], "done": "x"}'])
def test_damage_to_the_record_is_seen(
    source: Source, out: Path, encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    begun(monkeypatch, source, out, encoder)
    state = out.with_name("v.npy.partial.json")
    assert json.loads(state.read_text())["done"] == 10
    state.unlink()
    if content is not None:
        state.write_text(content)
    assert "v.npy.partial.json is missing or damaged" in again(source, out, encoder)


def test_a_full_disk_leaves_the_old_file_and_what_is_made(
    source: Source, out: Path, encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode_file(source, out, EncodingSettings(model=encoder), window=5)
    whole = out.read_bytes()
    out.write_bytes(b"the old vectors")
    synced: list[int] = []

    def full(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) == 6:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        message = told(source, out, encoder, window=5)
    assert message == (
        f"{out}: cannot be written ([Errno 28] No space left on device); finished rows are in v.npy.partial, and the "
        "same command continues"
    )
    assert out.read_bytes() == b"the old vectors"
    assert encode_file(source, out, EncodingSettings(model=encoder), window=5).before == 5
    assert out.read_bytes() == whole


def test_a_disk_without_room_is_reported_before_the_work(
    source: Source, out: Path, encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1_000))
    with interrupted(monkeypatch, 0, AssertionError()):
        assert "it needs 0.000 GB, and 0.000 GB are free; make room" in told(source, out, encoder)
    assert beside(out) == []


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_vectors_that_are_not_finite_are_refused(
    source: Source, out: Path, encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    def overflowing(encoder: SentenceEncoder, texts: list[str], *how: Any) -> NDArray[np.float32]:
        vectors = encode_in_batches(encoder, texts, *how)
        vectors[[text.startswith("sentence number 7 ") for text in texts], 3] = value
        return vectors

    monkeypatch.setattr("opencse.encoder.encoder.encode_in_batches", overflowing)
    out.write_bytes(b"the old vectors")
    assert told(source, out, encoder, window=5) == (
        f"{source.location}, line 8: the vector of 'sentence number 7 of the text and more a' holds NaN or "
        "infinity; the weights of the model are damaged"
    )
    assert told(source, out, encoder, window=5, precision="bf16").endswith("; try precision float32")
    assert out.read_bytes() == b"the old vectors"
    assert beside(out) == ["v.npy"]


def test_the_target_is_checked_before_anything_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = Source(str(tmp_path / "absent.txt"))
    (tmp_path / "folder.npy").mkdir()
    (tmp_path / "file").touch()
    for name, message in (
        ("v.txt", "vectors are written as .npy"),
        ("none/v.npy", "there is no folder"),
        ("file/v.npy", "there is no folder"),
        ("folder.npy", "is a folder; give --out a file"),
        ("x" * 251 + ".npy", "cannot be written ("),
    ):
        assert message in told(absent, tmp_path / name, "no-model")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert "may not be written" in told(absent, tmp_path / "v.npy", "no-model")
    monkeypatch.undo()
    assert "no such file" in told(absent, tmp_path / "v.npy", "no-model")
    assert "window is at least 1" in told(absent, tmp_path / "v.npy", "no-model", window=0)


def test_a_second_process_is_refused(source: Source, out: Path, encoder: SentenceEncoder) -> None:
    messages: list[str] = []

    def second(done: int, rows: int) -> None:
        messages.append(told(source, out, encoder, form=Form(normalize=True), window=5))

    encode_file(source, out, EncodingSettings(model=encoder), window=5, progress=second)
    assert set(messages) == {f"{out}.partial: another process is writing it; wait for it, or choose another --out"}
    assert len(np.load(out)) == 23


def test_a_file_that_another_process_finished_just_now_is_not_touched(
    source: Source, out: Path, encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(monkeypatch, source, out, encoder)
    partial = out.with_name("v.npy.partial")
    lock = GrowingFile.lock

    def late(file: GrowingFile) -> bool:
        partial.rename(out)
        return lock(file)

    content = partial.read_bytes()
    monkeypatch.setattr(GrowingFile, "lock", late)
    assert "another process is writing it" in told(source, out, encoder, form=Form(normalize=True), window=5)
    assert out.read_bytes() == content


def test_a_text_that_changes_while_it_is_read(
    source: Source, out: Path, encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    fingerprint = Source.fingerprint

    def changing(source: Source) -> str:
        found = fingerprint(source)
        Path(source.location).write_text("one\n")
        return found

    monkeypatch.setattr(Source, "fingerprint", changing)
    assert "changed while it was read (23 texts, then 1)" in told(source, out, encoder)
    assert beside(out) == []


def test_a_link_is_followed(source: Source, out: Path, encoder: SentenceEncoder, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    out.symlink_to(tmp_path / "there" / "real.npy")
    encode_file(source, out, EncodingSettings(model=encoder))
    assert out.is_symlink()
    assert len(np.load(tmp_path / "there" / "real.npy")) == 23


@pytest.mark.slow
def test_the_command(
    opencse: Run,
    source: Source,
    out: Path,
    tiny_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    encoder: SentenceEncoder,
) -> None:
    arguments = ("encode", tiny_folder, source.location, "--out", out, "--pooling", "mean", "--device", "cpu")
    with interrupted(monkeypatch, 0, KeyboardInterrupt()):
        code, stdout, stderr = opencse(*arguments)
    assert (code, stdout, stderr) == (130, "", "opencse: stopped; the same command continues from here\n")
    code, stdout, stderr = opencse(*arguments)
    assert code == 0, stderr
    assert stdout.startswith(f"{out}: 23 vectors of 32 dimensions, ")
    assert np.array_equal(np.load(out), encoder.encode(LINES))
