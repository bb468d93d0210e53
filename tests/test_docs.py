"""Every code block of the README, CONTRIBUTING and docs/, run as a reader would: in order, each page in one folder.

An output (a block of ``text``) is compared with what the block above it printed. Commands that were measured on real
data (docs/results), those inside a sentence, and blocks with a marker (``<!-- not run: reason -->``) are not run: their
commands, options, recipes and settings must exist.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from doc_blocks import Block, blocks_of, commands_of
from helpers import json_in, write_collection, write_lines
from opencse.asking.plan import TEMPLATE
from opencse.cli import main
from opencse.cli.app import app
from opencse.evaluation import TASKS
from opencse.model_folder.locate import builtin_folder
from opencse.recipes.recipe import resolve_recipe
from opencse.text import sample

ROOT = Path(__file__).parents[1]


READ = [
    "README.md",
    "CONTRIBUTING.md",
    *sorted(str(path.relative_to(ROOT)) for place in ("", "guides/") for path in (ROOT / "docs").glob(f"{place}*.md")),
]


MEASURED = sorted(f"docs/results/{path.name}" for path in (ROOT / "docs" / "results").glob("*.md"))


TEXTS = {name: (ROOT / name).read_text(encoding="utf-8") for name in [*READ, *MEASURED]}


SHORTER = {  # what would take minutes -> what is run in its place
    "--minutes 90": "--minutes 0.03",
    "--seeds 42-46": "--seeds 42-44",  # three: with fewer there is no p
    "--tokens 5000000": "--tokens 20000",
    "static corpus.txt --out": "static corpus.txt --dimension 64 --out",
    "pretrain corpus.txt": "pretrain corpus.txt --layers 1 --hidden 64 --heads 2",
    "adapt corpus.txt --model opencse-mini": "adapt corpus.txt",
    "adapt corpus.txt --": "adapt corpus.txt --model opencse-mini --set training.max_steps=2 --",
    'opencse.adapt("corpus.txt",': 'opencse.adapt("corpus.txt", model="opencse-mini", out=',
    "adapt grown.txt": "adapt grown.txt --set training.max_steps=2",
    "train pairs.csv": "train pairs.csv --set training.max_steps=2",
    "train corpus.txt": "train corpus.txt --set training.max_steps=2",
    "training.batch_size=4096 --set training.chunk=256": "training.batch_size=64 --set training.chunk=16",
    "--dev sample": "--dev sample --set training.max_steps=2",
    'sample.TRAIN.read_text(encoding="utf-8")': 'sample.TRAIN.read_text(encoding="utf-8")[:60_000]',
    "list(csv.reader(stream))[1:]": "list(csv.reader(stream))[1:200]",
    "training.max_steps=10": "training.max_steps=2",
}


ENDLESS = ("opencse serve ", "opencse label ")


"""What goes on until it is stopped: its options must exist (tests/serving and tests/cli start it)."""


ENCODERS = {
    "docs/evaluation.md": ["my-encoder"],
    "docs/export.md": ["my-encoder"],
    "docs/guides/train.md": ["MODEL"],
    "docs/serving.md": ["my-model"],
}


"""Models that a page takes for granted; ``MODEL`` is one with layers."""


SAVED = {"docs/guides/parts.md": [("python", "more_parts.py"), ("toml", "between.toml")]}


"""Files that a reader of a page saves: the first block of a language, and its name."""


NOT_RUN = 22


"""Blocks of all pages that are not run or compared, each with its reason above it. Run a new block if you can."""


LANGUAGES = {"bash", "python", "toml", "text", "json", "nginx"}


FORMULAS = ["docs/parts.md"]


"""Pages whose indented blocks are formulas, from the docstrings of the parts."""


BLOCKS = {page: blocks_of(page, text) for page, text in TEXTS.items()}


def blocks(document: str, language: str) -> list[str]:
    return [block.code for block in BLOCKS[document] if block.language == language]


def commands(block: Block) -> list[str]:
    """The ``opencse`` commands of a shell block, shortened and without reports (tests/runs/test_report.py)."""
    lines = [line for line in commands_of(block.code, "opencse") if not line.startswith(ENDLESS)]
    return [
        re.sub("^opencse (train|adapt) ", r"\g<0>--no-report ", without_second_limit(shortened(line))) for line in lines
    ]


def shortened(code: str) -> str:
    for long, short in SHORTER.items():
        code = code.replace(long, short, 1)
    return code


def not_printed(quoted: str, printed: str) -> list[str]:
    """The quoted lines that the commands did not print.

    Numbers, names of text files, verdicts and the texts of hits may differ, since a page shows a larger text; ``...``
    is anything.
    """
    seen = re.sub(r"[┃\s]+", " ", re.sub("[┃│]", " │ ", printed))
    number = r"(?:[<=] )?[-+±]?\.?\d[\d,.]*"
    varying = rf"{number}(?: ± {number})?(?: \(p {number}\))?|[\w-]+\.(?:txt|jsonl)|better|worse"
    missing = []
    for line in quoted.splitlines():
        words = re.sub(r"^(#\d+\t.*?\t.*?)\t.*", r"\1 ...", line).replace("│", " │ ").split()
        pieces = re.split(rf"(\.\.\.|{varying})", " ".join(words).strip("│ "))
        pattern = "".join(".*?" if number % 2 else re.escape(piece) for number, piece in enumerate(pieces))
        if re.search(pattern, seen) is None:
            missing.append(line)
    return missing


def without_second_limit(line: str) -> str:
    """A shortened command in which the steps are limited once."""
    added = " --set training.max_steps=2"
    while line.count("training.max_steps=") > 1 and added in line:
        line = line.replace(added, "", 1)
    return line


def is_shell(block: Block) -> bool:
    return block.language == "bash" or (block.language == "indented" and block.page in MEASURED)


SHELL = [block for page in TEXTS for block in BLOCKS[page] if is_shell(block)]


def desk(folder: Path, encoders: list[str], tiny_folder: Path) -> Path:
    """A reader's folder, with the files that the pages speak of."""
    sentences = sample.TRAIN.read_text().splitlines()
    write_lines(folder / "corpus.txt", sentences[:120])
    write_lines(folder / "sentences.txt", filter(None, sentences[:60]))
    write_lines(folder / "domain.txt", sentences[300:400])
    write_lines(folder / "grown.txt", sentences[:180])
    with sample.PAIRS.open() as stream, (folder / "pairs.csv").open("w", newline="") as out:
        rows = list(csv.reader(stream))[1:80]
        csv.writer(out).writerows([["question", "answer"], *rows])
    graded = sample.DEV.read_text().splitlines()
    write_lines(folder / "pairs-graded.tsv", graded)
    for task in TASKS.values():
        (folder / "sts-data" / task.key).mkdir(parents=True)
        for number, subset in enumerate(task.subsets):
            lines = graded[20 * number : 20 * number + 20]
            write_lines(folder / "sts-data" / task.key / f"{subset}.tsv", lines)
    write_lines(folder / "sts-data" / "stsb" / "dev.tsv", graded[:20])
    asked = {"q": sentences[0], "r": sentences[1]}
    write_collection(folder / "queries", dict(enumerate(sentences[:50])), asked, [("q", 0, 1), ("r", 2, 1)])
    rows_of_text = "".join(json.dumps({"text": sentence}) + "\n" for sentence in filter(None, sentences[:60]))
    (folder / "corpus.jsonl.gz").write_bytes(gzip.compress(rows_of_text.encode()))
    (folder / "corpus.jsonl").write_text(rows_of_text)
    (folder / "texts" / "a").mkdir(parents=True)
    (folder / "texts" / "a" / "one.txt.gz").write_bytes(gzip.compress("\n".join(sentences[:100]).encode()))
    for name in encoders:
        shutil.copytree(tiny_folder if name == "MODEL" else builtin_folder(), folder / name)
    return folder


