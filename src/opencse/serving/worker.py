"""Runs blocking calls on one thread, one after the other, so that the event loop is not blocked."""

from __future__ import annotations

import queue
import threading
from asyncio import wrap_future
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Worker:
    """Calls functions on one thread, in order; cancelled calls are skipped.

    Example:
        >>> import asyncio
        >>> worker = Worker("example")
        >>> asyncio.run(worker.call(lambda: 6 * 7))
        42
        >>> worker.close()

    The thread is a daemon, so that the process can exit at once.
    """

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def call(self, function: Callable[[], T]) -> T:
        """Returns or raises what ``function`` does, after the calls before it."""
        future: Future[T] = Future()
        self._calls.put((future, function))
        return await wrap_future(future)

    def close(self) -> None:
        """Ends the thread after the calls so far."""
        self._calls.put(None)
        self._thread.join()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            future, function = call
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = function()
            except BaseException as error:  # raised in the caller
                future.set_exception(error)
            else:
                future.set_result(result)
            del call, future, function  # do not keep them alive until the next call
