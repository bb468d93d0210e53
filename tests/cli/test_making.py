"""`opencse pretrain`, `static` and `whiten` as a person meets them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from helpers import Run, accepted, json_in, refused, write_lines
from opencse.encoder.encoder import SentenceEncoder
from opencse.evaluation.models.whitening import Whitening
from opencse.evaluation.transforms import sample_texts
from opencse.making.vocabulary import train_wordpiece
from opencse.text.readers import Source

SIZE = ("--vocabulary", 200, "--layers", 1, "--hidden", 16, "--heads", 2, "--inner", 24, "--positions", 32)


HOW = (
    *("--device", "cpu", "--set", "data.max_length=32", "--set", "training.batch_tokens=256"),
    *("--set", "training.log_every=1", "--tokens", 2_000),
)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory, sentences: list[str]) -> Path:
    file = tmp_path_factory.mktemp("text") / "text.txt"
    write_lines(file, sentences[:400])
    return file


def snapshot(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in sorted(folder.rglob("*"))}


@pytest.mark.slow
def test_from_raw_text_to_a_backbone_and_on(opencse: Run, text: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    stdout, stderr = accepted(opencse("pretrain", text, "--out", out, *SIZE, *HOW, "--seed", 7))
    assert stdout.strip() == str(out)
    for part in ("vocabulary learning 200 pieces from 400 texts", "negatives  none", "at the first step"):
        assert part in stderr
    left = ("modules.json", "last/modules.json", "start/config.json", "run.json", "metrics.jsonl", "report.html")
    for name in left:
        assert (out / name).is_file(), name
    config = json_in(out / "config.json")
    sizes = ("vocab_size", "num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")
    assert [config[size] for size in sizes] == [200, 1, 16, 2, 24]
    assert (config["max_position_embeddings"], config["hidden_dropout_prob"]) == (32, 0.1)
    record = json_in(out / "run.json")
    training = record["identity"]["recipe"]["training"]
    assert (training["tokens"], training["seed"]) == (2_000, 7)
    assert 2_000 / 256 - 1 < record["steps"] < 2_000 / 256 + 2
    assert len((out / "metrics.jsonl").read_text().splitlines()) == record["steps"]

    before = snapshot(out)
    stdout, stderr = accepted(opencse("pretrain", text, "--out", out, *SIZE, *HOW, "--seed", 7, "--resume"))
    assert stdout.strip() == str(out)
    assert "this run had finished before: loss" in stderr
    assert "vocabulary learning" not in stderr
    assert snapshot(out) == before, "nothing is written again"

    refused(opencse("pretrain", text, "--out", out, *SIZE, *HOW, "--seed", 7), str(out), "--resume", "another --out")
    refused(opencse("pretrain", text, "--out", out, *SIZE, *HOW, "--dry-run"), "holds a run already")
    refused(opencse("pretrain", text, "--out", out, *SIZE, *HOW, "--seed", 8, "--resume"), "recipe.training.seed")
    assert snapshot(out) == before

    on = tmp_path / "on"
    _, stderr = accepted(opencse("pretrain", text, "--out", on, "--model", out, *HOW))
    assert "vocabulary learning" not in stderr
    assert not (on / "start").exists()
    assert (on / "tokenizer.json").read_bytes() == (out / "tokenizer.json").read_bytes()


@pytest.mark.slow
def test_a_budget_in_minutes_is_measured_and_said(opencse: Run, text: Path, tmp_path: Path) -> None:
    stdout, stderr = accepted(
        opencse("pretrain", text, "-o", tmp_path, *SIZE, *HOW[:-2], "--minutes", 0.5, "--dry-run")
    )
    assert "s per step, measured" in stderr
    steps = int(stdout.split("steps      ")[1].split(" of about")[0].replace(",", ""))
    assert steps > 50, "half a minute of steps of some milliseconds"


SMALL = ["--dimension", "16", "--set", "inner=24", "--set", "positions=32"]


@pytest.mark.slow
def test_from_text_to_an_encoder_and_on_to_training(
    opencse: Run, text: Path, tmp_path: Path, sentences: list[str]
) -> None:
    out = tmp_path / "made" / "here"
    stdout, stderr = accepted(opencse("static", text, "--out", out, "--vocabulary", 500, *SMALL))
    assert stdout.strip() == str(out)
    assert "text       " in stderr
    assert "400 rows" in stderr
    encoder = SentenceEncoder.load(out, device="cpu")
    assert (encoder.dimension, encoder.depth, encoder.max_length) == (16, 0, 32)
    assert encoder.tokenizer.vocabulary_size == 500
    assert encoder.encode(sentences[:20]).std() > 0.001
    card = (out / "README.md").read_text()
    assert "400 rows" in card
    assert "new WordPiece vocabulary of 500" in card
    assert "sif 0.001" in card
    assert "pieces of 500" in card
    assert "embeddings of a BERT without layers" in card
    assert "{" not in card

    trained = tmp_path / "trained"
    quick = ["--set", "training.max_steps=2", "--set", "training.batch_size=8", "--set", "training.evaluate_every=2"]
    accepted(opencse("train", text, "--out", trained, "--model", out, "--dev", "none", *quick))
    moved = SentenceEncoder.load(trained, device="cpu").encode(sentences[:5])
    assert not np.allclose(moved, encoder.encode(sentences[:5]), atol=1e-7)


@pytest.mark.slow
def test_a_lower_casing_model_lends_a_lower_casing_tokenizer(
    opencse: Run, text: Path, tmp_path: Path, sentences: list[str]
) -> None:
    """sentence-transformers lower-cases where its own configuration says so, whatever the tokenizer does."""
    folder = tmp_path / "cased"
    train_wordpiece((s.lower() for s in sentences[:400]), 500, lower_case=False).save_pretrained(folder)
    vectors = []
    for name, lower in (("cased", "false"), ("lower", "true")):
        (folder / "sentence_bert_config.json").write_text(f'{{"do_lower_case": {lower}}}')
        accepted(opencse("static", text, "--out", tmp_path / name / "m", "--model", folder, *SMALL))
        vectors.append(SentenceEncoder.load(tmp_path / name / "m", device="cpu").encode(["the bread", "THE BREAD"]))
    cased, lower_cased = vectors
    assert cased[0].any()
    assert not np.allclose(cased[0], cased[1], atol=1e-3)
    np.testing.assert_allclose(lower_cased[0], lower_cased[1], rtol=0, atol=1e-6)


@pytest.mark.slow
def test_saves_a_whitened_encoder(
    opencse: Run, tiny_folder: Path, text: Path, tmp_path: Path, sentences: list[str]
) -> None:
    out = tmp_path / "made" / "here"
    how = ("--out", out, "--dimension", 9, "--sentences", 120, "--pooling", "cls", "--device", "cpu")
    code, stdout, stderr = opencse("whiten", tiny_folder, text, *how)
    assert (code, stdout.strip()) == (0, str(out))
    assert "32 to 9 dimensions (1 without variance), 120 texts" in stderr
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
