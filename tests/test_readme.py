"""Every example of the README, run as a reader would, in order, in one folder."""

from __future__ import annotations

import csv
import re
import shlex
import sys
from pathlib import Path

import pytest

from opencse.cli import main
from opencse.evaluation import TASKS
from opencse.text import sample

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the README speaks of."""
    folder = tmp_path_factory.mktemp("desk")
    (folder / "corpus.txt").write_text("\n".join(sample.TRAIN.read_text().splitlines()[:300]) + "\n")
    with sample.PAIRS.open() as stream, (folder / "pairs.csv").open("w", newline="") as out:
        rows = list(csv.reader(stream))[1:200]
        csv.writer(out).writerows([["question", "answer"], *rows])
    graded = sample.DEV.read_text().splitlines()
    for task in TASKS.values():
        (folder / "sts-data" / task.key).mkdir(parents=True)
        for number, subset in enumerate(task.subsets):
            lines = graded[20 * number : 20 * number + 20]
            (folder / "sts-data" / task.key / f"{subset}.tsv").write_text("\n".join(lines) + "\n")
    return folder


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


COMMANDS = [
    line.split("    #")[0].replace("--minutes 90", "--minutes 0.03").replace("--seeds 42-46", "--seeds 42-43")
    for block in blocks("bash")
    for line in block.splitlines()
    if line.startswith("opencse ")
]


def test_the_two_commands_come_first() -> None:
    assert blocks("bash")[0].split("\n")[0].startswith("make demo")
    assert "make test" in blocks("bash")[0]
    makefile = (Path(__file__).parents[1] / "Makefile").read_text()
    for target in ("demo:", "test:"):
        assert f"\n{target}" in makefile
    assert len(COMMANDS) >= 9


@pytest.mark.parametrize("command", COMMANDS)
def test_command(command: str, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk)
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code


def test_python_blocks(desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(desk)
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "(2, 448)" in printed
    assert "(1, 448)" in printed


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (Path(__file__).parents[1] / target).exists(), target
