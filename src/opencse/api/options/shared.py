"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict

from opencse.api.declaring import Option
from opencse.progress import Progress

if TYPE_CHECKING:
    from opencse.reranking.cross_encoder import CrossEncoder


class ProgressOptions(TypedDict, total=False):
    """Where a command reports what it does."""

    progress: Annotated[
        Progress | None,
        Option(
            None,
            "receives decisions, results and counts, for instance `opencse.progress.Terminal`; nothing by default.",
            rank=9,
            hidden=True,
        ),
    ]


class TrustOptions(ProgressOptions, total=False):
    """Whether Python code of a model's folder may run."""

    trust_remote_code: Annotated[
        bool,
        Option(
            False,
            "Run the Python code that the model's folder brings; read it first.",
            rank=8,
            in_python="run the Python code that the model's folder brings; see `SentenceEncoder.load`.",
        ),
    ]


class DeviceOptions(TrustOptions, total=False):
    """Where a model runs."""

    device: Annotated[str | None, Option(None, "cpu, cuda or mps; by default a GPU if there is one.", rank=7)]


class RerankOptions(DeviceOptions, total=False):
    """Whether a cross-encoder re-ranks what vectors or keywords rank first."""

    rerank: Annotated[
        str | Path | CrossEncoder | None,
        Option(
            None,
            "Re-rank by a cross-encoder with one output: a folder or a Hub id (sentence-transformers, transformers).",
            rank=1,
            in_python="re-rank by this cross-encoder with one output: a folder or Hub id of sentence-transformers or "
            "transformers; or a loaded `opencse.reranking.cross_encoder.CrossEncoder`.",
        ),
    ]
    rerank_depth: Annotated[int, Option(50, "First texts of each ranking that --rerank scores again.", least=1, rank=1)]
    rerank_precision: Annotated[
        Literal["float32", "bf16"], Option("float32", "Numbers that --rerank computes with.", rank=1)
    ]


class PoolingOptions(TrustOptions, total=False):
    """How a model that runs on the CPU alone is opened."""

    pooling: Annotated[
        str | None,
        Option(None, "How token vectors become one: mean, cls, max, ...; by default the model's own.", rank=6),
    ]


class ModelOptions(PoolingOptions, DeviceOptions, total=False):
    """How a model is opened."""


class PrecisionOptions(TypedDict, total=False):
    """The arithmetic that vectors are computed in."""

    precision: Annotated[
        Literal["auto", "float32", "bf16"],
        Option(
            "float32",
            "Arithmetic of the vectors; bf16 is faster where the processor has it, and almost as exact. auto: bf16 "
            "where it is faster and cosines to float32 stay above .9999 in a sample of the texts.",
            rank=5,
        ),
    ]


class DimensionOptions(TypedDict, total=False):
    """How many dimensions of each vector are kept."""

    dimensions: Annotated[
        int | None,
        Option(
            None,
            "Keep only the first N dimensions of each vector, for models trained for it (Matryoshka); by default all.",
            least=1,
            rank=4,
        ),
    ]


class ColumnOptions(TypedDict, total=False):
    """Which columns of a file or data set are read, each text by itself."""

    columns: Annotated[
        Sequence[str] | None,
        Option(
            None,
            "Columns to read, by name or (without header) by position; each text is read by itself.",
            rank=2,
        ),
    ]


class RowColumnOptions(TypedDict, total=False):
    """Which columns of a file or data set make a row: a text, a pair or a triple."""

    columns: Annotated[
        Sequence[str] | None,
        Option(
            None,
            "Columns to read, by name or (without header) by position: anchor[,positive[,negative]]; for recipes that "
            "learn from scores or classes, theirs last.",
            rank=2,
        ),
    ]


class SplitOptions(TypedDict, total=False):
    """Which part of a Hub data set is read."""

    split: Annotated[str | None, Option(None, "Split of a Hub data set; by default train.", rank=5)]


class DocumentOptions(TypedDict, total=False):
    """How documents are read."""

    fields: Annotated[
        Sequence[str] | None,
        Option(
            None,
            "What the file calls its documents' title and text, or the text alone: headline,body; nested keys with "
            "dots: meta.title,body.text. [default: title,text]",
            rank=3,
            in_python="what the file calls its documents' title and text, or the text alone: their sentences are read "
            'as running text. Nested keys have dots: ``["meta.title", "body.text"]``. Not together with ``columns``.',
        ),
    ]
    keep_code: Annotated[
        bool,
        Option(
            False,
            "Keep code blocks of HTML and Markdown; by default they are left out.",
            rank=3,
        ),
    ]
    keep_repeated: Annotated[
        bool,
        Option(
            False,
            "Keep lines that most pages of a folder have, such as banners; by default they are left out.",
            rank=3,
        ),
    ]
    quoted: Annotated[
        bool,
        Option(
            False,
            "Fields of a table with tabs may be in double quotes, as spreadsheets write them; by default a quotation "
            "mark there is text.",
            rank=3,
        ),
    ]
    pages: Annotated[
        bool,
        Option(
            False,
            "Each .txt file is text taken from a PDF: lines and hyphenated words are joined, running heads and page "
            "numbers left out; by default a line is a text.",
            rank=3,
        ),
    ]


class LineOptions(TypedDict, total=False):
    """Which lines of a file are left out."""

    skip_lines: Annotated[
        Collection[int],
        Option(
            (),
            "File of line numbers of TEXT to leave out, one per line, from 1.",
            file=True,
            typed=None,
            rank=4,
            in_python="line numbers of a file to leave out, from 1.",
        ),
    ]


class SettingOptions(TypedDict, total=False):
    """Settings of a recipe that are changed."""

    settings: Annotated[
        Iterable[str],
        Option(
            (),
            "Change a setting: training.epochs=2; may be repeated. All of them: opencse recipes show RECIPE.",
            ("--set", "-s"),
            repeated=True,
            keyed=True,
            rank=3,
            in_python="settings of the recipe to change, ``key.path=value`` each, or a dictionary; they come last. Of "
            "one key the last counts.",
        ),
    ]


class IdenticalIdOptions(TypedDict, total=False):
    """Whether a document that is the query counts."""

    keep_identical_ids: Annotated[
        bool,
        Option(
            False,
            "Retrieval: rank a document with the id and the text of the query also where it is not judged relevant; "
            "by default it is left out.",
        ),
    ]


class EngineOptions(TypedDict, total=False):
    """Where much work runs."""

    engine: Annotated[
        Literal["local", "ray"],
        Option("local", "Where the work runs: this machine, or a Ray cluster (RAY_ADDRESS).", rank=5),
    ]


class ReportOptions(TypedDict, total=False):
    """Whether a report is written."""

    report: Annotated[
        bool,
        Option(
            False,
            "Write report.html at the end.",
            ("--report/--no-report",),
            typed=True,
            rank=5,
            in_python="write ``report.html`` at the end, what training changed; needs ``opencse[train]``, and is left "
            "out with a message where that is not installed.",
        ),
    ]


class FinishOptions(ReportOptions, TrustOptions, total=False):
    """How an interrupted run is finished."""
