"""Writes files and folders so that a kill or a full disk loses nothing that was finished.

Every output follows the same three steps. New content is written under another name, or after the part that is already
recorded. It is waited for until it is on the disk. Only then is it recorded, or does it take its final name. After a
kill, content that was not recorded is removed, and the work continues after what was.

- `GrowingFile`: a file that bytes are appended to.
- `ResumableFile`: a growing file with a record of what it is made from and how far it is.
- `append_lines`, `read_lines`: a journal of finished pieces of work.
- `replace_folder`: a new version of a folder takes the place of the old one.

Small files are written by `opencse.io.writing`, several files of an existing folder by `opencse.moving_in`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from opencse import io
from opencse.errors import UserError
from opencse.progress import Say

_BLOCK = 1 << 20


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
            io.lock(self._stream.fileno())
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

    def overwrite_start(self, content: bytes) -> None:
        """Writes over the first bytes, for instance a header; nothing can be appended afterwards."""
        self._stream.seek(0)
        self._write(content)

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
            remove_leftovers(target.parent, lambda path: path == record_path(target).name)
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
        io.sync(self._target.parent)

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
        io.write_text(record_path(self._target), json.dumps(state, indent=1) + "\n")

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


def remove_leftovers(folder: Path, is_ours: Callable[[str], bool]) -> None:
    """Removes the files that a killed process was writing in ``folder`` by `opencse.io.writing`.

    Args:
        folder: where to look.
        is_ours: whether the final name of such a file is one that the caller writes.
    """
    for path in folder.glob(f"{io.WRITING}*"):
        name = io.unfinished_name(path)
        if name is not None and is_ours(name):
            path.unlink(missing_ok=True)


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
    io.sync(folder.parent)
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
