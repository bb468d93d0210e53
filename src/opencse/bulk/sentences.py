"""Names the document of each vector, where the texts are sentences of documents, next to the vectors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from opencse.bulk.streaming import SUFFIX
from opencse.crash_safe import partial_path
from opencse.errors import UserError, reason
from opencse.io import writing
from opencse.numerals import number_of
from opencse.outputs import has_json_lines, is_same, require_apart, require_json_lines
from opencse.text.given import DocumentTexts, FileTexts

SENTENCES = "sentences.jsonl"
_KEYS = ("id", "text")


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


def require_sentences_file(
    source: FileTexts, out: Path, *, read: Sequence[Path], models: Sequence[Path], overwrite: bool
) -> None:
    """Refuses to write vectors to the file ``out`` where its sentences could not be written, or are of other vectors.

    Args:
        source: whose texts are encoded.
        out: the ``.npy`` file.
        read: files and folders that are read.
        models: folders of models.
        overwrite: replace the vectors and sentences of an earlier call.

    Raises:
        UserError: naming the file of the sentences, and what to do.
    """
    file = sentences_file(out)
    if isinstance(source, DocumentTexts):
        require_apart(file, read=read, models=models)
        is_continued = partial_path(out.resolve()).exists()  # by a call that found no other's file of this name
        require_json_lines(file, _KEYS, overwrite=overwrite or is_continued, exactly=True)
    elif has_json_lines(file, _KEYS, exactly=True) and not any(is_same(file, one) for one in read):
        raise UserError(
            f"{file}: has the documents of other vectors than those of {source.name}; delete it, or choose another "
            "--out"
        )


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
    try:
        with writing(file) as unfinished:
            with unfinished.open("w", encoding="utf-8") as stream:
                for sentence in sentences_of(source):
                    stream.write(json.dumps(sentence, ensure_ascii=False) + "\n")
                    written += 1
            if written != rows:
                raise UserError(
                    f"{source.name}: changed while it was read ({number_of(rows, 'text')}, then {written:,})"
                )
    except OSError as error:
        raise UserError(f"{file}: cannot be written ({reason(error)})") from None
