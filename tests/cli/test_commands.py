"""The command line as a person meets it: results on stdout, one-line errors with exit code 2."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers import Run, refused
from opencse.api import making
from opencse.text import sample

pytestmark = pytest.mark.slow


QUICK = ["--set", "training.max_steps=3", "--set", "training.batch_size=8", "--set", "training.evaluate_every=2"]


def test_help_and_import_are_quick() -> None:
    code = "import sys, opencse.cli.app; sys.exit(any(m in sys.modules for m in ('torch', 'transformers', 'scipy')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    started = sum(os.times()[2:4])  # processor time of child processes, whatever else this machine does
    shown = subprocess.run(
        [sys.executable, "-c", "from opencse.cli import main; main()", "--help"],
        check=True, capture_output=True, text=True, env={"PATH": "", "PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert sum(os.times()[2:4]) - started < 5
    for command in (
        "check", "train", "pretrain", "static", "evaluate", "compare", "reproduce", "encode", "similarity",
        "nearest", "whiten", "analyze", "calibrate", "recipes", "demo", "doctor",
    ):  # fmt: skip
        assert command in shown.stdout


def few_texts(folder: Path, count: int = 400) -> Path:
    """The sample's first lines: enough to hold some out and ask about them."""
    path = folder / "few.txt"
    path.write_text("".join(f"{line}\n" for line in Path(sample.TRAIN).read_text().splitlines()[:count]))
    return path


