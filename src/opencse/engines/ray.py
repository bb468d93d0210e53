"""Distributes work over a Ray cluster: many small pieces by a Ray Data job, a few long tasks as Ray tasks.

Ray does the scheduling: it assigns, restarts and retries work, and limits how much is in memory. The cluster is the
one in the environment variable ``RAY_ADDRESS`` or the one that runs on this machine; otherwise one is started with the
cores of this machine, and stopped after the work. Every node needs this library, and the folders in use, including the
working folder, under the same paths.
"""

from __future__ import annotations

import gc
import logging
import os
import pickle
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow
import ray
import ray.data
from ray.data.block import BlockMetadata
from ray.data.datasource import Datasource, ReadTask
from ray.exceptions import RayError

from opencse.errors import InterruptedRunError, UserError, reason

T = TypeVar("T")
R = TypeVar("R")
RETRIES = 3
"""Number of times that a long task is started again after its process or machine was lost."""
_COLUMN = "pickled"


@dataclass(frozen=True)
class Cluster:
    """The Ray cluster that this process is connected to.

    Attributes:
        cores: of all nodes.
        gpus: of all nodes.
    """

    cores: int
    gpus: int

    def shared_out(
        self,
        pieces: Callable[[], Iterable[T]],
        begin: Callable[[], Callable[[T], R]],
        *,
        workers: int,
        gpu: bool,
        memory: int,
    ) -> Iterator[R]:
        """Yields the result of each piece, in the order in which they finish.

        A piece whose process or machine was lost is done again by another one.

        Args:
            pieces: yields them one after another, on this node, as there is room for more; called again after a
                loss, it must yield the same ones.
            begin: called once in each worker; returns the function that does a piece.
            workers: largest number; each has one core, and with ``gpu`` one GPU.
            gpu: whether they need one.
            memory: bytes that a worker takes.

        Raises:
            UserError: of a piece; or if Ray ends the job.
            OSError: of a piece.
        """
        this_node = {"ray.io/node-id": ray.get_runtime_context().get_node_id()}
        context = ray.data.DataContext.get_current().copy()
        context.target_max_block_size = 1  # a piece is a block, so that pieces are shared out one by one
        context.enable_progress_bars = False
        context.raise_original_map_exception = True
        with ray.data.DataContext.current(context):
            job = ray.data.read_datasource(
                _Pieces(partial(_blocks, pieces, Path.cwd())),
                override_num_blocks=1,
                num_cpus=0,
                label_selector=this_node,
            ).map(
                _Worker,
                fn_constructor_args=[begin, Path.cwd()],
                compute=ray.data.ActorPoolStrategy(min_size=1, max_size=workers, max_tasks_in_flight_per_actor=2),
                num_cpus=1,
                num_gpus=1 if gpu else None,
                memory=memory,
            )
            try:
                with _errors_of_the_work(), _quiet():
                    for row in job.iter_rows():
                        yield pickle.loads(row[_COLUMN])
            finally:
                del job  # deleting it ends its actors; a caught error would keep it alive

    def each(
        self, work: Callable[[T], R], tasks: Sequence[T], *, at_a_time: int, cores: int, gpu: bool
    ) -> Iterator[tuple[T, R]]:
        """Yields each of a few long tasks with its result, as they finish.

        Args:
            work: does a task; called again, it continues from what an earlier attempt has written.
            tasks: what to do.
            at_a_time: largest number of tasks at once.
            cores: of each task.
            gpu: whether each task needs one.
        """
        remote = ray.remote(num_cpus=cores, num_gpus=1 if gpu else 0, max_retries=RETRIES)(_done_in)
        waiting: dict[Any, T] = {}
        more = iter(tasks)
        try:
            with _errors_of_the_work():
                while True:
                    while len(waiting) < at_a_time and (task := next(more, None)) is not None:
                        waiting[remote.remote(Path.cwd(), work, task)] = task
                    if not waiting:
                        return
                    (ended,), _ = ray.wait(list(waiting), num_returns=1)
                    yield waiting.pop(ended), ray.get(ended)
        finally:
            for ref in waiting:
                ray.cancel(ref)


@contextmanager
def connected() -> Iterator[Cluster]:
    """Connects to the cluster for the duration of the block.

    Raises:
        UserError: if it cannot be reached.
    """
    ours = not ray.is_initialized()
    if ours:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster started here sends no statistics
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # its own log files have everything
        try:
            ray.init(include_dashboard=False, logging_level="error", log_to_driver=False)
        except (ConnectionError, RuntimeError, ValueError) as error:
            address = os.environ.get("RAY_ADDRESS", "on this machine")
            raise UserError(f"no Ray cluster {address} ({reason(error)}); see RAY_ADDRESS and ray status") from None
    try:
        total = ray.cluster_resources()
        yield Cluster(int(total.get("CPU", 1)), int(total.get("GPU", 0)))
    finally:
        if ours:
            ray.shutdown()


class _Pieces(Datasource):  # type: ignore[misc]  # Ray has no types
    """The pieces as a data source with one block per piece, read by one reader."""

    def __init__(self, blocks: Callable[[], Iterator[pyarrow.Table]]) -> None:
        self._blocks = blocks

    def estimate_inmemory_data_size(self) -> int | None:
        """Unknown."""
        return None

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: object = None
    ) -> list[ReadTask]:
        """One task that reads all pieces."""
        del parallelism, data_context
        nothing_known = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
        return [ReadTask(self._blocks, nothing_known, per_task_row_limit=per_task_row_limit)]


def _blocks(pieces: Callable[[], Iterable[object]], folder: Path) -> Iterator[pyarrow.Table]:
    os.chdir(folder)
    for piece in pieces():
        yield pyarrow.table({_COLUMN: pyarrow.array([pickle.dumps(piece)], pyarrow.large_binary())})


def _done_in(folder: Path, work: Callable[[T], R], task: T) -> R:
    os.chdir(folder)
    return work(task)


class _Worker(Generic[T, R]):
    """An actor that does pieces."""

    def __init__(self, begin: Callable[[], Callable[[T], R]], folder: Path) -> None:
        os.chdir(folder)
        self._work = begin()

    def __call__(self, row: dict[str, bytes]) -> dict[str, bytes]:
        return {_COLUMN: pickle.dumps(self._work(pickle.loads(row[_COLUMN])))}


@contextmanager
def _errors_of_the_work() -> Iterator[None]:
    """Raises an error of the work itself as it was in the worker, and any other error of Ray as a ``UserError``."""
    try:
        yield
    except RayError as error:
        # Else the traceback keeps the job alive, and its idle actors their cores, as long as the error is referenced.
        traceback.clear_frames(error.__traceback__)
        gc.collect()
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, RayError):
                pass
            elif isinstance(cause, UserError | InterruptedRunError):
                raise type(cause)(reason(cause)) from None  # without Ray's own advice
            elif isinstance(cause, OSError):
                raise cause from None
            cause = getattr(cause, "cause", None) or cause.__cause__
        raise UserError(
            f"the Ray job ended ({reason(error)}); the same command continues with what is missing"
        ) from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Limits Ray Data's messages to its log files; errors are raised as well."""
    logger = logging.getLogger("ray.data")
    handlers = [handler for handler in logger.handlers if isinstance(handler, logging.StreamHandler)]
    before = [handler.level for handler in handlers]
    for handler in handlers:
        handler.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for handler, level in zip(handlers, before, strict=True):
            handler.setLevel(level)
