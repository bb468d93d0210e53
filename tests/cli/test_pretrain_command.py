"""``opencse pretrain`` as a person meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers import Run, refused, with_options

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("not_drawn")]


SIZE = ("--vocabulary", 200, "--layers", 1, "--hidden", 16, "--heads", 2, "--inner", 24, "--positions", 32)
HOW = (
    *("--device", "cpu", "--set", "data.max_length=32", "--set", "training.batch_tokens=256"),
    *("--set", "training.log_every=1", "--tokens", 2_000),
)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory, sentences: list[str]) -> Path:
    file = tmp_path_factory.mktemp("text") / "text.txt"
    file.write_text("\n".join(sentences[:150]) + "\n", encoding="utf-8")
    return file


def snapshot(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in sorted(folder.rglob("*"))}


def test_from_raw_text_to_a_backbone_and_on(opencse: Run, text: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, stdout, stderr = opencse("pretrain", text, "--out", out, *SIZE, *HOW, "--seed", 7)
    assert code == 0, stderr
    assert stdout.strip() == str(out)
    for part in ("vocabulary learning 200 pieces from 150 texts", "negatives  none", "at the first step"):
        assert part in stderr
    left = ("modules.json", "last/modules.json", "start/config.json", "run.json", "metrics.jsonl", "report.html")
    for name in left:
        assert (out / name).is_file(), name
    config = json.loads((out / "config.json").read_text())
    sizes = ("vocab_size", "num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")
    assert [config[size] for size in sizes] == [200, 1, 16, 2, 24]
    assert (config["max_position_embeddings"], config["hidden_dropout_prob"]) == (32, 0.1)
    record = json.loads((out / "run.json").read_text())
    training = record["identity"]["recipe"]["training"]
    assert (training["tokens"], training["seed"]) == (2_000, 7)
    assert 2_000 / 256 - 1 < record["steps"] < 2_000 / 256 + 2
    assert len((out / "metrics.jsonl").read_text().splitlines()) == record["steps"]

    before = snapshot(out)
    code, stdout, stderr = opencse("pretrain", text, "--out", out, *SIZE, *HOW, "--seed", 7, "--resume")
    assert code == 0, stderr
    assert stdout.strip() == str(out)
    assert "this run had finished before: loss" in stderr
    assert "vocabulary learning" not in stderr
    assert snapshot(out) == before, "nothing is written again"

    refused(opencse("pretrain", text, "--out", out, *SIZE, *HOW, "--seed", 7), str(out), "--resume", "another --out")
    refused(opencse("pretrain", text, "--out", out, *SIZE, *HOW, "--dry-run"), "holds a run already")
    refused(opencse("pretrain", text, "--out", out, *SIZE, *HOW, "--seed", 8, "--resume"), "recipe.training.seed")
    assert snapshot(out) == before

    on = tmp_path / "on"
    code, _, stderr = opencse("pretrain", text, "--out", on, "--model", out, *HOW)
    assert code == 0, stderr
    assert "vocabulary learning" not in stderr
    assert not (on / "start").exists()
    assert (on / "tokenizer.json").read_bytes() == (out / "tokenizer.json").read_bytes()


def test_a_dry_run_prints_the_plan_and_does_not_bind_the_run_after_it(opencse: Run, text: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, stdout, stderr = opencse(
        "pretrain", text, "-o", out, *with_options([*SIZE, *HOW], "--layers", 2, "--dry-run")
    )
    assert code == 0, stderr
    for part in ("text", "recipe     pretrain", "tokens, texts of similar length", "negatives  none", "selection"):
        assert part in stdout
    assert not out.exists(), "nothing is written"
    assert f"model      {out / 'start'}" in stdout
    code, _, stderr = opencse("pretrain", text, "-o", out, *SIZE, *HOW)
    assert code == 0, stderr
    assert json.loads((out / "config.json").read_text())["num_hidden_layers"] == 1


def test_a_budget_in_minutes_is_measured_and_said(opencse: Run, text: Path, tmp_path: Path) -> None:
    code, stdout, stderr = opencse("pretrain", text, "-o", tmp_path, *SIZE, *HOW[:-2], "--minutes", 0.5, "--dry-run")
    assert code == 0, stderr
    assert "s per step, measured" in stderr
    steps = int(stdout.split("steps      ")[1].split(" of about")[0].replace(",", ""))
    assert steps > 50, "half a minute of steps of some milliseconds"


def test_columns_and_lines_to_skip(opencse: Run, tmp_path: Path) -> None:
    rows = [f"question {'abcdefgh'[i % 8]} word\tзаметка" for i in range(60)]
    (tmp_path / "t.tsv").write_text("\n".join(rows), encoding="utf-8")
    (tmp_path / "skip.txt").write_text("1\n3\n")
    code, _, stderr = opencse(
        "pretrain", tmp_path / "t.tsv", "-o", tmp_path / "out", *SIZE, *HOW, "--columns", "1",
        "--skip-lines", tmp_path / "skip.txt",
    )  # fmt: skip
    assert code == 0, stderr
    assert "pieces from 58 texts" in stderr
    assert "58 examples are" in stderr
    vocabulary = json.loads((tmp_path / "out" / "start" / "tokenizer.json").read_text(encoding="utf-8"))
    assert "question" in vocabulary["model"]["vocab"]
    assert "з" not in vocabulary["model"]["vocab"]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--hidden", "30", "--heads", "4"], ["hidden 30 is not a multiple of heads 4"]),
        (["--layers", "-1"], ["layers"]),
        (["--positions", "16"], ["above the 16 positions", "--positions 32", "data.max_length=16"]),
        (["--vocabulary", "50"], ["50 pieces is too small"]),
        (["--tokens", "0"], ["training.tokens", "greater than 0"]),
        (["--minutes", "-1"], ["training.minutes", "greater than 0"]),
        (["--set", "training.batch_tokens=16"], ["batch_tokens cannot hold a text of data.max_length"]),
        (["--model", "nowhere/at/all"], ["nowhere/at/all"]),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    opencse: Run, text: Path, tmp_path: Path, arguments: list[str], parts: list[str]
) -> None:
    how = ("--set", "data.max_length=32") if "--set" in arguments else HOW
    refused(opencse("pretrain", text, "-o", tmp_path / "out", *with_options([*SIZE, *how], *arguments)), *parts)
    assert not (tmp_path / "out" / "run.json").exists()


def test_a_recipe_with_contrast_is_refused(opencse: Run, text: Path, tmp_path: Path) -> None:
    refused(opencse("pretrain", text, "-o", tmp_path / "out", "-r", "simcse"), "no contrast", "opencse train")
    assert not (tmp_path / "out").exists()


def test_a_text_that_is_not_there(opencse: Run, tmp_path: Path) -> None:
    refused(opencse("pretrain", tmp_path / "no.txt", "-o", tmp_path / "out", *SIZE, *HOW), "no.txt")
    assert not (tmp_path / "out").exists()
