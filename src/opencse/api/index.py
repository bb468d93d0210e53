"""`build_index`, `query_index` and the other commands of `opencse index` as functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, Unpack

from opencse.api.declaring import public
from opencse.api.models import Model, encoder_of, load_for_vectors, name_of
from opencse.api.options.index import (
    AddOptions,
    BuildOptions,
    DeleteOptions,
    DuplicateOptions,
    ExportOptions,
    NegativeOptions,
    PairOptions,
    QueryOptions,
)
from opencse.api.options.shared import ProgressOptions
from opencse.api.reranking import margin_teacher, second_stage
from opencse.encoder.bert import KnownModel
from opencse.encoder.fingerprint import hash_files
from opencse.encoder.measured_precision import measured_precision, sample_of
from opencse.encoder.text_encoder import TextEncoder
from opencse.errors import UserError, require_known
from opencse.modules.hybrid_weight import HybridWeight
from opencse.modules.prompts import Role
from opencse.numerals import number_of
from opencse.outputs import paths_of, require_absent, require_apart
from opencse.progress import Counted, Silent
from opencse.search.approximate import KINDS
from opencse.search.building import BuildSettings, require_new
from opencse.search.checking import IndexCheck, check
from opencse.search.index import Index
from opencse.search.negatives import Mined, mine
from opencse.search.pairs import Duplicates, SimilarPair
from opencse.search.recall import Recall, measure_recall
from opencse.search.reranked import reranked
from opencse.search.result import IndexInfo, SearchResult
from opencse.search.row_sources import RowSource, open_rows
from opencse.text.files.kinds import how_read
from opencse.text.given import Text, open_texts
from opencse.text.in_memory import some_of
from opencse.text.left_out_rows import say_left_out_rows
from opencse.text.readers import Source

if TYPE_CHECKING:
    from opencse.search.rows import RowLike
    from opencse.search.vector_stores import Exported

Rows: TypeAlias = "str | Path | Source | Sequence[RowLike]"
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


@public
def build_index(folder: str | Path, model: Model, text: Rows, **options: Unpack[BuildOptions]) -> Built:
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
        **options: see `BuildOptions`.

    Raises:
        UserError: for bad input, in one line.
    """
    require_known(options["kind"], KINDS, "kind of index")
    progress = options["progress"] or Silent()
    require_apart(folder, read=paths_of(text), models=paths_of(model), option="INDEX")
    require_new(Path(folder), overwrite=options["overwrite"])
    rows = _rows(text, options)
    encoder = load_for_vectors(model, options)
    texts = sample_of(row.text for row in rows) if options["precision"] == "auto" else []
    measured = measured_precision(options["precision"], encoder, texts, encoder.prompts.of(Role.DOCUMENT))
    if options["precision"] == "auto":
        progress.say(measured.line)
    settings = BuildSettings(
        options["kind"],
        options["cut"],
        options["max_length"],
        options["overlap"],
        options["language"],
        measured.name,
        options["dimensions"],
    )
    with Index.build(
        folder,
        rows,
        encoder,
        how=settings,
        model=_lasting_name(model),
        model_files="" if isinstance(model, TextEncoder) else hash_files(model),
        pooling=options["pooling"],
        overwrite=options["overwrite"],
        progress=progress,
    ) as index:
        return Built(index.info(), None if settings.kind == "flat" else measure_recall(index))


@public
def add_to_index(folder: str | Path, text: Rows, **options: Unpack[AddOptions]) -> int:
    """Adds the rows of a text to an index, all of them or none; returns their number.

    Example:
        >>> import opencse
        >>> texts = ["A cat sleeps.", "a CAT sleeps.", "Rain."]
        >>> _ = opencse.build_index("more", "opencse-mini", texts, device="cpu")
        >>> opencse.add_to_index("more", ["Snow falls."], device="cpu"), opencse.index_info("more").rows
        (1, 4)

    Args:
        folder: of the index.
        text: see `build_index`; read with the ``fields`` and ``ids`` of the build unless one of them is given.
        **options: see `AddOptions`.

    Raises:
        UserError: for bad input, an id that exists already, or an index that another process is writing.
    """
    with Index.open(folder) as index:
        index.encoder = encoder_of(index.info(), options)
        rows = _rows(text, options, index.info())
        return index.add(rows, replace=options["replace"], progress=options["progress"])