@pytest.mark.usefixtures("not_drawn")
def test_train_evaluate_encode_and_compare(opencse: Run, tiny_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, stdout, stderr = opencse("train", few_texts(tmp_path), "--out", out, "--model", tiny_folder, *QUICK)
    assert code == 0, stderr
    assert stdout.strip() == str(out)
    assert "negatives  7 per anchor" in stderr
    assert "start" in stderr
    assert (out / "modules.json").is_file()
    assert (out / "last" / "modules.json").is_file()

    texts, vectors = tmp_path / "texts.txt", tmp_path / "v.npy"
    texts.write_text("".join(f"{line}\n" for line in Path(sample.TRAIN).read_text().splitlines() if line))
    code, stdout, stderr = opencse("encode", out, texts, "--out", vectors, "--normalize")
    assert code == 0, stderr
    array = np.load(vectors)
    assert array.shape == (3421, 32)
    assert np.allclose(np.linalg.norm(array, axis=1), 1, atol=1e-5)

    code, stdout, _ = opencse("similarity", out, "A cat sleeps.", "A cat sleeps.", "Rain is falling on the roof.")
    assert code == 0
    assert stdout.splitlines()[0] == "1.0000  A cat sleeps."


def test_dry_run_prints_the_plan_and_writes_nothing(opencse: Run, tiny_folder: Path, tmp_path: Path) -> None:
    code, stdout, _ = opencse("train", sample.TRAIN, "-o", tmp_path / "out", "-m", tiny_folder, *QUICK, "--dry-run")
    assert code == 0
    for word in ("text", "tokens", "negatives  7 per anchor", "steps      3 of batch 8", "compute", "selection"):
        assert word in stdout
    assert not (tmp_path / "out").exists()


def test_train_on_columns_and_skip_lines(opencse: Run, tiny_folder: Path, tmp_path: Path) -> None:
    rows = [f"question number {i}\tanswer number {i}\twrong answer {i}" for i in range(20)]
    (tmp_path / "t.tsv").write_text("\n".join(rows))
    (tmp_path / "skip.txt").write_text("1\n3\n")
    code, stdout, err = opencse(
        "train", tmp_path / "t.tsv", "-o", tmp_path / "out", "-r", "simcse-supervised", "-m", tiny_folder,
        "--columns", "1,2,3", "--skip-lines", tmp_path / "skip.txt", *QUICK, "--dry-run",
    )  # fmt: skip
    assert code == 0, err
    assert "18 rows of 3 texts" in stdout
    assert "negatives  15 per anchor, 1 hard" in stdout


def test_pairs_train_without_hard_negatives(opencse: Run, tiny_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("anchor,positive\n" + "\n".join(f"what is {i},it is {i}" for i in range(20)))
    code, stdout, err = opencse(
        "train",
        tmp_path / "t.csv",
        "-o",
        tmp_path / "out",
        "-r",
        "simcse-supervised",
        "-m",
        tiny_folder,
        *QUICK,
        "--dry-run",
    )
    assert code == 0, err
    assert "the data has no hard negatives" in stdout


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
    scores = [one["sts"]["stsb"]["spearman"]["all"] for one in (layer, whole)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-3)
    refused(opencse(*told, "--layers", "last"), "--layers is 'all' or numbers from 0")
    refused(opencse(*told, "--layers", "4"), "layers 0 (output of the embeddings) to 3, not 4")
    refused(opencse("evaluate", "bag-of-words", "--data", sts_folder, "--layers", "0"), "has no layers")


def test_evaluate_writes_a_self_describing_result(opencse: Run, sts_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    code, stdout, err = opencse("evaluate", "opencse-mini", "--data", sts_folder, "--pooling", "mean", "--json", path)
    assert code == 0, err
    assert "Avg." in stdout
    result = json.loads(path.read_text())
    assert set(result["sts"]["sts12"]["spearman"]) == {"all", "mean", "wmean"}
    tasks = ["sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr"]
    values = [result["sts"][task]["spearman"]["all"] for task in tasks]
    assert result["sts"]["average"] == pytest.approx(sum(values) / 7)
    assert (result["schema_version"], result["model"], result["pooling"]) == (1, "opencse-mini", "mean")


def test_evaluate_writes_a_record_for_each_of_several(
    opencse: Run, sts_folder: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    told = ["--data", sts_folder.parent, "--tasks", "stsb", "--json"]
    names = ["bag-of-words", str(tiny_folder)]
    assert opencse("evaluate", *names, *told, tmp_path / "two.json")[0] == 0
    together = json.loads((tmp_path / "two.json").read_text())
    assert [record["model"] for record in together] == names
    for name, record in zip(names, together, strict=True):
        assert opencse("evaluate", name, *told, tmp_path / "one.json")[0] == 0
        assert json.loads((tmp_path / "one.json").read_text())["sts"] == record["sts"]
    (sts_folder.parent / "sts-regressor").mkdir()
    told = ["--data", sts_folder.parent, "--json", tmp_path / "suites.json"]
    code, _, err = opencse("evaluate", "bag-of-words", "--suite", "sts,sts-regressor", *told)
    assert code == 2, err
    assert [set(record) & {"sts"} for record in json.loads((tmp_path / "suites.json").read_text())] == [{"sts"}]
    told = ["--data", sts_folder, "--tasks", "stsb", "--layers", "3,0", "--json", tmp_path / "layers.json"]
    assert opencse("evaluate", tiny_folder, *told)[0] == 0
    layers = [record["model"] for record in json.loads((tmp_path / "layers.json").read_text())]
    assert layers == [f"{tiny_folder}, layer 3", f"{tiny_folder}, layer 0"]


def test_help_of_a_command_loads_little(opencse: Run) -> None:
    program = "import sys; from opencse.cli import main\ntry:\n    main()\nfinally:\n    print(*sys.modules)"
    for words in (["train"], ["index", "build"]):
        told = [sys.executable, "-c", program, *words, "--help"]
        loaded = subprocess.run(told, capture_output=True, text=True, check=True).stdout.splitlines()[-1].split()
        assert "typer" in loaded
        assert not {"rich", "torch", "numpy"} & set(loaded), words


def test_help_names_arguments_as_its_sentences_do(opencse: Run) -> None:
    _, shown, _ = opencse("adapt", "--help")
    assert "opencse adapt [OPTIONS] {CORPUS}" in shown
    assert "CORPUS is all of it" in " ".join(shown.split())
    assert "list[" not in shown


def test_help_of_a_group_has_whole_lines(opencse: Run) -> None:
    for group in ("index", "recipes", "export"):
        _, shown, _ = opencse(group, "--help")
        assert "..." not in shown.partition("Commands:")[2].partition("Examples:")[0], group


def test_alone_it_shows_what_people_come_for(opencse: Run) -> None:
    code, stdout, err = opencse()
    assert (code, err) == (0, "")
    for command in ("adapt", "evaluate", "index build", "serve", "demo", "--help"):
        assert f"opencse {command}" in stdout


def test_python_dash_m_is_the_command() -> None:
    ran = subprocess.run([sys.executable, "-m", "opencse", "trian"], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "did you mean 'train'?" in ran.stderr


class TestBadInput:
    """Each one line, exit code 2, nothing lost."""

    def train(self, opencse: Run, tmp_path: Path, text: object, *more: object) -> tuple[int, str, str]:
        return opencse("train", text, "--out", tmp_path / "out", *more)

    def test_missing_file(self, opencse: Run, tmp_path: Path) -> None:
        refused(self.train(opencse, tmp_path, tmp_path / "none.txt"), "none.txt", "no such file")

    def test_empty_file(self, opencse: Run, tmp_path: Path) -> None:
        (tmp_path / "t.txt").touch()
        refused(self.train(opencse, tmp_path, tmp_path / "t.txt"), "empty")

    def test_wrong_column(self, opencse: Run, tmp_path: Path) -> None:
        (tmp_path / "t.csv").write_text("sentense,other\nhello,there\nsome,more\n")
        result = self.train(opencse, tmp_path, tmp_path / "t.csv", "--columns", "sentence")
        refused(result, "no column 'sentence'", "sentense")

    def test_binary_file(self, opencse: Run, tmp_path: Path) -> None:
        (tmp_path / "t.txt").write_bytes(b"fine\n\x00\x01\x02")
        refused(self.train(opencse, tmp_path, tmp_path / "t.txt"), "line 2")

    def test_a_line_of_a_megabyte(self, opencse: Run, tmp_path: Path) -> None:
        (tmp_path / "t.txt").write_text("fine\n" + "word " * 210_000 + "\nfine too\n")
        refused(self.train(opencse, tmp_path, tmp_path / "t.txt"), "line 2", "characters")

    def test_a_score_that_is_no_number(self, opencse: Run, tmp_path: Path) -> None:
        (tmp_path / "dev.tsv").write_text("1.0\ta b\tc d\nnan\te f\tg h\n")
        result = self.train(opencse, tmp_path, sample.TRAIN, "--dev", tmp_path / "dev.tsv")
        refused(result, "dev.tsv", "line 2")

    def test_unknown_recipe_key(self, opencse: Run, tmp_path: Path) -> None:
        result = self.train(opencse, tmp_path, sample.TRAIN, "--set", "training.learning_rat=1e-4")
        refused(result, "training.learning_rat", "did you mean 'learning_rate'?")

    def test_unknown_recipe(self, opencse: Run, tmp_path: Path) -> None:
        refused(self.train(opencse, tmp_path, sample.TRAIN, "--recipe", "simsce"), "did you mean 'simcse'?")

    def test_wrong_value(self, opencse: Run, tmp_path: Path) -> None:
        result = self.train(opencse, tmp_path, sample.TRAIN, "--set", "objective.temperature=-1")
        refused(result, "objective.temperature", "greater than 0")

    def test_model_folder_without_tokenizer(self, opencse: Run, tiny_folder: Path, tmp_path: Path) -> None:
        import shutil

        folder = tmp_path / "model"
        shutil.copytree(tiny_folder, folder)
        (folder / "tokenizer.json").unlink()
        refused(self.train(opencse, tmp_path, sample.TRAIN, "--model", folder), "no tokenizer")

    @pytest.mark.usefixtures("not_drawn")
    def test_full_disk(self, opencse: Run, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The run stops with one line; what was saved before goes on with --resume once there is room."""
        import safetensors.torch

        whole = safetensors.torch.save_file
        calls = []

        def full_at_third(tensors: object, path: Path, *more: object) -> None:
            calls.append(path)
            if len(calls) == 3:
                raise OSError(errno.ENOSPC, "No space left on device")
            whole(tensors, path, *more)

        monkeypatch.setattr(safetensors.torch, "save_file", full_at_third)
        arguments = ["-m", tiny_folder, "--set", "training.max_steps=8", "--set", "training.checkpoint_every=2"]
        text = few_texts(tmp_path, 800)
        refused(self.train(opencse, tmp_path, text, *arguments), "No space left on device", "--resume")
        state = json.loads((tmp_path / "out" / "checkpoint" / "state.json").read_text())
        assert state["step"] == 4
        code, _, err = self.train(opencse, tmp_path, text, *arguments, "--resume")
        assert code == 0, err
        assert "resumed at step 4" in err

    def test_unwritable_out(self, opencse: Run, tiny_folder: Path, tmp_path: Path) -> None:
        (tmp_path / "out").write_text("a file")
        refused(self.train(opencse, tmp_path, sample.TRAIN, "-m", tiny_folder), "out")

    def test_usage_errors_exit_with_2(self, opencse: Run) -> None:
        assert opencse("train")[0] == 2
        assert opencse("nonsense")[0] == 2
        assert opencse("train", "x", "--out")[0] == 2

    def test_evaluate_names_the_missing_task(self, opencse: Run, tmp_path: Path) -> None:
        refused(opencse("evaluate", "opencse-mini", "--data", tmp_path), "sts12")

    def test_unknown_pooling(self, opencse: Run, sts_folder: Path) -> None:
        refused(opencse("evaluate", "opencse-mini", "--data", sts_folder, "--pooling", "men"), "did you mean 'mean'?")

    def test_encode_needs_npy(self, opencse: Run, tmp_path: Path) -> None:
        refused(opencse("encode", "opencse-mini", sample.TRAIN, "--out", tmp_path / "v.txt"), ".npy")


def test_a_score_file_may_be_any_name(opencse: Run, tiny_folder: Path, tmp_path: Path) -> None:
    dev = tmp_path / "my.tsv"
    dev.write_text(sample.DEV.read_text())
    text = few_texts(tmp_path)
    code, _, err = opencse("train", text, "-o", tmp_path / "o", "-m", tiny_folder, "--dev", dev, "--no-report", *QUICK)
    assert code == 0, err
    assert str(dev) in err


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


def test_a_model_that_is_not_there_is_told_of_before_another_is_scored(opencse: Run, sts_folder: Path) -> None:
    for missing, said in (("./no-such", "no such folder"), ("words:absent.vec", "absent.vec: no such file")):
        code, out, err = opencse("evaluate", "bag-of-words", missing, "--data", sts_folder)
        assert (code, out) == (2, "")
        assert said in err


def test_whitening_that_stretches_noise_is_warned_of(
    opencse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "STRETCHED", 3.0)
    text = tmp_path / "text.txt"
    text.write_text("".join(f"The pump number {n} leaks.\n" for n in range(900)))
    code, _, err = opencse("whiten", "opencse-mini", text, "--out", tmp_path / "w")
    assert code == 0
    found = re.search(r"warning .* is stretched [\d,]+ times .* --dimension (\d+)", err)
    assert found is not None, err
    code, _, err = opencse("whiten", "opencse-mini", text, "--out", tmp_path / "v", "--dimension", found[1])
    assert (code, "warning" in err) == (0, False)
    code, _, err = opencse("whiten", "opencse-mini", text, "--out", tmp_path / "u", "--dimension", 447)
    assert code == 2
    assert not (tmp_path / "u").exists()
