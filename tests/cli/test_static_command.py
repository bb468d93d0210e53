"""``opencse static`` as a person meets it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers import Run, refused, with_options
from opencse.cli.static import static
from opencse.encoder.encoder import SentenceEncoder
from opencse.making.static import StaticSettings
from opencse.making.vocabulary import train_wordpiece

pytestmark = pytest.mark.slow


SMALL = ["--dimension", "16", "--set", "inner=24", "--set", "positions=32"]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory, sentences: list[str]) -> Path:
    path = tmp_path_factory.mktemp("text") / "a.txt"
    path.write_text("\n".join(sentences[:400]) + "\n")
    return path


def test_from_text_to_an_encoder_and_on_to_training(
    opencse: Run, text: Path, tmp_path: Path, sentences: list[str]
) -> None:
    out = tmp_path / "made" / "here"
    code, stdout, stderr = opencse("static", text, "--out", out, "--vocabulary", 500, *SMALL)
    assert code == 0, stderr
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
    code, _, stderr = opencse("train", text, "--out", trained, "--model", out, "--dev", "none", *quick)
    assert code == 0, stderr
    moved = SentenceEncoder.load(trained, device="cpu").encode(sentences[:5])
    assert not np.allclose(moved, encoder.encode(sentences[:5]), atol=1e-7)


def test_the_tokenizer_of_a_model(opencse: Run, text: Path, tiny_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "m"
    code, _, stderr = opencse("static", text, "--out", out, "--model", tiny_folder, "--layers", 2, *SMALL)
    assert code == 0, stderr
    encoder = SentenceEncoder.load(out, device="cpu")
    theirs = SentenceEncoder.load(tiny_folder, device="cpu")
    assert encoder.tokenizer.hf.get_vocab() == theirs.tokenizer.hf.get_vocab()
    assert encoder.depth == 2
    card = (out / "README.md").read_text()
    assert f"| tokenizer | {tiny_folder.name} |" in card
    assert "whose 2 layers do nothing until" in card


def test_a_lower_casing_model_lends_a_lower_casing_tokenizer(
    opencse: Run, text: Path, tmp_path: Path, sentences: list[str]
) -> None:
    """sentence-transformers lower-cases where its own configuration says so, whatever the tokenizer does."""
    folder = tmp_path / "cased"
    train_wordpiece((s.lower() for s in sentences[:400]), 500, lower_case=False).save_pretrained(folder)
    vectors = []
    for name, lower in (("cased", "false"), ("lower", "true")):
        (folder / "sentence_bert_config.json").write_text(f'{{"do_lower_case": {lower}}}')
        code, _, stderr = opencse("static", text, "--out", tmp_path / name / "m", "--model", folder, *SMALL)
        assert code == 0, stderr
        vectors.append(SentenceEncoder.load(tmp_path / name / "m", device="cpu").encode(["the bread", "THE BREAD"]))
    cased, lower_cased = vectors
    assert cased[0].any()
    assert not np.allclose(cased[0], cased[1], atol=1e-3)
    np.testing.assert_allclose(lower_cased[0], lower_cased[1], rtol=0, atol=1e-6)


def test_columns_and_lines(opencse: Run, tiny_folder: Path, tmp_path: Path, sentences: list[str]) -> None:
    import csv

    path, skip = tmp_path / "a.csv", tmp_path / "skip.txt"
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([["n", "first", "second"], *zip(range(99), sentences, sentences[99:])])  # noqa: B905
    skip.write_text("2\n3\n")
    options = ["--columns", "first, second", "--skip-lines", skip, "--model", tiny_folder]
    code, _, stderr = opencse("static", path, "--out", tmp_path / "m", *options, *SMALL)
    assert code == 0, stderr
    assert "97 rows" in stderr


def test_a_folder_that_holds_a_model_is_left_alone(opencse: Run, text: Path, tmp_path: Path) -> None:
    for name in ("modules.json", "config.json", "run.json"):
        folder = tmp_path / name.removesuffix(".json")
        folder.mkdir()
        (folder / name).write_text("{}")
        refused(opencse("static", text, "--out", folder, *SMALL), str(folder), "holds a model already", "another --out")
        assert [file.name for file in folder.iterdir()] == [name]
    (tmp_path / "file").write_text("")
    refused(opencse("static", text, "--out", tmp_path / "file", *SMALL), "is a file")
    refused(opencse("static", text, "--out", tmp_path / "file" / "m", *SMALL), "cannot be written")


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--set", "heads=3"], ["heads 3 does not divide dimension 16", "take heads 2"]),
        (["--set", "wndow=3"], ["--set wndow=3", "unknown key 'wndow'", "did you mean 'window'?"]),
        (["--set", "sif=0"], ["--set sif=0", "sif", "greater than 0"]),
        (["--window", "0"], ["window", "greater than or equal to 1"]),
        (["--vocabulary", "3"], ["a vocabulary of 3 pieces is too small"]),
        (["--dimension", "4000"], ["dimension 4000 is above", "pieces of the vocabulary"]),
        (["--dimension", "448"], ["too little text", "are needed", "smaller dimension"]),
        (["--model", "./nowhere"], ["./nowhere"]),
        (["--skip-lines", "./nowhere"], ["nowhere"]),
    ],
)
def test_bad_input_is_told_in_one_line(
    opencse: Run, text: Path, tmp_path: Path, options: list[str], parts: list[str]
) -> None:
    command = with_options(["static", text, "--out", tmp_path / "m", "--vocabulary", 500, *SMALL], *options)
    refused(opencse(*command), *parts)
    assert not (tmp_path / "m" / "modules.json").exists()


def test_no_text(opencse: Run, tmp_path: Path) -> None:
    refused(opencse("static", tmp_path / "none.txt", "--out", tmp_path / "m"), "none.txt")
    assert not (tmp_path / "m").exists()


def test_defaults_are_those_of_the_settings() -> None:
    """An option that is not typed has no value, so that --set of the same setting is not a second one."""
    import inspect

    shown = inspect.signature(static, eval_str=True).parameters
    for name in ("dimension", "layers", "window"):
        assert shown[name].default is None
        [option] = shown[name].annotation.__metadata__
        assert f"by default {StaticSettings.model_fields[name].default}" in option.help
