"""Names the document of each vector, where the texts are sentences of documents, next to the vectors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from opencse.bulk.streaming import SUFFIX
from opencse.errors import UserError
from opencse.files import writing
from opencse.numerals import number_of
from opencse.text.given import DocumentTexts

SENTENCES = "sentences.jsonl"


def sentences_file(out: Path) -> Path:
    """The file that names the documents of the vectors in ``out``: in a folder, or next to a file.

    Example:
        >>> sentences_file(Path("manual.npy")).name
        'manual.sentences.jsonl'
    """
    return out.with_suffix(f".{SENTENCES}") if out.suffix == SUFFIX else out / SENTENCES


def sentences_of(source: DocumentTexts) -> Iterator[dict[str, str]]:
    """The id of the document and the text of each sentence; line i is of vector i."""
    for record, texts in source.examples():
        yield {"id": source.id_of(record), "text": texts[0]}


def write_sentences(source: DocumentTexts, file: Path, rows: int) -> None:
    """Writes the sentences as JSON lines, all of them or none.

    Args:
        source: the documents.
        file: to write.
        rows: number of vectors, and of sentences unless the text has changed.

    Raises:
        UserError: if they cannot be written, or are not as many as the vectors.
    """
    written = 0
    with writing(file) as unfinished:
        with unfinished.open("w", encoding="utf-8") as stream:
            for sentence in sentences_of(source):
                stream.write(json.dumps(sentence, ensure_ascii=False) + "\n")
                written += 1
        if written != rows:
            raise UserError(f"{source.name}: changed while it was read ({number_of(rows, 'text')}, then {written:,})")
