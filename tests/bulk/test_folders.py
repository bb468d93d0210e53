from __future__ import annotations

import hashlib
import json
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from forked import Forks
from helpers import Run, accepted, json_in, write_lines
from numbered import LINES, interrupted, settings_of
from opencse import SentenceEncoder
from opencse.bulk.encoding_settings import EncodingSettings, Form
from opencse.bulk.folders import MANIFEST, encode_folder
from opencse.bulk.streaming import EncodedFile
from opencse.errors import UserError
from opencse.text.readers import Source


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "vectors"


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name != ".lock"}


def made(source: Source, out: Path, encoder: SentenceEncoder, **how: Any) -> EncodedFile:
    return encode_folder(source, out, settings_of(encoder, how), shard_rows=5, **how)


def told(source: Source, out: Path, encoder: SentenceEncoder | Path, **how: Any) -> str:
    with pytest.raises(UserError) as caught:
        encode_folder(source, out, settings_of(encoder, how), **{"shard_rows": 5, **how})
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_files_in_order_with_a_manifest(source: Source, out: Path, encoder: SentenceEncoder) -> None:
    found = made(source, out, encoder)
    assert (found.rows, found.dimension, found.before, found.files) == (23, 32, 0, 5)
    names = [f"part-0000{n}.npy" for n in range(5)]
    assert sorted(content(out)) == sorted([MANIFEST, *names])
    vectors = np.concatenate([np.load(out / name) for name in names])
    assert np.allclose(vectors, encoder.encode(LINES), atol=1e-6)
    manifest = json_in(out / MANIFEST)
    assert (manifest["rows"], manifest["dimension"], manifest["numbers"]) == (23, 32, "float32")
    assert [(shard["file"], shard["start"], shard["rows"]) for shard in manifest["shards"]] == [
        (name, 5 * n, 3 if n == 4 else 5) for n, name in enumerate(names)
    ]
    for shard in manifest["shards"]:
        assert shard["sha256"] == hashlib.sha256((out / shard["file"]).read_bytes()).hexdigest()
        assert shard["bytes"] == (out / shard["file"]).stat().st_size


@pytest.mark.parametrize("numbers", ["float32", "int8"])
def test_parquet_holds_what_npy_does(source: Source, tmp_path: Path, encoder: SentenceEncoder, numbers: str) -> None:
    import pyarrow.parquet

    form = Form(numbers, dimensions=20, normalize=True)  # type: ignore[arg-type]
    for kind in ("npy", "parquet"):
        made(source, tmp_path / kind, encoder, form=form, file_format=kind)
    table = pyarrow.parquet.read_table(sorted((tmp_path / "parquet").glob("*.parquet")))
    assert table.column("row").to_pylist() == list(range(23))
    plain = np.concatenate([np.load(path) for path in sorted((tmp_path / "npy").glob("*.npy"))])
    assert plain.dtype == form.stored
    assert np.array_equal(np.array(table.column("vector").to_pylist(), dtype=form.stored), plain)
    # A number beside a border may fall to its other side, in another batch.
    assert (np.abs(plain - form.of(encoder.encode(LINES))) > 1e-3).mean() < 0.02


