"""`build_index`, `query_index` and the other commands of `opencse index` as functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opencse.api.models import Model, name_of, open_encoder
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError, plain_failures, require_known
from opencse.foreign import checks_trust
from opencse.outputs import paths_of, require_absent, require_apart
from opencse.progress import Progress, Silent
from opencse.search.approximate import KINDS, IndexKind
from opencse.search.building import BuildSettings, require_new
from opencse.search.checking import IndexCheck, check
from opencse.search.filters import Where
from opencse.search.index import Index
from opencse.search.negatives import Mined, Mining, mine
from opencse.search.pairs import Duplicates, SimilarPair
from opencse.search.recall import Recall, measure_recall
from opencse.search.result import IndexInfo, SearchResult
from opencse.search.row_sources import open_rows
from opencse.text.given import Text, open_texts
from opencse.text.readers import Source
from opencse.text.stems import AUTO

if TYPE_CHECKING:
    from opencse.search.rows import RowLike
    from opencse.search.vector_stores import Exported


@dataclass(frozen=True)
class Built:
    """A new index and, for an approximate one, its recall.

    Attributes:
        info: describes the index.
        recall: measured against the exact search; None for a flat index.
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
    kind: IndexKind = "flat",
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
    """Builds a search index of a text in a folder.

    After an interruption the same call continues. An index in the folder is replaced when the new one is complete.

    Example:
        >>> import opencse
        >>> built = opencse.build_index("pets", "opencse-mini", ["A cat sleeps.", "Rain falls."], device="cpu")
        >>> built.info.rows, opencse.query_index("pets", ["a cat"], k=1, device="cpu")[0][0].text
        (2, 'A cat sleeps.')

    Args:
        folder: of the index; created if it does not exist.
        model: the built-in encoder's name, a folder, a Hub id, or a `SentenceEncoder`.
        text: documents as `opencse.adapt` reads them (a file of any kind, a folder, a Hub data set id), a `Source`, or
            a list of texts, `IndexRow`s or mappings (``text``, maybe ``id``, and columns of metadata).
        fields: names of the fields of title and text in a file, or of the text alone; by default ``title`` and
            ``text``. Nested keys have dots; further names are further texts. Title and text are indexed.
        ids: column with the id of each row; by default ``_id``; without it rows are numbered from 0.
        metadata: columns that are stored, and that searches may filter by.
        split: of a Hub data set.
        keep_code: keep code blocks of HTML and Markdown.
        kind: ``flat`` is exact; ``hnsw`` and ``ivfpq`` are faster on many rows, and their recall is measured.
        cut: split texts that are longer than the model reads into passages, at the ends of sentences.
        max_length: tokens of the longest passage; by default as many as the model reads.
        overlap: tokens of complete sentences that a passage may share with the one before.
        language: whose word stems a hybrid search compares (singing finds sings): a name or a code such as ``german``
            or ``de``; ``auto`` detects the language of the texts, ``none`` compares words without stemming.
        overwrite: replace an existing index.
        pooling: replaces the model's own pooling.
        device: where to run; a GPU if there is one.
        trust_remote_code: run the Python code that the model's folder brings; see `SentenceEncoder.load`.
        progress: shows the progress.

    Raises:
        UserError: for bad input, in one line.
    """
    require_known(kind, KINDS, "kind of index")
    shown = progress or Silent()
    require_apart(folder, read=paths_of(text), models=paths_of(model), option="INDEX")
    require_new(Path(folder), overwrite=overwrite)
    rows = open_rows(text, fields=fields, ids=ids, metadata=metadata, split=split, keep_code=keep_code)
    encoder = open_encoder(model, shown, pooling=pooling, device=device, trust_remote_code=trust_remote_code)
    for line in rows.notes.lines():
        shown.say(line)
    with Index.build(
        folder,
        rows,
        encoder,
        how=BuildSettings(kind=kind, cut=cut, max_length=max_length, overlap=overlap, language=language),
        model=_lasting_name(model),
        pooling=pooling,
        overwrite=overwrite,
        progress=shown,
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
    """Adds the rows of a text to an index, all of them or none; returns their number.

    Args:
        folder: of the index.
        text: see `build_index`.
        fields: see `build_index`.
        ids: see `build_index`.
        metadata: see `build_index`.
        split: see `build_index`.
        keep_code: see `build_index`.
        replace: replace rows that have the same ids.
        model: folder to which the index's model was moved; another model is refused.
        device: where to run; a GPU if there is one.
        trust_remote_code: run the Python code that the model's folder brings; see `SentenceEncoder.load`.
        progress: shows the progress.

    Raises:
        UserError: for bad input, an id that exists already, or an index that another process is writing.
    """
    with Index.open(folder) as index:
        index.encoder = _load_encoder(index.info(), model, device, trust_remote_code, progress)
        rows = open_rows(text, fields=fields, ids=ids, metadata=metadata, split=split, keep_code=keep_code)
        for line in rows.notes.lines():
            (progress or Silent()).say(line)
        return index.add(rows, replace=replace, progress=progress)


@plain_failures
def delete_from_index(
    folder: str | Path,
    ids: Sequence[str] | None = None,
    *,
    where: Where | None = None,
    progress: Progress | None = None,
) -> int:
    """Deletes rows of an index, all of them or none; returns their number.

    Args:
        folder: of the index.
        ids: of the rows or documents.
        where: conditions on metadata, instead of ids; see `query_index`.
        progress: shows the progress.

    Raises:
        UserError: for an id that does not exist, neither ids nor conditions, or an index that another process writes.
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
) -> SearchResult:
    """Finds the rows of an index that are most similar to each query.

    Example:
        >>> import opencse
        >>> rows = [{"text": "A cat sleeps.", "year": 2020}, {"text": "A cat runs.", "year": 2024}]
        >>> _ = opencse.build_index("cats", "opencse-mini", rows, device="cpu")
        >>> result = opencse.query_index("cats", ["cats"], where={"year": (">=", 2021)}, device="cpu")
        >>> [hit.text for hit in result[0]], result.score
        (['A cat runs.'], 'cosine')

    Args:
        folder: of the index.
        queries: texts.
        k: number of hits for each query.
        threshold: lowest similarity, by the model's function; None: any.
        where: conditions on metadata, which all hits meet: by column a value, a list of values, or comparisons such as
            ``(">=", 2)``; or a list such as ``["year>=2020"]``.
        hybrid: rank by keywords (BM25) and vectors together.
        hybrid_weight: weight of the vectors in a hybrid search, from 0 to 1; by default 0.5.
        model: folder to which the index's model was moved; another model is refused.
        device: where to run; a GPU if there is one.
        trust_remote_code: run the Python code that the model's folder brings; see `SentenceEncoder.load`.
        progress: shows the progress.

    Raises:
        UserError: for bad input, no query, or a model that is not the index's.
    """
    if isinstance(queries, str) or not queries:
        raise UserError("no query; give at least one, in a list")
    if not all(query.strip() for query in queries):
        raise UserError("a query is blank; give each a text")
    with Index(Path(folder)) as index, index.snapshot() as snapshot:  # all that follows reads this one snapshot
        snapshot.matching(where)  # refuses bad conditions before a model is loaded
        index.encoder = _load_encoder(index.info(), model, device, trust_remote_code, progress)
        return index.search(queries, k, threshold=threshold, where=where, hybrid=hybrid, hybrid_weight=hybrid_weight)


@plain_failures
def index_info(folder: str | Path) -> IndexInfo:
    """Describes an index: rows, dimension, kind, model, columns.

    Args:
        folder: of the index.

    Raises:
        UserError: if there is none, or it is damaged.
    """
    with Index.open(folder) as index:
        return index.info()


@plain_failures
def check_index(folder: str | Path, *, progress: Progress | None = None) -> IndexCheck:
    """Checks an index: reads every file completely and compares it with the stored checksums.

    Args:
        folder: of the index.
        progress: shows the progress.

    Returns:
        The result; its ``faults`` are empty for an intact index.

    Raises:
        UserError: if there is no index.
    """
    return check(Path(folder), progress or Silent())


@plain_failures
def index_pairs(folder: str | Path, *, most: int = 100, progress: Progress | None = None) -> list[SimilarPair]:
    """Finds the most similar pairs of texts in an index, exactly.

    Args:
        folder: of the index.
        most: number of pairs.
        progress: shows the progress.

    Raises:
        UserError: for a number below 1, or no such index.
    """
    with Index.open(folder) as index:
        return index.pairs(most, progress=progress)


@plain_failures
def index_duplicates(
    folder: str | Path, *, threshold: float | None = None, progress: Progress | None = None
) -> list[Duplicates]:
    """Groups the texts of an index that are duplicates.

    Args:
        folder: of the index.
        threshold: similarity from which two texts are duplicates; None: texts that are equal except for case and white
            space.
        progress: shows the progress.

    Raises:
        UserError: for a threshold outside the range of the similarity, or no such index.
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
    """Mines hard negatives for pairs from an index, into a file of triples that `train` reads.

    Args:
        folder: of the index that holds the candidates.
        pairs: queries, each with a text that answers it: a file, a Hub data set id, a `Source` or a list of pairs.
        out: ``.jsonl`` file to write.
        how: which candidates are taken; see `opencse.search.negatives.Mining`.
        columns: of query and answer in a file.
        split: of a Hub data set.
        overwrite: replace ``out`` if it exists, when the new file is complete.
        model: folder to which the index's model was moved; another model is refused.
        device: where to run; a GPU if there is one.
        trust_remote_code: run the Python code that the model's folder brings; see `SentenceEncoder.load`.
        progress: shows the progress.

    Raises:
        UserError: for bad input, a file ``out`` that exists or is an input, or if no pair has a negative.
    """
    path = Path(out)
    if path.suffix != ".jsonl":
        raise UserError(f"{out}: triples are written as .jsonl; choose a file name with that ending")
    require_apart(path, read=paths_of(folder, pairs), models=paths_of(model))
    require_absent(path, overwrite=overwrite)
    rows = open_texts(pairs, columns=columns, split=split).read().rows
    with Index(Path(folder)) as index, index.snapshot():  # all queries search the same snapshot
        index.encoder = _load_encoder(index.info(), model, device, trust_remote_code, progress)
        return mine(index, rows, path, how, progress=progress or Silent())


@plain_failures
def export_index(folder: str | Path, to: str, target: str, *, name: str = "opencse") -> Exported:
    """Exports an index to another store: ids, texts, metadata and vectors.

    Args:
        folder: of the index.
        to: ``qdrant``, ``lancedb`` or ``pgvector``.
        target: a folder or URL for Qdrant, a folder for LanceDB, a connection string for PostgreSQL.
        name: of the new collection or table.

    Raises:
        UserError: for an unknown store, a missing client, a store that cannot be reached, or a name that is taken.
    """
    from opencse.search.vector_stores import export

    with Index.open(folder) as index:
        return export(index, to, target, name)


def _load_encoder(
    info: IndexInfo, model: Model | None, device: str | None, trust_remote_code: bool, progress: Progress | None
) -> SentenceEncoder:
    """The encoder of an index: the model that it names, or ``model`` in its place."""
    source = info.model if model is None else model
    if not source:
        raise UserError(f"{info.folder}: names no model; give the one it was built with (--model)")
    pooling = None if isinstance(source, SentenceEncoder) else info.pooling
    try:
        return open_encoder(
            source, progress or Silent(), pooling=pooling, device=device, trust_remote_code=trust_remote_code
        )
    except UserError as error:
        if model is not None:
            raise
        raise UserError(f"{error}; if the model was moved, give its folder with --model") from None


def _lasting_name(model: Model) -> str:
    """How the model can be loaded again from any working folder; empty for an encoder object."""
    if isinstance(model, SentenceEncoder):
        return ""
    name = name_of(model)
    return str(Path(name).resolve()) if Path(name).is_dir() else name
