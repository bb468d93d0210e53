"""Lets one process at a time work in a run's folder: a lock of the operating system, in a file that names its owner."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from pydantic import AwareDatetime, Field, ValidationError

from opencse.errors import UserError, reason
from opencse.io import lock
from opencse.settings import Settings

_SIZE = 4_096
_NO_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}


class Owner(Settings):
    """The process that holds a lock, as its file names it.

    Attributes:
        host: name of the machine.
        process: its number there.
        since: when it took the lock.
    """

    host: str = Field(default_factory=socket.gethostname)
    process: int = Field(default_factory=os.getpid)
    since: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))

    def __str__(self) -> str:
        return f"host {self.host}, process {self.process}, since {self.since:%Y-%m-%d %H:%M:%S} UTC"


@contextmanager
def held(file: Path) -> Iterator[Owner | None]:
    """Holds ``file`` as a lock within the block, and removes it at the end.

    The operating system releases the lock when its owner ends, however it ends, so the file of a dead process is taken
    over. On a file system without such locks the owner named in the file decides.

    Yields:
        The previous owner, if it ended without removing the file; else None.

    Raises:
        UserError: if another process holds it, or the file cannot be written.
    """
    try:
        descriptor = _take(file)
    except OSError as error:
        raise UserError(f"{file.parent}: cannot be written to ({reason(error)}); choose another --out") from None
    try:
        previous = _owner(descriptor)
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, f"{Owner().model_dump_json()}\n".encode())
        yield previous
    finally:
        if sys.platform == "win32":  # an open file cannot be removed on Windows
            os.close(descriptor)
            with contextlib.suppress(OSError):
                file.unlink()
        else:  # removed while it is held: a waiting process then finds that its file is no longer the one of this name
            with contextlib.suppress(OSError):
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


def was_locked(file: Path) -> bool:
    """Whether ``file`` is the lock of a process that holds it or was killed."""
    try:
        Owner.model_validate_json(file.read_bytes()[:_SIZE])
    except (OSError, ValidationError):
        return False
    return True


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
        raise UserError(_in_use(file, _wait_for_owner(descriptor))) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        owner = _owner(descriptor)
        if owner is not None and _may_live(owner):
            raise UserError(f"{_in_use(file, owner)} (if that process has ended, remove {file})") from None


def _in_use(file: Path, owner: Owner | None) -> str:
    clause = "" if owner is None else f" ({owner})"
    return f"{file.parent}: in use by another process{clause}; wait until it ends, or choose another --out"


def _owner(descriptor: int) -> Owner | None:
    os.lseek(descriptor, 0, os.SEEK_SET)
    try:
        return Owner.model_validate_json(os.read(descriptor, _SIZE))
    except ValidationError:
        return None


def _wait_for_owner(descriptor: int) -> Owner | None:
    """The owner's note, which it writes just after it has taken the lock."""
    for _ in range(20):
        owner = _owner(descriptor)
        if owner is not None:
            return owner
        time.sleep(0.02)
    return None


def _may_live(owner: Owner) -> bool:
    if owner.host != socket.gethostname():
        return True
    try:
        os.kill(owner.process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
