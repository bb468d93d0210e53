"""Writes the vectors of a text of any length to a file, window by window; continues after a kill.

Until the file is whole it is called ``NAME.partial``, with its record next to it; see `opencse.files`. Where the texts
are sentences of documents, another file names the document of each vector.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TextIO

import numpy as np

from opencse.bulk.encoding_settings import EncodingSettings
from opencse.encoder.first_look import warn_of_unknown_tokens
from opencse.encoder.text_encoder import WINDOW, DamagedVectorError
from opencse.errors import UserError, reason
from opencse.files import ResumableFile, npy_header, partial_path, writing
from opencse.numerals import number_of
from opencse.progress import SILENT, Count, Say, uncounted
from opencse.text.files.formats import RawRow
from opencse.text.given import DocumentTexts, FileTexts

SUFFIX = ".npy"


@dataclass(frozen=True)
class EncodedFile:
    """A report of what was written.

    Attributes:
        rows: number of vectors in the file, or in all files of the folder.
        dimension: of each vector.
        before: number of the rows that an earlier, interrupted call had written.
        seconds: spent on the other rows.
        files: number of files.
    """

    rows: int
    dimension: int
    before: int
    seconds: float
    files: int = 1


def encode_file(
    source: FileTexts,
    out: str | Path,
    settings: EncodingSettings,
    *,
    window: int = WINDOW,
    before_finish: Callable[[int], None] | None = None,
    progress: Count = uncounted,
    say: Say = SILENT.say,
) -> EncodedFile:
    """Writes the vectors of ``source`` (its first column) to ``out``: (rows, width), as `numpy.save` would.

    The text is read three times, first to count and check it; at most ``window`` texts and their vectors are in memory.
    After an interruption (a kill, Ctrl-C, a full disk) the same call continues after the last whole window, and the
    file is the same to the bit as that of an uninterrupted call. The previous content of ``out`` stays until the new
    file is whole.

    Args:
        source: texts.
        out: the file.
        settings: which model encodes, and in which form vectors are written.
        window: number of texts that are encoded, written and recorded together.
        before_finish: called with the number of vectors when all are written, before the file gets its name; where it
            fails or is interrupted, the same call continues with it.
        progress: called with (texts done, texts in all).
        say: called with one line if an earlier call is continued, or why it is not.

    Raises:
        UserError: for a file that cannot be written (before any other work), a fault in the text or the model, or a
            vector that is not finite, naming the line of its text.
    """
    target = Path(out).resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    rows = source.count_rows()
    text = source.fingerprint()
    form = settings.form
    encoder = settings.open(say)
    prompt = settings.prompt_of(encoder)
    identity = {"version": 2, **settings.identity(text, rows, encoder), "window": window}
    try:
        width = form.width(form.kept_dimensions(encoder.dimension))
        header, row_size = npy_header(form.stored, (rows, width)), width * form.stored.itemsize
        with ResumableFile.open(target, identity, header=header, row_size=row_size, say=say) as file:
            before, started = file.done, time.perf_counter()
            for records in _windows(source, before, window):
                first = [texts[0] for _, texts in records]
                if file.done == before:
                    warn_of_unknown_tokens(encoder, first, say)
                try:
                    written = settings.vectors(encoder, first, prompt, lambda done, _: progress(file.done + done, rows))
                except DamagedVectorError as error:
                    file.discard()
                    raise fault(source, records[error.row][0].number, error) from None
                file.add(np.ascontiguousarray(written, dtype=form.stored).tobytes(), len(written))
            if file.done != rows:
                file.discard()
                raise UserError(
                    f"{source.name}: changed while it was read ({number_of(rows, 'text')}, then {file.done:,})"
                )
            if before_finish is not None:
                before_finish(rows)
            file.finish()
            return EncodedFile(rows, form.kept_dimensions(encoder.dimension), before, time.perf_counter() - started)
    except OSError as error:
        partial = partial_path(target)
        continues = f"; finished rows are in {partial.name}, and the same command continues" if partial.exists() else ""
        raise UserError(f"{out}: cannot be written ({reason(error)}){continues}") from None


def fault(source: FileTexts, line: int, error: DamagedVectorError) -> UserError:
    """The error for a text whose vector is not finite."""
    return UserError(f"{source.name}, {source.unit} {line}: {error}")


def write_lines(
    source: FileTexts,
    out: TextIO,
    settings: EncodingSettings,
    *,
    say: Say,
) -> EncodedFile:
    """Writes each text with its vector to ``out``, one JSON object per line, 1,024 texts at a time.

    A sentence of a document has the document's id, too.

    Raises:
        UserError: for a fault in the text, or a vector that is not finite.
    """
    encoder = settings.open(say)
    prompt = settings.prompt_of(encoder)
    rows, started = 0, time.perf_counter()
    for records in _windows(source, 0, 1_024):
        if not rows:
            warn_of_unknown_tokens(encoder, [texts[0] for _, texts in records], say)
        try:
            written = settings.vectors(encoder, [texts[0] for _, texts in records], prompt)
        except DamagedVectorError as error:
            raise fault(source, records[error.row][0].number, error) from None
        for (record, texts), vector in zip(records, written.tolist(), strict=True):
            document = {"id": source.id_of(record)} if isinstance(source, DocumentTexts) else {}
            out.write(json.dumps({**document, "text": texts[0], "vector": vector}, ensure_ascii=False) + "\n")
        out.flush()
        rows += len(records)
    return EncodedFile(rows, settings.form.kept_dimensions(encoder.dimension), 0, time.perf_counter() - started)


def _windows(source: FileTexts, before: int, window: int) -> Iterator[list[tuple[RawRow, tuple[str, ...]]]]:
    examples = islice(source.examples(), before, None)
    while records := list(islice(examples, window)):
        yield records


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
