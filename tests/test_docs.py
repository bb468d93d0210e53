"""Every example of the README and of docs/, run as a reader would: in order, each document in one folder.

Commands that were measured on real data (docs/results) and those inside a sentence are not run: their commands,
options, recipes and settings must exist.
"""

from __future__ import annotations

import csv
import json
import re
import shlex
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from opencse.cli import main
from opencse.cli.app import app
from opencse.encoder.locate import builtin_folder
from opencse.evaluation import TASKS
from opencse.recipes.recipe import resolve_recipe
from opencse.text import sample

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
READ = [
    "README.md",
    *sorted(str(path.relative_to(ROOT)) for place in ("", "guides/") for path in (ROOT / "docs").glob(f"{place}*.md")),
]
MEASURED = sorted(f"docs/results/{path.name}" for path in (ROOT / "docs" / "results").glob("*.md"))
TEXTS = {name: (ROOT / name).read_text(encoding="utf-8") for name in [*READ, *MEASURED]}

SHORTER = {  # what would take minutes -> what is run in its place
    "--minutes 90": "--minutes 0.03",
    "--seeds 42-46": "--seeds 42-43",
    "--tokens 5000000": "--tokens 20000",
    "static corpus.txt --out": "static corpus.txt --dimension 64 --out",
    "adapt corpus.txt": "adapt corpus.txt --set training.max_steps=5",
    "train pairs.csv": "train pairs.csv --set training.max_steps=5",
}
ENDLESS = "opencse serve "
"""What goes on until it is stopped: its options must exist (tests/serving starts it)."""
ENCODERS = {"docs/evaluation.md": ["my-encoder"], "docs/export.md": ["my-encoder"]}
"""Models that a document takes for granted."""


def blocks(document: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXTS[document], flags=re.DOTALL)


def commands(document: str) -> list[str]:
    """The ``opencse`` commands of the bash blocks, shortened."""
    lines = [line for block in blocks(document, "bash") for line in joined(block) if line.startswith("opencse ")]
    lines = [line for line in lines if not line.startswith(ENDLESS)]
    for long, short in SHORTER.items():
        lines = [line.replace(long, short) for line in lines]
    return lines


def joined(text: str) -> list[str]:
    """Lines without comments, those that end with a backslash joined with the next."""
    return [re.split(r"\s{2,}# ", line)[0].strip() for line in re.sub(r"\\\n\s*", "", text).splitlines()]


COMMANDS = [(document, command) for document in READ for command in commands(document)]
PYTHON = [(document, block) for document in READ for block in blocks(document, "python")]
SHOWN = [
    (document, line)
    for document in MEASURED
    for line in joined(TEXTS[document])
    if f"    {line.split(' ')[0]} " in TEXTS[document] and line.startswith(("opencse ", "python benchmarks/"))
]
INLINE = [
    (document, line)
    for document in TEXTS
    for line in dict.fromkeys(
        [
            *re.findall(r"`(opencse [^`]+)`", re.sub(r"\n", " ", TEXTS[document])),
            *(
                line
                for language in ("bash", "sh")
                for block in blocks(document, language)
                for line in joined(block)
                if line.startswith(ENDLESS)
            ),
        ]
    )
]


