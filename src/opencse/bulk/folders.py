"""The vectors of a text of any length in a folder of files (`opencse.bulk.shards`), by one process or several.

The text is cut into pieces of ``shard_rows`` texts. A process encodes a piece, writes its file and is given the next
one, so that what is in memory does not grow with the text, and files do not depend on who made them. A GPU each takes a
process of its own; on the CPU the processes share out the cores. Or the processes are those of a Ray cluster.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from opencse.bulk.forms import Form
from opencse.bulk.shards import FileFormat, Shard, Shards, require_format, require_own, write_shard
from opencse.bulk.streaming import EncodedFile, Precision, fault, identity_of, ready, written_vectors
from opencse.encoder.batches import require_options
from opencse.encoder.damage import DamagedVectorError
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.encoding import WINDOW
from opencse.encoder.known import AMONG, tell_unknown
from opencse.engines.choice import Engine, require_engine
from opencse.errors import UserError, reason
from opencse.modules.prompts import Role
from opencse.progress import Count, Say
from opencse.text.given import FileTexts
from opencse.workers import started

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized

    from opencse.engines.ray import Cluster

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
    """The line of the first text of a task whose vector is not finite, and what is wrong with it."""

    line: int
    error: DamagedVectorError


Made = Iterator[tuple[int, Shard | Wrong]]
"""Numbers of tasks, and what became of each."""


@dataclass(frozen=True)
class Recipe:
    """How a process makes an encoder for itself (of no model: it is given one), and what it makes of texts."""

    model: str | Path | None
    pooling: str | None
    device: str
    trust_remote_code: bool
    prompt: str
    precision: Precision
    form: Form

    def encoding(self, threads: int, count: Count | None = None) -> Encoding:
        """In a process that works for another: its share of the cores, its device and its encoder."""
        if self.model is None:
            raise RuntimeError("an encoder is not sent to another process")
        torch.set_num_threads(threads)
        encoder = SentenceEncoder.load(
            self.model, pooling=self.pooling, device=self.device, trust_remote_code=self.trust_remote_code
        )
        return Encoding(encoder, self, count)


class Encoding:
    """An encoder at work on tasks."""

    def __init__(self, encoder: SentenceEncoder, recipe: Recipe, count: Count | None) -> None:
        self._encoder, self._recipe, self._count = encoder, recipe, count

    def __call__(self, task: Task) -> tuple[int, Shard | Wrong]:
        """Encodes the texts and writes their file."""
        how = self._recipe
        try:
            written = written_vectors(self._encoder, task.texts, how.prompt, how.form, how.precision, self._count)
        except DamagedVectorError as error:
            return task.number, Wrong(task.lines[error.row], error)
        return task.number, write_shard(task.path, task.start, written)


def encode_folder(
    source: FileTexts,
    out: str | Path,
    model: str | Path | SentenceEncoder,
    *,
    form: Form | None = None,
    file_format: FileFormat = "npy",
    shard_rows: int = WINDOW,
    processes: int | None = 1,
    engine: Engine = "local",
    prompt_name: str | None = None,
    prompt: str | None = None,
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
        engine: ``local``, or ``ray``: the processes are actors of a Ray cluster, see `opencse.engines.ray`; they find
            ``out`` and the model under the same names. None: one for each of its GPUs, else cores.
        prompt_name: name of the model's prompt that is put before each text; see `SentenceEncoder.encode`.
        prompt: text that is put before each text instead.
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
    require_options(precision)
    require_engine(engine)
    for name, value in (("shard_rows", shard_rows), ("processes", processes)):
        if value is not None and value < 1:
            raise UserError(f"{name} is at least 1, not {value}")
    _require_folder(folder)
    rows = source.count_rows()
    text = source.fingerprint()
    if isinstance(model, SentenceEncoder):
        if engine == "ray" or (processes is not None and processes > 1):
            raise UserError("several processes load the model themselves: give its folder or name, not an encoder")
        processes = 1
    with _cluster(engine) as cluster:
        if cluster is not None:
            device = device or ("cuda" if cluster.gpus else "cpu")
        here = device if cluster is None else "cpu"  # the actors have the GPUs
        encoder = ready(model, form, say, pooling=pooling, device=here, trust_remote_code=trust_remote_code)
        prompt = encoder.prompts.chosen(Role.PLAIN, prompt_name, prompt)
        dimension = form.kept(encoder.dimension)
        identity = {
            "version": 1,
            **identity_of(text, rows, encoder, prompt, form, precision),
            "format": file_format,
            "shard_rows": shard_rows,
        }
        if cluster is not None:
            identity["device"] = str(device).partition(":")[0]
        try:
            with Shards.open(folder, identity, say) as shards:
                before, begun = shards.rows, time.perf_counter()
                if not shards.whole:
                    if not before:
                        tell_unknown(encoder, [texts[0] for _, texts in islice(source.examples(), AMONG)], say)
                    report = None if progress is None else Reported(progress, before, rows)
                    work = Work(partial(tasks_of, source, shards), shards.count - len(shards.done), report)
                    named = None if isinstance(model, SentenceEncoder) else model
                    recipe = Recipe(named, pooling, device or "", trust_remote_code, prompt, precision, form)
                    if cluster is None:
                        made = _locally(work, recipe, encoder, _devices(encoder, device, processes, work.left), say)
                    else:
                        made = _by_actors(work, recipe, encoder, cluster, processes, say)
                    for number, result in made:
                        if isinstance(result, Wrong):
                            raise fault(source, result.line, result.error)
                        shards.add(number, result)
                    if len(shards.done) != shards.count or shards.rows != rows:
                        raise UserError(
                            f"{source.name}: changed while it was read ({rows:,} texts, then {shards.rows:,})"
                        )
                    shards.finish()
                return EncodedFile(rows, dimension, before, time.perf_counter() - begun, len(shards.done))
        except OSError as error:
            raise UserError(
                f"{out}: cannot be written ({reason(error)}); what is made stays, and the same command goes on"
            ) from None


def _cluster(engine: Engine) -> AbstractContextManager[Cluster | None]:
    """The cluster of an engine that has one."""
    if engine == "local":
        return nullcontext()
    from opencse.engines.ray import connected

    return connected()


class Reported:
    """Counts of single tasks as one of all of them."""

    def __init__(self, progress: Count, before: int, rows: int) -> None:
        self._progress, self._base, self._rows = progress, before, rows

    def within(self, done: int, _: int = 0) -> None:
        """So many texts of the task at work."""
        self._progress(min(self._base + done, self._rows), self._rows)

    def ended(self, result: Shard | Wrong) -> None:
        """A task is done."""
        self._base += result.rows if isinstance(result, Shard) else 0


@dataclass(frozen=True)
class Work:
    """What is to be done.

    Attributes:
        tasks: makes the tasks, one after another.
        left: how many there are.
        report: hears of them.
    """

    tasks: Callable[[], Iterator[Task]]
    left: int
    report: Reported | None


def _locally(work: Work, recipe: Recipe, encoder: SentenceEncoder, devices: list[str], say: Say) -> Made:
    """By this process, or by one for each of several devices."""
    report = work.report
    if len(devices) == 1 or recipe.model is None:
        encoding = Encoding(encoder, recipe, None if report is None else report.within)
        for number, result in map(encoding, work.tasks()):
            yield number, result
            if report is not None:
                report.ended(result)
        return
    say(f"{len(devices)} processes on {', '.join(dict.fromkeys(devices))}")
    context = get_context("spawn")
    own, done = context.Value("q", 0), context.Value("q", 0)
    recipes = [replace(recipe, device=device) for device in devices]
    threads = max(1, torch.get_num_threads() // len(recipes))
    with started(len(recipes), _work, _begin, recipes, threads, own, done) as workers:
        for _, made in workers.done(work.tasks(), lambda: None if report is None else report.within(done.value)):
            yield made


def _by_actors(
    work: Work, recipe: Recipe, encoder: SentenceEncoder, cluster: Cluster, processes: int | None, say: Say
) -> Made:
    """By actors of a Ray cluster, each with a core and, where there are any, a GPU."""
    gpu = recipe.device.startswith("cuda")
    workers = max(1, min(work.left, processes or (cluster.gpus if gpu else cluster.cores)))
    many = f"up to {workers} actors" if workers > 1 else "one actor"
    say(f"{many} on {recipe.device} of a Ray cluster of {cluster.cores} cores, {cluster.gpus} GPUs")
    made = cluster.shared_out(
        work.tasks, partial(recipe.encoding, 1), workers=workers, gpu=gpu, memory=_memory(encoder)
    )
    for number, result in made:
        yield number, result
        if work.report is not None:
            work.report.ended(result)
            work.report.within(0)


_here: Encoding | None = None
"""Of a process that works for another: its encoder, loaded once."""


def _begin(recipes: list[Recipe], threads: int, number: Synchronized[int], done: Synchronized[int]) -> None:
    """In a new process: which of the recipes is its own."""
    global _here
    with number.get_lock():
        recipe = recipes[number.value]
        number.value += 1
    _here = recipe.encoding(threads, _added(done))


def _added(shared: Synchronized[int]) -> Count:
    """A count of single tasks that adds to one of all processes."""
    before = 0

    def count(done: int, rows: int) -> None:
        nonlocal before
        with shared.get_lock():
            shared.value += done - before
        before = 0 if done == rows else done

    return count


def _work(task: Task) -> tuple[int, Shard | Wrong]:
    if _here is None:
        raise RuntimeError("this process has no encoder")
    return _here(task)


def tasks_of(source: FileTexts, shards: Shards) -> Iterator[Task]:
    """The pieces that are not done, in their order."""
    examples, size = source.examples(), int(shards.identity["shard_rows"])
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
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 16 << 30
    return max(1, min(torch.get_num_threads(), memory // 2 // _memory(encoder)))


def _memory(encoder: SentenceEncoder) -> int:
    """Bytes that a process with such an encoder takes."""
    return 2 * sum(parameter.nbytes for parameter in encoder.parameters()) + _EACH


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
        require_own(folder)
    except (OSError, ValueError) as error:
        raise UserError(f"{folder}: cannot be written ({reason(error)})") from None
