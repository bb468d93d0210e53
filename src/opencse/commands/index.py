"""`build_index`, `query_index` and the other commands of `opencse index` as functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Unpack

from opencse.commands.declared import Typed, command, needs
from opencse.commands.shared import (
    FORMATS,
    Device,
    Dimensions,
    Encoder,
    Fields,
    IndexModel,
    KeepIdenticalIds,
    Pooling,
    Precision,
    Reads,
    Reporter,
    Rerank,
    RerankDepth,
    RerankPrecision,
    Split,
    TrustRemoteCode,
)
from opencse.errors import UserError, require_known
from opencse.numerals import number_of
from opencse.progress import SILENT, Counted, Progress

if TYPE_CHECKING:
    from opencse.commands.opening import Model
    from opencse.documents.hybrid import FittedWeight
    from opencse.reranking.cross_encoder import CrossEncoder
    from opencse.search.filters import Where
    from opencse.search.negatives import Mined, Mining
    from opencse.search.pairs import Duplicates, SimilarPair
    from opencse.search.result import IndexInfo, Recall, SearchResult
    from opencse.search.rows import RowLike, RowSource
    from opencse.search.vector_stores import Exported
    from opencse.text.given import Text
    from opencse.text.readers import Source

RowIds = Annotated[
    "str | None", Typed("Column with the id of each row; by default _id, or else rows are numbered.", ("--id",))
]
RowMetadata = Annotated[
    "Sequence[str]",
    Typed(
        "Columns to store with each text, comma-separated; searches can filter by them.",
        default=None,
        said="columns to store with each text; searches can filter by them.",
    ),
]
Conditions = Annotated[
    "Where | None",
    Typed(
        "Condition on metadata: lang=en, lang=en,de, year>=2020 (also !=, <, <=, >); if repeated, all must hold.",
        repeated=True,
        quoted=True,
        said="conditions on metadata, all of which must hold: by column a value, a list of values, or comparisons such "
        'as ``(">=", 2)``; or a list such as ``["year>=2020"]``.',
    ),
]
Folder = Annotated["str | Path", Typed("Folder of the index.", metavar="INDEX", said="of the index.")]
Rows = Annotated[
    "str | Path | Source | Sequence[RowLike]",
    Typed(
        FORMATS,
        said="documents as `opencse.adapt` reads them (a file of any kind, a folder, a Hub data set id), a `Source`, "
        "or a list of texts, `IndexRow`s or mappings (``text``, maybe ``id``, and columns of metadata).",
    ),
]
_SLOW_TO_COUNT = 20_000
"""Rows whose words take seconds to count."""


@dataclass(frozen=True)
class Built:
    """A new index and, for an approximate one, its recall.

    Attributes:
        info: describes the index.
        recall: measured against the exact search; None for a flat index.
    """

    info: IndexInfo
    recall: Recall | None


@command
def build_index(
    folder: Folder,
    model: Encoder,
    text: Rows,
    *,
    fields: Fields = None,
    ids: RowIds = None,
    metadata: RowMetadata = (),
    dimensions: Dimensions = None,
    split: Split = None,
    precision: Precision = "float32",
    kind: Annotated[
        Literal["flat", "hnsw"],
        Typed("Kind of index: flat (exact), or hnsw (approximate, for many rows)."),
    ] = "flat",
    cut: Annotated[
        bool,
        Typed(
            "Split texts that are too long for the model into passages, or keep their beginning.", ("--cut/--no-cut",)
        ),
    ] = True,
    max_length: Annotated[int | None, Typed(least=1)] = None,
    overlap: Annotated[int, Typed(least=0)] = 0,
    language: Annotated[
        str,
        Typed("Language whose word stems --hybrid compares: auto (that of the text, if clear), none, or en, de, ..."),
    ] = "auto",
    pooling: Pooling = None,
    overwrite: bool = False,
    device: Device = None,
    trust_remote_code: TrustRemoteCode = False,
    progress: Reporter = SILENT,
    **how: Unpack[Reads],
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
        kind: ``flat`` is exact; ``hnsw`` is approximate, for many rows, and its recall is measured.
        cut: split texts that are too long for the model into passages, at the ends of sentences; False: keep their
            beginning.
        max_length: Tokens in a passage, at most; by default what the model reads.
        overlap: Tokens that a passage shares with the one before.
        language: whose word stems a hybrid search compares (singing finds sings): a name or a code such as ``german``
            or ``de``; ``auto`` detects the language of the texts, ``none`` compares without stemming.
        overwrite: Replace an existing index.

    Raises:
        UserError: for bad input, in one line.
    """
    from opencse.commands.opening import open_for_vectors
    from opencse.encoder.fingerprint import hash_files
    from opencse.encoder.first_look import measured_precision, sample_of
    from opencse.encoder.text_encoder import TextEncoder
    from opencse.modules.prompts import Role
    from opencse.outputs import paths_of, require_apart
    from opencse.search.approximate import KINDS
    from opencse.search.building import BuildSettings, require_new
    from opencse.search.index import Index
    from opencse.search.rows import open_rows

    require_known(kind, KINDS, "kind of index")
    require_apart(folder, read=paths_of(text), models=paths_of(model), option="INDEX")
    require_new(Path(folder), overwrite=overwrite)
    rows = _said(
        open_rows(
            text,
            fields=fields,
            ids=ids,
            metadata=metadata,
            split=split,
            **how,
        ),
        progress,
    )
    encoder = open_for_vectors(model, progress, pooling, device, trust_remote_code)
    texts = sample_of(row.text for row in rows) if precision == "auto" else []
    measured = measured_precision(precision, encoder, texts, encoder.prompts.of(Role.DOCUMENT))
    if precision == "auto":
        progress.say(measured.line)
    settings = BuildSettings(
        kind,
        cut,
        max_length,
        overlap,
        language,
        measured.name,
        dimensions,
    )
    with Index.build(
        folder,
        rows,
        encoder,
        how=settings,
        model=_lasting_name(model),
        model_files="" if isinstance(model, TextEncoder) else hash_files(model),
        pooling=pooling,
        overwrite=overwrite,
        progress=progress,
    ) as index:
        return Built(index.info(), None if settings.kind == "flat" else index.measure_recall())


