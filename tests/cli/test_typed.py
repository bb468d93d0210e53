"""Options that take one value are typed once, and paths may begin with the home folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import Run, refused
from opencse.cli.options import listed


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("adapt", "text.txt", "--out", "a", "--pairs", "p.csv", "--pairs=q.csv"), "--pairs"),
        (("compare", "text.txt", "-r", "simcse", "--recipes", "esimcse"), "--recipes"),
        (("index", "query", "i", "cat", "-k", "3", "-k", "4"), "-k"),
    ],
)
def test_a_value_that_would_not_count_is_refused(opencse: Run, arguments: tuple[str, ...], option: str) -> None:
    code, _, err = opencse(*arguments)
    message = f"opencse: {option} is there twice, and takes one value; commas separate the parts of a list\n"
    assert (code, err) == (2, message)


@pytest.mark.parametrize(
    "command",
    [
        ("train", "text.txt", "--out", "a"),
        ("pretrain", "text.txt", "--out", "a"),
        ("adapt", "text.txt", "--out", "a"),
        ("compare", "text.txt", "--recipes", "simcse", "--data", "d", "--out", "a"),
        ("reproduce", "simcse:bert-base", "text.txt", "--data", "d", "--out", "a"),
        ("recipes", "show", "simcse"),
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


def test_paths_in_a_list_begin_with_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/anna")
    assert listed("~/one, opencse-mini,~/two") == ["/home/anna/one", "opencse-mini", "/home/anna/two"]
