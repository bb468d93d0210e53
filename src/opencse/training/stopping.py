"""Lets a block end cleanly on Ctrl-C or SIGTERM."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_TWICE = 1.0
"""Seconds within which two signals are one stop: ``timeout`` and launchers send theirs to the process and its group."""


@contextmanager
def stop_requests(*, once: bool) -> Iterator[threading.Event]:
    """Yields an event that Ctrl-C and SIGTERM set, so that the block can end cleanly; then restores the handlers.

    Args:
        once: whether a second signal, at least a second later, stops immediately. In several processes it must not:
            their launcher sends the signal to all, and each may have received it already.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    first = 0.0

    def request(number: int, frame: FrameType | None) -> None:
        nonlocal first
        del number, frame
        first = first or time.monotonic()
        if once and time.monotonic() - first >= _TWICE:
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
