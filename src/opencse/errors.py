"""The one exception a user is meant to read."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from urllib.parse import unquote

_MASK = "***"
_IN_URL = re.compile(
    r"(?P<start>\b(?:(?:https?|grpc)://(?=[^\s/:@]+@)|[a-z][a-z0-9+.-]*://[^\s/:@]*:))(?P<secret>[^\s]*)@",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"(?P<start>\b(?:\w*password|passwd|pwd|api[_-]?key|token|secret)\s*=\s*)(?P<secret>'(?:[^'\\]|\\.)*'|[^\s&;,)]+)",
    re.IGNORECASE,
)
_OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class UserError(Exception):
    """Bad input, told in one line: what is wrong, where, and how to mend it.

    The command line prints the message alone, without a traceback, and exits with code 2.
    """


class MissingColumnError(UserError):
    """A column that was asked for is not there."""


class OutdatedError(UserError):
    """What was opened is not what it was, and is of no use until it is opened again, whatever is asked of it."""


class InterruptedRunError(Exception):
    """The user asked long work to stop; what is there to go on from is written, and the message says how."""


def nearest(word: str, candidates: Iterable[str]) -> str:
    """The clause `` (did you mean X?)`` for the candidate closest to ``word``, or an empty string."""
    close = difflib.get_close_matches(word, list(candidates), n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""


def require_known(value: str, known: Sequence[str], what: str) -> None:
    """Refuses a ``value`` that is not among ``known``; ``what`` it is, for the message."""
    if value not in known:
        raise UserError(f"unknown {what} {value!r}{nearest(value, known)}; known: {', '.join(known)}")


def printable(text: str, keep: str = "") -> str:
    r"""``text`` with what a terminal would obey instead of showing written as escapes (``\x1b``, ``\u202e``).

    These are control characters (line breaks among them), marks that turn the direction of writing, and lone
    surrogates, which no terminal can be sent. The characters in ``keep`` stay as they are.
    """
    return _OBEYED.sub(lambda found: found[0] if found[0] in keep else ascii(found[0])[1:-1], text)


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
    parts = [part for secret in plain for part in (secret, unquote(secret), *secret.split("@"))]
    return sorted({part for part in parts if len(part) > 2 and part != _MASK}, key=len, reverse=True)


def reason(error: BaseException) -> str:
    """The first line of what another library's ``error`` says, or its kind where it says nothing."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def shortened(text: str, most: int = 80) -> str:
    """``text``, cut where it is too long for a message."""
    return text if len(text) <= most else f"{text[:most]}..."
