"""What `compare` and `reproduce` have in common: the options that make a study."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from opencse.errors import UserError, shortened
from opencse.numerals import whole_number

if TYPE_CHECKING:
    from opencse.cli.console import ConsoleReporter
    from opencse.studies.record import RunRecord
    from opencse.studies.study import Study, SuiteChoice

_MOST_SEEDS = 10_000


def listed(text: str) -> list[str]:
    """The parts of a comma-separated list."""
    return [part.strip() for part in text.split(",") if part.strip()]


def seeds_of(text: str) -> list[int]:
    """``42,43,44`` or ``42-46`` as numbers.

    Raises:
        UserError: for anything else.
    """
    seeds: list[int] = []
    for part in listed(text):
        first, dash, last = part.partition("-")
        begin, end = whole_number(first), whole_number(last if dash else first)
        if begin is None or end is None or end < begin:
            raise UserError(f"--seeds: {shortened(part)!r} is neither a number nor a range such as 42-46")
        if end - begin >= _MOST_SEEDS:
            raise UserError(f"--seeds: {part!r} is more than {_MOST_SEEDS:,} seeds")
        seeds += range(begin, end + 1)
    return seeds


def suites_of(data: str, suites: str, fast: bool, device: str | None) -> list[SuiteChoice]:
    """The suites named, each with its folder."""
    from opencse.evaluation.suite import Options
    from opencse.evaluation.suites import suite_folder, suite_named
    from opencse.studies.study import SuiteChoice

    names = listed(suites)
    return [
        SuiteChoice(
            suite_named(name).name, suite_folder(data, name, alone=len(names) == 1), Options(fast=fast, device=device)
        )
        for name in names
    ]


def run_all(study: Study, workers: int, reporter: ConsoleReporter) -> list[RunRecord]:
    """Makes what is missing."""
    from opencse.errors import InterruptedRunError
    from opencse.studies.running import run_study

    try:
        return run_study(study, workers=workers, reporter=reporter)
    except (InterruptedRunError, KeyboardInterrupt):
        reporter.finish()
        told = f"stopped; what is finished is kept in {study.out}, and the same command goes on"
        raise InterruptedRunError(told) from None


def command_line() -> str:
    """The command as it was typed."""
    import shlex

    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