def test_interrupted_it_continues_and_ends_with_the_same_folder(
    source: Source, tmp_path: Path, out: Path, encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(source, tmp_path / "whole", encoder)
    with interrupted(monkeypatch, 2, KeyboardInterrupt()), pytest.raises(KeyboardInterrupt):
        made(source, out, encoder)
    assert not (out / MANIFEST).exists()
    with (out / "shards.jsonl").open("a") as stream:
        stream.write('{"number": 2, "fi')  # a line that was on its way when the process was killed
    (out / ".writing-1-part-00002.npy").write_bytes(b"so was a file")
    (out / "part-00003.npy").write_bytes(b"and one that no line names")
    said: list[str] = []
    with interrupted(monkeypatch, 99, KeyboardInterrupt()) as sizes:
        found = made(source, out, encoder, say=said.append)
    assert said == [f"{out}: continues after 10 of 23 texts"]
    assert (found.before, sizes) == (10, [5, 5, 3])
    assert content(out) == content(tmp_path / "whole")


def test_a_whole_folder_stays_and_a_lost_file_is_made_again(
    source: Source, out: Path, encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(source, out, encoder)
    before = content(out)
    said: list[str] = []
    with interrupted(monkeypatch, 0, AssertionError()):
        assert made(source, out, encoder, say=said.append).before == 23
    assert said == [f"{out}: all 23 vectors exist already"]
    (out / "part-00001.npy").unlink()
    with (out / "part-00004.npy").open("ab") as stream:
        stream.write(b"x")
    with interrupted(monkeypatch, 99, KeyboardInterrupt()) as sizes:
        made(source, out, encoder)
    assert sizes == [5, 3]
    assert content(out) == before


def test_what_is_of_something_else_is_refused(
    source: Source, out: Path, encoder: SentenceEncoder, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with interrupted(monkeypatch, 2, KeyboardInterrupt()), pytest.raises(KeyboardInterrupt):
        made(source, out, encoder)
    for whole in (False, True):
        if whole:
            made(source, out, encoder)
        before = content(out)
        message = told(source, out, encoder, form=Form("int8"))
        assert "was begun with another numbers (float32, now int8); choose another --out, or remove it" in message
        assert "another shard_rows (5, now 7)" in told(source, out, encoder, shard_rows=7)
        other = SentenceEncoder.load(tiny_folder, pooling="cls", device="cpu")
        assert "another model" in told(source, out, other)
        assert content(out) == before
    Path(source.location).write_text("\n".join(reversed(LINES)))
    assert "another text" in told(source, out, encoder)
    (out / MANIFEST).write_text("{")
    assert "manifest.json: damaged; remove" in told(source, out, encoder)


def test_folders_that_cannot_be_used(source: Source, tmp_path: Path, encoder: SentenceEncoder) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.md").touch()
    assert "is not empty (notes.md)" in told(source, tmp_path / "other", encoder)
    assert "is a file" in told(source, Path(source.location), encoder)
    assert "give its folder or name" in told(source, tmp_path / "v", encoder, processes=2)
    assert "not 33" in told(source, tmp_path / "v", encoder, form=Form(dimensions=33))
    assert not (tmp_path / "v").exists()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_killed_at_any_moment_it_ends_with_the_same_folder(
    tmp_path: Path, tiny_folder: Path, encoder: SentenceEncoder, one_thread: None, forked: Forks
) -> None:
    """Two processes, killed once; `benchmarks/scale.py kills` does it at 20 random moments."""
    path = tmp_path / "long.txt"
    write_lines(path, (f"{line} once more {n}" for n in range(70) for line in LINES))
    source, whole, out = Source(str(path)), tmp_path / "whole", tmp_path / "v"
    encode_folder(source, whole, EncodingSettings(model=encoder), shard_rows=40)
    script = tmp_path / "script.py"
    script.write_text(
        "import multiprocessing\nimport os\nimport sys\nimport opencse\nfrom opencse.bulk import folders\n"
        "fork = multiprocessing.get_context('fork')\n"
        "multiprocessing.get_context = folders.get_context = lambda method: fork\nos.setsid()\n"
        "opencse.encode(*sys.argv[1:], pooling='mean', device='cpu', shard_rows=40, processes=2)\n"
    )
    running = forked.start(tiny_folder, path, out, program=script)
    journal = out / "shards.jsonl"
    while running.poll() is None and (not journal.exists() or journal.read_bytes().count(b"\n") < 5):
        time.sleep(0.002)
    running.send_signal(signal.SIGSTOP)  # or it might end first
    assert "another process is writing there" in told(source, out, encoder, shard_rows=40)
    running.kill()  # this one alone: its processes end by themselves
    running.wait()
    assert 5 < len(content(out)) < 42
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and _of_session(running.pid):
        time.sleep(0.05)
    assert not _of_session(running.pid)
    assert encode_folder(source, out, EncodingSettings(model=encoder), shard_rows=40).before >= 200
    assert content(out) == content(whole)


def _of_session(leader: int) -> list[int]:
    """Processes of the session that ``leader`` began, itself and the dead apart."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


@pytest.mark.slow
def test_the_command(opencse: Run, source: Source, out: Path, tiny_folder: Path, encoder: SentenceEncoder) -> None:
    asked = ("encode", tiny_folder, source.location, "--pooling", "mean", "--device", "cpu", "--dimensions", "4")
    stdout, _ = accepted(opencse(*asked, "--out", out, "--shard-rows", "9", "--processes", "1", "--numbers", "float16"))
    assert stdout.startswith(f"{out}: 23 vectors of 4 dimensions in 3 files, ")
    stdout, _ = accepted(opencse(*asked, "--out", "-"))
    rows = [json.loads(line) for line in stdout.splitlines()]
    assert [row["text"] for row in rows] == LINES
    assert np.allclose([row["vector"] for row in rows], encoder.encode(LINES)[:, :4], atol=1e-6)
    assert opencse(*asked, "--out", out.with_suffix(".txt"))[0] == 2
