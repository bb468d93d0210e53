"""How options are typed, and what is refused of them together, in a line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from typer.testing import CliRunner

from helpers import Run, accepted, json_in, refused
from opencse import adapt
from opencse.cli.parameters import Call, typed_command
from opencse.commands.declared import Typed, command
from opencse.commands.shared import Settings, SkipLines
from opencse.errors import UserError


@command
def chosen(
    text: str,
    *,
    names: Sequence[str] | None = None,
    suites: Sequence[str] = ("sts",),
    settings: Settings = (),
    engine: Literal["local", "ray"] = "local",
    seeds: Annotated[
        Sequence[int], Typed(default="1-2", parser=lambda text: [int(one) for one in text.split("-")])
    ] = (),
    processes: Annotated[int | None, Typed(default=None, least=1)] = 1,
    report: Annotated[bool, Typed(flags=("--report/--no-report",), default=True)] = False,
    fast: bool = False,
    skip_lines: SkipLines = (),
    secret: Annotated[str, Typed(hidden=True)] = "none",
) -> dict[str, Any]:
    """Returns what was typed.

    Args:
        names: ``a`` or `b`,
            or both.
    """
    return {name: value for name, value in locals().items() if name != "secret"}


def run(*arguments: str) -> dict[str, Any]:
    app = typer.Typer(rich_markup_mode=None)
    passed: dict[str, Any] = {}

    def face(call: Call, *, more: Annotated[int, Typed("More.")] = 0) -> None:
        passed.update(call(), **({"more": more} if more else {}))

    app.command()(typed_command(face, chosen))
    result = CliRunner().invoke(app, ["words", *arguments])
    if result.exit_code:
        raise result.exception or UserError(result.output)
    return passed | {"shown": result.output}


def test_defaults() -> None:
    assert run() == {
        "shown": "",
        "text": "words",
        "names": None,
        "suites": ["sts"],
        "settings": (),
        "engine": "local",
        "seeds": [1, 2],
        "processes": None,
        "report": True,
        "fast": False,
        "skip_lines": (),
    }


def test_what_is_typed_becomes_what_the_function_takes(tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("3\n5\n")
    typed = (
        "--names a,b --suites sts,probing -s a=1 --set b=2 --engine ray --seeds 4-6 --processes 2 --no-report --fast"
    )
    passed = run(*typed.split(), "--skip-lines", str(lines))
    assert passed["names"] == ["a", "b"]
    assert passed["suites"] == ["sts", "probing"]
    assert list(passed["settings"]) == ["a=1", "b=2"]
    assert (passed["engine"], passed["seeds"], passed["processes"]) == ("ray", [4, 6], 2)
    assert (passed["report"], passed["fast"], set(passed["skip_lines"])) == (False, True, {3, 5})
    assert run("--more", "2")["more"] == 2
    assert "'a' or `b`, or both." in " ".join(run("--help")["shown"].split())


@pytest.mark.parametrize("arguments", [["--engine", "cloud"], ["--processes", "0"], ["--secret", "x"]])
def test_what_is_out_of_range_or_hidden_is_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        run(*arguments)


COMMANDS_WITH_SET = [
    ("train", "no-file", "--out", "o"),
    ("pretrain", "no-file", "--out", "o"),
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
        *((command, "--seed 1", "training.seed=2") for command in COMMANDS_WITH_SET[:1]),
        (COMMANDS_WITH_SET[1], "--minutes 1", "training.minutes=2"),
        (COMMANDS_WITH_SET[3], "--window 16", "window=32"),
        (COMMANDS_WITH_SET[4], "--dimension 16", "dimension=32"),
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


@pytest.mark.slow
def test_several_layers_and_dimensions_are_all_written(
    opencse: Run, tiny_folder: Path, small_sts: Path, tmp_path: Path
) -> None:
    """As many models as suites as layers as dimensions are not one record."""
    import shutil

    shutil.copytree(tiny_folder, tmp_path / "other")
    data = tmp_path / "data"
    shutil.copytree(small_sts, data / "sts")
    shutil.copy(data / "sts" / "stsb" / "test.tsv", data / "sts" / "stsb" / "dev.tsv")
    options = ("--suite", "sts,dev", "--layers", "0,1", "--dimensions", "8,16", "--json", tmp_path / "r.json")
    accepted(opencse("evaluate", tiny_folder, tmp_path / "other", "--data", data, *options))
    assert len(json_in(tmp_path / "r.json")) == 16


def test_half_of_a_surrogate_pair_in_documents(opencse: Run, tmp_path: Path) -> None:
    lines = tmp_path / "corpus.jsonl"
    lines.write_text('{"_id": null, "text": "Whole."}\n{"text": "Half an emoji \\ud83d"}\n')
    for words in (("adapt", lines, "--out", tmp_path / "o"), ("check", tmp_path), ("adapt", tmp_path, "--out", "o")):
        refused(opencse(*words), "line 2: 'text' holds half of a surrogate pair")
    with pytest.raises(UserError, match="document 1: 'text' holds half of a surrogate pair"):
        adapt(["Half \ud83d"], tmp_path / "o")
    with pytest.raises(TypeError, match=r"corpus is a path, or a list of texts .*, not NoneType"):
        adapt(None, tmp_path / "o")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("adapt", "--pairs", "p.csv", "--pairs=q.csv"),
            "--pairs is there twice, and takes one value; commas separate the parts of a list",
        ),
        (
            ("index", "query", "i", "cat", "-k", "3", "-k", "4"),
            "-k is there twice, and takes one value; commas separate the parts of a list",
        ),
        (("adapt", "--dev", ""), "--dev is empty (a shell variable that is not set?); give a value"),
        (("label", "i", " "), "INDEX is empty (a shell variable that is not set?); give a value"),
    ],
)
def test_a_value_that_would_not_count_is_refused(opencse: Run, arguments: tuple[str, ...], message: str) -> None:
    assert refused(opencse(*arguments)) == f"opencse: {message}"


@pytest.mark.parametrize(
    "command",
    [
        ("train", "text.txt", "--out", "a"),
        ("compare", "text.txt", "--recipes", "simcse", "--data", "d", "--out", "a"),
        ("static", "text.txt", "--out", "a"),
        ("export", "static", "opencse-mini", "--out", "a"),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_a_setting_that_would_not_count_is_refused(
    opencse: Run, command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("The kettle boils.\nSnow fell.\n")
    (tmp_path / "d" / "sts").mkdir(parents=True)
    key = "window" if command[0] == "static" else "dimension" if command[0] == "export" else "training.batch_size"
    line = refused(
        opencse(*command, "--set", f"{key}=8", "-s" if command[0] != "export" else "--set", f"{key} = 9"), key
    )
    assert line == f"opencse: {key} is set twice ({key}=8 and {key} = 9); set it once"


def test_what_may_be_repeated_and_flags_are_taken(opencse: Run) -> None:
    code, _, err = opencse("index", "query", "i", "x", "--where", "a=1", "--where", "b=2", "--hybrid", "--hybrid")
    assert code == 2
    assert "twice" not in err


def test_paths_begin_with_the_home_folder_and_texts_do_not(
    opencse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("home", "here"):
        (tmp_path / folder).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "home" / "a.txt").write_text("~/notes is a folder.\nThe kettle boils.\n")
    assert opencse("index", "build", "~/index", "opencse-mini", "~/a.txt", "--json=~/built.json")[0] == 0
    code, out, err = opencse("index", "query", "~/index", "~/notes is a folder.", "--json=~/hits.json")
    assert (code, err) == (0, "")
    assert out.startswith("~/notes is a folder. (cosine)\n#1\t1.0000\t0\t~/notes is a folder.\n")
    out = opencse("nearest", "opencse-mini", "--index", "~/index", "--query", "~/", "--json=~/nearest.json")[1]
    assert "~/" in out
    names = {path.name for path in (tmp_path / "home").iterdir()}
    assert names == {"a.txt", "index", "built.json", "hits.json", "nearest.json"}
    assert not any((tmp_path / "here").iterdir())
    assert opencse("index", "build", "./~/index", "opencse-mini", "~/a.txt")[:2] == (
        0,
        "./~/index: 2 texts, 448 dimensions, flat\n",
    )
    assert (tmp_path / "here" / "~" / "index").is_dir()
