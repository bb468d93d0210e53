"""Builds an index in a folder, or continues a build that was interrupted; changes an index that exists."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from opencse.encoder.fingerprint import fingerprint
from opencse.encoder.first_look import warn_of_unknown_tokens
from opencse.encoder.opening import load
from opencse.encoder.text_encoder import TextEncoder
from opencse.errors import UserError
from opencse.files import made_folder, write_text
from opencse.kernels.precision import PrecisionName
from opencse.modules.prompts import Role
from opencse.modules.similarity import require_dimensions
from opencse.numerals import number_of
from opencse.progress import Progress
from opencse.search.approximate import IndexKind, require_faiss, require_metric, update_approximate_index
from opencse.search.database import (
    BUILDING,
    NAMES,
    Manifest,
    create_database,
    current_database,
    how_to_rebuild,
    locked,
    remove_others,
    require_own,
    set_current_database,
    unique_name,
    weight_fields,
    write_errors,
)
from opencse.search.hybrid import weight_of_encoder
from opencse.search.keyword_index import cache_name
from opencse.search.passages import PassageSplitter
from opencse.search.rows import IndexRow, RowSource
from opencse.search.stems import AUTO, language_named, language_of
from opencse.search.writer import Writer

WINDOW = 8_192
"""Rows that are encoded and written together."""
_SAMPLE = 2_000
"""Texts from which the language is detected."""
_COMPACT = 4
"""The vector file is written again when more than one in this many of its rows is deleted."""


@dataclass(frozen=True)
class BuildSettings:
    """The kind of index, and how long texts are split.

    Example:
        >>> BuildSettings(kind="hnsw", max_length=128, overlap=32).language
        'auto'

    Attributes:
        kind: ``flat`` or ``hnsw``; see `opencse.search.approximate`.
        cut: split texts that are longer than the model reads into passages.
        max_length: tokens of the longest passage; None: as many as the model reads.
        overlap: tokens of complete sentences that a passage may share with the one before.
        language: whose word stems a hybrid search compares: ``auto`` (the language of the texts, if it is clear),
            ``none``, or a language by name or code; see `opencse.search.stems`.
        precision: in which the texts are encoded; queries may be encoded in another one.
        dimensions: only the first ones of each vector are kept, of texts and of queries, for models trained for it
            (Matryoshka); None: all.
    """

    kind: IndexKind = "flat"
    cut: bool = True
    max_length: int | None = None
    overlap: int = 0
    language: str = AUTO
    precision: PrecisionName = "float32"
    dimensions: int | None = None

    def splitter(self, encoder: TextEncoder) -> PassageSplitter | None:
        """Splits long texts; None where texts are not split.

        Raises:
            UserError: for a length or overlap where texts are not split.
        """
        if not self.cut:
            if self.max_length is not None or self.overlap:
                raise UserError("max_length and overlap need passages; leave them out with --no-cut (cut=False)")
            return None
        return PassageSplitter(encoder, self.max_length or encoder.max_length, self.overlap)


@dataclass(frozen=True)
class EncoderOrigin:
    """How the encoder of an index is opened again for queries.

    Attributes:
        model: name or folder; empty: queries need a loaded encoder.
        files: the `hash_files` of the files that it was opened from; empty: not known.
        pooling: replaced the model's own pooling when it was loaded.
    """

    model: str = ""
    files: str = ""
    pooling: str | None = None

    def checked(self, encoder: TextEncoder) -> EncoderOrigin:
        """This origin with a path that holds in every working folder, if ``encoder`` is what opens from there.

        The model is opened and compared, unless ``files`` says that the caller has opened the encoder from there.

        Raises:
            UserError: for another encoder; queries would refuse the index.
        """
        if not self.model or self.files:
            return self
        of_model, of_encoder = fingerprint(load(self.model, pooling=self.pooling)), fingerprint(encoder)
        if of_model != of_encoder:
            raise UserError(
                f"model: {self.model} (fingerprint {of_model}) is not the encoder of this index ({of_encoder}), so "
                "queries could not open it; name the model that the encoder was loaded from, or leave it out"
            )
        return replace(self, model=str(Path(self.model).resolve()) if Path(self.model).is_dir() else self.model)


def build(
    folder: Path,
    source: RowSource,
    encoder: TextEncoder,
    settings: BuildSettings,
    *,
    origin: EncoderOrigin,
    overwrite: bool,
    progress: Progress,
) -> None:
    """Builds an index in ``folder``; after an interruption the same call continues after the last complete window."""
    splitter = settings.splitter(encoder)
    require_dimensions(settings.dimensions, encoder.dimension)
    language = None if settings.language == AUTO else language_named(settings.language)
    _ = source.count  # reads and checks all rows
    if settings.kind != "flat":
        require_faiss()
        require_metric(settings.kind, encoder.similarity_fn_name)
    require_new(folder, overwrite=overwrite)
    with made_folder(folder), locked(folder), write_errors(folder):
        require_new(folder, overwrite=overwrite)
        manifest = _first_manifest(encoder, settings, origin, source)
        if encoder.prompts:
            line = encoder.prompts.line(Role.QUERY, Role.DOCUMENT)
            progress.say(f"prompts    {line}{encoder.prompts.note}")
        name = _interrupted_build(folder, manifest, progress) or _begin_build(folder, manifest)
        with _removed_if_empty(folder, name), Writer(folder, name) as writer:
            _append_rows(writer, source, RowEncoder(writer, encoder, splitter, progress), progress)
            if settings.language == AUTO:
                language = language_of(writer.sample_texts(_SAMPLE))
            if writer.manifest.taken is not None or writer.manifest.language != language:
                weight = weight_of_encoder(encoder, language)
                writer.change(taken=None, language=language, **weight_fields(weight))
                update_approximate_index(writer, progress)
                writer.commit()
            manifest = writer.manifest
        set_current_database(folder, name)
        (folder / BUILDING).unlink(missing_ok=True)
        remove_others(folder, [name, manifest.vectors, manifest.engine or ""])


def _first_manifest(
    encoder: TextEncoder, settings: BuildSettings, origin: EncoderOrigin, source: RowSource
) -> Manifest:
    """The manifest of an index without rows; ``source`` has those to come."""
    dimension = settings.dimensions or encoder.dimension
    return Manifest(
        model=origin.model,
        fingerprint=fingerprint(encoder),
        model_files=origin.files,
        pooling=origin.pooling,
        precision=settings.precision,
        query_prompt=encoder.prompts.of(Role.QUERY),
        document_prompt=encoder.prompts.of(Role.DOCUMENT),
        dimension=dimension,
        encoded_dimension=encoder.dimension if dimension < encoder.dimension else None,
        similarity=encoder.similarity_fn_name,
        kind=settings.kind,
        max_length=settings.max_length or encoder.max_length if settings.cut else None,
        overlap=settings.overlap,
        vectors=unique_name("vectors-", ".f32"),
        vectors_sum=0,
        source=source.fingerprint(),
        next_id=source.next_id,
        **source.reading,
        taken=0,
    )


def _append_rows(writer: Writer, source: RowSource, encoder: RowEncoder, progress: Progress) -> None:
    """Appends the rows that a build has not taken yet, and commits after each window."""
    total = source.count
    completed = total if writer.manifest.taken is None else writer.manifest.taken
    progress.start("encoding", total, completed)
    try:
        for window in windows(source, completed):
            encoder.append(window, done=completed)
            completed += len(window)
            writer.change(taken=completed)
            writer.commit(begin_next=True)
    finally:
        progress.finish()
    if completed != total:
        raise UserError(f"{source.name}: changed while it was read ({number_of(total, 'row')}, then {completed:,})")


def _interrupted_build(folder: Path, manifest: Manifest, progress: Progress) -> str | None:
    """The database of an interrupted build with the same text, model and settings; None if there is none."""
    with suppress(OSError, ValueError, KeyError, TypeError, UserError):
        name = json.loads((folder / BUILDING).read_text(encoding="utf-8"))["rows"]
        with Writer(folder, str(name)) as writer:
            begun = writer.manifest
        if begun.model_dump(include=_SAME) == manifest.model_dump(include=_SAME):
            rows = "all rows" if begun.taken is None else number_of(begun.taken, "row")
            progress.say(f"{folder}: continuing after {rows}")
            return str(name)
        progress.say(f"{folder}: an unfinished build had another text, model or setting; starting again")
    return None


_SAME = {
    "source", "model", "fingerprint", "pooling", "dimension", "similarity", "kind", "max_length",
    "overlap", "precision",
}  # fmt: skip
"""Fields of the manifest that an interrupted build must have in common with the call that continues it."""


def _begin_build(folder: Path, manifest: Manifest) -> str:
    name = unique_name("rows-", ".sqlite")
    create_database(folder, name, manifest)
    write_text(folder / BUILDING, json.dumps({"rows": name}) + "\n")
    return name


@contextmanager
def _removed_if_empty(folder: Path, name: str) -> Iterator[None]:
    """Removes an unfinished build if the block fails before it has any row."""
    try:
        yield
    except Exception:
        with suppress(OSError, UserError, sqlite3.Error):
            with Writer(folder, name) as writer:
                manifest = writer.manifest
            if manifest.taken == 0:
                for file in (BUILDING, name, manifest.vectors):
                    (folder / file).unlink(missing_ok=True)
        raise


def require_new(folder: Path, *, overwrite: bool) -> None:
    """Refuses a folder with other files and, without ``overwrite``, one that holds an index; changes nothing.

    Raises:
        UserError: naming the fix.
    """
    require_own(folder)
    if (folder / NAMES).exists() and not overwrite:
        raise UserError(f"{folder}: holds an index; add to it (opencse index add), or replace it with --overwrite")


@contextmanager
def changing(folder: Path, progress: Progress, *, rows: bool = True) -> Iterator[Writer]:
    """Opens the index for a change, and commits it at the end of the block; on an error nothing is changed.

    Args:
        folder: the folder of the index.
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
    """Refuses an encoder whose vectors cannot be compared with the index's."""
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


class RowEncoder:
    """Splits rows into passages, encodes these and appends them to a change.

    Args:
        writer: the writer of the change.
        encoder: the encoder of the index.
        splitter: the splitter of long texts; None: texts are not split.
        progress: counts rows.
    """

    def __init__(
        self, writer: Writer, encoder: TextEncoder, splitter: PassageSplitter | None, progress: Progress
    ) -> None:
        self._writer, self._encoder, self._splitter, self._progress = writer, encoder, splitter, progress

    def append(self, rows: Sequence[IndexRow], *, done: int, replaced: set[str] | None = None) -> None:
        """Encodes a window of rows and appends them.

        Args:
            rows: the rows of the window.
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