@public
def delete_from_index(folder: str | Path, ids: Sequence[str] | None = None, **options: Unpack[DeleteOptions]) -> int:
    """Deletes rows of an index, all of them or none; returns their number.

    Example:
        >>> import opencse
        >>> texts = ["A cat sleeps.", "a CAT sleeps.", "Rain."]
        >>> _ = opencse.build_index("fewer", "opencse-mini", texts, device="cpu")
        >>> opencse.delete_from_index("fewer", ["2"]), opencse.index_info("fewer").rows
        (1, 2)

    Args:
        folder: of the index.
        ids: of the rows or documents.
        **options: see `DeleteOptions`.

    Raises:
        UserError: for an id that does not exist, neither ids nor conditions, or an index that another process writes.
    """
    with Index.open(folder) as index:
        return index.delete(ids, where=options["where"], progress=options["progress"])


@public
def query_index(folder: str | Path, queries: Sequence[str], **options: Unpack[QueryOptions]) -> SearchResult:
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
        **options: see `QueryOptions`.

    Raises:
        UserError: for bad input, no query, or a model that is not the index's.
    """
    queries = some_of(queries, "no query; give at least one, in a list")
    if not all(query.strip() for query in queries):
        raise UserError("a query is blank; give each a text")
    progress = options["progress"] or Silent()
    with Index(Path(folder)) as index, index.snapshot() as snapshot:  # all that follows reads this one snapshot
        snapshot.matching(options["where"])  # refuses bad conditions before a model is loaded
        known = KnownModel(snapshot.manifest.model_files, snapshot.manifest.fingerprint)
        index.encoder = encoder_of(index.info(), options, texts=len(queries), known=known)
        stage = second_stage(options)
        k, threshold = options["k"], options["threshold"]
        if options["hybrid"] and snapshot.manifest.rows >= _SLOW_TO_COUNT and not snapshot.words_folder.exists():
            progress.say(f"words      counting those of {number_of(snapshot.manifest.rows, 'row')}, once")
        result = index.search(
            queries,
            k if stage is None else max(k, stage.depth),
            threshold=threshold if stage is None else None,
            where=options["where"],
            hybrid=options["hybrid"],
            hybrid_weight=options["hybrid_weight"],
        )
        if options["hybrid"]:
            typed_weight = options["hybrid_weight"]
            weight = index.hybrid_weight if typed_weight is None else HybridWeight(typed_weight, "as requested")
            progress.say(f"hybrid     weight of the vectors {weight}")
        if stage is None:
            return result
        counted = Counted(progress, "re-ranking")
        return reranked(result, queries, k, stage, threshold=threshold, progress=counted)


@public
def index_info(folder: str | Path) -> IndexInfo:
    """Describes an index: rows, dimension, kind, model, columns.

    Example:
        >>> import opencse
        >>> texts = ["A cat sleeps.", "a CAT sleeps.", "Rain."]
        >>> _ = opencse.build_index("described", "opencse-mini", texts, device="cpu")
        >>> info = opencse.index_info("described")
        >>> info.rows, info.kind, info.similarity, info.model
        (3, 'flat', 'cosine', 'opencse-mini')

    Args:
        folder: of the index.

    Raises:
        UserError: if there is none, or it is damaged.
    """
    with Index.open(folder) as index:
        return index.info()


@public
def check_index(folder: str | Path, **options: Unpack[ProgressOptions]) -> IndexCheck:
    """Checks an index: reads every file completely and compares it with the stored checksums.

    Example:
        >>> import opencse
        >>> texts = ["A cat sleeps.", "a CAT sleeps.", "Rain."]
        >>> _ = opencse.build_index("checked", "opencse-mini", texts, device="cpu")
        >>> opencse.check_index("checked").faults
        ()

    Args:
        folder: of the index.
        **options: see `ProgressOptions`.

    Returns:
        The result; its ``faults`` are empty for an intact index.

    Raises:
        UserError: if there is no index.
    """
    return check(Path(folder), options["progress"] or Silent())


@public
def index_pairs(folder: str | Path, **options: Unpack[PairOptions]) -> list[SimilarPair]:
    """Finds the most similar pairs of texts in an index, exactly.

    Example:
        >>> import opencse
        >>> texts = ["A cat sleeps.", "a CAT sleeps.", "Rain."]
        >>> _ = opencse.build_index("paired", "opencse-mini", texts, device="cpu")
        >>> pair = opencse.index_pairs("paired", most=1)[0]
        >>> pair.first, pair.second
        ('0', '1')

    Args:
        folder: of the index.
        **options: see `PairOptions`.

    Raises:
        UserError: for a number below 1, or no such index.
    """
    with Index.open(folder) as index:
        return index.pairs(options["most"], progress=options["progress"])


@public
def index_duplicates(folder: str | Path, **options: Unpack[DuplicateOptions]) -> list[Duplicates]:
    """Groups the texts of an index that are duplicates.

    Example:
        >>> import opencse
        >>> texts = ["A cat sleeps.", "a CAT sleeps.", "Rain."]
        >>> _ = opencse.build_index("repeated", "opencse-mini", texts, device="cpu")
        >>> [group.ids for group in opencse.index_duplicates("repeated")]
        [('0', '1')]

    Args:
        folder: of the index.
        **options: see `DuplicateOptions`.

    Raises:
        UserError: for a threshold outside the range of the similarity, or no such index.
    """
    with Index.open(folder) as index:
        return index.duplicates(options["threshold"], progress=options["progress"])


@public
def index_negatives(folder: str | Path, pairs: Text, out: str | Path, **options: Unpack[NegativeOptions]) -> Mined:
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
        **options: see `NegativeOptions`.

    Raises:
        UserError: for bad input, a file ``out`` that exists or is an input, or if no pair has a negative.
    """
    path = Path(out)
    if path.suffix != ".jsonl":
        raise UserError(f"{out}: triples are written as .jsonl; choose a file name with that ending")
    require_apart(path, read=paths_of(folder, pairs), models=paths_of(options["model"], options["teacher"]))
    require_absent(path, overwrite=options["overwrite"])
    progress = options["progress"] or Silent()
    source = open_texts(pairs, columns=options["columns"], split=options["split"])
    say_left_out_rows(source, progress.say)
    rows = source.read().rows
    with Index(Path(folder)) as index, index.snapshot():  # all queries search the same snapshot
        index.encoder = encoder_of(index.info(), options)
        teacher = margin_teacher(options)
        return mine(index, rows, path, options["how"], teacher, progress=progress)


