"""Every command x every place it writes to x what may be there already: nothing of the user's is changed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from helpers import Run, write_lines
from hostile.harness import Case, refuse
from opencse.cli.app import COMMANDS, app
from opencse.encoder.encoder import SentenceEncoder
from opencse.search.index import Index

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Output:
    """A place that a command writes to.

    Attributes:
        command: as typed, in the world's folder; ``{}`` is the place.
        inputs: what it reads; each of them is tried as the place.
        file: whether the place is a file; else it is a folder.
        more: what is typed for the same command with leave to replace what is there; empty where there is none.
    """

    command: str
    inputs: tuple[str, ...]
    file: bool = False
    more: str = ""


TEXT, MODEL, PAIRS, GRADED, IX, STS = "in/good.txt", "in/tiny", "in/pairs.jsonl", "in/good.tsv", "in/ix", "in/data/sts"
OUTPUTS: dict[tuple[str, str], Output] = {
    ("adapt", "--out"): Output(f"adapt {TEXT} --model {MODEL} --out {{}}", (TEXT, MODEL), more="--overwrite"),
    ("train", "--out"): Output(
        f"train {TEXT} --model {MODEL} --dev {GRADED} --out {{}}", (TEXT, MODEL, GRADED), more="--overwrite"
    ),
    ("pretrain", "--out"): Output(f"pretrain {TEXT} --out {{}}", (TEXT,), more="--overwrite"),
    ("check", "--json"): Output(f"check {TEXT} --model {MODEL} --json {{}}", (TEXT, MODEL), file=True),
    ("evaluate", "--json"): Output(f"evaluate {MODEL} --data in/data --json {{}}", (MODEL, STS), file=True),
    ("analyze", "--out"): Output(f"analyze {MODEL} --text {TEXT} --data in/data --out {{}}", (MODEL, TEXT, STS)),
    ("compare", "--out"): Output(
        f"compare {TEXT} --data in/data --recipes simcse --starts {MODEL} --seeds 1 --out {{}}", (TEXT, MODEL, STS)
    ),
    ("reproduce", "--out"): Output(
        f"reproduce simcse:bert-base {TEXT} --data in/data --model {MODEL} --out {{}}", (TEXT, MODEL, STS)
    ),
    ("encode", "--out"): Output(f"encode {MODEL} {TEXT} --out {{}}", (TEXT, MODEL), more="--overwrite"),
    ("index build", "INDEX"): Output(f"index build {{}} {MODEL} {TEXT}", (TEXT, MODEL), more="--overwrite"),
    ("index build", "--json"): Output(f"index build new {MODEL} {TEXT} --json {{}}", (TEXT, MODEL), file=True),
    ("index query", "--json"): Output(f"index query {IX} One. --queries {TEXT} --json {{}}", (IX, TEXT), file=True),
    ("index info", "--json"): Output(f"index info {IX} --json {{}}", (IX,), file=True),
    ("index pairs", "--json"): Output(f"index pairs {IX} --json {{}}", (IX,), file=True),
    ("index duplicates", "--json"): Output(f"index duplicates {IX} --json {{}}", (IX,), file=True),
    ("index negatives", "--out"): Output(f"index negatives {IX} {PAIRS} --out {{}}", (IX, PAIRS), file=True),
    ("index negatives", "--json"): Output(
        f"index negatives {IX} {PAIRS} --out new.jsonl --json {{}}", (IX, PAIRS), file=True
    ),
    ("index tune", "--json"): Output(f"index tune {IX} --json {{}}", (IX,), file=True),
    ("questions", "--out"): Output(
        f"questions {TEXT} --endpoint http://127.0.0.1:9 --model m --out {{}}", (TEXT,), file=True
    ),
    ("label", "--out"): Output(f"label {IX} --out {{}} --port 0 --no-open", (IX,)),
    ("label", "--json"): Output(f"label {IX} --out new-labels --score --json {{}}", (IX,), file=True),
    ("index export", "TARGET"): Output(f"index export {IX} lancedb {{}}", (IX,)),
    ("nearest", "--json"): Output(
        f"nearest {MODEL} --query One. --corpus {TEXT} --json {{}}", (MODEL, TEXT), file=True
    ),
    ("export onnx", "--out"): Output(f"export onnx {MODEL} --text {TEXT} --out {{}}", (MODEL, TEXT)),
    ("export static", "--out"): Output(f"export static {MODEL} --corpus {TEXT} --out {{}}", (MODEL, TEXT)),
    ("merge", "--out"): Output(f"merge {MODEL} --out {{}}", (MODEL,)),
    ("whiten", "--out"): Output(f"whiten {MODEL} {TEXT} --out {{}}", (MODEL, TEXT)),
    ("static", "--out"): Output(f"static {TEXT} --model {MODEL} --out {{}}", (TEXT, MODEL)),
    ("demo", "--out"): Output("demo --out {}", ()),
}
"""By command, and the option or argument that names the place."""

IN_PLACE = {"calibrate", "finish", "index add", "index delete"}
"""Commands that change what they are given, and only that: their own index, model or run."""
NOWHERE = {
    "doctor", "push", "serve", "similarity", "recipes", "recipes show", "recipes diff", "recipes presets",
}  # fmt: skip
"""Commands that write no file that the user names."""
READ = {
    "--allow-host", "--api-key-file", "--pairs", "--queries", "--skip-lines", "--study",
}  # fmt: skip
"""Options that name files to read."""


def commands() -> Iterator[tuple[str, Any]]:
    """Every command as it is typed, with those inside groups."""
    for name in COMMANDS:
        command = app_command(name)
        inner = getattr(command, "commands", None)
        if inner:
            yield from ((f"{name} {one}", sub) for one, sub in inner.items())
        else:
            yield name, command


def app_command(name: str) -> Any:
    from typer.main import get_command

    return get_command(app).get_command(None, name)  # type: ignore[attr-defined]


def places() -> set[tuple[str, str]]:
    """Each option and argument of a command that names a place to write to, as far as its declaration says."""
    found = set()
    for name, command in commands():
        for parameter in command.params:
            option = next((one for one in parameter.opts if one.startswith("--")), "")
            kind = type(getattr(parameter, "type", None)).__name__
            if option in ("--out", "--json") or (option and "Path" in kind and option not in READ):
                found.add((name, option))
    return found


def test_every_place_that_a_command_writes_to_has_a_row() -> None:
    named = {name for name, _ in commands()}
    rows = {name for name, _ in OUTPUTS}
    assert named - rows - IN_PLACE - NOWHERE == set(), "a new command: add its outputs to the table"
    assert rows <= named
    assert places() - OUTPUTS.keys() == set(), "a new output: add it to the table"
    assert len(places()) > 15, "the table is made from the commands themselves"


UNWRITABLE = (
    ("in/good.txt/new", "cannot be written ("),
    ("/proc/nothing/new", "cannot be written ("),
    ("x" * 300, "name too long"),
    ("fresh/" + "x" * 300, "name too long"),
)
"""In a file, where nothing can be made, and with a name that is too long; and what is said."""


def tried(number: int, command: str, output: Output) -> Iterator[Case]:
    """A case of each kind of place; of the places of a kind, one is taken in turn by the outputs."""
    in_turn = output.inputs[number % len(output.inputs)] if output.inputs else "in/good.txt"
    places = ["mine.txt", "mine.json", "mine.npy", "mine.jsonl"][number % 4 : number % 4 + 1]
    places += [("mine", "words")[number % 2], "in", (".", "./", "../world")[number % 3], *output.inputs]
    if output.inputs:
        places += [
            f"links/{Path(in_turn).name}",
            *(f"hard/{Path(one).name}" for one in output.inputs[:1] if "." in one),
        ]
    for place in places:
        writes_file = command == "encode" or "--json" in output.command
        for more in dict.fromkeys(["", output.more or "--overwrite" * writes_file]):
            if not (more and writes_file and place.startswith("mine.")):  # --overwrite is leave to replace it
                yield Case(f"{output.command.format(place)} {more}".strip())
    place, why = UNWRITABLE[number % 4]
    ending = ".jsonl" if ".jsonl" in output.command or command in ("questions", "index negatives") else ""
    yield Case(output.command.format(place + ending), (why,))


@pytest.fixture(scope="module")
def taken_world(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path, small_sts: Path) -> Path:
    """Inputs in ``in``, links to them, and files and folders of somebody else."""
    world = tmp_path_factory.mktemp("taken") / "world"
    (world / "in").mkdir(parents=True)
    for folder in ("mine", "words", "links", "hard"):
        (world / folder).mkdir()
    lines = [f"The {one} cat sees the {other} dog." for one in ("old", "new", "red") for other in ("big", "sad", "odd")]
    write_lines(world / TEXT, lines)
    (world / PAIRS).write_text('{"anchor": "a cat", "positive": "the cat"}\n' * 4)
    write_lines(world / GRADED, (f"{number}\t{line}\t{lines[0]}" for number, line in enumerate(lines)))
    shutil.copytree(tiny_folder, world / MODEL)
    shutil.copytree(small_sts, world / STS)
    Index.build(world / IX, lines, SentenceEncoder.load(device="cpu"), model="opencse-mini").close()
    for name in ("mine.txt", "mine/notes.md", "mine.npy", "mine.jsonl", "words/words-2024", "words/rows-1.sqlite"):
        (world / name).write_text("Mine.\n")
    (world / "mine.json").write_text('{"pairs": 3, "queries": {"a": 1}}')
    (world / "words-2024").mkdir()
    (world / "words-2024" / "vectors-a.f32").write_text("Mine.\n")
    for source in {one for output in OUTPUTS.values() for one in output.inputs}:
        name = Path(source).name
        (world / "links" / name).symlink_to(world / source)
        if (world / source).is_file():
            os.link(world / source, world / "hard" / name)
    return world


@pytest.mark.parametrize("place", OUTPUTS, ids=" ".join)
def test_nothing_that_was_there_is_changed(
    place: tuple[str, str], opencse: Run, taken_world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(taken_world)
    for case in tried(list(OUTPUTS).index(place), place[0], OUTPUTS[place]):
        refuse(case, opencse, taken_world)


def test_two_outputs_of_one_command_are_two_places(
    opencse: Run, taken_world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(taken_world)
    for place in ("new", "new/info.json", "./new"):
        refuse(Case(f"index build new {MODEL} {TEXT} --json {place}", ("choose another --json",)), opencse, taken_world)
