"""The command line as a person meets it: results on stdout, one-line errors with exit code 2."""

from __future__ import annotations

import importlib
import importlib.util
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from rich.table import Table

from helpers import Run, refused
from opencse.cli.app import COMMANDS, EXAMPLES, app
from opencse.cli.console import echo, show, terminal
from opencse.errors import UserError
from opencse.progress import Terminal
from opencse.text import sample

QUICK = ["--set", "training.max_steps=3", "--set", "training.batch_size=8", "--set", "training.evaluate_every=2"]


def few_texts(folder: Path, count: int = 400) -> Path:
    """The sample's first lines: enough to hold some out and ask about them."""
    path = folder / "few.txt"
    path.write_text("".join(f"{line}\n" for line in Path(sample.TRAIN).read_text().splitlines()[:count]))
    return path


@pytest.mark.slow
def test_dry_run_prints_the_plan_and_writes_nothing(opencse: Run, tiny_folder: Path, tmp_path: Path) -> None:
    code, stdout, _ = opencse("train", sample.TRAIN, "-o", tmp_path / "out", "-m", tiny_folder, *QUICK, "--dry-run")
    assert code == 0
    for word in ("text", "tokens", "negatives  7 per anchor", "steps      3 of batch 8", "compute", "selection"):
        assert word in stdout
    assert not (tmp_path / "out").exists()


@pytest.fixture
def sts_folder(tmp_path: Path) -> Path:
    """All seven tasks, a few pairs each."""
    from opencse.evaluation import TASKS

    rows = [line for line in sample.DEV.read_text().splitlines() if line]
    for task in TASKS.values():
        (tmp_path / "sts" / task.key).mkdir(parents=True)
        for number, subset in enumerate(task.subsets):
            part = rows[number * 12 : number * 12 + 12]
            (tmp_path / "sts" / task.key / f"{subset}.tsv").write_text("\n".join(part) + "\n")
    return tmp_path / "sts"


@pytest.mark.slow
def test_evaluate_layer_by_layer(opencse: Run, sts_folder: Path, tiny_folder: Path, tmp_path: Path) -> None:
    told = ["evaluate", tiny_folder, "--data", sts_folder, "--pooling", "mean", "--tasks", "stsb"]
    code, stdout, err = opencse(*told, "--layers", "all")
    assert code == 0, err
    for layer in range(4):
        assert f"layer {layer}" in stdout
    assert "layer 4" not in stdout
    paths = tmp_path / "layer.json", tmp_path / "whole.json"
    assert opencse(*told, "--layers", "3", "--json", paths[0])[0] == 0
    assert opencse(*told, "--json", paths[1])[0] == 0
    layer, whole = (json.loads(path.read_text(encoding="utf-8")) for path in paths)
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


