"""Search indexes: build one, add, delete, ask, look for pairs and duplicates, mine hard negatives, export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opencse.api.models import Model, name_of, open_encoder
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError, plain_failures, require_known
from opencse.foreign import checks_trust
from opencse.outputs import paths_of, require_absent, require_apart
from opencse.progress import Progress, Silent
from opencse.search.building import How, require_new
from opencse.search.checking import IndexCheck, check
from opencse.search.engines import KINDS, Kind
from opencse.search.index import Index
from opencse.search.negatives import Mined, Mining, mine
from opencse.search.pairs import Duplicates, Pair
from opencse.search.reading import FileRows, GivenRows, RowSource
from opencse.search.recall import Recall, measure_recall
from opencse.search.result import Hit, IndexInfo
from opencse.text.documents import Collection
from opencse.text.given import Text, open_texts
from opencse.text.readers import Source
from opencse.text.stems import AUTO

if TYPE_CHECKING:
    from opencse.search.rows import RowLike
    from opencse.search.stores import Exported

Where = Mapping[str, object]


@dataclass(frozen=True)
class Built:
    """What was built.

    Attributes:
        info: the index.
        recall: of an approximate index, measured against the exact search; None for a flat one.
    """

    info: IndexInfo
    recall: Recall | None


@plain_failures
@checks_trust
def build_index(
    folder: str | Path,
    model: Model,
    text: str | Path | Source | Sequence[RowLike],
    *,
    fields: Sequence[str] | None = None,
    ids: str | None = None,
    metadata: Sequence[str] = (),
    split: str | None = None,
    keep_code: bool = False,
    kind: Kind = "flat",
    cut: bool = True,
    max_length: int | None = None,
    overlap: int = 0,
    language: str = AUTO,
    overwrite: bool = False,
    pooling: str | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
    progress: Progress | None = None,
) -> Built:
    """Encodes a text once and keeps it in a folder to be searched.

    Broken off, the same call goes on where it was. What the folder held stays until the new index is whole.

    Args:
        folder: for the index; made if it is not there.
        model: the built-in encoder's name, a folder, a Hub id, or a `SentenceEncoder`.
        text: documents as `opencse.adapt` reads them (a file of any kind, a folder, a Hub data set id), a `Source`, or
            a list of texts, `Row`s or mappings (``text``, maybe ``id``, and columns of metadata).
        fields: what a file calls its documents' title and text, or the text alone; by default ``title`` and ``text``.
            Nested keys have dots; more names are further texts. What is indexed is the title and the text.
        ids: the column that names each row; by default ``_id``; without one, rows are counted from 0.
        metadata: columns to keep, which searches may filter by.
        split: of a Hub data set.
        keep_code: keep code blocks of HTML and Markdown.
        kind: ``flat`` is exact; ``hnsw`` and ``ivfpq`` are faster on many rows, and their recall is measured.
        cut: cut texts that are longer than the model reads into passages, at the ends of sentences.
        max_length: ids of the longest passage; by default as many as the model reads.
        overlap: ids of whole sentences that a passage may share with the one before.
        language: whose stems words are reduced to in a hybrid search (singing finds sings): a name or a code such as
            ``german`` or ``de``; ``auto`` takes that of the texts where it is clear, ``none`` leaves words as they are.
        overwrite: replace an index that is there.
        pooling: replaces the model's own.
        device: where to run; a GPU if there is one.
        trust_remote_code: run the Python code that the model's folder brings; see `SentenceEncoder.load`.
        progress: hears of it.

    Raises:
        UserError: for bad input, in one line.
    """
    require_known(kind, KINDS, "kind of index")
    tell = progress or Silent()
    require_apart(folder, read=paths_of(text), models=paths_of(model), option="INDEX")
    require_new(Path(folder), overwrite=overwrite)
    rows = _rows(text, fields, ids, metadata, split, keep_code)
    encoder = open_encoder(model, tell, pooling=pooling, device=device, trust_remote_code=trust_remote_code)
    _tell(rows, tell)
    with Index.build(
        folder,
        rows,
        encoder,
        how=How(kind=kind, cut=cut, max_length=max_length, overlap=overlap, language=language),
        model=_lasting_name(model),
        pooling=pooling,
        overwrite=overwrite,
        progress=tell,
    ) as index:
        return Built(index.info(), None if kind == "flat" else measure_recall(index))


@plain_failures
@checks_trust
def add_to_index(
    folder: str | Path,
    text: str | Path | Source | Sequence[RowLike],
    *,
    fields: Sequence[str] | None = None,
    ids: str | None = None,
    metadata: Sequence[str] = (),
    split: str | None = None,
    keep_code: bool = False,
    replace: bool = False,
    model: Model | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
    progress: Progress | None = None,
) -> int:
    """Adds rows to an index, all of them or none; how many.

    Args:
        folder: of the index.
        text: see `build_index`.
        fields: see `build_index`.
        ids: see `build_index`.
        metadata: see `build_index`.
        split: see `build_index`.
        keep_code: see `build_index`.
        replace: take the place of rows with the same ids.
        model: where the index's own is by now; it must be the same encoder.
        device: where to run; a GPU if there is one.
        trust_remote_code: run the Python code that the model's folder brings; see `SentenceEncoder.load`.
        progress: hears of it.

    Raises:
        UserError: for bad input, an id that is there already, or an index that another process is writing.
    """
    with _open(folder, model, device, trust_remote_code, progress) as index:
        rows = _rows(text, fields, ids, metadata, split, keep_code)
        _tell(rows, progress or Silent())
        return index.add(rows, replace=replace, progress=progress)


@plain_failures
def delete_from_index(
    folder: str | Path,
    ids: Sequence[str] | None = None,
    *,
    where: Where | None = None,
    progress: Progress | None = None,
) -> int:
    """Deletes rows of an index, all of them or none; how many.

    Args:
        folder: of the index.
        ids: of the rows or documents.
        where: conditions on metadata in their place; see `query_index`.
        progress: hears of it.

    Raises:
        UserError: for an id that is not there, neither ids nor conditions, or an index that another process is writing.
    """
    with Index.open(folder) as index:
        return index.delete(ids, where=where, progress=progress)


@plain_failures
@checks_trust
def query_index(
    folder: str | Path,
    queries: Sequence[str],
    *,
    k: int = 10,
    threshold: float | None = None,
    where: Where | None = None,
    hybrid: bool = False,
    hybrid_weight: float | None = None,
    model: Model | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
    progress: Progress | None = None,
) -> list[list[Hit]]:
    """The rows of an index nearest to each query.

    Args:
        folder: of the index.
        queries: texts.
        k: rows for each, at most.
        threshold: least similarity, by the model's function; None: however low.
        where: conditions on metadata, by column: a value, a list of values, or comparisons such as ``(">=", 2)``. The k
            are of the rows that meet all of them.
        hybrid: rank by words (BM25) and by vectors together.
        hybrid_weight: share of the vectors in that, from 0 to 1; half by default.
        model: where the index's own is by now; it must be the same encoder.
        device: where to run; a GPU if there is one.
        trust_remote_code: run the Python code that the model's folder brings; see `SentenceEncoder.load`.
        progress: hears of it.

    Raises:
        UserError: for bad input, no query, or a model that is not the index's.
    """
    if isinstance(queries, str) or not queries:
        raise UserError("no query; give at least one, in a list")
    if not all(query.strip() for query in queries):
        raise UserError("a query is blank; give each a text")
    with _open(folder, model, device, trust_remote_code, progress) as index:
        return index.search(queries, k, threshold=threshold, where=where, hybrid=hybrid, hybrid_weight=hybrid_weight)


@plain_failures
def index_info(folder: str | Path) -> IndexInfo:
    """What an index is: rows, dimension, kind, model, columns.

    Args:
        folder: of the index.

    Raises:
        UserError: if there is none, or it is damaged.
    """
    with Index.open(folder) as index:
        return index.info()


@plain_failures
def check_index(folder: str | Path, *, progress: Progress | None = None) -> IndexCheck:
    """Reads an index whole and compares it with the checksums that were written with it.

    Args:
        folder: of the index.
        progress: reports it.

    Returns:
        What was found: ``faults`` is empty for a sound index.

    Raises:
        UserError: if there is no index.
    """
    return check(Path(folder), progress or Silent())


@plain_failures
def index_pairs(folder: str | Path, *, most: int = 100, progress: Progress | None = None) -> list[Pair]:
    """The most similar pairs of texts in an index, exact.

    Args:
        folder: of the index.
        most: how many.
        progress: hears of it.

    Raises:
        UserError: for a number below 1, or no such index.
    """
    with Index.open(folder) as index:
        return index.pairs(most, progress=progress)


@plain_failures
def index_duplicates(
    folder: str | Path, *, threshold: float | None = None, progress: Progress | None = None
) -> list[Duplicates]:
    """The texts of an index that say the same.

    Args:
        folder: of the index.
        threshold: similarity from which on two texts do; None: texts equal but for case and white space.
        progress: hears of it.

    Raises:
        UserError: for a threshold that no similarity of this function can have, or no such index.
    """
    with Index.open(folder) as index:
        return index.duplicates(threshold, progress=progress)


@plain_failures
@checks_trust
def index_negatives(
    folder: str | Path,
    pairs: Text,
    out: str | Path,
    *,
    how: Mining | None = None,
    columns: Sequence[str] | None = None,
    split: str | None = None,
    overwrite: bool = False,
    model: Model | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
    progress: Progress | None = None,
) -> Mined:
    """Mines hard negatives for pairs from an index, into a file of triples that `train` takes as it is.

    Args:
        folder: of the index to look in.
        pairs: queries, each with a text that answers it: a file, a Hub data set id, a `Source` or a list of pairs.
        out: ``.jsonl`` file to write.
        how: which texts are taken; see `opencse.search.negatives.Mining`.
        columns: of a file, the query's and the answer's.
        split: of a Hub data set.
        overwrite: replace ``out`` if it exists; the old file stays until the new one is whole.
        model: where the index's own is by now; it must be the same encoder.
        device: where to run; a GPU if there is one.
        trust_remote_code: run the Python code that the model's folder brings; see `SentenceEncoder.load`.
        progress: hears of it.

    Raises:
        UserError: for bad input, a file ``out`` that exists or is an input, or where there is no negative for any pair.
    """
    path = Path(out)
    if path.suffix != ".jsonl":
        raise UserError(f"{out}: triples are written as .jsonl; name the file so")
    require_apart(path, read=paths_of(folder, pairs), models=paths_of(model))
    require_absent(path, overwrite=overwrite)
    rows = open_texts(pairs, columns=columns, split=split).read().rows
    with _open(folder, model, device, trust_remote_code, progress) as index:
        return mine(index, rows, path, how, progress=progress or Silent())


@plain_failures
def export_index(folder: str | Path, to: str, target: str, *, name: str = "opencse") -> Exported:
    """Copies an index into another store: ids, texts, metadata and vectors.

    Args:
        folder: of the index.
        to: ``qdrant``, ``lancedb`` or ``pgvector``.
        target: a folder or URL for Qdrant, a folder for LanceDB, a connection string for PostgreSQL.
        name: of the collection or table; it must not be there yet.

    Raises:
        UserError: for an unknown store, one whose client is not installed or that cannot be reached, or a name taken.
    """
    from opencse.search.stores import export

    with Index.open(folder) as index:
        return export(index, to, target, name)


def _open(
    folder: str | Path, model: Model | None, device: str | None, trust_remote_code: bool, progress: Progress | None
) -> Index:
    """The index, with its encoder as it is asked for."""
    with Index.open(folder) as index:
        info = index.info()
    wanted = info.model if model is None else model
    if not wanted:
        raise UserError(f"{folder}: names no model; give the one it was built with (--model)")
    pooling = None if isinstance(wanted, SentenceEncoder) else info.pooling
    try:
        encoder = open_encoder(
            wanted, progress or Silent(), pooling=pooling, device=device, trust_remote_code=trust_remote_code
        )
    except UserError as error:
        if model is not None:
            raise
        raise UserError(f"{error}; name the model's new place with --model") from None
    return Index.open(folder, encoder=encoder)


def _lasting_name(model: Model) -> str:
    """By what the model can be loaded again, from any working folder; empty for an encoder at hand."""
    if isinstance(model, SentenceEncoder):
        return ""
    name = name_of(model)
    return str(Path(name).resolve()) if Path(name).is_dir() else name


def _rows(
    text: str | Path | Source | Sequence[RowLike],
    fields: Sequence[str] | None,
    ids: str | None,
    metadata: Sequence[str],
    split: str | None,
    keep_code: bool,
) -> RowSource:
    if isinstance(text, Source):
        if fields is not None or split is not None or keep_code:
            raise UserError("fields, split and keep_code say how a file is read; leave them out with a Source")
        collection = Collection(
            text.location, text.columns, ids, tuple(metadata), text.split, text.keep_code, text.skip_lines
        )
    elif isinstance(text, str | Path):
        named = None if fields is None else tuple(fields)
        collection = Collection(str(text), named, ids, tuple(metadata), split or "train", keep_code)
    else:
        if fields is not None or split is not None or ids is not None or metadata or keep_code:
            raise UserError("fields, ids, metadata and split are of a file; give rows as mappings instead")
        given = GivenRows(text)
        if not given.count:
            raise UserError("text: the list is empty; give at least one text")
        return given
    rows = FileRows(collection)
    if not rows.count:  # reads and checks all files, before a model is loaded
        raise UserError(f"{rows.name}: no texts in it; give at least one")
    return rows


def _tell(rows: RowSource, progress: Progress) -> None:
    """Says what files were recognised as, and what is left out of them."""
    if isinstance(rows, FileRows):
        for line in rows.notes.lines():
            progress.say(line)
