"""Options without a meaning beside others, empty paths, and values that no command can use, are refused in a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import Run
from opencse import SentenceEncoder, UserError, adapt


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("A cat sleeps.\nThe train is late.\nIt rains.\n")
    return path


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("encode", "opencse-mini", "text.txt", "--out", ""), "--out is empty"),
        (("index", "build", "", "opencse-mini", "text.txt"), "INDEX is empty"),
        (("index", "query", " ", "cat"), "INDEX is empty"),
        (
            ("encode", "opencse-mini", "text.txt", "--out", "v.npy", "--format", "parquet"),
            "--format, --shard-rows and --processes need --out FOLDER",
        ),
        (
            ("encode", "opencse-mini", "text.txt", "--out", "v.npy", "--shard-rows", "2"),
            "--format, --shard-rows and --processes need --out FOLDER",
        ),
        (
            ("encode", "opencse-mini", "text.txt", "--out", "-", "--processes", "2"),
            "--format, --shard-rows and --processes need --out FOLDER",
        ),
        (("export", "static", "opencse-mini", "--out", "t", "--columns", "body"), "--columns needs --corpus"),
        (
            ("evaluate", "opencse-mini", "--suite", "dev", "--data", ".", "--fit", "text.txt"),
            "--fit text.txt needs --transform",
        ),
        (("pretrain", "text.txt", "--out", "p", "--model", "m", "--layers", "2"), "for a new backbone; leave them out"),
        (("pretrain", "text.txt", "--out", "p", "--model", "m", "--vocabulary", "99"), "for a new backbone"),
        (
            ("static", "text.txt", "--out", "s", "--model", "m", "--vocabulary", "99"),
            "--vocabulary is for a new tokenizer",
        ),
        (("check", "text.txt", "--max-length", "99999999999999999999"), "--max-length"),
        (
            ("index", "query", "ix", "cat", "--threshold", "nan"),
            "threshold is a finite number of at most 64 bits, not nan",
        ),
        (("calibrate", "model", "text.txt", "--pairs", "pairs.tsv", "--precision", "0"), "precision is above 0"),
    ],
)
def test_they_are_refused(
    opencse: Run, text: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(text.parent)
    if "ix" in arguments:
        assert opencse("index", "build", "ix", "opencse-mini", text)[0] == 0
    if "model" in arguments:
        SentenceEncoder.load("opencse-mini").save("model")
        Path("pairs.tsv").write_text("1\tA cat.\tA cat!\n0\tA cat.\tA train.\n")
    before = sorted(Path.cwd().iterdir())
    code, out, err = opencse(*arguments)
    assert (code, out) == (2, ""), err
    assert said in err
    assert sorted(Path.cwd().iterdir()) == before, "nothing was written"


COMMANDS_WITH_SET = [
    ("train", "no-file", "--out", "o"),
    ("pretrain", "no-file", "--out", "o"),
    ("adapt", "no-file", "--out", "o"),
    ("compare", "no-file", "--out", "o", "--recipes", "simcse", "--data", "hub"),
    ("static", "no-file", "--out", "o"),
    ("export", "static", "no-model", "--out", "o"),
]


@pytest.mark.parametrize("command", COMMANDS_WITH_SET, ids=lambda command: command[0])
def test_a_misspelt_setting_is_refused_before_the_text_is_read(
    opencse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """The text does not exist, which would be the message if it were read first."""
    monkeypatch.chdir(tmp_path)
    code, _, err = opencse(*command, "--set", "trainings=2")
    assert code == 2
    assert "--set" in err
    assert "unknown key 'trainings'" in err


@pytest.mark.parametrize(
    ("command", "option", "setting"),
    [
        *((command, "--seed 1", "training.seed=2") for command in COMMANDS_WITH_SET[:3]),
        (COMMANDS_WITH_SET[1], "--minutes 1", "training.minutes=2"),
        (COMMANDS_WITH_SET[1], "--tokens 1000", "training.tokens=2000"),
        *((COMMANDS_WITH_SET[4], f"--{key} 16", f"{key}=32") for key in ("dimension", "layers", "window")),
        (COMMANDS_WITH_SET[5], "--dimension 16", "dimension=32"),
    ],
)
def test_an_option_and_a_setting_of_the_same_are_refused(
    opencse: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    option: str,
    setting: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = opencse(*command, *option.split(), "--set", setting)
    assert code == 2
    assert err.rstrip().endswith(f"and --set {setting} are of one setting; leave one of them out")
    assert option.split()[0] in err


def test_several_layers_and_dimensions_are_all_written(
    opencse: Run, tiny_folder: Path, small_sts: Path, tmp_path: Path
) -> None:
    """As many models as suites as layers as dimensions are not one record."""
    import json
    import shutil

    shutil.copytree(tiny_folder, tmp_path / "other")
    data = tmp_path / "data"
    shutil.copytree(small_sts, data / "sts")
    shutil.copy(data / "sts" / "stsb" / "test.tsv", data / "sts" / "stsb" / "dev.tsv")
    options = ("--suite", "sts,dev", "--layers", "0,1", "--dimensions", "8,16", "--json", tmp_path / "r.json")
    code, _, err = opencse("evaluate", tiny_folder, tmp_path / "other", "--data", data, *options)
    assert code == 0, err
    assert len(json.loads((tmp_path / "r.json").read_text())) == 16


def test_half_of_a_surrogate_pair_in_documents(opencse: Run, tmp_path: Path) -> None:
    lines = tmp_path / "corpus.jsonl"
    lines.write_text('{"_id": null, "text": "Whole."}\n{"text": "Half an emoji \\ud83d"}\n')
    for command in (("adapt", lines, "--out", tmp_path / "o"), ("check", tmp_path), ("adapt", tmp_path, "--out", "o")):
        code, _, err = opencse(*command)
        assert code == 2
        assert "line 2: 'text' holds half of a surrogate pair" in err
    with pytest.raises(UserError, match="document 1: 'text' holds half of a surrogate pair"):
        adapt(["Half \ud83d"], tmp_path / "o")
    with pytest.raises(TypeError, match=r"corpus is a path, or a list of texts .*, not NoneType"):
        adapt(None, tmp_path / "o")  # type: ignore[arg-type]
