"""Every command over texts, dev pairs, models and data that it cannot read."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import Run, accepted
from hostile.harness import Case, cases, refuse
from hostile.worlds import BAD_PAIRS, BAD_TEXTS, DATA, MODELS

pytestmark = pytest.mark.slow

READERS = {
    "check": "check {text} --model tiny",
    "train": "train {text} --out new --model tiny --dev none",
    "dry-run": "train {text} --out new --model tiny --dev none --dry-run",
    "pretrain": "pretrain {text} --out new --vocabulary 200",
    "static": "static {text} --out new --model tiny",
    "encode": "encode tiny {text} --out new.npy",
    "whiten": "whiten tiny {text} --out new",
    "calibrate": "calibrate tiny {text}",
    "nearest": "nearest tiny --query One. --corpus {text}",
    "analyze": "analyze tiny --out new --text {text}",
}
NAMES = (*BAD_TEXTS, "missing.txt", "folder.txt", "file/inside.txt", "nobody/nothing", "x" * 300 + ".txt")
WITHOUT_TEXT = ("null.jsonl", "empty-cell.csv")  # rows and documents without a text are left out and counted
TEXTS = [
    Case(line.format(text=name), (name[:40],))
    for command, line in READERS.items()
    for name in NAMES
    if command == "encode" or name not in WITHOUT_TEXT  # whose vectors have the numbers of rows
]

QUERIES = [Case(f"nearest tiny --corpus good.txt --queries {name}", (name[:40],)) for name in NAMES]

PAIRS = [
    Case(line.format(pairs=name), (name[:40],))
    for line in (
        "train good.txt --out new --model tiny --dev {pairs}",
        "train good.txt --out new --model tiny --dry-run --dev {pairs}",
        "analyze tiny --out new --pairs {pairs}",
        "calibrate tiny good.txt --pairs {pairs}",
    )
    for name in (*BAD_PAIRS, "missing.tsv", "folder.tsv", "file/inside.tsv")
]

LOADERS = {
    "check": "check good.txt --model {model}",
    "train": "train good.txt --out new --dev none --model {model}",
    "pretrain": "pretrain good.txt --out new --model {model}",
    "static": "static good.txt --out new --model {model}",
    "evaluate": "evaluate {model} --data data",
    "encode": "encode {model} good.txt --out new.npy",
    "similarity": "similarity {model} One. Two.",
    "whiten": "whiten {model} good.txt --out new",
    "calibrate": "calibrate {model} good.txt",
    "nearest": "nearest {model} --query One. --corpus good.txt",
}
NO_MODELS = ("./missing", "empty", "file", "file/inside", "nobody/nothing", "data")
ONLY_WEIGHTS = (
    "model-weights", "model-no-weights", "model-kind", "model-zero", "model-nan", "model-outside", "model-many-layers",
)  # fmt: skip
BAD_MODELS = [
    Case(line.format(model=name), late=command in ("evaluate", "nearest"))
    for command, line in LOADERS.items()
    for name in (*MODELS, *NO_MODELS)
    if not (command in ("check", "static") and name in ONLY_WEIGHTS)  # they read the tokenizer alone
    and not (command == "check" and name == "model-kind")
    and not (command == "static" and name.startswith("model-prompt"))
]

EVALUATIONS = [
    *(Case(f"evaluate tiny --data {name}", (name,)) for name in DATA),
    *(Case(f"evaluate bag-of-words --data {name}", (name,)) for name in ("missing", "empty", "file", "folder.txt")),
    *(
        Case(f"evaluate tiny --data {name} --suite {suite}", (name,))
        for suite in ("sts-regressor", "transfer", "probing", "retrieval")
        for name in ("missing", "empty", "file", "tiny")
    ),
    Case("evaluate tiny --data empty --suite sts,transfer", ("no folder 'sts'",)),
    Case("evaluate tiny --data data --suite st", ("unknown suite 'st'", "did you mean 'sts'")),
    Case("evaluate tiny --data data --suite ''", ("--suite is empty",)),
    Case("evaluate tiny --data data --tasks sts99", ("sts99",)),
    Case("evaluate words:missing.vec --data data", ("missing.vec",)),
    Case("evaluate words: --data data", ("names no file",)),
    Case("evaluate words:binary.txt --data data", ("binary.txt",)),
    Case("evaluate tiny --data data --transform whitening --fit missing.txt", ("missing.txt",)),
    Case("evaluate tiny --data data --transform whitening --fit binary.txt", ("binary.txt",)),
]


@cases(TEXTS)
def test_texts(case: Case, opencse: Run, world: Path) -> None:
    refuse(case, opencse, world)


@cases(QUERIES)
def test_queries(case: Case, opencse: Run, world: Path) -> None:
    refuse(case, opencse, world)


@cases(PAIRS)
def test_pairs(case: Case, opencse: Run, world: Path) -> None:
    refuse(case, opencse, world)


@cases(BAD_MODELS)
def test_models(case: Case, opencse: Run, world: Path) -> None:
    refuse(case, opencse, world)


@cases(EVALUATIONS)
def test_evaluation_data(case: Case, opencse: Run, world: Path) -> None:
    refuse(case, opencse, world)


def test_the_commands_work_where_the_files_are_good(opencse: Run, world: Path, tmp_path: Path) -> None:
    del world
    for line in (
        "check good.txt --model tiny",
        "similarity tiny One. Two.",
        f"encode tiny good.txt --out {tmp_path}/v.npy",
    ):
        accepted(opencse(*line.split()))
