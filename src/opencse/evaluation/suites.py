"""The suites of tasks a model can be evaluated on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from opencse.errors import UserError, nearest
from opencse.evaluation.probing.score import Probing
from opencse.evaluation.regression.score import Regression
from opencse.evaluation.retrieval.score import Retrieval
from opencse.evaluation.sts.data import HUB
from opencse.evaluation.sts.dev import StsDev
from opencse.evaluation.sts.score import Sts
from opencse.evaluation.suite import Suite
from opencse.evaluation.transfer.score import Transfer

SUITES: dict[str, type[Suite[Any, Any, Any]]] = {
    suite.name: suite for suite in (Sts, StsDev, Regression, Transfer, Probing, Retrieval)
}
"""By name, in the order of the papers' tables."""


def suite_named(name: str) -> type[Suite[Any, Any, Any]]:
    """The suite called ``name``.

    Raises:
        UserError: naming those there are.
    """
    if name not in SUITES:
        raise UserError(f"unknown suite {name!r}{nearest(name, SUITES)}; there are: {', '.join(SUITES)}")
    return SUITES[name]


def suite_folder(data: str | Path, suite: str, *, alone: bool) -> Path:
    """Where a suite's tasks are: in its folder within ``data`` if that is there, else ``data`` itself.

    Args:
        data: a folder of suites, the folder of one suite, or ``hub``.
        suite: its name.
        alone: whether no other suite is asked for.

    Raises:
        UserError: if several are asked for and ``data`` holds no folder of that name.
    """
    name = suite_named(suite).folder
    inside = Path(data) / name
    if str(data) == HUB or (alone and not inside.is_dir()):
        return Path(data)
    if not inside.is_dir():
        raise UserError(f"{data}: no folder {name!r} in it; several suites are read from one folder each")
    return inside
