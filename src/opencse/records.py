"""Results as files: written whole or not at all, read with one line about what is wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from opencse import io
from opencse.errors import UserError
from opencse.outputs import has_keys, require_json
from opencse.settings import Settings, validate

R = TypeVar("R", bound=Settings)


class Record(Settings):
    """What is written as a JSON file, and read again."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return self.model_dump(mode="json")

    def write_json(self, path: Path) -> None:
        """Writes the record; an earlier record of the same kind in ``path`` is replaced. See ``write_json``.

        Raises:
            UserError: if ``path`` holds anything else, or cannot be written.
        """
        require_json(Path(path), lambda old: has_keys(old, type(self).model_fields), option="path")
        write_json(path, self.to_dict())

    @classmethod
    def read_json(cls, path: Path) -> Self:
        """The record in a file written by ``write_json``.

        Raises:
            UserError: for a file that is missing, not JSON, or not such a record.
        """
        return read_record(cls, Path(path))


def read_record(cls: type[R], path: Path) -> R:
    """The ``cls`` in a file written by ``write_json``.

    Raises:
        UserError: for a file that is missing, not JSON, or not such a record.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read as a result ({error})") from None
    if not isinstance(data, dict):
        raise UserError(f"{path}: a result is a JSON object, this is {type(data).__name__}")
    return validate(cls, data, str(path))


def write_json(path: Path, data: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
    """Writes ``data`` to ``path``; see ``write_text``."""
    write_text(path, json.dumps(data, indent=2, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Writes ``text`` to ``path`` in full or not at all: to a file beside it, then put in its place.

    Folders on the way are made; a link stays, and the file it leads to is replaced.

    Raises:
        UserError: if the place cannot be written, is no regular file (a folder, a device), or the disk is
            full; what was there before stays.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            raise UserError(f"{path}: cannot be written (is not a regular file); give the path of a file")
        target.parent.mkdir(parents=True, exist_ok=True)
        io.write_text(target, text)
    except OSError as error:
        raise UserError(
            f"{path}: cannot be written ({error.strerror}); give a path in a folder you may write to, with space left"
        ) from None
