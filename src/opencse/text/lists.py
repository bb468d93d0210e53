"""Reads a list of texts, such as queries, from a file of any kind: one per line, or one column of a table."""

from __future__ import annotations

from opencse.errors import UserError, names_listed
from opencse.text.files.formats import column_like
from opencse.text.files.kinds import SECTIONED
from opencse.text.readers import Source
from opencse.text.row_checks import checked_texts

COLUMNS = ("query", "question", "text", "sentence", "anchor")
"""Columns of texts; the first that is there is read."""


def read_list(location: str) -> list[str]:
    r"""The texts of a list: lines of a text file, or the column of a table, JSON or Parquet that `COLUMNS` names.

    Commands that read a list have options about columns for another file or none at all, so a list needs none.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> path = Path(tempfile.mkdtemp()) / "queries.tsv"
        >>> _ = path.write_text("id\tQuery\n7\thow to boil water\n9\tlate trains\n")
        >>> read_list(str(path))
        ['how to boil water', 'late trains']

    Args:
        location: a file, or ``-`` for standard input.

    Raises:
        UserError: for a table without such a column, or any fault in the file.
    """
    source = Source(location)
    if source.is_file and source.kind.name not in (*SECTIONED, "text"):
        present = source.present()
        column = next((match for name in COLUMNS if (match := column_like(name, present))), None)
        if column is None:
            raise UserError(
                f"{source.name}: a table with the columns {names_listed(present)}, none of which is called "
                f"{', '.join(COLUMNS[:-1])} or {COLUMNS[-1]}; give the column of the texts such a name (in a first "
                "line, if the file has none), or give a file with one text per line"
            )
        source = Source(location, (column,))
        for record in source.records((column,)):
            checked_texts(record, source.name, source.unit)  # an empty one is refused: answers are in the order of rows
    return [row[0] for row in source.read().rows]
