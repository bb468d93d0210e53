"""Writes the vectors of a text to a folder: files with the same number of rows, and a manifest; in several processes.

Until all files are written, ``encoding.json`` records what they are made from, and ``shards.jsonl`` has one line for
each finished file. At the end ``manifest.json`` replaces both: if it exists, the folder is complete.

Each process opens the model by itself, and takes the next task when it is done with one; its file does not depend on
which process that is. Each GPU gets its own process; on the CPU the processes share the cores. With Ray, they are
actors of the cluster.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from opencse.bulk.encoding_settings import EncodingSettings
from opencse.bulk.streaming import EncodedFile, fault
from opencse.encoder.first_look import TEXTS_CHECKED, warn_of_unknown_tokens
from opencse.encoder.static import StaticEncoder
from opencse.encoder.text_encoder import WINDOW, DamagedVectorError, TextEncoder
from opencse.engines import Engine, require_engine
from opencse.environment import require_packages
from opencse.errors import UserError, explaining
from opencse.files import (
    append_lines,
    changed_key,
    hash_file,
    held_lock,
    made_folder,
    read_lines,
    remove_unfinished,
    sync,
    write_text,
    writing,
)
from opencse.numerals import number_of
from opencse.outputs import foreign_files_message, names_in
from opencse.progress import SILENT, Count, Say, uncounted
from opencse.text.given import FileTexts
from opencse.workers import started

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized

    from opencse.engines.ray import Cluster


FileFormat = Literal["npy", "parquet"]
MANIFEST = "manifest.json"
_BEGUN, _JOURNAL, _LOCK = "encoding.json", "shards.jsonl", ".lock"
_DIGITS = 5


@dataclass(frozen=True)
class Shard:
    """One file of vectors in the folder.

    Attributes:
        file: its name in the folder.
        start: its first row, counted from 0 over all files.
        rows: number of vectors in it.
        bytes: its size.
        sha256: of its content.
    """

    file: str
    start: int
    rows: int
    bytes: int
    sha256: str


class Shards:
    """The folder while its files are written; see `Shards.open`.

    Attributes:
        folder: its path.
        identity: everything that the vectors depend on: equal identities give equal files.
        done: the finished files, by number.
    """

    def __init__(self, folder: Path, identity: dict[str, Any]) -> None:
        self.folder, self.identity = folder, identity
        self.done: dict[int, Shard] = {}

    @classmethod
    @contextmanager
    def open(cls, folder: Path, identity: dict[str, Any], say: Say) -> Iterator[Shards]:
        """Opens a folder that an earlier call began with the same identity, or a new one, and locks it.

        Raises:
            UserError: if another process writes there, or the folder holds something else.
            OSError: if it cannot be written.
        """
        busy = "another process is writing there; wait for it, or choose another --out"
        with made_folder(folder), held_lock(folder / _LOCK, busy):
            shards = cls(folder, identity)
            shards._resume(say)
            try:
                yield shards
            except BaseException:
                if not shards.done:  # nothing to continue from
                    files = (shards.path(number) for number in range(shards.count))
                    for path in (folder / _JOURNAL, folder / _BEGUN, *files):
                        path.unlink(missing_ok=True)
                raise

    @property
    def count(self) -> int:
        """Number of files when all are written."""
        return -(-int(self.identity["rows"]) // int(self.identity["shard_rows"]))

    @property
    def rows(self) -> int:
        """Number of vectors in the finished files."""
        return sum(shard.rows for shard in self.done.values())

    @property
    def is_complete(self) -> bool:
        """Whether the folder is complete."""
        return (self.folder / MANIFEST).exists()

    def path(self, number: int) -> Path:
        """The path of the file with a number."""
        digits = max(_DIGITS, len(str(self.count - 1)))
        return self.folder / f"part-{number:0{digits}}.{self.identity['format']}"

    def add(self, number: int, shard: Shard) -> None:
        """Records a file that is on the disk."""
        append_lines(self.folder / _JOURNAL, [json.dumps({"number": number, **asdict(shard)})])
        self.done[number] = shard

    def finish(self) -> None:
        """Writes the manifest."""
        shards = [asdict(self.done[number]) for number in range(self.count)]
        write_text(self.folder / MANIFEST, json.dumps({**self.identity, "shards": shards}, indent=1) + "\n")
        for name in (_JOURNAL, _BEGUN):
            (self.folder / name).unlink(missing_ok=True)
        sync(self.folder)

    def _resume(self, say: Say) -> None:
        for name in (MANIFEST, _BEGUN):
            if (self.folder / name).exists():
                self._require_same(self.folder / name)
                break
        else:
            require_own(self.folder)
            write_text(self.folder / _BEGUN, json.dumps(self.identity, indent=1) + "\n")
            return
        remove_unfinished(self.folder)
        if self.is_complete:
            self.done = self._unchanged(json.loads((self.folder / MANIFEST).read_text(encoding="utf-8"))["shards"])
            if len(self.done) == self.count:
                for name in (_JOURNAL, _BEGUN):  # of a process that was killed at its very end
                    (self.folder / name).unlink(missing_ok=True)
                say(f"{self.folder}: all {self.rows:,} vectors exist already")
                return
            write_text(self.folder / _BEGUN, json.dumps(self.identity, indent=1) + "\n")
            (self.folder / _JOURNAL).unlink(missing_ok=True)
            finished, self.done = self.done, {}
            for number, shard in finished.items():
                self.add(number, shard)
            (self.folder / MANIFEST).unlink()
        else:
            self.done = self._unchanged(self._recorded())
        say(f"{self.folder}: continues after {self.rows:,} of {self.identity['rows']:,} texts")

    def _require_same(self, path: Path) -> None:
        before = _object(path, path.read_text(encoding="utf-8"))
        if (key := changed_key(before, self.identity)) is not None:
            raise UserError(
                f"{self.folder}: was begun with another {key} ({_short(before.get(key))}, now "
                f"{_short(self.identity[key])}); choose another --out, or remove it"
            )

    def _recorded(self) -> list[dict[str, Any]]:
        """The files that the journal lists."""
        path = self.folder / _JOURNAL
        return [_object(path, line) for line in read_lines(path)]

    def _unchanged(self, recorded: list[dict[str, Any]]) -> dict[int, Shard]:
        """The recorded files that still have their content; the others are written again."""
        shards: dict[int, Shard] = {}
        for values in recorded:
            number = int(values.get("number", values["start"] // self.identity["shard_rows"]))
            shard = Shard(**{key: value for key, value in values.items() if key != "number"})
            with suppress(FileNotFoundError):
                path = self.folder / shard.file
                if path.stat().st_size == shard.bytes and hash_file(path) == shard.sha256:
                    shards[number] = shard
        return shards


def _object(path: Path, text: str) -> dict[str, Any]:
    """The object that ``text``, of the file ``path``, is in JSON."""
    try:
        return dict(json.loads(text))
    except (ValueError, TypeError):
        raise UserError(f"{path}: damaged; remove {path.parent}, or choose another --out") from None


def require_own(folder: Path) -> None:
    """Refuses a folder with files of something else; changes nothing.

    Raises:
        UserError: with the fix.
    """
    names = names_in(folder) - {_LOCK}
    if names and not names & {_BEGUN, MANIFEST}:
        raise UserError(foreign_files_message(folder, names))


def write_shard(path: Path, start: int, vectors: NDArray[Any]) -> Shard:
    """Writes the rows from ``start`` on to ``path``, in the format of its suffix, and waits until they are on the disk.

    Raises:
        OSError: if it cannot be written.
    """
    with writing(path) as unfinished:
        if path.suffix == ".npy":
            with unfinished.open("wb") as stream:
                np.save(stream, vectors)
        else:
            _write_parquet(unfinished, start, vectors)
        checksum = hash_file(unfinished)
    return Shard(path.name, start, len(vectors), path.stat().st_size, checksum)


def _write_parquet(path: Path, start: int, vectors: NDArray[Any]) -> None:
    """Columns ``row`` (int64) and ``vector`` (a list of fixed size)."""
    import pyarrow
    import pyarrow.parquet

    flat = pyarrow.array(np.ascontiguousarray(vectors).reshape(-1))
    columns = {
        "row": pyarrow.array(np.arange(start, start + len(vectors), dtype=np.int64)),
        "vector": pyarrow.FixedSizeListArray.from_arrays(flat, vectors.shape[1]),
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), path, compression="none", use_dictionary=False)


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 24 else f"{text[:16]}..."


_OVERHEAD = 1 << 30
"""Bytes of memory that a process needs in addition to the weights."""


@dataclass(frozen=True)
class EncodingTask:
    """Consecutive texts, their lines in the source, and the file for their vectors."""

    number: int
    start: int
    texts: list[str]
    lines: list[int]
    path: Path


@dataclass(frozen=True)
class FaultyText:
    """The first text of a task whose vector is not finite: its line and the error."""

    line: int
    error: DamagedVectorError


TaskResults = Iterator[tuple[int, Shard | FaultyText]]
"""Numbers of tasks, each with its file, or its first fault."""


@dataclass(frozen=True)
class TaskEncoder:
    """Encodes tasks: a function from a task to its file.

    Attributes:
        encoder: of this process.
        settings: how it encodes.
        count: is called with (texts of the task done, its texts).
    """

    encoder: TextEncoder
    settings: EncodingSettings
    count: Count = uncounted

    @classmethod
    def load(cls, settings: EncodingSettings, threads: int, count: Count = uncounted) -> TaskEncoder:
        """Loads the encoder in a worker process, with a share of the cores."""
        encoder = settings.load()
        if not isinstance(encoder, StaticEncoder):
            import torch

            torch.set_num_threads(threads)
        return cls(encoder, settings, count)

    def __call__(self, task: EncodingTask) -> tuple[int, Shard | FaultyText]:
        """Encodes the texts of a task and writes their file."""
        prompt = self.settings.prompt_of(self.encoder)
        try:
            written = self.settings.vectors(self.encoder, task.texts, prompt, self.count)
        except DamagedVectorError as error:
            return task.number, FaultyText(task.lines[error.row], error)
        return task.number, write_shard(task.path, task.start, written)


def encode_folder(
    source: FileTexts,
    out: str | Path,
    settings: EncodingSettings,
    *,
    file_format: FileFormat = "npy",
    shard_rows: int = WINDOW,
    processes: int | None = 1,
    engine: Engine = "local",
    progress: Count = uncounted,
    say: Say = SILENT.say,
) -> EncodedFile:
    """Writes the vectors of ``source`` (its first column) to files in ``out``, and at the end their manifest.

    After an interruption (a kill, Ctrl-C, a full disk) the same call continues, and the folder is the same to the bit
    as that of an uninterrupted call with as many processes.

    Args:
        source: texts; read twice, once to count and check them.
        out: the folder; made if it does not exist. It must hold nothing else.
        settings: which model encodes (an encoder only in one process), and in which form vectors are written.
        file_format: ``npy``: (rows, width); ``parquet``: columns ``row`` and ``vector``.
        shard_rows: number of texts per file.
        processes: None: one for each GPU, or on the CPU as many as there are cores and memory. Several are started
            as new interpreters, so a script needs its ``if __name__ == "__main__"``.
        engine: ``local``, or ``ray``: the processes are actors of a Ray cluster, see `opencse.engines.ray`; ``out`` and
            the model must have the same paths there. With processes=None there is one for each GPU, else core.
        progress: called with (texts done, texts in all).
        say: called with lines about what is continued, and the number of processes.

    Raises:
        UserError: for a folder that cannot be used, a fault in the text or the model, a killed process, or a vector
            that is not finite, naming the line of its text.
    """
    folder = Path(out)
    if file_format == "parquet":
        require_packages("writing Parquet", "train", "pyarrow")
    require_engine(engine)
    require_own(folder)
    rows = source.count_rows()
    text = source.fingerprint()
    if isinstance(settings.model, TextEncoder):
        if engine == "ray" or (processes is not None and processes > 1):
            raise UserError("several processes load the model themselves: give its folder or name, not an encoder")
        processes = 1
    with _cluster(engine) as cluster:
        device = settings.device
        if cluster is not None:
            device = device or ("cuda" if cluster.gpus else "cpu")
        device_here = device if cluster is None else "cpu"  # the actors have the GPUs
        encoder = replace(settings, device=device_here).open(say)
        dimension = settings.form.kept_dimensions(encoder.dimension)
        identity = {
            "version": 1,
            **settings.identity(text, rows, encoder),
            "format": file_format,
            "shard_rows": shard_rows,
        }
        if cluster is not None:
            identity["device"] = str(device).partition(":")[0]
        with (
            explaining(f"{out}: cannot be written", OSError, fix="finished files stay, and the same command continues"),
            Shards.open(folder, identity, say) as shards,
        ):
            before, begun = shards.rows, time.perf_counter()
            if not shards.is_complete:
                if not before:
                    examples = islice(source.examples(), TEXTS_CHECKED)
                    warn_of_unknown_tokens(encoder, [texts[0] for _, texts in examples], say)
                report = TaskProgress(progress, before, rows)
                work = EncodingWork(partial(tasks_of, source, shards), shards.count - len(shards.done), report)
                how = replace(settings, device=device)
                if cluster is None:
                    results = _locally(work, how, encoder, _devices(encoder, device, processes, work.count), say)
                else:
                    results = _by_actors(work, how, encoder, cluster, processes, say)
                for number, result in results:
                    if isinstance(result, FaultyText):
                        raise fault(source, result.line, result.error)
                    shards.add(number, result)
                if len(shards.done) != shards.count or shards.rows != rows:
                    raise UserError(
                        f"{source.name}: changed while it was read ({number_of(rows, 'text')}, then {shards.rows:,})"
                    )
                shards.finish()
            return EncodedFile(rows, dimension, before, time.perf_counter() - begun, len(shards.done))


def _cluster(engine: Engine) -> AbstractContextManager[Cluster | None]:
    """The cluster of the engine; None for ``local``."""
    if engine == "local":
        return nullcontext()
    from opencse.engines.ray import connected

    return connected()


class TaskProgress:
    """Adds up the progress of single tasks."""

    def __init__(self, progress: Count, before: int, rows: int) -> None:
        self._progress, self._base, self._rows = progress, before, rows

    def within(self, done: int, _: int = 0) -> None:
        """Reports ``done`` texts of the current task."""
        self._progress(min(self._base + done, self._rows), self._rows)

    def ended(self, result: Shard | FaultyText) -> None:
        """Adds a finished task."""
        self._base += result.rows if isinstance(result, Shard) else 0


@dataclass(frozen=True)
class EncodingWork:
    """The tasks that are not done yet.

    Attributes:
        tasks: makes them, one after another.
        count: their number.
        report: is notified of their progress.
    """

    tasks: Callable[[], Iterator[EncodingTask]]
    count: int
    report: TaskProgress


def _locally(
    work: EncodingWork, settings: EncodingSettings, encoder: TextEncoder, devices: list[str], say: Say
) -> TaskResults:
    """Does the work in this process, or in one process for each of several devices."""
    report = work.report
    if len(devices) == 1:
        encoding = TaskEncoder(encoder, settings, report.within)
        for number, result in map(encoding, work.tasks()):
            yield number, result
            report.ended(result)
        return
    say(f"{number_of(len(devices), 'process')} on {', '.join(dict.fromkeys(devices))}")
    context = get_context("spawn")
    next_number, done = context.Value("q", 0), context.Value("q", 0)
    by_device = [replace(settings, device=device) for device in devices]
    threads = max(1, _threads() // len(devices))
    with started(len(devices), _work, _begin, by_device, threads, next_number, done) as workers:
        for _, outcome in workers.done(work.tasks(), lambda: report.within(done.value)):
            yield outcome


def _by_actors(
    work: EncodingWork,
    settings: EncodingSettings,
    encoder: TextEncoder,
    cluster: Cluster,
    processes: int | None,
    say: Say,
) -> TaskResults:
    """Does the work in actors of a Ray cluster, each with a core and, if there are GPUs, a GPU."""
    device = settings.device or ""
    gpu = device.startswith("cuda")
    workers = max(1, min(work.count, processes or (cluster.gpus if gpu else cluster.cores)))
    many = f"up to {workers} actors" if workers > 1 else "one actor"
    say(f"{many} on {device} of a Ray cluster of {cluster.cores} cores, {cluster.gpus} GPUs")
    results = cluster.shared_out(
        work.tasks, partial(TaskEncoder.load, settings, 1), workers=workers, gpu=gpu, memory=_memory(encoder)
    )
    for number, result in results:
        yield number, result
        work.report.ended(result)
        work.report.within(0)


_worker: TaskEncoder | None = None
"""In a worker process: its encoder, loaded once."""


def _begin(by_device: list[EncodingSettings], threads: int, number: Synchronized[int], done: Synchronized[int]) -> None:
    """Loads the encoder of a new process; ``number`` is the number of the next process."""
    global _worker
    with number.get_lock():
        settings = by_device[number.value]
        number.value += 1
    _worker = TaskEncoder.load(settings, threads, _shared_count(done))


def _shared_count(shared: Synchronized[int]) -> Count:
    """A progress function for single tasks that adds to a count of all processes."""
    before = 0

    def count(done: int, rows: int) -> None:
        nonlocal before
        with shared.get_lock():
            shared.value += done - before
        before = 0 if done == rows else done

    return count


def _work(task: EncodingTask) -> tuple[int, Shard | FaultyText]:
    assert _worker is not None
    return _worker(task)


def tasks_of(source: FileTexts, shards: Shards) -> Iterator[EncodingTask]:
    """The tasks that are not done, in their order."""
    examples, size = source.examples(), int(shards.identity["shard_rows"])
    for number in range(shards.count):
        if number in shards.done:
            for _ in islice(examples, size):
                pass
        elif records := list(islice(examples, size)):
            texts, lines = [row[0] for _, row in records], [record.number for record, _ in records]
            yield EncodingTask(number, number * size, texts, lines, shards.path(number))


def _devices(encoder: TextEncoder, device: str | None, processes: int | None, tasks: int) -> list[str]:
    """The device of each process: the GPUs in turn, or the CPU; no more processes than tasks."""
    kind = encoder.device_kind
    one = device or kind
    gpus = _gpus() if kind == "cuda" and ":" not in one else 0
    if processes is None:
        processes = 1 if tasks <= 1 else gpus or (_on_cpu(encoder) if kind == "cpu" else 1)
    count = max(1, min(processes, tasks))
    return [f"cuda:{number % gpus}" if gpus > 1 else one for number in range(count)]


def _on_cpu(encoder: TextEncoder) -> int:
    """Number of one-thread processes that the cores and half of the memory allow."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 16 << 30
    return max(1, min(_threads(), memory // 2 // _memory(encoder)))


def _threads() -> int:
    import torch

    return torch.get_num_threads()


def _gpus() -> int:
    import torch

    return torch.cuda.device_count()


def _memory(encoder: TextEncoder) -> int:
    """Bytes of memory that a process with such an encoder needs."""
    return 2 * encoder.weight_bytes + _OVERHEAD
