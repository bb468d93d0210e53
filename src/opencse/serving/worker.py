"""A thread of its own for what must not run on the event loop, one thing at a time."""

from __future__ import annotations

import queue
import threading
from asyncio import wrap_future
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Worker:
    """Calls what it is given on one thread, in order. What was cancelled before its turn is not called.

    The thread is a daemon, so that a process that is told to end at once does.
    """

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def call(self, function: Callable[[], T]) -> T:
        """What ``function`` returns or raises, once its turn has come."""
        future: Future[T] = Future()
        self._calls.put((future, function))
        return await wrap_future(future)

    def close(self) -> None:
        """Ends the thread after all that was asked for."""
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
            except BaseException as error:  # whoever asked hears of it
                future.set_exception(error)
            else:
                future.set_result(result)
            del call, future, function  # not kept until the next call comes
