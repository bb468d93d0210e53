"""How rows get into an index: encoded in windows, and gone on with after a kill."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import fingerprint
from opencse.encoder.known import tell_unknown
from opencse.errors import UserError
from opencse.io import write_text
from opencse.modules.prompts import Role
from opencse.outputs import made_folder
from opencse.progress import Progress
from opencse.search.database import Facts, create, new_name, refused
from opencse.search.engines import Kind, require_enough, require_faiss, require_metric, write_engine
from opencse.search.folder import (
    BUILDING,
    FILES,
    NAMES,
    current,
    listed,
    locked,
    note,
    point_to,
    remove_others,
    require_own,
)
from opencse.search.kept_words import place_of
from opencse.search.passages import Cutter
from opencse.search.reading import RowSource
from opencse.search.rows import Row
from opencse.search.writer import Writer
from opencse.text.stems import AUTO, language_named, language_of

WINDOW = 8_192
"""Rows of text that are encoded, written and made sure of together."""
_SAMPLE = 2_000
"""Texts whose language is looked at."""


@dataclass(frozen=True)
class How:
    """How an index is made.

    Attributes:
        kind: ``flat``, ``hnsw`` or ``ivfpq``; see `opencse.search.engines`.
        cut: cut texts that are longer than the model reads into passages.
        max_length: ids of the longest passage; None: as many as the model reads.
        overlap: ids of whole sentences that a passage may share with the one before.
        language: whose stems words are reduced to in a hybrid search: ``auto`` (that of the texts, where it is clear),
            ``none``, or a language by name or code; see `opencse.text.stems`.
    """

    kind: Kind = "flat"
    cut: bool = True
    max_length: int | None = None
    overlap: int = 0
    language: str = AUTO

    def cutter(self, encoder: SentenceEncoder) -> Cutter | None:
        """What cuts the texts, if anything does."""
        if not self.cut:
            if self.max_length is not None or self.overlap:
                raise UserError("max_length and overlap are of passages; leave them out where texts are not cut")
            return None
        return Cutter(encoder, self.max_length or encoder.max_length, self.overlap)


def build(
    folder: Path,
    source: RowSource,
    encoder: SentenceEncoder,
    how: How,
    *,
    model: str,
    pooling: str | None,
    overwrite: bool,
    progress: Progress,
) -> None:
    """Makes an index in ``folder``; broken off, the same call goes on after the last whole window."""
    cutter = how.cutter(encoder)
    language = None if how.language == AUTO else language_named(how.language)
    rows = source.count
    if how.kind != "flat":
        require_faiss()
        require_enough(how.kind, rows)
        require_metric(how.kind, encoder.similarity_fn_name)
    text = source.fingerprint()
    require_new(folder, overwrite=overwrite)
    with made_folder(folder), locked(folder), refused(folder):
        require_new(folder, overwrite=overwrite)
        facts = Facts(
            model=model,
            fingerprint=fingerprint(encoder),
            pooling=pooling,
            query_prompt=encoder.prompts.of(Role.QUERY),
            document_prompt=encoder.prompts.of(Role.DOCUMENT),
            dimension=encoder.dimension,
            similarity=encoder.similarity_fn_name,
            kind=how.kind,
            max_length=None if cutter is None else how.max_length or encoder.max_length,
            overlap=how.overlap,
            vectors=new_name("vectors-", ".f32"),
            source=text,
            taken=0,
        )
        if encoder.prompts:
            line = encoder.prompts.line(Role.QUERY, Role.DOCUMENT)
            progress.say(f"prompts    {line}{encoder.prompts.note}")
        name = _begun(folder, facts, progress) or _begin(folder, facts)
        with _undone(folder, name), Writer(folder, name) as writer:
            taken = rows if writer.facts.taken is None else writer.facts.taken
            progress.start("encoding", rows, taken)
            try:
                for part in _windows(source, taken):
                    append(writer, encoder, cutter, part, progress, done=taken)
                    taken += len(part)
                    writer.change(taken=taken)
                    writer.commit(go_on=True)
            finally:
                progress.finish()
            if taken != rows:
                raise UserError(f"{source.name}: changed while it was read ({rows:,} rows, then {taken:,})")
            if how.language == AUTO:
                language = language_of(writer.sample(_SAMPLE))
            if writer.facts.taken is not None or writer.facts.language != language:
                writer.change(taken=None, language=language)
                write_engine(writer, progress)
                writer.commit()
            facts = writer.facts
        _note_current(folder)
        point_to(folder, name)
        (folder / BUILDING).unlink(missing_ok=True)
        remove_others(folder, [name, facts.vectors, facts.engine or ""])


def add(
    writer: Writer,
    source: RowSource,
    encoder: SentenceEncoder,
    *,
    replace: bool,
    progress: Progress,
) -> int:
    """Puts the rows of ``source`` into the change that ``writer`` makes; how many."""
    facts = writer.facts
    cutter = None if facts.max_length is None else Cutter(encoder, facts.max_length, facts.overlap)
    progress.start("encoding", source.count)
    done = 0
    replaced: set[str] | None = set() if replace else None
    try:
        for part in _windows(source, 0):
            append(writer, encoder, cutter, part, progress, done=done, replaced=replaced)
            done += len(part)
    finally:
        progress.finish()
    return done


def append(
    writer: Writer,
    encoder: SentenceEncoder,
    cutter: Cutter | None,
    rows: Sequence[Row],
    progress: Progress,
    *,
    done: int,
    replaced: set[str] | None = None,
) -> None:
    """Puts some rows into the change that ``writer`` makes; ``done`` came before.

    Where ``replaced`` are the ids that came before, they take the place of rows with the same ids, and are added to it.
    """
    named = list(_with_ids(rows, writer.facts.next_id))
    if replaced is not None:
        ids = [row.id for row in named if row.id is not None]
        for name in ids:
            if name in replaced:
                raise UserError(f"the id {name!r} is given twice; give it once")
            replaced.add(name)
        writer.remove_ids(ids)
    texts = [row.text for row in named]
    if not done:
        tell_unknown(encoder, texts, progress.say)
    cut = [[text] for text in texts] if cutter is None else cutter.cut(texts)
    parts = [
        (Row(text, row.id, row.metadata), part)
        for row, passages in zip(named, cut, strict=True)
        for part, text in enumerate(passages)
    ]
    share = len(rows) / max(1, len(parts))
    for start in range(0, len(parts), WINDOW):
        here = parts[start : start + WINDOW]
        vectors = encoder.encode_document(
            [row.text for row, _ in here],
            progress=lambda made, _, before=start: progress.advance(done + int(share * (before + made))),  # type: ignore[misc]
        )
        writer.append(here, writer.facts.similarity.prepared(vectors))


def _with_ids(rows: Sequence[Row], next_id: int) -> Iterator[Row]:
    for row in rows:
        if row.id is None:
            row = Row(row.text, str(next_id), row.metadata)
        if row.id is not None and row.id.isdecimal() and len(row.id) < 19:
            next_id = max(next_id, int(row.id) + 1)
        yield row


def _windows(source: RowSource, before: int) -> Iterator[list[Row]]:
    rows = islice(iter(source), before, None)
    while part := list(islice(rows, WINDOW)):
        yield part


def _begun(folder: Path, facts: Facts, progress: Progress) -> str | None:
    """The database that an earlier call of the same began; what another call began is removed."""
    with suppress(OSError, ValueError, KeyError, TypeError, UserError):
        name = json.loads((folder / BUILDING).read_text(encoding="utf-8"))["rows"]
        with Writer(folder, str(name)) as writer:
            there = writer.facts
        if all(getattr(there, key) == getattr(facts, key) for key in _SAME):
            done = "all" if there.taken is None else f"{there.taken:,}"
            progress.say(f"{folder}: going on after {done} rows")
            return str(name)
        progress.say(f"{folder}: was begun with another text, model or setting; it begins anew")
    return None


_SAME = ("fingerprint", "similarity", "dimension", "kind", "max_length", "overlap", "source", "model", "pooling")


def _begin(folder: Path, facts: Facts) -> str:
    name = new_name("rows-", ".sqlite")
    note(folder, name, facts.vectors)
    create(folder, name, facts)
    write_text(folder / BUILDING, json.dumps({"rows": name}) + "\n")
    return name


@contextmanager
def _undone(folder: Path, name: str) -> Iterator[None]:
    """Removes what was begun if the block fails before any row is in it: nothing could go on with it."""
    try:
        yield
    except Exception:
        with suppress(OSError, UserError, sqlite3.Error):
            with Writer(folder, name) as writer:
                facts = writer.facts
            if not facts.taken and facts.taken is not None:
                (folder / BUILDING).unlink(missing_ok=True)
                remove_others(folder, listed(folder) - {name, facts.vectors})
                if not (folder / NAMES).exists():
                    (folder / FILES).unlink(missing_ok=True)
        raise


def _note_current(folder: Path) -> None:
    """Lists the files of the index that is there, which may be older than the list."""
    with suppress(UserError, OSError, sqlite3.Error):
        name = current(folder)
        with Writer(folder, name) as writer:
            facts = writer.facts
        note(folder, name, facts.vectors, facts.engine or "", place_of(name, facts.version, facts.language))


def require_new(folder: Path, *, overwrite: bool) -> None:
    """Refuses a folder with other files, and without ``overwrite`` one that holds an index; touches nothing.

    Raises:
        UserError: saying what to do.
    """
    require_own(folder)
    if (folder / NAMES).exists() and not overwrite:
        raise UserError(f"{folder}: holds an index; add to it (opencse index add), or give --overwrite")
