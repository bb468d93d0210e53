"""The vectors of a text of any length in a folder of files (`opencse.encoder.shards`), by one process or several.

The text is cut into pieces of ``shard_rows`` texts. A process encodes a piece, writes its file and is given the next
one, so that what is in memory does not grow with the text, and files do not depend on who made them. A GPU each takes a
process of its own; on the CPU the processes share out the cores.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.encoding import WINDOW
from opencse.encoder.forms import Form, first_wrong
from opencse.encoder.shards import FileFormat, Shard, Shards, require_format, write_shard
from opencse.encoder.streaming import EncodedFile, Precision, fault, identity_of, ready
from opencse.errors import UserError, reason
from opencse.progress import Count, Say
from opencse.text.readers import Source
from opencse.workers import started

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized

_EACH = 1 << 30
"""Bytes a process takes beside the weights."""


@dataclass(frozen=True)
class Task:
    """A piece of the text, and where its vectors go."""

    number: int
    start: int
    texts: list[str]
    lines: list[int]
    path: Path


@dataclass(frozen=True)
class Wrong:
    """The first row of a task whose vector is not finite."""

    row: int


@dataclass(frozen=True)
class Recipe:
    """How a process makes an encoder for itself, and what it makes of texts."""

    model: str | Path
    pooling: str | None
    device: str
    trust_remote_code: bool
    precision: Precision
    form: Form


class Encoding:
    """An encoder at work on tasks."""

    def __init__(self, encoder: SentenceEncoder, precision: Precision, form: Form, count: Count | None) -> None:
        self._encoder, self._precision, self._form, self._count = encoder, precision, form, count

    def __call__(self, task: Task) -> Shard | Wrong:
        """Encodes the texts and writes their file."""
        vectors = self._encoder.encode(task.texts, precision=self._precision, progress=self._count)
        written = self._form.of(vectors)
        if (row := first_wrong(vectors, written)) is not None:
            return Wrong(row)
        return write_shard(task.path, task.start, written)


def encode_folder(
    source: Source,
    out: str | Path,
    model: str | Path | SentenceEncoder,
    *,
    form: Form | None = None,
    file_format: FileFormat = "npy",
    shard_rows: int = WINDOW,
    processes: int | None = 1,
    precision: Precision = "float32",
    pooling: str | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
    progress: Count | None = None,
    say: Say | None = None,
) -> EncodedFile:
    """Writes the vectors of ``source`` (its first column) to files in ``out``, and at the end their manifest.

    Broken off (a kill, Ctrl-C, a full disk), the same call goes on, and the folder is the same to the bit as that of an
    unbroken call with as many processes.

    Args:
        source: texts; read twice, once to count and check them.
        out: the folder; made if it is not there. It holds nothing else.
        model: what `SentenceEncoder.load` takes, or (in one process) an encoder.
        form: numbers, dimensions, normalising.
        file_format: ``npy``: (rows, width); ``parquet``: columns ``row`` and ``vector``.
        shard_rows: texts of a file.
        processes: None: one for each GPU, or on the CPU as many as there are cores and memory. Several are started
            as new interpreters, so a script needs its ``if __name__ == "__main__"``.
        precision: see `SentenceEncoder.encode`.
        pooling: replaces the model's own (not with an encoder).
        device: where to put the model (not with an encoder).
        trust_remote_code: see `SentenceEncoder.load` (not with an encoder).
        progress: called with (texts done, texts in all).
        say: hears what is gone on with, and how many processes there are.

    Raises:
        UserError: for a folder that cannot be used, a fault in the text or the model, a killed process, or a vector
            that is not finite, naming the line of its text.
    """
    form, say = form or Form(), say or (lambda line: None)
    folder = Path(out)
    require_format(file_format)
    for name, value in (("shard_rows", shard_rows), ("processes", processes)):
        if value is not None and value < 1:
            raise UserError(f"{name} is at least 1, not {value}")
    _require_folder(folder)
    rows = sum(1 for _ in source.examples())
    text = source.fingerprint()
    if isinstance(model, SentenceEncoder):
        if processes is not None and processes > 1:
            raise UserError("several processes load the model themselves: give its folder or name, not an encoder")
        processes = 1
    encoder = ready(model, form, say, pooling=pooling, device=device, trust_remote_code=trust_remote_code)
    dimension = form.kept(encoder.dimension)
    identity = {
        "version": 1,
        **identity_of(text, rows, encoder, form, precision),
        "format": file_format,
        "shard_rows": shard_rows,
    }
    try:
        with Shards.open(folder, identity, say) as shards:
            before, begun = shards.rows, time.perf_counter()
            if not shards.whole:
                devices = _devices(encoder, device, processes, shards.count - len(shards.done))
                report = None if progress is None else _Reported(progress, before, rows)
                tasks = _tasks(source, shards, shard_rows)
                if len(devices) == 1 or isinstance(model, SentenceEncoder):
                    made = _alone(encoder, precision, form, tasks, report)
                else:
                    del encoder  # each process has its own
                    say(f"{len(devices)} processes on {_named(devices)}")
                    recipes = [Recipe(model, pooling, one, trust_remote_code, precision, form) for one in devices]
                    made = _shared_out(recipes, tasks, report)
                for task, result in made:
                    if isinstance(result, Wrong):
                        raise fault(source, task.lines[result.row], task.texts[result.row], form, precision)
                    shards.add(task.number, result)
                if len(shards.done) != shards.count or shards.rows != rows:
                    raise UserError(f"{source.name}: changed while it was read ({rows:,} texts, then {shards.rows:,})")
                shards.finish()
            return EncodedFile(rows, dimension, before, time.perf_counter() - begun, len(shards.done))
    except OSError as error:
        raise UserError(
            f"{out}: cannot be written ({reason(error)}); what is made stays, and the same command goes on"
        ) from None


class _Reported:
    """Counts of single tasks as one of all of them."""

    def __init__(self, progress: Count, before: int, rows: int) -> None:
        self._progress, self._base, self._rows = progress, before, rows

    def within(self, done: int, _: int) -> None:
        """So many texts of the task at work."""
        self._progress(min(self._base + done, self._rows), self._rows)

    def ended(self, task: Task) -> None:
        """A task is done."""
        self._base += len(task.texts)


def _alone(
    encoder: SentenceEncoder, precision: Precision, form: Form, tasks: Iterator[Task], report: _Reported | None
) -> Iterator[tuple[Task, Shard | Wrong]]:
    encoding = Encoding(encoder, precision, form, None if report is None else report.within)
    for task in tasks:
        yield task, encoding(task)
        if report is not None:
            report.ended(task)


def _shared_out(
    recipes: list[Recipe], tasks: Iterator[Task], report: _Reported | None
) -> Iterator[tuple[Task, Shard | Wrong]]:
    context = get_context("spawn")
    number, done = context.Value("q", 0), context.Value("q", 0)
    threads = max(1, torch.get_num_threads() // len(recipes))
    with started(len(recipes), _work, _begin, recipes, threads, number, done) as workers:
        yield from workers.done(tasks, lambda: None if report is None else report.within(done.value, 0))


_here: Encoding | None = None
"""Of a process that works for another: its encoder, loaded once."""


def _begin(recipes: list[Recipe], threads: int, number: Synchronized[int], done: Synchronized[int]) -> None:
    """In a new process: its share of the cores, its device and its encoder."""
    global _here
    torch.set_num_threads(threads)
    with number.get_lock():
        recipe = recipes[number.value]
        number.value += 1
    encoder = SentenceEncoder.load(
        recipe.model, pooling=recipe.pooling, device=recipe.device, trust_remote_code=recipe.trust_remote_code
    )
    _here = Encoding(encoder, recipe.precision, recipe.form, _added(done))


def _added(shared: Synchronized[int]) -> Count:
    """A count of single tasks that adds to one of all processes."""
    before = 0

    def count(done: int, rows: int) -> None:
        nonlocal before
        with shared.get_lock():
            shared.value += done - before
        before = 0 if done == rows else done

    return count


def _work(task: Task) -> Shard | Wrong:
    if _here is None:
        raise RuntimeError("this process has no encoder")
    return _here(task)


def _tasks(source: Source, shards: Shards, size: int) -> Iterator[Task]:
    """The pieces that are not done, in their order."""
    examples = source.examples()
    for number in range(shards.count):
        if number in shards.done:
            for _ in islice(examples, size):
                pass
        elif records := list(islice(examples, size)):
            texts, lines = [row[0] for _, row in records], [record.number for record, _ in records]
            yield Task(number, number * size, texts, lines, shards.path(number))


def _devices(encoder: SentenceEncoder, device: str | None, processes: int | None, tasks: int) -> list[str]:
    """Where each process runs: the GPUs in turn, or the CPU; no more processes than there is work."""
    kind = encoder.device.type
    one = device or kind
    gpus = torch.cuda.device_count() if kind == "cuda" and ":" not in one else 0
    if processes is None:
        processes = gpus or (_on_cpu(encoder) if kind == "cpu" else 1)
    count = max(1, min(processes, tasks))
    return [f"cuda:{number % gpus}" if gpus > 1 else one for number in range(count)]


def _on_cpu(encoder: SentenceEncoder) -> int:
    """Processes of one thread each that the cores and half of the memory allow."""
    weights = sum(parameter.nbytes for parameter in encoder.parameters())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 16 << 30
    return max(1, min(torch.get_num_threads(), memory // 2 // (2 * weights + _EACH)))


def _named(devices: list[str]) -> str:
    return ", ".join(dict.fromkeys(devices))


def _require_folder(folder: Path) -> None:
    """Refuses, before any other work, what cannot become the folder."""
    try:
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder}: is a file; name a folder, or a file that ends in .npy")
        parent = folder if folder.exists() else folder.absolute().parent
        if not parent.is_dir():
            raise UserError(f"{folder}: there is no folder {parent}; make it, or choose another --out")
        if not os.access(parent, os.W_OK | os.X_OK):
            raise UserError(f"{folder}: may not be written; choose another --out")
    except (OSError, ValueError) as error:
        raise UserError(f"{folder}: cannot be written ({reason(error)})") from None
