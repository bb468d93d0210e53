from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import opencse
from helpers import Heard, Run, accepted, rows_in
from numbered import LINES, interrupted, settings_of
from opencse import SentenceEncoder
from opencse.bulk import streaming
from opencse.bulk.encoding_settings import EncodingSettings, Form
from opencse.bulk.streaming import EncodedFile, encode_file, sentences_file
from opencse.errors import InterruptedRunError, UserError
from opencse.modules.similarity import unit_rows
from opencse.text.given import DocumentTexts
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


def test_the_file_is_what_numpy_would_save(source: Source, out: Path, encoder: SentenceEncoder, tmp_path: Path) -> None:
    made = encode_file(source, out, EncodingSettings(model=encoder, form=Form(normalize=True)))
    np.save(tmp_path / "whole.npy", encoder.encode(LINES, normalize_embeddings=True))
    assert out.read_bytes() == (tmp_path / "whole.npy").read_bytes()
    assert (made.rows, made.dimension, made.before) == (23, 32, 0)
    assert beside(out) == ["v.npy", "whole.npy"]


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
    said: list[object] = []
    settings = EncodingSettings(model=encoder)
    made = encode_file(source, out, settings, window=5, say=said.append, progress=lambda *counts: said.append(counts))
    assert said == ["v.npy.partial: continues after 10 of 23 texts", (15, 23), (20, 23), (23, 23)]
    assert made.before == 10
    assert out.read_bytes() == whole
    assert beside(out) == ["v.npy"]


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
    other = SentenceEncoder.load(tiny_folder, pooling="cls", device="cpu")
    cases: list[tuple[str, SentenceEncoder, dict[str, Any]]] = [
        ("normalize", encoder, {"form": Form(normalize=True)}),
        ("prompt", encoder, {"prompt": "query: "}),
        ("model", other, {}),
        ("text", encoder, {}),
    ]
    for what, model, how in cases:
        begun(monkeypatch, source, out, encoder)
        if what == "text":
            Path(source.location).write_text("\n".join(reversed(LINES)))
        assert again(source, out, model, **how) == f"v.npy.partial: was begun with another {what}; starting again"
        out.unlink()


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


