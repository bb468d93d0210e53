"""Every command on an index: foreign and damaged folders, texts, conditions and options without a meaning."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from helpers import Run, accepted, write_rows
from hostile.harness import Case, cases, refuse
from opencse import build_index

pytestmark = pytest.mark.slow

ROWS = [
    {"text": f"Row number {n} is about kettle {n}.", "id": f"r{n}", "n": n, "kind": "even" if n % 2 == 0 else "odd"}
    for n in range(12)
]
READERS = {
    "add": "index add {index} good.txt",
    "delete": "index delete {index} r1",
    "query": "index query {index} kettle",
    "hybrid": "index query {index} kettle --hybrid",
    "info": "index info {index}",
    "pairs": "index pairs {index}",
    "duplicates": "index duplicates {index}",
    "negatives": "index negatives {index} good.csv --columns anchor,positive --out new.jsonl",
    "export": "index export {index} lancedb new",
}
NO_INDEX = ("missing", "empty", "file", "file/inside", "tiny", "data", "good.txt", "folder.json")
FOLDERS = [
    Case(line.format(index=NO_INDEX[(number + more) % len(NO_INDEX)]))
    for number, line in enumerate(READERS.values())
    for more in (0, 3)
]

CONDITIONS = (
    "n=-NaN",
    "n>1e999",
    "n",
    "other=1",
    "n>=5;",
    "n=[NaN]",
)
WHERE = [
    Case(
        f"{('index query ix kettle', 'index query ix kettle --hybrid', 'index delete ix')[number % 3]} --where '{one}'"
    )
    for number, one in enumerate(CONDITIONS)
]

DAMAGED = (
    "cut-rows",
    "text-rows",
    "no-rows",
    "cut-vectors",
    "no-vectors",
    "cut-manifest",
    "list-manifest",
    "no-manifest",
)
BROKEN = [
    Case(READERS[command].format(index=f"ix-{kind}"), late=command == "add")
    for command, kinds in (("query", DAMAGED), ("pairs", DAMAGED[::3]), ("add", DAMAGED[1::3]))
    for kind in kinds
]

LISTED = "ix/files.txt"
"""The names of files that an index may make; a command that writes adds to them first."""
OPTIONS = [
    Case("index build new tiny missing.txt", ("missing.txt",), late=True),
    Case("index build new tiny rows.jsonl --columns text,text", late=True),
    Case("index build new tiny rows.jsonl --metadata nothing", ("nothing",), late=True),
    Case("index build new tiny rows.jsonl --metadata id", ("is no metadata",), late=True),
    Case("index build new tiny rows.jsonl --kind tree", ("--kind",)),
    Case("index build new tiny same-ids.jsonl --id id", ("r1",), late=True),
    Case("index build new tiny not-a-number.jsonl --metadata n", ("not-a-number.jsonl",), late=True),
    Case("index build new missing good.txt", ("missing",)),
    Case("index build new model-zero good.txt", late=True),
    Case("index build tiny tiny good.txt", ("tiny",), late=True),
    Case("index build file tiny good.txt", ("file",), late=True),
    Case("index build ix tiny good.txt", ("ix",), late=True),
    Case("index add ix missing.txt", ("missing.txt",)),
    Case("index add ix same-ids.jsonl --id id", ("r1",), late=True),
    Case("index delete ix r99", ("r99",)),
    Case("index delete ix"),
    Case("index query ix kettle -k 0"),
    Case("index query ix kettle --hybrid --threshold 0.5", ("no threshold",)),
    Case("index query ix kettle --hybrid-weight 0.5"),
    Case("index query ix kettle --hybrid --hybrid-weight 2"),
    Case("index query ix kettle --json ix/hits.json", late=True),
    Case("index query ix kettle --json rows.jsonl", ("rows.jsonl",), late=True),
    Case("index duplicates ix --threshold 2"),
    Case("index negatives ix missing.csv --out new.jsonl", ("missing.csv",)),
    Case("index negatives ix good.csv --columns anchor,positive --out good.csv", ("good.csv",), late=True),
    Case("index negatives ix good.csv --columns anchor,nothing --out new.jsonl", ("nothing",), late=True),
    Case("index export ix nowhere new", ("nowhere",)),
    Case("index export ix lancedb ix"),
]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small index of rows with numbers and words."""
    folder = tmp_path_factory.mktemp("index") / "ix"
    build_index(folder, "opencse-mini", ROWS)
    return folder


@pytest.fixture
def indexed(world: Path, sound: Path) -> Path:
    """The world with an index in it, damaged ones, and rows with faults; they go with the test."""
    shutil.copytree(sound, world / "ix")
    write_rows(world / "rows.jsonl", ROWS)
    (world / "same-ids.jsonl").write_text("".join(json.dumps(row | {"id": "r1"}) + "\n" for row in ROWS))
    (world / "not-a-number.jsonl").write_text("".join(json.dumps(row | {"n": float("nan")}) + "\n" for row in ROWS))
    return world


def damage(index: Path, kind: str) -> None:
    """Cuts, replaces or removes one file of an index."""
    how, _, what = kind.partition("-")
    pattern = {"rows": "*.sqlite", "vectors": "vectors-*", "manifest": "*.json"}[what]
    file = next(iter(sorted(index.glob(pattern))))
    if how == "no":
        file.unlink()
    elif how == "cut":
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    else:
        file.write_text("[1]" if how == "list" else "no rows at all\n" * 400)


@cases(FOLDERS)
def test_folders_that_are_no_index(case: Case, opencse: Run, world: Path) -> None:
    refuse(case, opencse, world)


@cases(WHERE)
def test_conditions(case: Case, opencse: Run, indexed: Path) -> None:
    refuse(case, opencse, indexed, LISTED)


@cases(OPTIONS)
def test_texts_and_options(case: Case, opencse: Run, indexed: Path) -> None:
    refuse(case, opencse, indexed, LISTED)


@cases(BROKEN)
def test_damaged_indexes(case: Case, opencse: Run, indexed: Path) -> None:
    folder = indexed / case.line.split()[2]
    shutil.copytree(indexed / "ix", folder)
    damage(folder, folder.name.removeprefix("ix-"))
    refuse(case, opencse, indexed)


def test_the_commands_work_where_the_index_is_sound(opencse: Run, indexed: Path) -> None:
    for line in ("index query ix kettle --where n=5", "index delete ix --where n>=11"):
        accepted(opencse(*line.split()))
    del indexed
