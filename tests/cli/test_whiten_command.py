"""``opencse whiten`` as a person meets it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import typer
from sentence_transformers import SentenceTransformer

from opencse.cli.whiten import whiten
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.evaluation.models.whitening import Whitening
from opencse.evaluation.transforms import sample_texts
from opencse.text.readers import Source

pytestmark = pytest.mark.slow

Run = Callable[..., None]


@pytest.fixture(scope="module")
def run() -> Run:
    app = typer.Typer()
    app.command()(whiten)

    def call(*arguments: object) -> None:
        app([str(argument) for argument in arguments], standalone_mode=False)

    return call


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory, sentences: list[str]) -> Path:
    path = tmp_path_factory.mktemp("text") / "a.txt"
    path.write_text("\n".join(sentences[:300]) + "\n")
    return path


def test_saves_a_whitened_encoder(
    run: Run, tiny_folder: Path, text: Path, tmp_path: Path, sentences: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "made" / "here"
    run(tiny_folder, text, "--out", out, "--dimension", 9, "--sentences", 120, "--pooling", "cls", "--device", "cpu")
    shown = capsys.readouterr()
    assert shown.out.strip() == str(out)
    assert "32 to 9 dimensions (1 without variance), 120 texts" in shown.err
    plain = SentenceEncoder.load(tiny_folder, pooling="cls", device="cpu")
    fitted = sample_texts(Source(str(text)), 120)
    expected = Whitening.fit(plain.encode(fitted), 9).apply(plain.encode(sentences[:20]))
    made = SentenceEncoder.load(out, device="cpu")
    assert str(made.pooling) == "cls"
    np.testing.assert_allclose(made.encode(sentences[:20]), expected, atol=2e-3)
    np.testing.assert_allclose(SentenceTransformer(str(out), device="cpu").encode(sentences[:20]), expected, atol=2e-3)
    card = (out / "README.md").read_text()
    assert f"| encoder | {tiny_folder.name} |" in card
    assert f"{text.name}: 120 texts" in card
    assert "| dimension | 32 to 9 (1 without variance) |" in card
    assert "SentenceTransformer(" in card
    assert card.startswith("---\nlibrary_name")
    assert "{" not in card


def test_unit_length_stays_last(run: Run, tiny_folder: Path, text: Path, tmp_path: Path, sentences: list[str]) -> None:
    plain = SentenceEncoder.load(tiny_folder, device="cpu")
    unit = plain.twin()
    unit.normalize = True
    unit.save(tmp_path / "unit")
    run(tmp_path / "unit", text, "--out", tmp_path / "m", "--device", "cpu")
    vectors = SentenceEncoder.load(tmp_path / "m", device="cpu").encode(sentences[:20])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    expected = Whitening.fit(plain.encode(sentences[:300])).apply(plain.encode(sentences[:20]))
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors, expected, atol=1e-3)


def test_columns(run: Run, tiny_folder: Path, tmp_path: Path, sentences: list[str]) -> None:
    path = tmp_path / "a.tsv"
    rows = [f"{a}\t{b}" for a, b in zip(sentences[:90], sentences[90:180], strict=True)]
    path.write_text("\n".join(["first\tsecond", *rows]) + "\n")
    run(tiny_folder, path, "--out", tmp_path / "m", "--columns", "first, second", "--device", "cpu")
    assert "180 texts" in (tmp_path / "m" / "README.md").read_text()


def test_refusals(run: Run, tiny_folder: Path, text: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is also an input"):
        run(tiny_folder, text, "--out", tiny_folder)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is a file"):
        run(tiny_folder, text, "--out", tmp_path / "file")
    with pytest.raises(UserError, match="no such file"):
        run(tiny_folder, tmp_path / "none.txt", "--out", tmp_path / "m", "--device", "cpu")
    with pytest.raises(UserError, match="vary along 31"):
        run(tiny_folder, text, "--out", tmp_path / "m", "--dimension", 32, "--device", "cpu")
    with pytest.raises(UserError, match="--dimension 33 is above the 32 of"):
        run(tiny_folder, text, "--out", tmp_path / "n", "--dimension", 33, "--device", "cpu")
    assert not (tmp_path / "m" / "modules.json").exists()
    assert not (tmp_path / "n").exists()
