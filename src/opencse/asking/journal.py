"""Keeps every answer of a language model in a file, so that none is asked for, or paid for, twice."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path

from opencse.asking.chat_server import ChatReply
from opencse.errors import UserError
from opencse.files import GrowingFile, hash_json

_BEGINNING = b'{"key": "'
"""How each line begins."""


class AnswerJournal:
    """The answers in a ``.jsonl`` file, one per line, by a hash of the request.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "answers.jsonl"
        >>> with AnswerJournal.open(path) as journal:
        ...     journal.add({"a": ChatReply("How?")})
        >>> with AnswerJournal.open(path) as journal:  # the next call
        ...     journal.replies["a"].content
        'How?'

    Attributes:
        replies: by key, what was answered; what was added included.
    """

    def __init__(self, file: GrowingFile, replies: dict[str, ChatReply]) -> None:
        self._file = file
        self.replies = replies

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[AnswerJournal]:
        """Opens the file for this process alone; what a kill left unfinished at its end is removed.

        Raises:
            UserError: if another process writes it, it cannot be written, or it is no such file.
        """
        with closing(GrowingFile(path)) as file:
            if not file.lock():
                raise UserError(f"{path}: another process is writing it; wait for it, or choose another --out")
            replies, size = read_replies(path)
            file.keep(size)
            try:
                yield cls(file, replies)
            finally:
                if not replies:
                    path.unlink()

    def add(self, replies: Mapping[str, ChatReply]) -> None:
        """Adds answers by key, and waits until they are on the disk."""
        lines = [json.dumps({"key": key, **asdict(reply)}, ensure_ascii=False) for key, reply in replies.items()]
        self._file.append("".join(f"{line}\n" for line in lines).encode())
        self._file.sync()
        self.replies.update(replies)


def read_replies(path: Path) -> tuple[dict[str, ChatReply], int]:
    """The answers in a file by key, and the bytes of its complete lines; of a missing file, none.

    Raises:
        UserError: for a file of something else, naming the line.
    """
    if not path.exists():
        return {}, 0
    content = path.read_bytes()
    size = content.rfind(b"\n") + 1
    replies: dict[str, ChatReply] = {}
    unfinished = content[size:]
    if not (unfinished.startswith(_BEGINNING) or _BEGINNING.startswith(unfinished)):
        raise UserError(f"{path}: its last line is no answer of an earlier call; choose another --out")
    for number, line in enumerate(content[:size].split(b"\n")[:-1], start=1):
        try:
            values = json.loads(line)
            key = str(values.pop("key"))
            replies[key] = ChatReply(**values)  # which drops impossible counts of an earlier version
        except (ValueError, TypeError, AttributeError, LookupError, RecursionError):
            raise UserError(
                f"{path}, line {number}: is no answer of an earlier call; remove the line, or choose another --out"
            ) from None
    return replies, size


def key_of(fields: Mapping[str, object], prompt: str) -> str:
    """Identifies a request by its prompt, the model and the other fields; the server's address does not matter."""
    return hash_json([dict(fields), prompt])[:24]
