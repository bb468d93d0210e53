"""Options of `opencse.build_index`, `opencse.query_index` and the other functions of indexes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict

from opencse.api.declaring import Option
from opencse.api.options.shared import (
    DeviceOptions,
    DimensionOptions,
    DocumentOptions,
    IdenticalIdOptions,
    ModelOptions,
    PrecisionOptions,
    ProgressOptions,
    RerankOptions,
    SplitOptions,
)

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder
    from opencse.reranking.cross_encoder import CrossEncoder
    from opencse.search.filters import Where
    from opencse.search.negatives import Mining


class RowOptions(DocumentOptions, SplitOptions, total=False):
    """How the rows of an index are read from a text."""

    ids: Annotated[
        str | None,
        Option(None, "Column with the id of each row; by default _id, or else rows are numbered.", ("--id",), rank=3),
    ]
    metadata: Annotated[
        Sequence[str],
        Option(
            (),
            "Columns to store with each text, comma-separated; searches can filter by them.",
            typed=None,
            rank=3,
            in_python="columns to store with each text; searches can filter by them.",
        ),
    ]


class IndexModelOptions(DeviceOptions, total=False):
    """Where the model of an existing index is."""

    model: Annotated[
        str | Path | SentenceEncoder | None,
        Option(
            None,
            "Folder of the index's model, if it was moved; another model is refused.",
            rank=6,
            in_python="the index's model, if it was moved or is loaded already; another model is refused.",
        ),
    ]


class ConditionOptions(TypedDict, total=False):
    """Conditions on metadata."""

    where: Annotated[
        Where | None,
        Option(
            None,
            "Condition on metadata: lang=en, lang=en,de, year>=2020 (also !=, <, <=, >); if repeated, all must hold.",
            repeated=True,
            quoted=True,
            in_python="conditions on metadata, all of which must hold: by column a value, a list of values, or "
            'comparisons such as ``(">=", 2)``; or a list such as ``["year>=2020"]``.',
        ),
    ]


class BuildOptions(RowOptions, DimensionOptions, PrecisionOptions, ModelOptions, total=False):
    """How an index is built."""

    kind: Annotated[
        Literal["flat", "hnsw", "ivfpq"],
        Option(
            "flat",
            "Kind of index: flat (exact), or approximate for many rows: hnsw (fast), ivfpq (small).",
            rank=5,
            in_python="``flat`` is exact; ``hnsw`` (fast) and ``ivfpq`` (small) are approximate, for many rows, and "
            "their recall is measured.",
        ),
    ]
    cut: Annotated[
        bool,
        Option(
            True,
            "Split texts that are too long for the model into passages, or keep their beginning.",
            ("--cut/--no-cut",),
            rank=5,
            in_python="split texts that are too long for the model into passages, at the ends of sentences; False: "
            "keep their beginning.",
        ),
    ]
    max_length: Annotated[
        int | None, Option(None, "Tokens in a passage, at most; by default what the model reads.", least=1, rank=5)
    ]
    overlap: Annotated[int, Option(0, "Tokens that a passage shares with the one before.", least=0, rank=5)]
    language: Annotated[
        str,
        Option(
            "auto",
            "Language whose word stems --hybrid compares: auto (that of the text, if clear), none, or en, de, ...",
            rank=5,
            in_python="whose word stems a hybrid search compares (singing finds sings): a name or a code such as "
            "``german`` or ``de``; ``auto`` detects the language of the texts, ``none`` compares without stemming.",
        ),
    ]
    overwrite: Annotated[bool, Option(False, "Replace an existing index.", rank=6)]


class AddOptions(RowOptions, IndexModelOptions, total=False):
    """How rows are added to an index."""

    replace: Annotated[bool, Option(False, "Replace rows that have the same ids.", rank=5)]


class DeleteOptions(ConditionOptions, ProgressOptions, total=False):
    """Which rows are deleted."""


class QueryOptions(ConditionOptions, IndexModelOptions, RerankOptions, total=False):
    """How an index is searched."""

    k: Annotated[int, Option(10, "Number of hits for each query.", ("-k",), least=1)]
    threshold: Annotated[
        float | None,
        Option(None, "Leave out hits below this score (with --rerank its score); by default none."),
    ]
    hybrid: Annotated[bool, Option(False, "Rank by keywords (BM25) and vectors together.", rank=1)]
    hybrid_weight: Annotated[
        float | None,
        Option(
            None,
            "Weight of the vectors in --hybrid, 0 to 1; by default that of the index, see `opencse index tune`.",
            least=0,
            most=1,
            rank=1,
        ),
    ]


class TuneOptions(IdenticalIdOptions, IndexModelOptions, total=False):
    """What the weight of a hybrid search is fitted on."""

    dev: Annotated[
        str | Path | None,
        Option(
            None,
            "Folder of people's queries with relevant documents (BEIR's layout, ids as in INDEX).",
            in_python="folder of people's queries with relevant documents in BEIR's layout, with the ids of the index.",
        ),
    ]
    metric: Annotated[str | None, Option(None, "Measure of a ranking: ndcg@10 (default), mrr@K, recall@K.", rank=1)]


class PairOptions(ProgressOptions, total=False):
    """How many pairs are shown."""

    most: Annotated[int, Option(100, "Number of pairs.", ("-n",), typed=20, least=1)]


class DuplicateOptions(ProgressOptions, total=False):
    """Which texts are duplicates."""

    threshold: Annotated[
        float | None,
        Option(None, "Texts with at least this similarity count as duplicates; by default only equal texts."),
    ]


class NegativeOptions(SplitOptions, IndexModelOptions, total=False):
    """How hard negatives are mined."""

    columns: Annotated[Sequence[str] | None, Option(None, "Columns with query and answer, comma-separated.")]
    how: Annotated[
        Mining | None,
        Option(None, "which candidates are taken; see `opencse.search.negatives.Mining`.", hidden=True),
    ]
    teacher: Annotated[
        str | Path | CrossEncoder | None,
        Option(
            None,
            "Cross-encoder (folder or Hub id) that scores each row; the file gets margins, for --recipe margin-mse.",
            rank=1,
            in_python="cross-encoder (a folder, a Hub id or a loaded one) that scores each row: the file also gets its "
            "margins, which the recipe ``margin-mse`` learns from.",
        ),
    ]
    least_margin: Annotated[
        float | None,
        Option(
            None,
            "Leave out a negative that --teacher scores less than this below the answer, for instance 0; by default "
            "none is left out.",
            rank=1,
        ),
    ]
    overwrite: Annotated[bool, Option(False, "Replace the file --out if it exists.", rank=5)]


class ExportOptions(TypedDict, total=False):
    """How the exported collection is called."""

    name: Annotated[str, Option("opencse", "Name of the new collection or table.")]