def test_vectors_that_are_not_finite_are_refused(
    source: Source, out: Path, encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = SentenceEncoder.vectors

    def overflowing(encoder: SentenceEncoder, texts: list[str], *how: Any) -> NDArray[np.float32]:
        vectors = plain(encoder, texts, *how)
        vectors[[text.startswith("sentence number 7 ") for text in texts], 3] = np.nan
        return vectors

    monkeypatch.setattr(SentenceEncoder, "vectors", overflowing)
    out.write_bytes(b"the old vectors")
    assert told(source, out, encoder, window=5, precision="bf16") == (
        f"{source.location}, line 8: the vector of 'sentence number 7 of the text and more a' holds NaN or "
        "infinity; try precision float32"
    )
    assert out.read_bytes() == b"the old vectors"
    assert beside(out) == ["v.npy"]


def test_a_second_process_is_refused(source: Source, out: Path, encoder: SentenceEncoder) -> None:
    messages: list[str] = []

    def second(done: int, rows: int) -> None:
        messages.append(told(source, out, encoder, form=Form(normalize=True), window=5))

    encode_file(source, out, EncodingSettings(model=encoder), window=5, progress=second)
    assert set(messages) == {f"{out}.partial: another process is writing it; wait for it, or choose another --out"}
    assert len(np.load(out)) == 23


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
    stdout, _ = accepted(opencse(*arguments))
    assert stdout.startswith(f"{out}: 23 vectors of 32 dimensions, ")
    assert np.array_equal(np.load(out), encoder.encode(LINES))


def test_damage_is_seen(source: Source, out: Path, encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    partial, state = out.with_name("v.npy.partial"), out.with_name("v.npy.partial.json")
    for where in (-1, 3):
        begun(monkeypatch, source, out, encoder)
        content = bytearray(partial.read_bytes())
        content[where] ^= 1
        partial.write_bytes(content)
        assert "is damaged (its checksum is another)" in again(source, out, encoder)
        out.unlink()
    for text in ("", "[]", '{"identity": [], "done": "x"}'):
        begun(monkeypatch, source, out, encoder)
        state.write_text(text)
        assert "v.npy.partial.json is missing or damaged" in again(source, out, encoder)
        out.unlink()


EXPECTED = [
    {"id": "a.md#kettles", "text": "Fill it."},
    {"id": "a.md#kettles", "text": "Switch it on."},
    {"id": "b.txt", "text": "Snow fell all night."},
]


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "a.md").write_text("# Kettles\n\nFill it. Switch it on.\n", encoding="utf-8")
    (folder / "b.txt").write_text("Snow fell all night.\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize(("out", "named"), [("v.npy", "v.sentences.jsonl"), ("v.2", "v.2/sentences.jsonl")])
def test_a_file_and_a_folder_have_the_document_of_each_vector(
    documents: Path, tmp_path: Path, out: str, named: str
) -> None:
    heard = Heard()
    written = opencse.encode("opencse-mini", documents, tmp_path / out, device="cpu", progress=heard)
    assert sentences_file(tmp_path / out) == tmp_path / named
    assert rows_in(tmp_path / named) == EXPECTED
    assert written.rows == len(EXPECTED)
    vectors = np.load(tmp_path / out if out.endswith(".npy") else tmp_path / out / "part-00000.npy")
    np.testing.assert_allclose(vectors[2], opencse.load("opencse-mini").encode(EXPECTED[2]["text"]), atol=1e-6)
    assert f"sentences  {tmp_path / named}: the id of the document and the text of each vector" in heard.said
    if not out.endswith(".npy"):  # a folder is continued, and is complete already
        assert opencse.encode("opencse-mini", documents, tmp_path / out, device="cpu").rows == len(EXPECTED)


def test_a_file_of_another_is_not_replaced(documents: Path, tmp_path: Path) -> None:
    (tmp_path / "v.sentences.jsonl").write_text("mine\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"v\.sentences\.jsonl: exists already"):
        opencse.encode("opencse-mini", documents, tmp_path / "v.npy", device="cpu")
    assert not (tmp_path / "v.npy").exists()


def test_the_text_is_not_replaced_where_it_has_the_name_of_the_sentences(tmp_path: Path) -> None:
    """Its lines have an id and a text, as those of an earlier call, which --overwrite replaced."""
    path = tmp_path / "v.sentences.jsonl"
    content = json.dumps({"id": "a", "text": "Fill it. Switch it on."}) + "\n"
    path.write_text(content, encoding="utf-8")
    for overwrite in (False, True):
        with pytest.raises(UserError, match=r"v\.sentences\.jsonl: is also an input"):
            opencse.encode("opencse-mini", path, tmp_path / "v.npy", fields=["text"], device="cpu", overwrite=overwrite)
    assert path.read_text(encoding="utf-8") == content


@pytest.mark.parametrize("out", ["v.npy", "v"])
def test_the_same_call_continues_where_the_sentences_could_not_be_written(
    documents: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str
) -> None:
    def stopped(source: DocumentTexts) -> Iterator[dict[str, str]]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(streaming, "sentences_of", stopped)
        with pytest.raises(InterruptedRunError):
            opencse.encode("opencse-mini", documents, tmp_path / out, device="cpu")
    opencse.encode("opencse-mini", documents, tmp_path / out, device="cpu")
    assert rows_in(sentences_file(tmp_path / out)) == EXPECTED
    assert {path.name for path in tmp_path.iterdir()} <= {"documents", "v", "v.npy", "v.sentences.jsonl"}


@pytest.fixture
def vectors() -> NDArray[np.float32]:
    return (3 * np.random.default_rng(0).standard_normal((40, 21))).astype(np.float32)


def cosines(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    unit = unit_rows(vectors)
    return np.asarray(unit @ unit.T)


@pytest.mark.parametrize(("numbers", "most"), [("float32", 1e-6), ("float16", 2e-3), ("int8", 1e-2)])
def test_cosines_stay(vectors: NDArray[np.float32], numbers: str, most: float) -> None:
    form = Form(numbers, dimensions=13)  # type: ignore[arg-type]
    written = form.of(vectors)
    assert written.dtype == form.stored
    assert written.shape == (40, form.width(21)) == (40, 13)
    error = np.abs(cosines(written.astype(np.float32)) - cosines(vectors[:, :13])).max()
    assert error < most
    assert (error > most / 1_000) == (numbers != "float32")


def test_bits_count_equal_signs(vectors: NDArray[np.float32]) -> None:
    form = Form("binary", 13)
    written, kept = form.of(vectors), vectors[:, :13]
    assert written.dtype == np.uint8
    assert written.shape == (40, form.width(21)) == (40, 2)
    for i, j in ((0, 1), (5, 30)):
        differ = sum((a > 0) != (b > 0) for a, b in zip(kept[i], kept[j], strict=True))
        assert np.bitwise_count(written[i] ^ written[j]).sum() == differ


def test_int8_is_of_each_vectors_own_largest(vectors: NDArray[np.float32]) -> None:
    vectors[3] = 0
    written = Form("int8").of(vectors)
    assert (np.abs(written).max(axis=1) == np.where(np.arange(40) == 3, 0, 127)).all()
    assert np.array_equal(written, Form("int8", normalize=True).of(vectors))
    assert np.array_equal(written[:1], Form("int8").of(vectors[:1]))  # whatever comes with it
