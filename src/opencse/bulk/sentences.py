"""Names the document of each vector, where the texts are sentences of documents, next to the vectors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from opencse.bulk.streaming import SUFFIX
from opencse.errors import UserError, reason
from opencse.io import writing
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


def write_sentences(source: DocumentTexts, file: Path) -> None:
    """Writes the sentences as JSON lines, all of them or none.

    Raises:
        UserError: if they cannot be written.
    """
    try:
        with writing(file) as unfinished, unfinished.open("w", encoding="utf-8") as stream:
            for sentence in sentences_of(source):
                stream.write(json.dumps(sentence, ensure_ascii=False) + "\n")
    except OSError as error:
        raise UserError(f"{file}: cannot be written ({reason(error)})") from None
