"""Writes files and folders so that a kill or a full disk loses nothing that was finished; locks and hashes them.

Every output follows the same three steps. New content is written under another name, or after the part that is already
recorded. It is waited for until it is on the disk. Only then is it recorded, or does it take its final name. After a
kill, content that was not recorded is removed, and the work continues after what was.

- `writing`, `write_text`, `write_json`: a file that is replaced.
- `moving_in`: several files of a folder. `replace_folder`: a new version of a whole one.
- `GrowingFile`: a file that bytes are appended to. `ResumableFile`: one with a record of what it is made from and how
  far it is. `append_lines`, `read_lines`: a journal of finished pieces of work.
- `held_lock`: one process at a time.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opencse.errors import UserError, reason
from opencse.progress import Say

if TYPE_CHECKING:
    import numpy as np

WRITING = ".writing-"
"""The prefix of the name of every unfinished file or folder; then comes the number of the process and a dash."""
_BLOCK = 1 << 20


def npy_header(dtype: np.dtype[Any], shape: Sequence[int]) -> bytes:
    """The header of an ``.npy`` file of ``shape`` (NumPy's format 1.0)."""
    import numpy as np

    header = BytesIO()
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": tuple(shape)}
    np.lib.format.write_array_header_1_0(header, described)
    return header.getvalue()


def nearest_existing(path: Path) -> Path:
    """``path`` itself, or the nearest folder above it that exists."""
    return next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())


def is_folder(value: object) -> bool:
    """Whether ``value`` is the path of an existing folder; False for a name that is too long for the system."""
    try:
        return isinstance(value, str | Path) and Path(value).is_dir()
    except OSError:  # reported where it is opened
        return False


def require_folder(path: Path, instead: str) -> None:
    """Refuses a path that is no folder; ``instead`` says what to give.

    Example:
        >>> require_folder(Path("/"), "give a folder")

    Raises:
        UserError: naming the path, and whether it is a file or not there.
    """
    if not path.is_dir():
        raise UserError(f"{path}: {'is a file' if path.exists() else 'no such folder'}; {instead}")


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Replaces a file atomically: gives a temporary path next to it, which is renamed to ``path`` after the block.

    Whatever happens, including a full disk and a kill, ``path`` holds either its earlier content or all of the new
    content. An exception in the block removes the unfinished file and does not change ``path``.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "numbers.txt"
        >>> with writing(path) as unfinished:
        ...     _ = unfinished.write_text("1 2 3")
        >>> path.read_text()
        '1 2 3'

    Raises:
        OSError: if it cannot be written.
    """
    new = _unfinished(path.parent, path.name)
    try:
        yield new
        sync(new)
        new.replace(path)
        sync(path.parent)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def _unfinished(folder: Path, name: str) -> Path:
    return folder / f"{WRITING}{os.getpid()}-{name}"


def unfinished(folder: Path, name: str = "*") -> list[Path]:
    """What killed processes left of ``name`` in a folder: files and folders of `writing` and `moving_in`."""
    return list(folder.glob(f"{WRITING}[0-9]*-{name}"))


def remove_unfinished(folder: Path, name: str = "*") -> None:
    """Removes what killed processes left of ``name`` in a folder that this process alone writes."""
    for path in unfinished(folder, name):
        remove(path)


def write_text(path: Path, text: str) -> None:
    """Writes ``text`` to ``path`` in UTF-8; see `writing`."""
    with writing(path) as new:
        new.write_text(text, encoding="utf-8")


def write_json(path: Path, value: object, *, allow_nan: bool = False) -> None:
    """Writes ``value`` to ``path`` as indented JSON; see `writing`.

    Raises:
        OSError: if it cannot be written.
        ValueError: for NaN and infinity, which JSON does not have, unless ``allow_nan``.
    """
    write_text(path, _json_text(value, allow_nan))


def write_new_json(path: Path, value: object, *, allow_nan: bool = False) -> None:
    """Writes ``value`` as `write_json` does, not atomically: for a folder that is moved into place later.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "config.json"
        >>> write_new_json(path, {"layers": 2})
        >>> json.loads(path.read_text())
        {'layers': 2}

    Raises:
        OSError: if it cannot be written.
        ValueError: for NaN and infinity, unless ``allow_nan``.
    """
    path.write_text(_json_text(value, allow_nan), encoding="utf-8")


def _json_text(value: object, allow_nan: bool) -> str:
    return json.dumps(value, indent=2, allow_nan=allow_nan) + "\n"


def remove(path: Path) -> None:
    """Removes a file, a link or a folder with its content, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk."""
    if path.is_dir() and os.name == "nt":  # Windows opens no folders
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


if sys.platform == "win32":
    import msvcrt

    def lock(descriptor: int) -> None:
        """Locks an open file for this process; the system releases the lock when the process ends, however it ends.

        Raises:
            BlockingIOError: if another process has locked it.
            OSError: on a file system without locks.
        """
        os.lseek(descriptor, 2**30, os.SEEK_SET)  # behind the content, which other processes may read
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            raise BlockingIOError from None
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)

else:
    import fcntl

    def lock(descriptor: int) -> None:
        """Locks an open file for this process; the system releases the lock when the process ends, however it ends.

        Raises:
            BlockingIOError: if another process has locked it.
            OSError: on a file system without locks.
        """
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def held_lock(file: Path, busy: str) -> Iterator[None]:
    """Keeps other processes out of the folder of ``file``; a lock file alone in its folder is removed afterwards.

    Args:
        file: the lock file; made if it does not exist.
        busy: the message where another process holds it.

    Raises:
        UserError: if another process holds it.
        OSError: if the file cannot be made, or the file system has no locks.
    """
    from filelock import FileLock, Timeout  # a tenth of a second of a command that locks nothing

    held = FileLock(file)
    try:
        held.acquire(timeout=0)
    except Timeout:
        raise UserError(f"{file.parent}: {busy}") from None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if [one.name for one in file.parent.iterdir()] == [file.name]:
                file.unlink()
        held.release()


def hash_json(value: object) -> str:
    """SHA-256 of plain values, as 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(value, ensure_ascii=True, allow_nan=False).encode()).hexdigest()


