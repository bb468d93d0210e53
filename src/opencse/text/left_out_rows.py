"""Says which rows of a table are left out because a cell is empty."""

from __future__ import annotations

from opencse.progress import Say
from opencse.text.given import TextSource
from opencse.text.labels import LabelledTexts
from opencse.text.readers import Source


def left_out_rows_of(source: TextSource) -> str:
    """A line about rows that are left out because a cell is empty; empty where there are none.

    The first call reads all rows. Documents without a text are counted by `DocumentTexts.notes`; lists in memory have
    no empty texts.
    """
    return source.left_out_rows if isinstance(source, Source | LabelledTexts) else ""


def say_left_out_rows(source: TextSource, say: Say | None) -> None:
    """Calls ``say`` with the line of `left_out_rows_of`, if there is one.

    Example:
        >>> from opencse.text.given import open_texts
        >>> say_left_out_rows(open_texts(["One.", "Two."]), print)
    """
    if say is not None and (line := left_out_rows_of(source)):
        say(line)