@command
def add_to_index(
    folder: Folder,
    text: Rows,
    *,
    fields: Fields = None,
    ids: RowIds = None,
    metadata: RowMetadata = (),
    split: Split = None,
    replace: bool = False,
    model: IndexModel = None,
    device: Device = None,
    trust_remote_code: TrustRemoteCode = False,
    progress: Reporter = SILENT,
    **how: Unpack[Reads],
) -> int:
    """Adds the rows of a text to an index, all of them or none; returns their number.

    Example:
        >>> import opencse
        >>> texts = ["A cat sleeps.", "a CAT sleeps.", "Rain."]
        >>> _ = opencse.build_index("more", "opencse-mini", texts, device="cpu")
        >>> opencse.add_to_index("more", ["Snow falls."], device="cpu"), opencse.index_info("more").rows
        (1, 4)

    Args:
        text: see `build_index`; read with the ``fields`` and ``ids`` of the build unless one of them is given.
        replace: Replace rows that have the same ids.

    Raises:
        UserError: for bad input, an id that exists already, or an index that another process is writing.
    """
    from opencse.commands.opening import encoder_of
    from opencse.search.index import Index
    from opencse.search.rows import open_rows

    with Index.open(folder) as index:
        info = index.info()
        index.encoder = encoder_of(info, model, progress, device, trust_remote_code)
        rows = open_rows(
            text,
            fields=fields,
            ids=ids,
            metadata=metadata,
            split=split,
            **how,
            added_to=info,
        )
        return index.add(_said(rows, progress), replace=replace, progress=progress)


@command
def delete_from_index(
    folder: Folder,
    ids: Annotated[
        Sequence[str] | None, Typed("Ids of rows or documents.", quoted=True, repeated=True, metavar="ID")
    ] = None,
    *,
    where: Conditions = None,
    progress: Reporter = SILENT,
) -> int:
    """Deletes rows of an index, all of them or none; returns their number.

    Example:
        >>> import opencse
        >>> texts = ["A cat sleeps.", "a CAT sleeps.", "Rain."]
        >>> _ = opencse.build_index("fewer", "opencse-mini", texts, device="cpu")
        >>> opencse.delete_from_index("fewer", ["2"]), opencse.index_info("fewer").rows
        (1, 2)

    Args:
        ids: of the rows or documents.

    Raises:
        UserError: for an id that does not exist, neither ids nor conditions, or an index that another process writes.
    """
    from opencse.search.index import Index

    with Index.open(folder) as index:
        return index.delete(ids, where=where, progress=progress)


