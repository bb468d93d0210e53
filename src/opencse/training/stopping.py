"""Lets a block end cleanly on Ctrl-C or SIGTERM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_requests(*, once: bool) -> Iterator[threading.Event]:
    """Yields an event that Ctrl-C and SIGTERM set, so that the block can end cleanly; then restores the handlers.

    Args:
        once: whether a second signal stops immediately. In several processes it must not: their launcher sends the
            signal to all, and each may have received it already.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def request(number: int, frame: FrameType | None) -> None:
        del number, frame
        if stop.is_set() and once:
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
