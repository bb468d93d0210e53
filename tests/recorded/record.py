"""Makes a record, writes and reads it, and compares two."""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import torch

from helpers import json_in, write_tiny_bert
from recorded.suites import CASES, record_suite, write_data
from recorded.training import record_run, runs

STORED = Path(__file__).with_name("recorded.json")

Record = dict[str, dict[str, Any]]


def names() -> list[str]:
    """All that is recorded: runs, then suites."""
    return [*runs(), *CASES]


@contextmanager
def one_thread() -> Iterator[None]:
    """Sums are taken in one order only."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def masks() -> str:
    """A hash of a dropout mask: the same seed gives processors of another make other masks."""
    torch.manual_seed(0)
    kept = torch.nn.functional.dropout(torch.ones(64, 64), 0.1) > 0
    return hashlib.sha256(kept.numpy().tobytes()).hexdigest()


def recorder(folder: Path) -> Callable[[str], dict[str, Any]]:
    """Records one run or suite by name; the model and the data it needs are written to ``folder`` now."""
    tiny, data = write_tiny_bert(folder / "tiny", sd=0.2), write_data(folder / "data")
    number = count()

    def record(name: str) -> dict[str, Any]:
        with one_thread():
            if name in CASES:
                return record_suite(name, tiny, data)
            return record_run(name, tiny, folder / f"run-{next(number)}")

    return record


def make(chosen: Sequence[str]) -> Record:
    """What the package computes now for ``chosen``, and the masks it is computed with."""
    with tempfile.TemporaryDirectory() as folder:
        record = recorder(Path(folder))
        return {"machine": {"masks": masks()}} | {name: record(name) for name in chosen}


def write(path: Path, record: Record) -> None:
    """One line a key, so that a change shows which numbers moved."""
    parts = []
    for name, part in record.items():
        lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in part.items()]
        parts.append(f"{json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n}")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def read(path: Path) -> Record:
    """A record that `write` wrote."""
    record: Record = json_in(path)
    return record


def differences(
    before: Mapping[str, Mapping[str, Any]],
    now: Mapping[str, Mapping[str, Any]],
    *,
    relative: float = 0.0,
    absolute: float = 0.0,
) -> list[str]:
    """Where two records differ, a line each: name, key and step; of equal keys and steps, numbers beyond the tolerance.

    Without a tolerance every bit counts, and so do hashes of weights; with one, hashes are left out.
    """
    exact = relative == absolute == 0
    told = [f"{name}: only {'before' if name in before else 'now'}" for name in before.keys() ^ now.keys()]
    for name in (name for name in before if name in now):
        old, new = before[name], now[name]
        told += [f"{name}, {key}: only {'before' if key in old else 'now'}" for key in sorted(old.keys() ^ new.keys())]
        for key in (key for key in old if key in new):
            told += [f"{name}, {key}{where}" for where in _unequal(old[key], new[key], relative, absolute, exact)]
    return told


def _unequal(old: Any, new: Any, relative: float, absolute: float, exact: bool) -> Iterator[str]:
    if isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f": {len(old)} steps before, {len(new)} now"
        for step, (one, other) in enumerate(zip(old, new, strict=False)):
            yield from (f", step {step}{told}" for told in _unequal(one, other, relative, absolute, exact))
    elif isinstance(old, int | float) and isinstance(new, int | float):
        same = old == new or (math.isnan(old) and math.isnan(new))
        if not same and not (not exact and math.isclose(old, new, rel_tol=relative, abs_tol=absolute)):
            yield f": {old!r} before, {new!r} now"
    elif old != new and (exact or not (isinstance(old, str) and isinstance(new, str))):
        yield f": {old!r} before, {new!r} now"