@command
@needs(hybrid_weight="hybrid")
def query_index(
    folder: Folder,
    queries: Annotated[Sequence[str], Typed(hidden=True)],
    *,
    where: Conditions = None,
    k: Annotated[int, Typed(flags=("-k",), least=1)] = 10,
    threshold: float | None = None,
    rerank: Rerank = None,
    rerank_depth: RerankDepth = 50,
    rerank_precision: RerankPrecision = "float32",
    hybrid: bool = False,
    hybrid_weight: Annotated[float | None, Typed(least=0, most=1)] = None,
    model: IndexModel = None,
    device: Device = None,
    trust_remote_code: TrustRemoteCode = False,
    progress: Reporter = SILENT,
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
        queries: texts.
        k: Number of hits for each query.
        threshold: Leave out hits below this score (with --rerank its score); by default none.
        hybrid: Rank by keywords (BM25) and vectors together.
        hybrid_weight: Weight of the vectors in --hybrid, 0 to 1; by default that of the index, see `opencse index
            tune`.

    Raises:
        UserError: for bad input, no query, or a model that is not the index's.
    """
    from opencse.commands.opening import encoder_of, second_stage
    from opencse.encoder.opening import KnownModel
    from opencse.modules.similarity import HybridWeight
    from opencse.search.index import Index
    from opencse.search.queries import reranked
    from opencse.text.values import some_of

    queries = some_of(queries, "no query; give at least one, in a list")
    if not all(query.strip() for query in queries):
        raise UserError("a query is blank; give each a text")
    with Index(Path(folder)) as index, index.snapshot() as snapshot:  # all that follows reads this one snapshot
        snapshot.matching(where)  # refuses bad conditions before a model is loaded
        known = KnownModel(snapshot.manifest.model_files, snapshot.manifest.fingerprint)
        index.encoder = encoder_of(
            index.info(), model, progress, device, trust_remote_code, texts=len(queries), known=known
        )
        stage = second_stage(rerank, rerank_depth, rerank_precision, progress, device, trust_remote_code)
        if hybrid and snapshot.manifest.rows >= _SLOW_TO_COUNT and not snapshot.words_folder.exists():
            progress.say(f"words      counting those of {number_of(snapshot.manifest.rows, 'row')}, once")
        result = index.search(
            queries,
            k if stage is None else max(k, stage.depth),
            threshold=threshold if stage is None else None,
            where=where,
            hybrid=hybrid,
            hybrid_weight=hybrid_weight,
        )
        if hybrid:
            weight = index.hybrid_weight if hybrid_weight is None else HybridWeight(hybrid_weight, "as requested")
            progress.say(f"hybrid     weight of the vectors {weight}")
        if stage is None:
            return result
        counted = Counted(progress, "re-ranking")
        return reranked(result, queries, k, stage, threshold=threshold, progress=counted)


@command
def index_info(
    folder: Folder,
) -> IndexInfo:
    """Describes an index: rows, dimension, kind, model, columns.

    Example:
        >>> import opencse
        >>> texts = ["A cat sleeps.", "a CAT sleeps.", "Rain."]
        >>> _ = opencse.build_index("described", "opencse-mini", texts, device="cpu")
        >>> info = opencse.index_info("described")
        >>> print(info.rows, info.kind, info.similarity, info.model)
        3 flat cosine opencse-mini

    Args:
        folder: of the index.

    Raises:
        UserError: if there is none, or it is damaged.
    """
    from opencse.search.index import Index

    with Index.open(folder) as index:
        return index.info()


@command
def index_pairs(
    folder: Folder,
    *,
    most: Annotated[int, Typed(flags=("-n",), default=20, least=1)] = 100,
    progress: Reporter = SILENT,
) -> list[SimilarPair]:
    """Finds the most similar pairs of texts in an index, exactly.

    Example:
        >>> import opencse
        >>> texts = ["A cat sleeps.", "a CAT sleeps.", "Rain."]
        >>> _ = opencse.build_index("paired", "opencse-mini", texts, device="cpu")
        >>> pair = opencse.index_pairs("paired", most=1)[0]
        >>> pair.first, pair.second
        ('0', '1')

    Args:
        most: Number of pairs.

    Raises:
        UserError: for a number below 1, or no such index.
    """
    from opencse.search.index import Index

    with Index.open(folder) as index:
        return index.pairs(most, progress=progress)


@command
def index_duplicates(
    folder: Folder,
    *,
    threshold: float | None = None,
    progress: Reporter = SILENT,
) -> list[Duplicates]:
    """Groups the texts of an index that are duplicates.

    Example:
        >>> import opencse
        >>> texts = ["A cat sleeps.", "a CAT sleeps.", "Rain."]
        >>> _ = opencse.build_index("repeated", "opencse-mini", texts, device="cpu")
        >>> [group.ids for group in opencse.index_duplicates("repeated")]
        [('0', '1')]

    Args:
        threshold: Texts with at least this similarity count as duplicates; by default only equal texts.

    Raises:
        UserError: for a threshold outside the range of the similarity, or no such index.
    """
    from opencse.search.index import Index

    with Index.open(folder) as index:
        return index.duplicates(threshold, progress=progress)


@command
@needs(least_margin="teacher")
def index_negatives(
    folder: Folder,
    pairs: Annotated[Text, Typed("Pairs of query and answer: a text file or a Hub data set.")],
    out: Annotated[str | Path, Typed("File of triples to write (.jsonl).", ("--out", "-o"), file=True)],
    *,
    columns: Sequence[str] | None = None,
    how: Annotated[Mining | None, Typed(hidden=True)] = None,
    teacher: Annotated[
        str | Path | CrossEncoder | None,
        Typed("Cross-encoder (folder or Hub id) that scores each row; the file gets margins, for --recipe margin-mse."),
    ] = None,
    least_margin: float | None = None,
    split: Split = None,
    overwrite: bool = False,
    model: IndexModel = None,
    device: Device = None,
    trust_remote_code: TrustRemoteCode = False,
    progress: Reporter = SILENT,
) -> Mined:
    """Mines hard negatives for pairs from an index, into a file of triples that `train` reads.

    Example:
        >>> import opencse
        >>> from opencse.search.negatives import Mining
        >>> texts = ["A cat sleeps.", "A dog sleeps.", "Rain falls."]
        >>> _ = opencse.build_index("candidates", "opencse-mini", texts, device="cpu")
        >>> pairs, how = [("A cat.", "A cat sleeps.")], Mining(ceiling=1)
        >>> mined = opencse.index_negatives("candidates", pairs, "out.jsonl", how=how, device="cpu")
        >>> mined.triples
        1

    Args:
        folder: of the index that holds the candidates.
        pairs: queries, each with a text that answers it: a file, a Hub data set id, a `Source` or a list of pairs.
        out: ``.jsonl`` file to write.
        columns: Columns with query and answer, comma-separated.
        how: which candidates are taken; see `opencse.search.negatives.Mining`.
        teacher: cross-encoder (a folder, a Hub id or a loaded one) that scores each row: the file also gets its
            margins, which the recipe ``margin-mse`` learns from.
        least_margin: Leave out a negative that --teacher scores less than this below the answer, for instance 0; by
            default none is left out.
        overwrite: Replace the file --out if it exists.

    Raises:
        UserError: for bad input, a file ``out`` that exists or is an input, or if no pair has a negative.
    """
    from opencse.commands.opening import encoder_of, open_cross_encoder
    from opencse.outputs import paths_of, require_absent, require_apart
    from opencse.search.index import Index
    from opencse.search.negatives import mine
    from opencse.text.given import open_texts, say_left_out_rows

    path = Path(out)
    if path.suffix != ".jsonl":
        raise UserError(f"{out}: triples are written as .jsonl; choose a file name with that ending")
    require_apart(path, read=paths_of(folder, pairs), models=paths_of(model, teacher))
    require_absent(path, overwrite=overwrite)
    source = open_texts(pairs, columns=columns, split=split)
    say_left_out_rows(source, progress.say)
    rows = source.read().rows
    with Index(Path(folder)) as index, index.snapshot():  # all queries search the same snapshot
        index.encoder = encoder_of(index.info(), model, progress, device, trust_remote_code)
        margins = None
        if teacher is not None:
            from opencse.reranking.second_stage import MarginTeacher

            opened = open_cross_encoder(teacher, progress, device, "float32", trust_remote_code)
            margins = MarginTeacher(opened, least_margin)
        return mine(index, rows, path, how, margins, progress=progress)


@command
def export_index(
    folder: Folder,
    to: str,
    target: str | Path,
    *,
    name: str = "opencse",
) -> Exported:
    """Exports an index to another store: ids, texts, metadata and vectors.

    Example:
        >>> import opencse
        >>> _ = opencse.build_index("exported", "opencse-mini", ["A cat sleeps."], device="cpu")
        >>> opencse.export_index("exported", "lancedb", "store", name="pets").rows  # doctest: +SKIP
        1

    Args:
        to: store: qdrant, lancedb or pgvector.
        target: folder or URL (Qdrant), folder (LanceDB), or connection string (pgvector).
        name: Name of the new collection or table.

    Raises:
        UserError: for an unknown store, a missing client, a store that cannot be reached, or a name that is taken.
    """
    from opencse.search.index import Index
    from opencse.search.vector_stores import export

    with Index.open(folder) as index:
        return export(index, to, str(target), name)


@command
def tune_index(
    folder: Folder,
    *,
    keep_identical_ids: KeepIdenticalIds = False,
    dev: Annotated[
        str | Path | None, Typed("Folder of people's queries with relevant documents (BEIR's layout, ids as in INDEX).")
    ] = None,
    metric: str | None = None,
    model: IndexModel = None,
    device: Device = None,
    trust_remote_code: TrustRemoteCode = False,
    progress: Reporter = SILENT,
) -> FittedWeight:
    """Fits the weight of the vectors in a hybrid search to people's queries, and saves it with an index.

    Of n queries the best weight counts n / (n + 50), and the weight without queries the rest.

    Example:
        >>> import opencse
        >>> opencse.tune_index("my-index", dev="my-queries").weight  # doctest: +SKIP
        HybridWeight(value=0.71, source='120 queries of my-queries')

    Args:
        dev: folder of people's queries with relevant documents in BEIR's layout, with the ids of the index.
        metric: Measure of a ranking: ndcg@10 (default), mrr@K, recall@K.

    Raises:
        UserError: for bad input, too few queries, or a model that is not the index's.
    """
    from opencse.commands.opening import encoder_of
    from opencse.documents.dev_choice import UserQueries
    from opencse.documents.hybrid import fit_index_to_queries
    from opencse.outputs import require_writable
    from opencse.ranking import Measure
    from opencse.search.database import NAMES
    from opencse.search.index import Index

    measure = None if metric is None else Measure.parse(metric)
    if dev is None:
        raise UserError(
            "an index is tuned to people's queries: give --dev FOLDER (opencse label makes one); without them the "
            "weight is chosen when an index is built"
        )
    queries = UserQueries.read(Path(dev), measure, keep_identical_ids)
    with Index.open(folder) as index:
        require_writable(index.folder / NAMES, remedy="the weight is saved with the index; tune a copy of your own")
        index.encoder = encoder_of(index.info(), model, progress, device, trust_remote_code)
        with index.snapshot() as snapshot:
            progress.say("hybrid     answering queries with every weight of the vectors")
            fitted = fit_index_to_queries(snapshot, index.encoder, queries)
        index.set_hybrid_weight(fitted.weight)
        return fitted


def _said(rows: RowSource, progress: Progress) -> RowSource:
    """The rows of a text; says how it was read."""
    for line in rows.notes.lines():
        progress.say(line)
    return rows


def _lasting_name(model: Model) -> str:
    """The name by which the model can be loaded from any working folder; empty for an encoder object."""
    from opencse.commands.opening import name_of
    from opencse.encoder.text_encoder import TextEncoder

    if isinstance(model, TextEncoder):
        return ""
    name = name_of(model)
    return str(Path(name).resolve()) if Path(name).is_dir() else name
