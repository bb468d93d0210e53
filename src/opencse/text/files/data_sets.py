"""Reads the rows of a data set of the Hub, or of a folder that `datasets` loads."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opencse.environment import require_packages
from opencse.errors import UserError, explaining
from opencse.text.files.formats import Columns, RawRow, arrow_columns, arrow_names, arrow_rows, choose_columns, leaves

_BATCH = 1_000


def read_data_set(location: str, split: str, columns: Columns | None) -> Iterator[RawRow]:
    """Reads the rows of ``split``.

    Raises:
        UserError: if it cannot be loaded.
    """
    dataset = load_data_set(location, split, _alternative())
    schema = dataset.features.arrow_schema
    names = _columns(columns, arrow_names(schema), location)
    # Arrow's own values: a column that calls itself image or audio would be opened at the path it holds
    arrow = dataset.select_columns(arrow_columns(names, schema)).with_format("arrow")
    yield from arrow_rows(arrow.iter(batch_size=_BATCH), names, location)


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
    return leaves(arrow_names(load_data_set(location, split, _alternative()).features.arrow_schema))


def _alternative() -> str:
    return "give a file (text, a table, JSON, ...), a folder of such files, or a data set of the Hub"


def load_data_set(location: str, split: str, alternative: str) -> Any:  # noqa: ANN401 - `datasets` is untyped
    """The split of a folder or of a data set of the Hub, as `datasets` loads it.

    Args:
        location: the folder or the Hub id.
        split: its name.
        alternative: what to do if that fails; the end of the error message.

    Raises:
        UserError: if it cannot be loaded.
    """
    require_packages(f"{location}: no such file; a data set of the Hub or a folder", "train", "datasets")
    import datasets

    folder = Path(location)
    with explaining(
        f"{location}: neither a file nor a data set that could be loaded, split {split!r}", Exception, fix=alternative
    ):
        if not folder.is_dir():
            _require_network(location, Path(datasets.config.HF_DATASETS_CACHE))
        return datasets.load_dataset(location, split=split)


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