@pytest.fixture(scope="module")
def desks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder for every document, with the files that it speaks of."""
    return {document: desk(tmp_path_factory.mktemp("desk"), ENCODERS.get(document, [])) for document in READ}


def desk(folder: Path, encoders: list[str]) -> Path:
    sentences = sample.TRAIN.read_text().splitlines()
    (folder / "corpus.txt").write_text("\n".join(sentences[:300]) + "\n")
    (folder / "domain.txt").write_text("\n".join(sentences[300:500]) + "\n")
    with sample.PAIRS.open() as stream, (folder / "pairs.csv").open("w", newline="") as out:
        rows = list(csv.reader(stream))[1:200]
        csv.writer(out).writerows([["question", "answer"], *rows])
    graded = sample.DEV.read_text().splitlines()
    (folder / "pairs-graded.tsv").write_text("\n".join(graded) + "\n")
    for task in TASKS.values():
        (folder / "sts-data" / task.key).mkdir(parents=True)
        for number, subset in enumerate(task.subsets):
            lines = graded[20 * number : 20 * number + 20]
            (folder / "sts-data" / task.key / f"{subset}.tsv").write_text("\n".join(lines) + "\n")
    judged = folder / "beir"
    (judged / "qrels").mkdir(parents=True)
    documents = [
        json.dumps({"_id": str(place), "title": "", "text": text}) for place, text in enumerate(sentences[:50])
    ]
    (judged / "corpus.jsonl").write_text("\n".join(documents) + "\n")
    (judged / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": sentences[0]}) + "\n")
    (judged / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\t0\t1\n")
    for name in encoders:
        shutil.copytree(builtin_folder(), folder / name)
    return folder


def test_the_two_commands_come_first() -> None:
    assert blocks("README.md", "bash")[0].split("\n")[0].startswith("make demo")
    assert "make test" in blocks("README.md", "bash")[0]
    makefile = (ROOT / "Makefile").read_text()
    for target in ("demo:", "test:"):
        assert f"\n{target}" in makefile
    assert len(commands("README.md")) >= 4
    assert sum(len(commands(document)) for document in READ) >= 50


def test_every_shortening_is_of_something() -> None:
    everything = "\n".join(block for document in READ for block in blocks(document, "bash"))
    assert [long for long in SHORTER if long not in everything] == []
    assert len(commands("docs/pretraining.md")) >= 5
    assert len(SHOWN) >= 15
    assert len(INLINE) >= 20


@pytest.mark.parametrize(("document", "command"), COMMANDS)
def test_command(document: str, command: str, desks: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desks[document])
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code


@pytest.mark.parametrize(("document", "block"), PYTHON)
def test_python_block(document: str, block: str, desks: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desks[document])
    if "import mteb" in block:
        mteb = pytest.importorskip("mteb")
        # The task itself is fetched from the network; the encoder is given texts as a task gives them.
        monkeypatch.setattr(mteb, "evaluate", lambda model, tasks: SimpleNamespace(model=model, tasks=tasks))
        monkeypatch.setattr(mteb, "get_tasks", lambda names: names)
    names: dict[str, object] = {}
    exec(compile(block, document, "exec"), names)
    if "import mteb" in block:
        assert names["results"].model.mteb_model_meta.name.endswith("my-encoder")  # type: ignore[attr-defined]


def test_what_the_readme_says_is_printed(
    desks: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(desks["README.md"])
    shutil.rmtree("another-model", ignore_errors=True)  # of the test above, in whatever order they run
    for block in blocks("README.md", "python"):
        exec(compile(block, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "(2, 448)" in printed


@pytest.mark.parametrize(("document", "line"), SHOWN)
def test_a_measurement_could_be_made_again(document: str, line: str) -> None:
    """All arguments are there, and every option, recipe and setting exists."""
    words = shlex.split(re.sub(r"\[[^]]*\]", "", line))
    if words[0] == "python":
        script = ROOT / words[1]
        options = {word for word in words if word.startswith("--")}
        assert script.is_file()
        assert [option for option in sorted(options) if f'"{option}"' not in script.read_text()] == []
        return
    command, rest = of_the_command_line(words)
    if not any(word in ("--out", "-o") for word in rest) and any("--out" in p.opts for p in command.params):
        rest += ["--out", "OUT"]  # left out where it is of no interest
    parsed = command.make_context(words[1], list(rest)).params
    for recipe in [parsed.get("recipe"), *(parsed.get("recipes") or "").split(",")]:
        if recipe:
            resolve_recipe(recipe, overrides=parsed.get("set_") or [] if "static" not in words else [])


@pytest.mark.parametrize(("document", "line"), INLINE)
def test_a_command_in_a_sentence_exists(document: str, line: str) -> None:
    command, rest = of_the_command_line(shlex.split(line.replace("...", "")))
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert {word for word in rest if word.startswith("--")} <= known | {"--help"}


def of_the_command_line(words: list[str]) -> tuple[Any, list[str]]:
    """The command that ``opencse WORD ...`` names, and what is left of the words."""
    command: Any = typer.main.get_command(app)
    rest = words[1:]
    while hasattr(command, "list_commands") and rest and not rest[0].startswith("-"):
        assert rest[0] in command.list_commands(None), f"no command {rest[0]!r}"
        command, rest = command.get_command(None, rest[0]), rest[1:]
    return command, rest


@pytest.mark.parametrize("document", list(TEXTS))
def test_links_lead_somewhere(document: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", TEXTS[document]):
        if not target.startswith("http"):
            assert ((ROOT / document).parent / target).exists(), target
