"""Kills a process at a chosen moment. Imports little, since a process that is killed often has to be light."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from typing import Any


def kill_after(step: int, functions: Iterable[tuple[Any, str]]) -> None:
    """Kills this process (a forked one) before or after a call of some functions: the ``step``-th of these moments.

    Args:
        step: from 1; two per call.
        functions: owner and name of each function that changes a file.
    """
    remaining = step

    def moment() -> None:
        nonlocal remaining
        remaining -= 1
        if remaining == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **named: Any) -> Any:
            moment()
            result = function(*arguments, **named)
            moment()
            return result

        return called

    for owner, name in functions:
        setattr(owner, name, counted(getattr(owner, name)))
