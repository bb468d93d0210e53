"""The folder of a run: its lock and files, when it may be written to or resumed, cleaning up after a killed process."""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from opencse import files
from opencse.documents.continuing import FILE as DOCUMENTS
from opencse.documents.dev_choice import QUESTIONS_FILE as QUESTIONS
from opencse.errors import UserError, explaining
from opencse.files import folder_versions, lock, made_folder, remove_unfinished
from opencse.model_folder.layout import ADAPTER, CALIBRATION
from opencse.model_folder.writing import OPENING, RUN, is_ours
from opencse.outputs import LOCK, foreign_files_message, names_in, require_apart
from opencse.progress import Progress
from opencse.recipes.recipe import Recipe
from opencse.runs.record import Identity, RunRecord
from opencse.settings import validate
from opencse.training.callbacks import METRICS, TRACKED
from opencse.training.checkpoint import CHECKPOINT

_SIZE = 4_096
_NO_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}


@contextmanager
def held(file: Path) -> Iterator[str]:
    """Holds ``file`` as a lock within the block, and removes it at the end.

    The operating system releases the lock when its owner ends, however it ends, so the file of a dead process is taken
    over. On a file system without such locks nothing is locked.

    Yields:
        The previous owner, if it ended without removing the file; else nothing.

    Raises:
        UserError: if another process holds it, or the file cannot be written.
    """
    with explaining(f"{file.parent}: cannot be written to", OSError, fix="choose another --out"):
        descriptor = _take(file)
    try:
        previous = _owner(descriptor)
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        since = datetime.now(UTC)
        owner = f"host {socket.gethostname()}, process {os.getpid()}, since {since:%Y-%m-%d %H:%M:%S} UTC\n"
        os.write(descriptor, owner.encode())
        yield previous
    finally:
        if sys.platform == "win32":  # an open file cannot be removed on Windows
            os.close(descriptor)
            with suppress(OSError):
                file.unlink()
        else:  # removed while it is held: a waiting process then finds that its file is no longer the one of this name
            with suppress(OSError):
                file.unlink()
            os.close(descriptor)


def require_free(file: Path) -> None:
    """Refuses if another process holds the lock ``file``; writes nothing.

    Raises:
        UserError: naming the owner.
    """
    try:
        descriptor = os.open(file, os.O_RDWR)
    except OSError:  # no such file, or no permission: `held` reports that
        return
    try:
        _lock(file, descriptor)
    finally:
        os.close(descriptor)


