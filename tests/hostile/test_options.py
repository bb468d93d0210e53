"""Options out of their range, places that cannot be written, devices that are not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import Run
from hostile.harness import Case, cases, refuse

pytestmark = pytest.mark.slow

DIGITS = "9" * 5_000
COMPARE = "compare good.txt --out new --data data --recipes simcse --starts tiny --seeds 1"
REPRODUCE = "reproduce simcse:bert-base good.txt --out new --data data --model tiny"

ON_DEVICES = {
    "train": "train good.txt --out new --model tiny --dev none",
    "evaluate": "evaluate tiny --data data",
    "encode": "encode tiny good.txt --out new.npy",
    "whiten": "whiten tiny good.txt --out new",
    "calibrate": "calibrate tiny good.txt",
    "nearest": "nearest tiny --query One. --corpus good.txt",
}
DEVICES = [
    Case(f"{line} --device '{device}'", ("device",), late=command == "nearest")
    for command, line in ON_DEVICES.items()
    for device in ("meta", "nope", "", "cuda:999", "hpu", "vulkan", DIGITS)
]

USAGE = [
    Case("nope", ("unknown command 'nope'",)),
    Case("trian", ("did you mean 'train'",)),
    Case("query good.txt", ("unknown command 'query'; did you mean opencse index query?",)),
    Case("onnx tiny", ("did you mean opencse export onnx?",)),
    Case("--nope", ("--nope",)),
    *(Case(command, ("Missing argument",)) for command in ("train", "encode")),
    Case("train good.txt", ("Missing option",)),
    Case("nearest tiny --query One.", ("corpus",)),
    Case("train good.txt --out new --sed 4", ("--sed",)),
    Case("train good.txt --out new --seed", ("--seed",)),
    Case("train good.txt more.txt --out new", ("more.txt",)),
    Case("train good.txt --out new --report=5", ("--report",)),
]

VALUES = [
    *(Case(f"train good.txt --out new --seed {seed}", ("seed",)) for seed in ("abc", "1.5", "-1")),
    *(Case(f"pretrain good.txt --out new --{option} 0", (option,)) for option in ("minutes", "tokens")),
    *(
        Case(f"static good.txt --out new --vocabulary {value}", (says,), late=True)
        for value, says in (
            ("999999999", "too large"),
            ("-1", "too small"),
            ("99", "too small"),
            ("abc", "--vocabulary"),
        )
    ),
    *(
        Case(f"static good.txt --out new --model tiny --{option} {value}", (option,))
        for option, value in (("dimension", "-1"), ("layers", "1.5"), ("window", "-1"), ("dimension", 10**12))
    ),
    Case("train good.txt --out new --model tiny --set training.batch_size=1000000000000", ("batch_size",)),
    Case("train good.txt --out new --model tiny --dev none --set data.max_length=65", ("max_length", "64")),
    Case("train good.txt --out new --recipe next-sentence --set training.epochs=0", ("epochs",)),
    Case("train good.txt --out new --model tiny --columns text", ("no columns",)),
    Case("train good.csv --out new --model tiny --columns 0", ("count from 1",)),
    Case("train good.csv --out new --model tiny --columns ancor", ("did you mean 'anchor'",)),
    Case(f"train good.csv --out new --model tiny --columns {DIGITS}", ("999",)),
    *(
        Case(f"pretrain good.txt --out new --skip-lines {name}", (name,))
        for name in ("skip-words.txt", "skip-long.txt", "missing", "empty")
    ),
    Case("check good.txt --model tiny --max-length 2", ("--max-length",)),
    Case("whiten tiny good.txt --out new --dimension 33", ("dimension",)),
    Case("nearest tiny --query One. --corpus good.txt -k 0", ("-k",)),
    Case("nearest tiny --corpus good.txt", ("no query",)),
    Case("nearest tiny tiny --query One. --corpus good.txt", ("named twice",)),
    Case("pretrain good.txt --out new --model tiny --layers 2", ("for a new backbone",)),
    *(
        Case(f"calibrate tiny good.txt --pairs good.tsv {option} {value}", says)
        for option, value, says in (
            ("--precision", "2", ("--precision",)),
            ("--cut", "x", ("--cut",)),
            ("--cut", "99", ()),
        )
    ),
    *(Case(f"evaluate tiny --data data --layers {value}", ("layer",)) for value in ("x", "-1", "1,,2", DIGITS)),
    *(
        Case(f"{line} --pooling {value}", ("pooling",), late=line.startswith("nearest"))
        for line in (*ON_DEVICES.values(), "similarity tiny One. Two.")
        if not line.startswith(("train", "calibrate"))
        for value in ("nope", "''")
    ),
    Case("evaluate tiny --data data --layers 9", ("layers 0", "to 3, not 9"), late=True),
    Case("evaluate tiny --data data --aggregation most", ("--aggregation",)),
    Case("evaluate tiny --data data --transform rotate", ("--transform",)),
    Case("evaluate bag-of-words --data data --layers 1", ("no layers",)),
    Case("similarity tiny One.", ("at least two texts",)),
    Case("encode tiny good.txt --out new.npy --precision int8", ("--precision",)),
    Case("encode tiny good.csv --out new.npy --column nope", ("nope",)),
    Case("analyze tiny --out new --query One.", ("--text",)),
    Case("analyze tiny tiny --out new", ("named twice",)),
    Case("analyze ./missing --out new", ("./missing",)),
]

STUDIES = [
    *(
        Case(COMPARE.replace("--seeds 1", f"--seeds '{seeds}'"), ("seed",))
        for seeds in ("x", "", "-1", "3-1", "1-", "1,1", "1-999999999999", 2**63, DIGITS, f"1-{DIGITS}")
    ),
    Case(f"{COMPARE} --metric nope", ("'nope'", "sts")),
    Case(f"{COMPARE} --baseline nope", ("'nope'",)),
    Case(f"{COMPARE} --suites st", ("unknown suite",)),
    Case(f"{COMPARE} --set training.seed=3", ("training.seed",)),
    Case(f"{COMPARE} --set training.epochs=nan", ("training.epochs",)),
    Case(f"{COMPARE} --workers 0", ("--workers",)),
    Case(f"{COMPARE} --resamples -1", ("--resamples",)),
    Case(f"{COMPARE} --columns a,b,c,d", ("4 columns",)),
    Case(COMPARE.replace("simcse", "nope"), ("unknown recipe 'nope'",)),
    Case(COMPARE.replace("simcse", "simcse,simcse"), ("named twice",)),
    Case(COMPARE.replace("--data data", "--data empty"), ("empty",)),
    Case(f"{REPRODUCE} --seeds x", ("--seeds",)),
    Case(f"{REPRODUCE} --set training.epochs=nan", ("training.epochs",), late=True),
    Case(REPRODUCE.replace("simcse:bert-base", "simcse"), ()),
    Case(REPRODUCE.replace("simcse:bert-base", "simcse:nope"), ("no preset 'nope'",)),
]

WRITERS = [
    Case("encode tiny good.txt --out new.txt", (".npy",)),
    Case("train good.txt --model tiny --dev none --out ''", ("--out",)),
]


@cases(DEVICES)
def test_devices(case: Case, opencse: Run, world: Path) -> None:
    refuse(case, opencse, world)


@cases(USAGE)
def test_usage(case: Case, opencse: Run, world: Path) -> None:
    refuse(case, opencse, world)


@cases(VALUES)
def test_values(case: Case, opencse: Run, world: Path) -> None:
    refuse(case, opencse, world)


@cases(STUDIES)
def test_studies(case: Case, opencse: Run, world: Path) -> None:
    refuse(case, opencse, world)


@cases(WRITERS)
def test_places(case: Case, opencse: Run, world: Path) -> None:
    refuse(case, opencse, world)
