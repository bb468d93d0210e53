"""Encodes rows window by window, and appends them to a change of an index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from opencse.encoder.text_encoder import TextEncoder
from opencse.encoder.unknown_tokens import warn_of_unknown_tokens
from opencse.errors import UserError
from opencse.progress import Progress
from opencse.search.passages import PassageSplitter
from opencse.search.row_sources import RowSource
from opencse.search.rows import IndexRow
from opencse.search.writer import Writer

WINDOW = 8_192
"""Rows that are encoded and written together."""


class RowEncoder:
    """Splits rows into passages, encodes these and appends them to a change.

    Args:
        writer: of the change.
        encoder: of the index.
        splitter: of long texts; None: texts are not split.
        progress: counts rows.
    """

    def __init__(
        self, writer: Writer, encoder: TextEncoder, splitter: PassageSplitter | None, progress: Progress
    ) -> None:
        self._writer, self._encoder, self._splitter, self._progress = writer, encoder, splitter, progress

    def append(self, rows: Sequence[IndexRow], *, done: int, replaced: set[str] | None = None) -> None:
        """Encodes a window of rows and appends them.

        Args:
            rows: of the window.
            done: number of rows before this window.
            replaced: ids of the rows before; the new rows replace rows of the same ids, and their ids are added. None:
                an id that exists is refused.

        Raises:
            UserError: for an id that exists, or occurs twice.
        """
        identified = list(_with_ids(rows, self._writer.manifest.next_id))
        if replaced is not None:
            ids = [row.id for row in identified if row.id is not None]
            for name in ids:
                if name in replaced:
                    raise UserError(f"the id {name!r} occurs twice; give each row its own id")
                replaced.add(name)
            self._writer.remove_ids(ids)
        texts = [row.text for row in identified]
        if not done:
            warn_of_unknown_tokens(self._encoder, texts, self._progress.say)
        passages = [[text] for text in texts] if self._splitter is None else self._splitter.split(texts)
        parts = [
            (IndexRow(text, row.id, row.metadata), part)
            for row, row_passages in zip(identified, passages, strict=True)
            for part, text in enumerate(row_passages)
        ]
        for start in range(0, len(parts), WINDOW):
            block = parts[start : start + WINDOW]
            place = {text: number for number, text in enumerate(dict.fromkeys(row.text for row, _ in block))}
            begin, share = start / len(parts), len(block) / len(place) / len(parts)
            vectors = self._encoder.encode_document(
                list(place),  # once each: another batch would change the last digits
                precision=self._writer.manifest.precision,
                progress=lambda count, _, begin=begin, share=share: self._progress.advance(  # type: ignore[misc]
                    done + int(len(rows) * (begin + share * count))
                ),
            )
            vectors = vectors[[place[row.text] for row, _ in block]]
            self._writer.append(block, self._writer.manifest.prepared(vectors))


def windows(source: RowSource, before: int = 0) -> Iterator[list[IndexRow]]:
    """The rows in windows of `WINDOW`, without the first ``before``."""
    rows = islice(iter(source), before, None)
    while window := list(islice(rows, WINDOW)):
        yield window


def _with_ids(rows: Sequence[IndexRow], next_id: int) -> Iterator[IndexRow]:
    """Numbers the rows without an id; ``next_id`` is greater than each number that a row has as its id."""
    for row in rows:
        yield row if row.id is not None else replace(row, id=str(next_id))
        next_id += row.id is None