@pytest.mark.slow
def test_python_dash_m_is_the_command() -> None:
    ran = subprocess.run([sys.executable, "-m", "opencse", "trian"], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "did you mean 'train'?" in ran.stderr


@pytest.mark.slow
@pytest.mark.every_general_question
def test_what_a_run_is_chosen_by_is_told(opencse: Run, tmp_path: Path) -> None:
    out, text = tmp_path / "o", tmp_path / "text.txt"  # other texts than the sample's, of which the questions are
    lines = Path(sample.TRAIN).read_text().splitlines()
    text.write_text("".join(f"In short: {line}\n" if line else "\n" for line in lines))
    code, told, err = opencse("train", text, "-o", out, "--metric", "mrr@5", "--dry-run")
    assert code == 0, err
    line = next(line for line in told.splitlines() if line.startswith("selection"))
    assert "questions from the text itself" in line
    assert "rows held out" in line
    assert "1,560 general English questions guard against forgetting" in line
    refused(opencse("train", sample.TRAIN, "-o", out, "--metric", "best"), "known: ndcg@K")
    refused(opencse("train", sample.TRAIN, "-o", out, "--dev", "sample", "--metric", "mrr@5"), "not graded pairs")


@pytest.mark.slow
def test_texts_of_a_language_that_the_model_does_not_know(opencse: Run, tmp_path: Path) -> None:
    texts = ["猫が眠る。", "電車が遅れた。", "空は青い。"]
    (tmp_path / "ja.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
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


def test_every_command_has_a_module_and_a_summary() -> None:
    for name, summary in COMMANDS.items():
        assert command_named(name) is not None
        assert summary.endswith(".")


def test_most_commands_run_in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    assert command_named("train") is not None
    with pytest.raises(UserError, match="only adapt, pretrain, train run in several"):
        command_named("encode")


def test_the_plan_of_a_dry_run(opencse: Run, tmp_path: Path) -> None:
    documents = tmp_path / "docs.jsonl"
    lines = [
        '{"title": "Kettles", "text": "A kettle boils water. It has a lid. Steam comes out."}',
        '{"title": "Snow", "text": "Snow fell on the hills. It was cold. Children played."}',
    ]
    documents.write_text("\n".join(lines) + "\n")
    code, stdout, err = opencse("adapt", documents, "--out", tmp_path / "out", "--dev", "none", "--dry-run")
    assert code == 0, err
    assert "text       " in stdout
    assert not (tmp_path / "out").exists()


def test_findings_are_printed_and_written(opencse: Run, tmp_path: Path) -> None:
    text, file = tmp_path / "text.txt", tmp_path / "check.json"
    text.write_text("The kettle boils.\nSnow fell.\nThe kettle boils.\n")
    code, stdout, err = opencse("check", text, "--json", file)
    assert code == 0, err
    assert "duplicates  33.3%" in stdout
    assert "tokens per word" not in stdout
    assert " per word, " in stdout
    assert json.loads(file.read_text())["rows"] == 3


def test_a_file_a_folder_and_options_that_need_a_folder(opencse: Run, tmp_path: Path) -> None:
    text = tmp_path / "texts.txt"
    text.write_text("The kettle boils.\nSnow fell.\n")
    code, stdout, err = opencse("encode", "opencse-mini", text, "--out", tmp_path / "v.npy", "--dimensions", 8)
    assert code == 0, err
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


def test_control_characters_are_shown_as_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    echo("a\x1b[31mdog\tbarks")
    table = Table("text")
    table.add_row("b\x9bell")
    show(table)
    line, *lines = capsys.readouterr().out.splitlines()
    assert line == "a\\x1b[31mdog\tbarks"
    assert any("b\\x9bell" in one for one in lines)


def test_loading_is_reported_on_a_terminal_once_it_begins(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    finders = len(sys.meta_path)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert isinstance(terminal(), Terminal)
    assert len(sys.meta_path) == finders
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    terminal()
    importlib.util.find_spec("numbers")
    assert capsys.readouterr().err == ""  # no PyTorch so far
    assert importlib.util.find_spec("torch") is not None
    assert "loading PyTorch" in capsys.readouterr().err
    assert len(sys.meta_path) == finders


def test_versions_and_no_trouble(opencse: Run) -> None:
    code, stdout, err = opencse("doctor")
    assert code == 0, err
    assert "torch" in stdout
    assert "opencse-mini" in stdout
    assert stdout.rstrip().endswith("no trouble found")


def test_the_most_similar_text_comes_first(opencse: Run) -> None:
    code, stdout, err = opencse("similarity", "opencse-mini", "A dog barks.", "It rains.", "A hound bays.")
    assert code == 0, err
    first, second = stdout.splitlines()
    assert first.endswith("A hound bays.")
    assert float(first.split()[0]) > float(second.split()[0])


def test_further_texts_with_objectives_of_their_own(opencse: Run, tmp_path: Path) -> None:
    text, graded = tmp_path / "text.txt", tmp_path / "graded=new.tsv"
    text.write_text("The kettle boils.\nSnow fell on the hills.\nThe train is late.\nA dog barks.\n" * 3)
    graded.write_text("4\tA cat.\tA kitten.\n0\tRain.\tA train.\n")
    common = ("train", text, "--out", tmp_path / "out", "--dev", "none", "--dry-run")
    code, stdout, err = opencse(*common, "--also", f"{graded}=cosent", "--also", text)
    assert code == 0, err
    lines = " ".join(stdout.split())
    assert "also graded=new: " in lines or "also graded: " in lines
    assert "objective pair + cosent" in lines
    assert "also text-2: " in lines
    code, _, err = opencse(*common, "--also", "nowhere.txt=")
    assert code == 2
    assert "FILE=RECIPE is expected" in err
    code, _, err = opencse(*common, "--also", f"{graded}=simcs")
    assert code == 2
    assert "did you mean 'simcse'" in err


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