def _take(file: Path) -> int:
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(file, descriptor)
            if os.path.samestat(os.fstat(descriptor), file.stat()):
                return descriptor
        except FileNotFoundError:
            pass  # its owner removed it after we opened it and before we locked it
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(file: Path, descriptor: int) -> None:
    try:
        lock(descriptor)
    except BlockingIOError:
        owner = _owner(descriptor)
        clause = f" ({owner})" if owner else ""
        raise UserError(
            f"{file.parent}: in use by another process{clause}; wait until it ends, or choose another --out"
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise


def _owner(descriptor: int) -> str:
    os.lseek(descriptor, 0, os.SEEK_SET)
    return os.read(descriptor, _SIZE).decode(errors="replace").strip()


RECORD, LAST, START = RUN, "last", "start"
REPORT, NUMBERS = "report.html", "report.json"
_OF_A_STUDY = "record.json"
_MODEL = (
    *OPENING,  # first: without them nothing loads what is left
    "model.safetensors",
    "model-*.safetensors",
    "model.safetensors.index.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "sentence_bert_config.json",
    "README.md",
    CALIBRATION,
)
_RESULTS = (METRICS, DOCUMENTS, QUESTIONS, REPORT, NUMBERS, _OF_A_STUDY, *TRACKED)
_SENTENCE_CONFIG = "config_sentence_transformers.json"
_MODULE = re.compile(r"\d+_(WeightedLayerPooling|WordWeights|Pooling|Dense|LayerNorm|Dropout|Normalize)")


class FolderState(StrEnum):
    """Kinds of folders, by what a run may do with them."""

    NEW = "new"
    """It does not exist, is empty, or is from a process that was killed before its run began."""
    BEGUN = "begun"
    """A run that is running, was interrupted, or was killed."""
    FINISHED = "finished"
    """A run that has ended."""
    MODEL = "model"
    """An encoder saved by this library, without a run."""
    FOREIGN = "foreign"
    """Anything else; such a folder is never written to."""


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run; creating this object does not touch the disk.

    Attributes:
        path: of the folder.
    """

    path: Path

    @classmethod
    def at(cls, out: str | Path) -> RunFolder:
        """The folder with the path ``out``.

        Raises:
            UserError: if the name is empty.
        """
        if not str(out).strip():
            raise UserError("the name of the folder to write to is empty; name one, or . for the working folder")
        return cls(Path(out))

    @property
    def record_file(self) -> Path:
        """``run.json``; see `RunRecord`."""
        return self.path / RECORD

    @property
    def metrics_file(self) -> Path:
        """``metrics.jsonl``, the log of the steps."""
        return self.path / METRICS

    @property
    def checkpoint(self) -> Path:
        """The folder with the state of an unfinished run."""
        return self.path / CHECKPOINT

    @property
    def last(self) -> Path:
        """The folder of the encoder of the last step."""
        return self.path / LAST

    @property
    def start(self) -> Path:
        """The folder of a start that the run wrote itself (a new backbone, or an encoder object from Python)."""
        return self.path / START

    @property
    def staged_start(self) -> Path:
        """The folder of such a start until the run begins; removed by the next attempt if it never begins."""
        return self.path / f"{files.WRITING}{START}"

    @property
    def _lock(self) -> Path:
        return self.path / LOCK

    def state(self) -> FolderState:
        """Returns what the folder holds, by the content of its files.

        Raises:
            UserError: if it is a file or cannot be read.
        """
        names = names_in(self.path)
        if RECORD in names:
            try:
                record = self.record()
            except UserError:
                return FolderState.FOREIGN
            return FolderState.BEGUN if record.result is None else FolderState.FINISHED
        if self._staged_is_ours():
            names.discard(self.staged_start.name)
        if not names or (names == {START} and self._lock.is_file()):
            return FolderState.NEW
        return FolderState.MODEL if is_ours(self.path) else FolderState.FOREIGN

    def record(self) -> RunRecord:
        """Reads the record of the run.

        Raises:
            UserError: if there is no run, or its record is damaged.
        """
        return RunRecord.read(self.record_file)

    def recipe(self, record: RunRecord) -> Recipe:
        """The recipe of the run, with pooling and head decided.

        Raises:
            UserError: for one that this version cannot read.
        """
        return validate(Recipe, record.identity.recipe, f"{self.record_file}: recipe")

    def is_unfinished(self) -> bool:
        """Whether it holds a run that has not written an encoder yet."""
        return self.record_file.is_file() and not (self.path / "config.json").is_file()

    def require(self, *, resume: bool, overwrite: bool, start: Path | None, read: Sequence[Path] = ()) -> None:
        """Refuses a folder that a run may not be written to; touches nothing.

        Allowed are a new or empty folder, with ``resume`` the folder of a run, and with ``overwrite`` the folder of a
        run or model of this library, which the new run replaces.

        Args:
            resume: continue the run in the folder.
            overwrite: replace the run or model in the folder.
            start: folder of the model that training starts from, if it is one.
            read: files and folders of data that the run reads.

        Raises:
            UserError: naming the folder and what to do.
        """
        require_free(self._lock)
        self._require(resume, overwrite, start, read)

    def _require(self, resume: bool, overwrite: bool, start: Path | None, read: Sequence[Path]) -> None:
        if resume and overwrite:
            raise UserError("--resume continues a run and --overwrite replaces it; give one of them")
        require_apart(self.path, read=read, replaces=overwrite)
        names = names_in(self.path)
        state = self.state()
        if start is not None and names and _endangers(self.path, start, overwrite):
            raise UserError(f"{self.path}: the start {start} would be overwritten; choose another --out")
        if overwrite and START in names and not self._start_is_ours():
            raise UserError(f"{self.path / START}: does not belong to what --overwrite replaces; move it away")
        if state is FolderState.NEW or (state in (FolderState.BEGUN, FolderState.FINISHED) and (resume or overwrite)):
            return
        if RECORD in names:
            self.record()  # raises the reason if it is damaged
            raise UserError(
                f"{self.path}: holds a run already; continue it with --resume, choose another --out, or replace it "
                "with --overwrite"
            )
        if state is FolderState.MODEL and overwrite:
            return
        if state is FolderState.MODEL:
            raise UserError(f"{self.path}: holds a model already; choose another --out, or replace it with --overwrite")
        raise UserError(foreign_files_message(self.path, names))

    @contextmanager
    def held(
        self,
        progress: Progress,
        *,
        resume: bool = False,
        overwrite: bool = False,
        start: Path | None = None,
    ) -> Iterator[RunRecord | None]:
        """Locks the folder within the block, and removes unfinished files of a killed process.

        The folder is created; if it is empty at the end, it is removed.

        Yields:
            The record of the run to continue; None for a new one.

        Raises:
            UserError: as `require`, or if the folder cannot be created.
        """
        self.require(resume=resume, overwrite=overwrite, start=start)
        with locked(self.path, progress):
            self._require(resume, overwrite, start, ())
            record = self.record() if resume and self.record_file.is_file() else None
            if resume and record is None:
                progress.say(f"{self.path}: holds no run to resume; a new one begins")
            try:
                self._remove_leftovers(record)
                yield record
            finally:
                if not self.record_file.is_file():
                    files.remove(self.staged_start)

    def begin(self, make_record: Callable[[], RunRecord]) -> RunRecord:
        """Begins a new run: removes what it replaces, moves its start into place, and writes its record.

        If the process is killed at any point of this, the same command can be run again.

        Args:
            make_record: called once the start is in place.
        """
        self._clear()
        staged = self.staged_start.is_dir()
        try:
            if staged:
                self.staged_start.replace(self.start)
            record = make_record()
            self.write(record)
        except BaseException:
            if staged and not self.record_file.is_file():
                files.remove(self.start)
            raise
        return record

    def write(self, record: RunRecord) -> None:
        """Writes ``record`` to ``run.json``."""
        record.write(self.record_file)

    def reopen(self, record: RunRecord, progress: Progress, *, write: bool) -> None:
        """Makes a run that was finished early (`opencse.finish`) an unfinished one again."""
        if record.result is not None:
            progress.say(
                f"reopened   the run was finished at step {record.result.steps:,} of {record.steps:,}; it continues"
            )
        record.result = record.finished = None
        if write:
            self.write(record)

    def require_same(self, record: RunRecord, identity: Identity) -> None:
        """Refuses to resume a run with other settings, data or start than it began with.

        Raises:
            UserError: naming the first difference.
        """
        if difference := record.identity.difference(identity):
            raise UserError(f"{self.path}: cannot resume with {difference}; start the new run in another --out")

    def has_checkpoint(self) -> bool:
        """Whether there is a checkpoint to continue from, which may be damaged."""
        return any(folder.exists() for folder in folder_versions(self.checkpoint))

    def require_idle(self) -> None:
        """Refuses a run that another process is training.

        Raises:
            UserError: naming the process.
        """
        require_free(self._lock)

    def share_weights(self) -> None:
        """Makes weights in ``last/`` and ``start/`` that equal those of the kept model hard links to the same file.

        A comparison keeps the last step of every run, so the same weights were on the disk twice. Files that differ,
        and file systems without hard links, stay as they are. Models are replaced by new files (`opencse.files`),
        so replacing or removing one of them leaves the others as they are.
        """
        for folder in (self.last, self.start):
            for copy in sorted(folder.rglob("*.safetensors")):
                _link_equal(self.path / copy.relative_to(folder), copy)

    def remove_checkpoints(self) -> None:
        """Removes the state of a run that has finished."""
        for folder in folder_versions(self.checkpoint):
            shutil.rmtree(folder, ignore_errors=True)

    def _remove_leftovers(self, record: RunRecord | None) -> None:
        if self.state() is FolderState.NEW and self.start.is_dir():
            files.remove(self.start)
        for folder in (self.path, self.last):
            remove_unfinished(folder)
        if self._staged_is_ours():
            files.remove(self.staged_start)
        if record is not None and record.result is not None and not record.ended_early:
            self.remove_checkpoints()

    def _staged_is_ours(self) -> bool:
        """Whether there is, by its name, a new start of a process that was killed before its run began."""
        staged = self.staged_start
        return staged.is_dir() and not staged.is_symlink()

    def _start_is_ours(self) -> bool:
        """Whether the run in the folder began with `start`."""
        return self.record_file.is_file() and Path(self.record().identity.model).resolve() == self.start.resolve()

    def _clear(self) -> None:
        """Removes the files of a run or a model and nothing else; the file that identifies it last.

        Where that is a model's, the record goes before the model: half of it is not the model of a finished run.
        """
        is_model = is_ours(self.path)
        if not self.record_file.is_file() and not is_model:
            return
        parts = [self.start] if self._start_is_ours() else []
        parts += [self.record_file] if is_model else []
        parts += [file for pattern in _MODEL for file in sorted(self.path.glob(pattern))]
        parts += [path for path in self.path.iterdir() if path.is_dir() and _MODULE.fullmatch(path.name)]
        parts += folder_versions(self.checkpoint)
        parts += [self.path / name for name in (*_RESULTS, LAST, ADAPTER)]
        for part in (*parts, self.path / _SENTENCE_CONFIG, self.record_file):
            files.remove(part)
        files.sync(self.path)


@contextmanager
def locked(folder: Path, progress: Progress) -> Iterator[None]:
    """Locks ``folder`` within the block; it is created first, and removed at the end if it is empty.

    Raises:
        UserError: if another process has locked it, or it cannot be created.
    """
    with made_folder(folder), held(folder / LOCK) as previous:
        if previous:
            progress.say(f"taken over {folder} from a process that has ended ({previous})")
        yield


def _link_equal(file: Path, copy: Path) -> None:
    """Replaces ``copy`` by a hard link to ``file`` where both have the same content, if the file system has links."""
    if not file.is_file() or file.samefile(copy) or file.stat().st_size != copy.stat().st_size:
        return
    if files.hash_file(file) == files.hash_file(copy):
        with suppress(OSError), files.writing(copy) as link:
            os.link(file, link)


def _endangers(out: Path, start: Path, overwrite: bool) -> bool:
    """Whether the start is the folder written to or is in it; with ``overwrite`` also the other way round."""
    target, source = out.resolve(), start.resolve()
    return target == source or target in source.parents or (overwrite and source in target.parents)
