"""Errors that users read: what is wrong, where, and how to fix it, in one line."""

from __future__ import annotations

import difflib
import errno
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import ParamSpec, TypeVar
from urllib.parse import unquote

P = ParamSpec("P")
R = TypeVar("R")

_MASK = "***"
_IN_URL = re.compile(
    r"(?P<start>\b(?:(?:https?|grpc)://(?=[^\s/:@]+@)|[a-z][a-z0-9+.-]*://[^\s/:@]*:))(?P<secret>[^\s/]*)@",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"(?P<start>\b(?:\w*password|passwd|pwd|api[_-]?key|token|secret)\s*=\s*)(?P<secret>'(?:[^'\\]|\\.)*'|[^\s&;,)]+)",
    re.IGNORECASE,
)
_PARTLY = re.compile(r"\d+ requested and \d+ written")
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class UserError(Exception):
    """Reports bad input in one line: what is wrong, where, and how to fix it.

    The command line prints only the message, without a traceback, and exits with code 2.

    Example:
        >>> import opencse
        >>> try:
        ...     opencse.show_recipe("simsce")
        ... except opencse.UserError as error:
        ...     print(str(error).split(";")[0])
        unknown recipe 'simsce' (did you mean 'simcse'?)
    """


class MissingColumnError(UserError):
    """Reports a requested column that does not exist."""


class OutdatedError(UserError):
    """Reports that something changed after it was opened, so that it must be opened again."""


class InterruptedRunError(Exception):
    """Reports that the user stopped long work; its state is saved, and the message says how to continue.

    Example:
        >>> import opencse
        >>> try:
        ...     raise opencse.InterruptedRunError("stopped; the same command continues")  # on Ctrl-C during training
        ... except opencse.InterruptedRunError as stopped:
        ...     print(stopped)
        stopped; the same command continues
    """