def test_every_block_says_its_language_and_few_are_not_run() -> None:
    pages = [block for page in READ for block in BLOCKS[page]]
    assert [str(block) for block in pages if block.language not in LANGUAGES and block.page not in FORMULAS] == []
    marked = [block for block in pages if block.not_run]
    assert [f"{block}: {block.not_run}" for block in marked if len(block.not_run.split()) < 2] == []
    assert len(marked) == NOT_RUN, "run the new block, or give its reason and raise the number"
    for block in marked:
        if block.language == "python":
            compile(block.code, str(block), "exec")


@contextmanager
def piped(text: str) -> Iterator[None]:
    """Gives this process a standard input, which commands read by its descriptor."""
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        before = os.dup(0)
        os.dup2(file.fileno(), 0)
        try:
            yield
        finally:
            os.dup2(before, 0)
            os.close(before)


@pytest.mark.slow
@pytest.mark.parametrize("page", READ)
def test_a_reader_can_do_what_a_page_shows(
    page: str,
    tmp_path: Path,
    tiny_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """All blocks of a page, from the first to the last, in one folder and with one set of Python names."""
    runnable = [block for block in BLOCKS[page] if not block.not_run and block.language in ("bash", "python", "text")]
    if not runnable:
        return
    monkeypatch.chdir(desk(tmp_path, ENCODERS.get(page, []), tiny_folder))
    monkeypatch.setenv("COLUMNS", "130")  # as wide as the tables of the pages
    for language, name in SAVED.get(page, []):
        Path(name).write_text(blocks(page, language)[0])
    if "import mteb" in TEXTS[page]:
        mteb = pytest.importorskip("mteb")
        # The task itself is fetched from the network; the encoder is given texts as a task gives them.
        monkeypatch.setattr(mteb, "evaluate", lambda model, tasks: SimpleNamespace(model=model, tasks=tasks))
        monkeypatch.setattr(mteb, "get_tasks", lambda names: names)
    names: dict[str, object] = {"__name__": "__main__"}
    printed, everything = "", ""
    for block in runnable:
        if block.language == "python":
            exec(compile("\n" * (block.line - 1) + shortened(block.code), page, "exec"), names)
        for command in commands(block) if block.language == "bash" else ():
            monkeypatch.setattr(sys, "argv", shlex.split(command))
            with piped("The kettle boils.\nSnow fell.\n"), pytest.raises(SystemExit) as end:
                main()
            assert not end.value.code, f"{block}: {command}\n{capsys.readouterr().err[-2000:]}"
        if block.language == "text":
            assert not_printed(block.code, printed) == [], f"{block}: the commands above it print\n{printed}"
        else:
            printed = "".join(capsys.readouterr())
            everything += printed
    if "import mteb" in TEXTS[page]:
        assert names["results"].model.mteb_model_meta.name.endswith("my-encoder")  # type: ignore[attr-defined]
    if page == "README.md":
        assert "(2, 448)" in everything  # of opencse-mini
    if page.endswith("questions.md"):
        assert TEMPLATE in TEXTS[page]


@pytest.mark.parametrize("page", TEXTS)
def test_shell_blocks_are_sound(page: str) -> None:
    """The shell can read them; every command, option, recipe, setting, script and make target in them exists."""
    bash = shutil.which("bash")
    assert bash is not None
    shell = [block for block in SHELL if block.page == page]
    code = "\n".join(block.code for block in shell)
    checked = subprocess.run([bash, "-n"], input=code, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    for block in shell:
        require_names(block)
    for line in re.findall(r"`(opencse [^`]+)`", re.sub(r"\n", " ", TEXTS[page])):
        require_options(line, whole=False)


def require_names(block: Block) -> None:
    for line in commands_of(block.code, "opencse"):
        require_options(line, whole=not block.not_run or block.page in MEASURED)
    for line in commands_of(block.code, "python"):
        words = shlex.split(line)
        if words[1].endswith(".py"):
            script = ROOT / words[1]
            assert script.is_file(), line
            options = {word.split("=")[0].removeprefix("--") for word in words if word.startswith("--")}
            assert [name for name in sorted(options) if name.replace("-", "_") not in names_in(script)] == [], line
    makefile = (ROOT / "Makefile").read_text()
    for line in commands_of(block.code, "make"):
        assert f"\n{shlex.split(line)[1]}:" in makefile, line


def names_in(script: Path) -> set[str]:
    """Every name and option that a script holds, with underscores."""
    return {name.replace("-", "_") for name in re.findall(r"[a-z][a-z0-9_-]*", script.read_text())}


def require_options(line: str, *, whole: bool) -> None:
    """Every option of a command exists; of a ``whole`` one also all arguments are there, and recipes and settings."""
    words = shlex.split(re.sub(r"\[(--[^]]*)\]|\.\.\.", r"\1", line))
    command, rest = of_the_command_line(words)
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert {word.split("=")[0] for word in rest if word.startswith("--")} <= known | {"--help"}, line
    if not whole:
        return
    if not any(word in ("--out", "-o") for word in rest) and any("--out" in p.opts for p in command.params):
        rest += ["--out", "OUT"]  # left out where it is of no interest
    parsed = command.make_context(words[1], list(rest)).params
    for recipe in [parsed.get("recipe"), *(parsed.get("recipes") or "").split(",")]:
        if recipe and not recipe.endswith(".toml") and "$" not in recipe:
            resolve_recipe(recipe, overrides=parsed.get("set_") or [] if "static" not in words else [])


def test_the_table_of_starts_is_what_was_measured() -> None:
    """Each score of the README is in the results, in a row of its collection; the means are right, in the guide too."""
    table = [line.split(" | ") for line in TEXTS["README.md"].splitlines() if line.startswith(("| `", "| adapted"))]
    assert len(table) == 6
    results, small = (
        [line.strip("| ").split(" | ") for line in TEXTS[f"docs/results/{name}.md"].splitlines()]
        for name in ("adapt", "models")
    )
    for number, (start, *cells, mean, _users) in enumerate(table):
        measured, adapted = [], start.startswith("| adapted")
        for collection in ("Cranfield", "SciFact", "docstrings", "manuals", "dictionary"):
            if number in (2, 3, 5):
                rows = [row for row in small if row[0].endswith(collection) and len(row) == 6 + (number != 3)]
                found = rows[-1][3] if number == 5 else rows[0][4]
            else:
                row = [row for row in results if row[0] == collection and len(row) == 7][number // 4]
                found = row[4 if adapted else 2]
            measured.append(float(found.split(" ± ")[0].strip("*")))
        assert [float(cell) for cell in cells] == pytest.approx(measured, abs=0.051)
        assert float(mean.strip("*")) == pytest.approx(sum(measured) / 5, abs=0.051)
    means = [row[6].strip("* ") for row in table]
    guide = [line.split(" | ")[-4:-2] for line in TEXTS["docs/guides/adapt.md"].splitlines() if line.startswith("| `")]
    assert [mean for row in guide[:3] for mean in row if mean != "-"] == means


@pytest.mark.parametrize("page", ["docs/how-it-works.md", "docs/guides/parts.md", "CONTRIBUTING.md"])
def test_files_that_a_page_names_exist(page: str) -> None:
    """A path such as `objective/losses/` is below the package, one that begins with src or tests below the root."""
    named = set(re.findall(r"`((?:[a-z_0-9]+/)+(?:[a-z_0-9]+\.py)?)`", TEXTS[page])) - {"last/", "checkpoint/"}
    assert [
        name for name in sorted(named) if not ((ROOT / name).exists() or (ROOT / "src/opencse" / name).exists())
    ] == []


def test_the_container_copies_what_is_there_and_its_command_exists() -> None:
    lines = (ROOT / "Containerfile").read_text().splitlines()
    copied = [word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]]
    assert copied
    assert [name for name in copied if not (ROOT / name).exists()] == []
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert [name for name in copied if f"!{name.removeprefix('./')}" not in ignored] == []
    command = json.loads(next(line for line in lines if line.startswith("CMD [")).removeprefix("CMD "))
    require_options(shlex.join(["opencse", *command]), whole=True)
    assert "torch==" in (ROOT / "constraints.txt").read_text()


def of_the_command_line(words: list[str]) -> tuple[Any, list[str]]:
    """The command that ``opencse WORD ...`` names, and what is left of the words."""
    command: Any = typer.main.get_command(app)
    rest = words[1:]
    while hasattr(command, "list_commands") and rest and not rest[0].startswith("-"):
        assert rest[0] in command.list_commands(None), f"no command {rest[0]!r}"
        command, rest = command.get_command(None, rest[0]), rest[1:]
    return command, rest


def test_links_lead_somewhere() -> None:
    for document, text in TEXTS.items():
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
            assert target.startswith("http") or ((ROOT / document).parent / target).exists(), target


NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebook.ipynb"


CELLS = json_in(NOTEBOOK)["cells"]


CODE = ["".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "code"]


def test_no_output_is_kept() -> None:
    assert [cell for cell in CELLS if cell.get("outputs") or cell.get("execution_count")] == []


@pytest.mark.slow
def test_every_cell_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    printed = []
    for number, cell in enumerate(CODE):
        exec(compile(shortened(cell), f"cell {number}", "exec"), names)
        printed.append(capsys.readouterr().out)
    checked, adapted, evaluated, found = printed
    assert "sentences" in checked
    assert adapted.splitlines()[0] in ("best", "start", "given")
    assert evaluated.count("nDCG@10") == 2
    assert "contour" in found.lower() or "map" in found.lower(), "the search finds what was asked for"
    assert (tmp_path / "my-model" / "modules.json").is_file()
