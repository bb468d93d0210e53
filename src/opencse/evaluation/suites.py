"""The list of suites, and which of them a folder holds."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from opencse.errors import UserError, nearest
from opencse.evaluation.probing import PROBING_TASKS, Probing
from opencse.evaluation.regression import Regression
from opencse.evaluation.retrieval.data import CORPUS
from opencse.evaluation.retrieval.score import Retrieval
from opencse.evaluation.sts import HUB, Sts, StsDev
from opencse.evaluation.sts import TASKS as STS_TASKS
from opencse.evaluation.suite import Suite
from opencse.evaluation.transfer import TRANSFER_TASKS, Transfer
from opencse.text.files.lines import COMPRESSED, suffix_of

SUITES: dict[str, type[Suite[Any]]] = {
    suite.name: suite for suite in (Sts, StsDev, Regression, Transfer, Probing, Retrieval)
}
"""By name, in the order of the papers' tables."""


def suite_named(name: str) -> type[Suite[Any]]:
    """Returns the suite called ``name``.

    Raises:
        UserError: naming the known ones.
    """
    if name not in SUITES:
        raise UserError(f"unknown suite {name!r}{nearest(name, SUITES)}; there are: {', '.join(SUITES)}")
    return SUITES[name]


def recognised(folder: Path) -> list[str]:
    """Recognises the suites whose data is in a folder, by the names in it; none where the names are unknown."""
    if not folder.is_dir():
        return []
    entries = sorted(folder.iterdir())
    names = {entry.name for entry in entries}
    corpora = [f"{CORPUS}{suffix}" for suffix in ("", *COMPRESSED)]
    tables: tuple[tuple[str, Collection[str]], ...] = (
        (Retrieval.name, corpora),
        (Sts.name, STS_TASKS),
        (Transfer.name, TRANSFER_TASKS),
        (Probing.name, [*PROBING_TASKS, *(f"{key}.txt" for key in PROBING_TASKS)]),
    )
    suites = [suite for suite, tasks in tables if names & set(tasks)]
    if Retrieval.name not in suites and any((entry / name).is_file() for entry in entries for name in corpora):
        suites.append(Retrieval.name)
    return suites


def _require_of(data: Path, suite: str) -> None:
    """Raises an error for data of another suite only.

    Raises:
        UserError: with the suite to give instead.
    """
    if data.is_file() and suffix_of(data) in (".tsv", ".csv", ".jsonl"):
        raise UserError(
            f"{data}: is a file, and a suite's tasks are in a folder; your own graded pairs (score, sentence, "
            "sentence) are scored as the task stsb: copy the file to mine/stsb/test.tsv, and give --data mine "
            "--tasks stsb"
        )
    suites = recognised(data)
    if suites and SUITES[suite].folder not in (SUITES[one].folder for one in suites):
        content = (
            "queries with relevant documents" if suites[0] == Retrieval.name else f"tasks of the suite {suites[0]}"
        )
        raise UserError(
            f"{data}: holds {content}, not {suite}; evaluate it with --suite {suites[0]} "
            f"--data {shlex.quote(str(data))}"
        )


def suite_folder(data: str | Path, suite: str, among: Iterable[str] = ()) -> Path:
    """Finds a suite's tasks: in its folder within ``data`` if there is one, else in ``data`` itself.

    Args:
        data: a folder of suites, the folder of one suite, or ``hub``.
        suite: its name.
        among: names of the suites that are read from ``data`` too. Those whose tasks are in one folder (``sts`` and
            ``dev``) can be read from ``data`` itself.

    Raises:
        UserError: if suites of other folders are read too, and ``data`` holds no folder of that name.
    """
    name = suite_named(suite).folder
    alone = all(suite_named(other).folder == name for other in among)
    inside = Path(data) / name
    if str(data) != HUB and not inside.is_dir():
        _require_of(Path(data), suite)
    if str(data) == HUB or (alone and not inside.is_dir()):
        return Path(data)
    if not inside.is_dir():
        raise UserError(f"{data}: no folder {name!r} in it; several suites are read from one folder each")
    return inside
