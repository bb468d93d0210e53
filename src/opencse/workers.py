"""Divides long work among processes of this machine, which end with the process that started them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import wait as wait_for
from typing import Any, Generic, TypeVar

from opencse.errors import UserError

T = TypeVar("T")
R = TypeVar("R")
_TICK = 0.2


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Workers(Generic[T, R]):
    """A pool of processes, each of which does one task at a time; see `started`."""

    def __init__(self, pool: ProcessPoolExecutor, work: Callable[[T], R], count: int) -> None:
        self._pool, self._work, self._count = pool, work, count

    def done(self, tasks: Iterable[T], tick: Callable[[], None]) -> Iterator[tuple[T, R]]:
        """Each task with its result, in the order in which they end; at most one task more than processes is in memory.

        Args:
            tasks: taken when there is room for the next one.
            tick: called several times per second while no task has ended.

        Raises:
            UserError: if a process is killed.
        """
        waiting: dict[Future[R], T] = {}
        more = iter(tasks)
        try:
            while True:
                while len(waiting) <= self._count and (task := next(more, None)) is not None:
                    waiting[self._pool.submit(self._work, task)] = task
                if not waiting:
                    return
                ended, _ = wait(waiting, timeout=_TICK, return_when=FIRST_COMPLETED)
                tick()
                for future in ended:
                    yield waiting.pop(future), future.result()
        except BrokenProcessPool:
            raise UserError(
                "a worker process ended before its work (killed, or no memory left?); run the same command again to "
                "continue, with fewer processes (in a script, start the work under if __name__ == '__main__')"
            ) from None


@contextmanager
def started(
    count: int,
    work: Callable[[T], R],
    begin: Callable[..., object],
    *arguments: Any,  # noqa: ANN401 - of any kind
    finish: bool = False,
) -> Iterator[Workers[T, R]]:
    """Starts ``count`` processes that do ``work``, each after a call of ``begin(*arguments)``.

    They are new interpreters, so functions must be defined in modules, and arguments can be pickled or shared by
    `multiprocessing` (values, queues). They end with the block, and with this process however it ends.
    Where the block is left early they are ended at once, or with ``finish`` by themselves: what is begun is done, and
    Ctrl-C reaches them.
    """
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(count, mp_context=context, initializer=_begin, initargs=(begin, arguments, finish))
    completed = finish
    try:
        yield Workers(pool, work, count)
        completed = True
    finally:
        processes = [] if completed else list((pool._processes or {}).values())
        for process in processes:  # their results are not needed any more
            process.terminate()
        pool.shutdown(wait=True, cancel_futures=True)


def _begin(begin: Callable[..., object], arguments: tuple[Any, ...], finish: bool) -> None:
    if not finish:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent ends the others
    threading.Thread(target=_end_with_parent, daemon=True).start()
    begin(*arguments)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)
