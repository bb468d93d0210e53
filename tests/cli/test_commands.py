"""The command line as a person meets it: results on stdout, one-line errors with exit code 2."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from helpers import Run, accepted, json_in, refused, write_lines
from opencse.cli.app import COMMANDS, EXAMPLES, app
from opencse.errors import UserError
from opencse.text import sample

QUICK = ["--set", "training.max_steps=3", "--set", "training.batch_size=8", "--set", "training.evaluate_every=2"]


@pytest.mark.slow
def test_dry_run_prints_the_plan_and_writes_nothing(opencse: Run, tiny_folder: Path, tmp_path: Path) -> None:
    told = ["train", sample.TRAIN, "-o", tmp_path / "out", "-m", tiny_folder, "--dev", "sample", "--dry-run"]
    stdout, _ = accepted(opencse(*told, *QUICK, "-s", "training.average_with_start=[0.5]"))
    best, tried = "selection  best by Spearman x 100 on", "; shares of the trained weights that are tried: 50%\n"
    for word in ("text", "tokens", "negatives  7 per anchor", "steps      3 of batch 8", "compute", best, tried):
        assert word in stdout
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_evaluate_layer_by_layer(opencse: Run, small_sts: Path, tiny_folder: Path, tmp_path: Path) -> None:
    told = ["evaluate", tiny_folder, "--data", small_sts, "--pooling", "mean", "--tasks", "stsb"]
    stdout, _ = accepted(opencse(*told, "--layers", "all"))
    for layer in range(4):
        assert f"layer {layer}" in stdout
    assert "layer 4" not in stdout
    paths = tmp_path / "layer.json", tmp_path / "whole.json"
    assert opencse(*told, "--layers", "3", "--json", paths[0])[0] == 0
    assert opencse(*told, "--json", paths[1])[0] == 0
    layer, whole = (json_in(path) for path in paths)
    assert layer["model"] == f"{tiny_folder}, layer 3"
    scores = [one["scores"][0]["value"] for one in (layer, whole)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-3)


@pytest.mark.slow
def test_help_of_a_command_loads_little(opencse: Run) -> None:
    program = "import sys; from opencse.cli import main\ntry:\n    main()\nfinally:\n    print(*sys.modules)"
    for words in (["train"], ["index", "build"]):
        told = [sys.executable, "-c", program, *words, "--help"]
        loaded = subprocess.run(told, capture_output=True, text=True, check=True).stdout.splitlines()[-1].split()
        assert "typer" in loaded
        assert not {"rich", "torch", "numpy"} & set(loaded), words


@pytest.mark.slow
def test_alone_it_shows_what_people_come_for(opencse: Run) -> None:
    code, stdout, err = opencse()
    assert (code, err) == (0, "")
    for command in ("adapt", "evaluate", "index build", "serve", "demo", "--help"):
        assert f"opencse {command}" in stdout
    assert "'transfer:FOLDER'" in accepted(opencse("adapt", "--help"))[0]


@pytest.mark.slow
def test_python_dash_m_is_the_command() -> None:
    ran = subprocess.run([sys.executable, "-m", "opencse", "trian"], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "did you mean 'train'?" in ran.stderr


@pytest.mark.slow
@pytest.mark.in_full
def test_what_a_run_is_chosen_by_is_told(opencse: Run, tmp_path: Path) -> None:
    out, text = tmp_path / "o", tmp_path / "text.txt"  # other texts than the sample's, of which the questions are
    lines = Path(sample.TRAIN).read_text().splitlines()
    text.write_text("".join(f"In short: {line}\n" if line else "\n" for line in lines))
    told, _ = accepted(opencse("train", text, "-o", out, "--metric", "mrr@5", "--dry-run"))
    line = next(line for line in told.splitlines() if line.startswith("selection"))
    assert "questions from the text itself" in line
    assert "rows held out" in line
    assert "1,560 general English questions guard against forgetting" in line
    refused(opencse("train", sample.TRAIN, "-o", out, "--metric", "best"), "known: ndcg@K")
    refused(opencse("train", sample.TRAIN, "-o", out, "--dev", "sample", "--metric", "mrr@5"), "needs questions")


@pytest.mark.slow
def test_texts_of_a_language_that_the_model_does_not_know(opencse: Run, tmp_path: Path) -> None:
    texts = ["猫が眠る。", "電車が遅れた。", "空は青い。"]
    write_lines(tmp_path / "ja.txt", texts)
    (tmp_path / "en.txt").write_text("A cat sleeps.\nThe train is late.\n")
    for name, warned in (("ja", True), ("en", False)):
        text = tmp_path / f"{name}.txt"
        told = [
            opencse("encode", "opencse-mini", text, "--out", tmp_path / f"{name}.npy"),
            opencse("index", "build", tmp_path / f"index-{name}", "opencse-mini", text),
            opencse("similarity", "opencse-mini", *text.read_text(encoding="utf-8").splitlines()),
            opencse("encode", "opencse-mini", text, "--out", tmp_path / f"{name}-folder"),
            opencse("encode", "opencse-mini", text, "--out", "-"),
        ]
        assert [code for code, _, _ in told] == [0] * 5
        again = ("encode", "opencse-mini", text, "--out", tmp_path / f"{name}.npy")
        refused(opencse(*again), "exists already; replace it with --overwrite")
        assert opencse(*again, "--overwrite")[0] == 0
        assert [err.count("tokens are unknown to the model") for _, _, err in told] == [int(warned)] * 5
    refused(opencse("similarity", "opencse-mini", "A cat.", " "), "a text is blank")


def command_named(name: str) -> object:
    from typer.main import get_command

    return get_command(app).get_command(None, name)  # type: ignore[attr-defined]


def test_most_commands_run_in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    assert command_named("train") is not None
    with pytest.raises(UserError, match="only adapt, pretrain, train run in several"):
        command_named("encode")


def test_findings_are_printed_and_written(opencse: Run, tmp_path: Path) -> None:
    text, file = tmp_path / "text.txt", tmp_path / "check.json"
    text.write_text("The kettle boils.\nSnow fell.\nThe kettle boils.\n")
    stdout, _ = accepted(opencse("check", text, "--json", file))
    assert "duplicates  33.3%" in stdout
    assert "tokens per word" not in stdout
    assert " per word, " in stdout
    assert json_in(file)["rows"] == 3


def test_a_file_a_folder_and_options_that_need_a_folder(opencse: Run, tmp_path: Path) -> None:
    text = tmp_path / "texts.txt"
    text.write_text("The kettle boils.\nSnow fell.\n")
    stdout, _ = accepted(opencse("encode", "opencse-mini", text, "--out", tmp_path / "v.npy", "--dimensions", 8))
    assert "2 vectors of 8 dimensions" in stdout
    assert np.load(tmp_path / "v.npy").shape == (2, 8)
    code, _, err = opencse("encode", "opencse-mini", text, "--out", tmp_path / "w.npy", "--format", "parquet")
    assert (code, "--format, --shard-rows and --processes need --out FOLDER" in err) == (2, True)


def test_a_column_has_the_name_that_messages_advise(opencse: Run, tmp_path: Path) -> None:
    text = tmp_path / "texts.jsonl"
    text.write_text('{"body": "The kettle boils."}\n')
    code, _, err = opencse("encode", "opencse-mini", text, "--out", tmp_path / "v.npy")
    assert (code, "name yours with --columns, for instance --columns body" in err) == (2, True)
    assert opencse("encode", "opencse-mini", text, "--columns", "body", "--out", tmp_path / "v.npy")[0] == 0


def test_versions_and_no_trouble(opencse: Run) -> None:
    stdout, _ = accepted(opencse("doctor"))
    assert "torch" in stdout
    assert "opencse-mini" in stdout
    assert stdout.rstrip().endswith("no trouble found")


def test_further_texts_with_objectives_of_their_own(opencse: Run, tmp_path: Path) -> None:
    text, graded = tmp_path / "text.txt", tmp_path / "graded=new.tsv"
    text.write_text("The kettle boils.\nSnow fell on the hills.\nThe train is late.\nA dog barks.\n" * 3)
    graded.write_text("4\tA cat.\tA kitten.\n0\tRain.\tA train.\n")
    common = ("train", text, "--out", tmp_path / "out", "--dev", "none", "--dry-run")
    stdout, _ = accepted(opencse(*common, "--also", f"{graded}=cosent", "--also", text))
    lines = " ".join(stdout.split())
    assert "also graded=new: " in lines or "also graded: " in lines
    assert "objective pair + cosent" in lines
    assert "also text-2: " in lines
    refused(opencse(*common, "--also", "nowhere.txt="), "FILE=RECIPE is expected")
    refused(opencse(*common, "--also", f"{graded}=simcs"), "did you mean 'simcse'")


WIDTH = 110


def commands() -> Iterator[tuple[str, Any]]:
    """Every command and those below it, by what is typed."""
    whole: Any = typer.main.get_command(app)
    for name in COMMANDS:
        command = whole.get_command(None, name)
        yield name, command
        for below, inner in (getattr(command, "commands", None) or {}).items():
            yield f"{name} {below}", inner


ALL = dict(commands())


def test_every_command_has_examples() -> None:
    assert EXAMPLES.keys() == ALL.keys()
    assert len(ALL) > 30


def test_help_ends_with_the_examples_which_can_be_typed() -> None:
    for words, command in ALL.items():
        with command.make_context(words, [], resilient_parsing=True) as context:
            shown = command.get_help(context)
        assert shown.rstrip().endswith(EXAMPLES[words][-1])
        for line in EXAMPLES[words]:
            assert f"  {line}\n" in f"{shown}\n"
            assert len(line) <= WIDTH
            program, *typed = shlex.split(line.rpartition("| ")[2])
            assert program == "opencse"
            named = max((one for one in ALL if typed[: len(one.split())] == one.split()), key=len)
            ALL[named].make_context(named, typed[len(named.split()) :])  # refuses what is missing, unknown or wrong