def nearest(word: str, candidates: Iterable[str]) -> str:
    """The clause `` (did you mean X?)`` for the candidate closest to ``word``, or an empty string.

    Example:
        >>> nearest("simsce", ["simcse", "diffcse"])
        " (did you mean 'simcse'?)"
    """
    close = difflib.get_close_matches(word, list(candidates), n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""


def require_known(value: str, known: Sequence[str], kind: str) -> None:
    """Refuses a ``value`` that is not among ``known``; ``kind`` says what it is, for the message."""
    if value not in known:
        raise UserError(f"unknown {kind} {shortened(value)!r}{nearest(value, known)}; known: {', '.join(known)}")


def require_once(names: Sequence[str], kind: str) -> None:
    """Refuses a list in which a name occurs twice; ``kind`` says what is named, for the message."""
    for number, name in enumerate(names):
        if name in names[:number]:
            raise UserError(f"the {kind} {shortened(str(name))!r} is named twice; name each once")


def printable(text: str, keep: str = "") -> str:
    r"""``text`` with the characters that control a terminal written as escapes (``\x1b``, ``\u202e``).

    These are control characters (line breaks among them), marks that turn the direction of writing, and lone
    surrogates, which cannot be sent to a terminal. The characters in ``keep`` are not changed.
    """
    return _CONTROLS.sub(lambda match: match[0] if match[0] in keep else ascii(match[0])[1:-1], text)


def masked(text: str, *sources: str) -> str:
    """``text`` with passwords, keys and tokens written as ``***``: in URLs, connection strings and query parameters.

    Example:
        >>> masked("postgresql://anna:secret@db/texts, host=db password=secret")
        'postgresql://anna:***@db/texts, host=db password=***'

    Args:
        text: for a message or a record.
        sources: connection strings or URLs whose secrets are replaced in ``text`` wherever they occur.
    """
    for source in sources:
        for secret in _secrets(source):
            text = text.replace(secret, _MASK)
    text = _IN_URL.sub(lambda part: f"{part['start']}{_MASK}@", text)
    return _NAMED.sub(lambda part: f"{part['start']}{_MASK}", text)


def _secrets(source: str) -> list[str]:
    """The secrets in a connection string, as they are written and decoded, the longest first."""
    written = [part["secret"] for pattern in (_IN_URL, _NAMED) for part in pattern.finditer(source)]
    plain = [secret.strip("'") for secret in written]
    parts = [part for secret in plain for one in (secret, unquote(secret)) for part in (one, *one.split("@"))]
    return sorted({part for part in parts if len(part) > 2 and part != _MASK}, key=len, reverse=True)


def reason(error: BaseException) -> str:
    """The first line of what another library's ``error`` says, or its kind where it says nothing.

    Two that say nothing to a user are replaced: NumPy's for a full disk, and safetensors' for a Git LFS pointer.

    Example:
        >>> reason(OSError("896000 requested and 152544 written"))
        'only a part could be written, so the disk may be full'
        >>> reason(ValueError("Error while deserializing header: header too large"))
        'not a safetensors file; if Git LFS has left a pointer in its place: git lfs pull'
    """
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    if "header too large" in line:
        return "not a safetensors file; if Git LFS has left a pointer in its place: git lfs pull"
    return "only a part could be written, so the disk may be full" if _PARTLY.fullmatch(line) else line


@contextmanager
def explaining(what: str, *kinds: type[Exception], fix: str = "") -> Iterator[None]:
    """Raises a `UserError` for an error of another library: what failed, the library's reason, and how to fix it.

    Example:
        >>> with explaining("study.toml: cannot be read", ValueError, fix="a TOML file is expected"):
        ...     int("x")
        Traceback (most recent call last):
        opencse.errors.UserError: study.toml: cannot be read (invalid literal for int() with base 10: 'x'); a TOML ...
    """
    try:
        yield
    except kinds as error:
        raise UserError(f"{what} ({reason(error)}){fix and f'; {fix}'}") from None


def shortened(text: str, most: int = 80) -> str:
    """``text``, truncated where it is too long for a message."""
    return text if len(text) <= most else f"{text[:most]}..."


def names_listed(names: Iterable[object], most: int = 400) -> str:
    """Names for a message, separated by commas: as many as ``most`` characters hold, then how many more there are.

    Example:
        >>> names_listed(["title", "body", "date"]), names_listed([]), names_listed(["title", "body", "date"], most=12)
        ('title, body, date', 'none', 'title, body and 1 more')
    """
    short = [" ".join(str(name).split())[:40] for name in names]
    ends = list(accumulate(len(name) + len(", ") for name in short))
    count = max(1, sum(end <= most + len(", ") for end in ends))
    more = f" and {len(short) - count:,} more" if len(short) > count else ""
    return (", ".join(short[:count]) or "none") + more


_FIXES = {
    errno.ENOSPC: "make room there, and run the command again",
    errno.EDQUOT: "make room in your quota, and run the command again",
    errno.EFBIG: "raise the limit of file sizes (ulimit -f), or write to another file system",
    errno.EROFS: "the file system is read-only; name another folder",
    errno.EACCES: "name a file or folder that you may read and write, or change its permissions",
    errno.EPERM: "name a file or folder that you may read and write, or change its permissions",
    errno.EIO: "the disk or the network file system fails; check it, or use another disk",
    errno.ESTALE: "the network file system lost the file; run the command again",
    errno.EMFILE: "too many files are open; raise the limit (ulimit -n)",
    errno.ENFILE: "too many files are open on this machine; close some programs",
    errno.ENAMETOOLONG: "choose a shorter name",
}
"""What helps against an error of the operating system, by its number."""
_NUMBERED = re.compile(r"os error (\d+)")
_FULL = re.compile(r"database or disk is full|\d+ requested and \d+ written|file write failed|unexpected pos \d+")
"""How libraries that hide the number of an error say it (tokenizers, safetensors; SQLite, NumPy, torch)."""


def system_failure(error: BaseException) -> str | None:
    """Describes an error of the operating system in one line, with what helps; None for an error of another kind.

    Looks at ``error`` and at the errors that caused it, because libraries hide a full disk in their own errors.

    Example:
        >>> system_failure(OSError(28, "No space left on device", "model.safetensors"))
        'model.safetensors: No space left on device; make room there, and run the command again'
        >>> system_failure(RuntimeError("a bug")) is None
        True
    """
    for one in _origins(error):
        if isinstance(one, UserError):
            return None
        if isinstance(one, OSError) and one.errno and (one.errno in _FIXES or one.filename is not None):
            where = "" if one.filename is None else f"{one.filename}: "
            return f"{where}{one.strerror}; {_FIXES.get(one.errno, 'check the path')}"
    for one in _origins(error):
        found = _NUMBERED.search(str(one))
        number = int(found[1]) if found else errno.EIO if "disk I/O error" in str(one) else 0
        number = errno.ENOSPC if _FULL.search(str(one)) else number
        if number in _FIXES:
            return f"{reason(one)}; {_FIXES[number]}"
    return None


def advice(error: BaseException) -> str:
    """The end of a message that says what helps against an error of the operating system; empty for other errors.

    Example:
        >>> advice(OSError(28, "No space left on device"))
        '; make room there, and run the command again'
    """
    failure = system_failure(error)
    return "" if failure is None else failure[failure.rindex(";") :]


def _origins(error: BaseException) -> Iterator[BaseException]:
    """The error and its causes, the outermost first."""
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        one = one.__cause__  # not its context: an error before a fallback says nothing about what follows


def plain_failures(function: Callable[P, R]) -> Callable[P, R]:
    """Makes ``function`` raise a `UserError` where the operating system refuses to read or write (a full disk, ...).

    A `UserError` without a fix gets one. Used for the functions that users call; the original error is the
    ``__cause__``.
    """

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except UserError as error:
            origin = error.__cause__ or error.__context__
            if origin is None or ";" in str(error):  # the message has a fix already
                raise
            helps = advice(origin)
            if not helps:
                raise
            raise type(error)(f"{error}{helps}") from origin
        except Exception as error:
            failure = system_failure(error)
            if failure is None:
                raise
            raise UserError(failure) from error

    return called
