"""Reads the rows of a data set of the Hub, or of a folder that `datasets` loads."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from opencse.environment import require_packages
from opencse.errors import UserError, reason
from opencse.text.files.arrow import column_names, column_values, first_part
from opencse.text.files.formats import Columns, RawRow, choose_columns

_BATCH = 1_000


def read_data_set(location: str, split: str, columns: Columns | None) -> Iterator[RawRow]:
    """Reads the rows of ``split``.

    Nothing outside of a folder is read: neither the targets of links in it, nor files elsewhere that its card names.

    Raises:
        UserError: if it cannot be loaded, or leads outside its folder.
    """
    dataset = load_data_set(location, split, _alternative())
    schema = dataset.features.arrow_schema
    names = _columns(columns, column_names(schema, complete=True), location)
    read = list(dict.fromkeys(first_part(name, schema) for name in names))
    number = 0
    # Arrow's own values: a column that calls itself image or audio would be opened at the path it holds
    for batch in dataset.select_columns(read).with_format("arrow").iter(batch_size=_BATCH):
        for values in zip(*(column_values(batch, name, location, number) for name in names), strict=True):
            number += 1
            yield RawRow(number, 0, names, values)


def _columns(columns: Columns | None, present: Columns, location: str) -> Columns:
    """The columns to read; where a folder of files lacks them, the error says how each file is read by its kind."""
    try:
        return choose_columns(columns, present, location)
    except UserError as error:
        if not Path(location).is_dir():
            raise
        pattern = shlex.quote(f"{location.rstrip('/')}/*")
        raise type(error)(
            f"{error}; if files are not separated by commas or have nested keys, give them as a pattern: {pattern}"
        ) from None


def data_set_columns(location: str, split: str) -> Columns:
    """The names of the columns of a data set; see `read_data_set`."""
    return column_names(load_data_set(location, split, _alternative()).features.arrow_schema)


def _alternative() -> str:
    return "give a file (text, a table, JSON, ...), a folder of such files, or a data set of the Hub"


def load_data_set(location: str, split: str, alternative: str) -> Any:  # noqa: ANN401 - `datasets` is untyped
    """The split of a folder or of a data set of the Hub, as `datasets` loads it.

    Args:
        location: the folder or the Hub id.
        split: its name.
        alternative: what to do if that fails; the end of the error message.

    Raises:
        UserError: if it cannot be loaded, or leads outside its folder.
    """
    require_packages(f"{location}: no such file; a data set of the Hub or a folder", "train", "datasets")
    import datasets

    folder = Path(location)
    if folder.is_dir():
        _require_inside(folder)
    try:
        if not folder.is_dir():
            _require_network(location, Path(datasets.config.HF_DATASETS_CACHE))
        return datasets.load_dataset(location, split=split)
    except Exception as error:
        raise UserError(
            f"{location}: neither a file nor a data set that could be loaded, split {split!r} ({reason(error)}); "
            f"{alternative}"
        ) from None


def _require_network(hub_id: str, cache: Path) -> None:
    """Downloads a data set's card, to fail at once without a network: `datasets` tries six times, for 24 s.

    Slow networks, and data sets that were loaded before, are left to `datasets`.
    """
    from huggingface_hub import snapshot_download

    if (cache / hub_id.replace("/", "___")).is_dir():
        return
    try:
        snapshot_download(hub_id, repo_type="dataset", allow_patterns="README.md")
    except Exception as error:
        if _no_network(error):
            raise


def _no_network(error: BaseException | None) -> bool:
    """Whether no connection could be made at all: unknown host, or nothing listens there. Waiting does not help."""
    while error is not None:
        if isinstance(error, OSError) and error.errno is not None and not isinstance(error, TimeoutError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _require_inside(folder: Path) -> None:
    root = folder.resolve()
    for parent, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(parent, name)
            if path.is_symlink() and not path.resolve().is_relative_to(root):
                raise UserError(
                    f"{folder}: {path.relative_to(root)} is a link to a place outside the folder, which is not "
                    "followed; put the file itself there (cp -L)"
                )
    for file, pattern in _patterns(folder):
        posix, windows = PurePosixPath(pattern), PureWindowsPath(pattern)
        outside = ".." in windows.parts or posix.is_absolute() or windows.drive or windows.root
        if outside or "://" in pattern:
            raise UserError(f"{file}: names data outside the folder ({pattern!r}), which is not read; delete that line")


def _patterns(folder: Path) -> Iterator[tuple[Path, str]]:
    """Every text in the cards of ``folder`` that may name files, as `datasets` reads them, with the card's name."""
    from huggingface_hub import DatasetCard

    for name, before, after in (("README.md", "", ""), (".huggingface.yaml", "---\n", "\n---\n")):
        file = folder / name
        if not file.is_file():
            continue
        try:
            configs = DatasetCard(before + file.read_text(encoding="utf-8") + after).data.get("configs")
        except Exception as error:  # YAML's own errors among them
            raise UserError(f"{file}: cannot be read ({reason(error)}); repair or remove it") from None
        for text in _texts_in(configs):
            yield file, text


def _texts_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts_in(item)
