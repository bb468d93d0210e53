"""Reads the documents of a corpus, from files or from memory, and reports how they were read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from opencse.errors import UserError
from opencse.progress import Say
from opencse.text.documents import Document, GivenDocument, documents_in_memory, read_documents
from opencse.text.files.kinds import HowRead
from opencse.text.folders import find_corpus
from opencse.text.reading_notes import ReadingNotes


def documents_of(
    corpus: str | Path | Sequence[GivenDocument],
    fields: Sequence[str] | None = None,
    *,
    say: Say,
    **how: Unpack[HowRead],
) -> tuple[list[Document], str]:
    """Reads the documents; also returns the name of their source for messages.

    Example:
        >>> documents, source = documents_of(["A text.", ("A title", "Another text.")], say=print)
        >>> len(documents), source
        (2, 'a list of 2 documents')

    Args:
        corpus: a file, a folder or a pattern, or documents in memory.
        fields: names of the columns with title and text; for files only.
        say: called with what was read and what was left out.
        **how: see `opencse.text.files.kinds.Reading`; for files only.

    Raises:
        UserError: see `read_documents` and `documents_in_memory`.
    """
    if isinstance(corpus, str | Path):
        source, notes = str(find_corpus(corpus)), ReadingNotes()
        documents = read_documents(source, fields, notes=notes, **how)
        for line in notes.lines():
            say(line)
        return documents, source
    if fields is not None or any(how.values()):
        raise UserError("fields, keep_code, quoted, ... apply to files; leave them out for a list of documents")
    return documents_in_memory(corpus), f"a list of {len(corpus):,} documents"