@public
def export_index(folder: str | Path, to: str, target: str | Path, **options: Unpack[ExportOptions]) -> Exported:
    """Exports an index to another store: ids, texts, metadata and vectors.

    Example:
        >>> import opencse
        >>> _ = opencse.build_index("exported", "opencse-mini", ["A cat sleeps."], device="cpu")
        >>> opencse.export_index("exported", "lancedb", "store", name="pets").rows  # doctest: +SKIP
        1

    Args:
        folder: of the index.
        to: ``qdrant``, ``lancedb`` or ``pgvector``.
        target: a folder or URL for Qdrant, a folder for LanceDB, a connection string for PostgreSQL.
        **options: see `ExportOptions`.

    Raises:
        UserError: for an unknown store, a missing client, a store that cannot be reached, or a name that is taken.
    """
    from opencse.search.vector_stores import export

    with Index.open(folder) as index:
        return export(index, to, str(target), options["name"])


def _rows(text: Rows, options: BuildOptions | AddOptions, added_to: IndexInfo | None = None) -> RowSource:
    """Opens the rows of a text, and says how it was read."""
    rows = open_rows(
        text,
        fields=options["fields"],
        ids=options["ids"],
        metadata=options["metadata"],
        split=options["split"],
        **how_read(options),
        added_to=added_to,
    )
    progress = options["progress"] or Silent()
    for line in rows.notes.lines():
        progress.say(line)
    return rows


def _lasting_name(model: Model) -> str:
    """The name by which the model can be loaded from any working folder; empty for an encoder object."""
    if isinstance(model, TextEncoder):
        return ""
    name = name_of(model)
    return str(Path(name).resolve()) if Path(name).is_dir() else name