def hash_file(path: Path) -> str:
    """SHA-256 of a file's content, as 64 hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def hash_files(folder: Path, files: Iterable[Path]) -> str:
    """SHA-256 over the names (relative to ``folder``) and contents of ``files``, in the order of their names."""
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{hash_file(path)}\n".encode())
    return digest.hexdigest()


@contextmanager
def moving_in(folder: Path, *, last: Sequence[str] = ()) -> Iterator[Path]:
    """Gives a folder to write to; after the block its content is moved into ``folder``, which may hold other files.

    A new folder appears when it is complete. Killed while files are moved into one that exists, it holds some of them
    and none of ``last``. On an exception in the block nothing is moved.

    Args:
        folder: made if it does not exist.
        last: names that are removed from ``folder`` first and moved in last, in reverse order, because ``folder``
            cannot be opened without them.

    Raises:
        OSError: if it cannot be written.
    """
    is_new = not folder.exists()
    place = folder.parent if is_new else folder
    with made_folder(place):
        remove_unfinished(place, glob.escape(folder.name))
        work = _unfinished(place, folder.name)
        work.mkdir()
        try:
            yield work
            for path in work.rglob("*"):
                sync(path)
            if is_new:
                work.rename(folder)
            else:
                for name in last:
                    (folder / name).unlink(missing_ok=True)
                others = sorted(path.name for path in work.iterdir() if path.name not in last)
                for name in (*others, *(one for one in reversed(last) if (work / one).exists())):
                    if (folder / name).is_dir() and not (folder / name).is_symlink():
                        shutil.rmtree(folder / name)
                    (work / name).replace(folder / name)
            sync(place)
        finally:
            shutil.rmtree(work, ignore_errors=True)


@contextmanager
def made_folder(folder: Path) -> Iterator[None]:
    """Makes a folder for the block; folders that were made for it and stay empty are removed afterwards.

    Raises:
        UserError: if it cannot be made.
    """
    new_folders = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _remove_empty(new_folders)
        raise UserError(f"{folder}: the folder cannot be made ({reason(error)}); name another one") from None
    try:
        yield
    finally:
        _remove_empty(new_folders)


def _remove_empty(folders: Iterable[Path]) -> None:
    for one in folders:
        with contextlib.suppress(OSError):
            one.rmdir()


class GrowingFile:
    """A file that bytes are appended to; what was written before the last `sync` survives a kill.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "grown"
        >>> with contextlib.closing(GrowingFile(path)) as file:
        ...     file.append(b"recorded, lost")
        >>> with contextlib.closing(GrowingFile(path)) as file:  # after a kill
        ...     file.keep(8)
        ...     file.append(b", continued")
        True
        >>> path.read_text()
        'recorded, continued'
    """

    def __init__(self, path: Path) -> None:
        """Opens the file, or makes it; its content stays until `keep`, `restart` or `append`.

        Raises:
            OSError: if it cannot be opened.
        """
        self.path = path
        self._stream = path.open("r+b" if path.exists() else "x+b", buffering=0)
        self._digest = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """SHA-256 of the bytes that were kept with a checksum and of those appended since."""
        return self._digest.hexdigest()

    def lock(self) -> bool:
        """Keeps other processes from writing the file; False if one of them has locked, renamed or removed it."""
        try:
            lock(self._stream.fileno())
            return os.path.samestat(os.fstat(self._stream.fileno()), self.path.stat())
        except OSError:
            return False

    def keep(self, size: int, sha256: str | None = None) -> bool:
        """Keeps the first ``size`` bytes and appends after them; False if there are fewer, or of another checksum."""
        if os.fstat(self._stream.fileno()).st_size < size:
            return False
        self._stream.seek(0)
        if sha256 is not None:
            self._digest, remaining = hashlib.sha256(), size
            while block := self._stream.read(min(_BLOCK, remaining)):
                self._digest.update(block)
                remaining -= len(block)
            if self.sha256 != sha256:
                return False
        self._stream.truncate(size)
        self._stream.seek(size)
        return True

    def restart(self) -> None:
        """Removes all content."""
        self._stream.truncate(0)
        self._stream.seek(0)
        self._digest = hashlib.sha256()

    def append(self, content: bytes) -> None:
        """Writes at the end."""
        self._write(content)
        self._digest.update(content)

    def sync(self) -> None:
        """Waits until all that was appended is on the disk."""
        os.fsync(self._stream.fileno())

    def close(self) -> None:
        """Closes the file, which releases its lock."""
        self._stream.close()

    def _write(self, content: bytes) -> None:
        remaining = memoryview(content)
        while remaining:  # an unbuffered write may accept a part
            remaining = remaining[self._stream.write(remaining) :]


class ResumableFile:
    """A file of rows that gets its name when it is complete; a later call continues after the recorded rows.

    Until then ``NAME.partial`` holds its beginning, and ``NAME.partial.json`` what it is made from (its identity), the
    number of rows that are on the disk, and their checksum.

    Attributes:
        done: rows that are written and recorded.
    """

    def __init__(self, file: GrowingFile, target: Path, identity: Mapping[str, Any]) -> None:
        self._file, self._target, self._identity = file, target, identity
        self.done = 0

    @classmethod
    @contextmanager
    def open(
        cls, target: Path, identity: Mapping[str, Any], *, header: bytes, row_size: int, say: Say
    ) -> Iterator[ResumableFile]:
        """Opens what an earlier call began with the same identity, or begins again, and locks it.

        Args:
            target: the final file; what it holds stays until `finish`.
            identity: what the rows are made from, with their number as ``rows``; equal identities give equal files.
            header: the bytes before the first row.
            row_size: bytes of one row.
            say: called with one line if there is a beginning: that it is continued, or why it is not.

        Raises:
            UserError: if another process is writing the file.
            OSError: if it cannot be written, or the disk has no room for it.
        """
        rows = int(identity["rows"])
        with contextlib.closing(GrowingFile(partial_path(target))) as file:
            name = file.path.name
            if not file.lock():
                raise UserError(f"{file.path}: another process is writing it; wait for it, or choose another --out")
            remove_unfinished(target.parent, glob.escape(record_path(target).name))
            resumable = cls(file, target, identity)
            obstacle = resumable._continue(len(header), row_size)
            if obstacle is None:
                say(f"{name}: continues after {resumable.done:,} of {rows:,} texts")
            elif file.path.stat().st_size:
                say(f"{name}: {obstacle}; starting again")
            try:
                if obstacle is not None:
                    resumable._start(header, row_size * rows)
                yield resumable
            except BaseException:
                if resumable.done == 0:  # nothing to continue from
                    resumable.discard()
                raise

    def add(self, content: bytes, rows: int) -> None:
        """Appends rows and records them."""
        self._file.append(content)
        self.done += rows
        self._record()

    def finish(self) -> None:
        """Gives the file its final name."""
        self._close_on_windows()
        self._file.path.replace(self._target)
        record_path(self._target).unlink(missing_ok=True)
        sync(self._target.parent)

    def discard(self) -> None:
        """Removes everything that was written."""
        self._close_on_windows()
        record_path(self._target).unlink(missing_ok=True)
        self._file.path.unlink(missing_ok=True)

    def _continue(self, header_size: int, row_size: int) -> str | None:
        """Goes to the end of the recorded rows; returns the reason if that is not possible."""
        record = record_path(self._target)
        try:
            state = json.loads(record.read_text(encoding="utf-8"))
            identity, done, checksum = dict(state["identity"]), int(state["done"]), str(state["sha256"])
        except (OSError, ValueError, TypeError, KeyError):
            return f"its record {record.name} is missing or damaged"
        if (key := changed_key(identity, self._identity)) is not None:
            return f"was begun with another {key}"
        if not self._file.keep(header_size + done * row_size, checksum):
            return "is damaged (its checksum is another)"
        self.done = done
        return None

    def _start(self, header: bytes, size: int) -> None:
        self.done = 0
        self._file.restart()
        free = shutil.disk_usage(self._target.parent).free
        if size > free:
            raise OSError(f"it needs {size / 1e9:,.3f} GB, and {free / 1e9:,.3f} GB are free; make room")
        self._file.append(header)
        self._record()

    def _record(self) -> None:
        self._file.sync()
        state = {"identity": self._identity, "done": self.done, "sha256": self._file.sha256}
        write_text(record_path(self._target), json.dumps(state, indent=1) + "\n")

    def _close_on_windows(self) -> None:
        if os.name == "nt":  # where an open file can be neither renamed nor removed
            self._file.close()


def partial_path(target: Path) -> Path:
    """The path of a `ResumableFile` until it is whole."""
    return target.with_name(f"{target.name}.partial")


def record_path(target: Path) -> Path:
    """The path of the record of a `ResumableFile`."""
    return target.with_name(f"{target.name}.partial.json")


def changed_key(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """The first key of ``now`` that has another value in ``before``; None if work begun with ``before`` can continue.

    >>> changed_key({"text": "a", "rows": 3}, {"text": "a", "rows": 4})
    'rows'
    """
    return next((key for key, value in now.items() if before.get(key) != value), None)


def append_lines(path: Path, lines: Iterable[str]) -> None:
    """Appends lines to a journal, and waits until they are on the disk.

    Raises:
        OSError: if they cannot be written.
    """
    with path.open("a", encoding="utf-8") as stream:
        stream.write("".join(f"{line}\n" for line in lines))
        stream.flush()
        os.fsync(stream.fileno())


def read_lines(path: Path) -> list[str]:
    """The lines of a journal; the end of a line that a kill left unfinished is removed from the file.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is not UTF-8.
    """
    if not path.exists():
        return []
    content = path.read_bytes()
    finished = content[: content.rfind(b"\n") + 1]
    if len(finished) < len(content):
        with path.open("r+b") as stream:
            stream.truncate(len(finished))
    return finished.decode("utf-8").splitlines()


def folder_versions(folder: Path) -> tuple[Path, Path, Path]:
    """Where versions of a folder may be that `replace_folder` writes, the newest first: new, current, old."""
    return folder.with_name(f"{folder.name}.new"), folder, folder.with_name(f"{folder.name}.old")


def replace_folder(folder: Path) -> None:
    """Puts ``NAME.new``, which is whole and on the disk, in the place of ``NAME``.

    Killed at any time, at least one whole version is left; `settle_folder` gives the newest of them its name.

    Raises:
        OSError: if something cannot be renamed or removed.
    """
    new, _, old = folder_versions(folder)
    if folder.exists():
        if old.exists():
            shutil.rmtree(old)
        folder.rename(old)
    new.rename(folder)
    sync(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def settle_folder(folder: Path, is_whole: Callable[[Path], bool]) -> None:
    """Finishes a `replace_folder` that was killed: the newest whole version is kept, and the others are removed.

    Raises:
        OSError: if something cannot be renamed or removed.
    """
    new, _, old = folder_versions(folder)
    if not new.exists() and not old.exists():
        return
    newest = next((path for path in folder_versions(folder) if path.exists() and is_whole(path)), None)
    if newest == new:
        replace_folder(folder)
    elif newest == old:
        if folder.exists():
            shutil.rmtree(folder)
        old.rename(folder)
    if new.exists():
        shutil.rmtree(new)
    if newest is not None and old.exists():
        shutil.rmtree(old)
