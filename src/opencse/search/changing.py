"""Changes an index that exists: one change at a time, committed at its end; adds rows of a checked encoder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from opencse.encoder.fingerprint import fingerprint
from opencse.encoder.text_encoder import TextEncoder
from opencse.errors import UserError
from opencse.modules.prompts import Role
from opencse.progress import Progress
from opencse.search.approximate import update_approximate_index
from opencse.search.folder import add_to_list, current_database, locked, remove_others
from opencse.search.keyword_index import cache_name
from opencse.search.passages import PassageSplitter
from opencse.search.row_database import Manifest, how_to_rebuild, write_errors
from opencse.search.row_encoding import RowEncoder, windows
from opencse.search.row_sources import RowSource
from opencse.search.writer import Writer

_COMPACT = 4
"""The vector file is written again when more than one in this many of its rows is deleted."""


@contextmanager
def changing(folder: Path, progress: Progress, *, rows: bool = True) -> Iterator[Writer]:
    """Opens the index for a change, and commits it at the end of the block; on an error nothing is changed.

    Args:
        folder: of the index.
        progress: shows the progress.
        rows: whether rows may change, and not only settings.

    Raises:
        UserError: if another process is writing the index, or it cannot be written.
    """
    current_database(folder)  # do not lock a folder without an index
    with locked(folder), write_errors(folder):
        name = current_database(folder)
        with Writer(folder, name) as writer:
            manifest = writer.manifest
            words = cache_name(name, manifest.version, manifest.language)
            add_to_list(folder, name, manifest.vectors, manifest.engine or "", words)
            remove_others(folder, [name, manifest.vectors, manifest.engine or "", words])
            yield writer
            if rows:
                writer.change(source=None)
            if writer.manifest.slots > _COMPACT * max(1, writer.manifest.rows) // (_COMPACT - 1):
                writer.compact()
            update_approximate_index(writer, progress)
            writer.commit()


def add(writer: Writer, source: RowSource, encoder: TextEncoder, *, replace: bool, progress: Progress) -> int:
    """Adds the rows of ``source`` to a change, and returns their number.

    Raises:
        UserError: for rows that are to replace others and have no ids, an id that exists already, or invalid rows.
    """
    if replace and all(row.id is None for row in source):
        raise UserError(
            f"{source.name}: no row has an id, so --replace would replace none; name the column of the ids with --id, "
            "or leave out --replace to add the rows under new numbers"
        )
    manifest = writer.manifest
    writer.change(next_id=max(manifest.next_id, source.next_id))
    splitter = None if manifest.max_length is None else PassageSplitter(encoder, manifest.max_length, manifest.overlap)
    rows = RowEncoder(writer, encoder, splitter, progress)
    progress.start("encoding", source.count)
    done = 0
    replaced: set[str] | None = set() if replace else None
    try:
        for window in windows(source):
            rows.append(window, done=done, replaced=replaced)
            done += len(window)
    finally:
        progress.finish()
    return done


def require_same_model(folder: Path, manifest: Manifest, encoder: TextEncoder) -> None:
    """Refuses an encoder whose vectors cannot be compared with those of the index."""
    if encoder.similarity_fn_name is not manifest.similarity:
        raise UserError(
            f"{folder}: compares vectors by {manifest.similarity}, and the model by {encoder.similarity_fn_name}; "
            f"{how_to_rebuild(folder)}"
        )
    current = fingerprint(encoder)
    prompts = encoder.prompts.of(Role.QUERY), encoder.prompts.of(Role.DOCUMENT)
    if current != manifest.fingerprint and prompts != (manifest.query_prompt, manifest.document_prompt):
        raise UserError(
            f"{folder}: was built with the prompts {manifest.query_prompt!r} for queries and "
            f"{manifest.document_prompt!r} for documents, and this encoder has {prompts[0]!r} and {prompts[1]!r}; "
            f"query it with the model as it was then, or {how_to_rebuild(folder)}"
        )
    if current != manifest.fingerprint:
        raise UserError(
            f"{folder}: was built with {manifest.model or 'another model'} (fingerprint {manifest.fingerprint}), and "
            f"this encoder is another ({current}), or the index is of an earlier version of opencse; query it with "
            "that model, or build an index with this one"
        )
