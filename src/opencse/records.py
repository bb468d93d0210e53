"""Writes results to files that users name, and reads them again; errors say in one line what is wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from opencse import files
from opencse.errors import UserError
from opencse.settings import Settings, validate

R = TypeVar("R", bound=Settings)


class JsonRecord(Settings):
    """The base of results that are written as JSON files and read again."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return self.model_dump(mode="json")

    def write_json(self, path: Path) -> None:
        """Writes the record; a file that exists is replaced. See `save_json`."""
        save_json(path, self.to_dict())

    @classmethod
    def read_json(cls, path: Path) -> Self:
        """Reads the record in a file written by ``write_json``.

        Raises:
            UserError: for a file that is missing, not JSON, or not such a record.
        """
        return read_record(cls, Path(path))


def read_record(cls: type[R], path: Path) -> R:
    """Reads a ``cls`` from a file written by `save_json`.

    Raises:
        UserError: for a file that is missing, not JSON, or not such a record.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read as a result ({error})") from None
    if not isinstance(data, dict):
        raise UserError(f"{path}: a result is a JSON object, this file holds a {type(data).__name__}")
    return validate(cls, data, str(path))


def save_json(path: Path, data: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
    """Writes ``data`` as JSON to a file that the user named; see `save_text`."""
    save_text(path, json.dumps(data, indent=2, allow_nan=False) + "\n")


def save_text(path: Path, text: str) -> None:
    """Writes ``text`` to a file that the user named, completely or not at all (`opencse.files.write_text`).

    Missing folders are made; a link stays, and the file it leads to is replaced.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "new" / "notes.txt"
        >>> save_text(path, "one line")
        >>> path.read_text()
        'one line'

    Raises:
        UserError: if the path cannot be written, is no regular file (a folder, a device), or the disk is
            full; its earlier content stays.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            raise UserError(f"{path}: cannot be written (is not a regular file); give the path of a file")
        target.parent.mkdir(parents=True, exist_ok=True)
        files.write_text(target, text)
    except OSError as error:
        raise UserError(
            f"{path}: cannot be written ({error.strerror}); give a path in a folder you may write to, with space left"
        ) from None
