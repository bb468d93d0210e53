"""Parameters that several commands have: each is declared once, with its help."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict

from opencse.commands.declared import Typed

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder
    from opencse.encoder.text_encoder import TextEncoder
    from opencse.progress import Progress
    from opencse.reranking.cross_encoder import CrossEncoder
    from opencse.text.given import Text


def lines_of(file: Path) -> Collection[int]:
    """The line numbers in a file."""
    from opencse.text.readers import read_line_numbers

    return read_line_numbers(file)


Encoder = Annotated[
    "str | Path | TextEncoder",
    Typed(
        "Encoder: a folder, a Hub id, opencse-small or opencse-mini.",
        said="the built-in encoder's name, a folder, a Hub id, or a `SentenceEncoder`.",
    ),
]
Encoders = Annotated[
    "str | Path | TextEncoder | Sequence[str | Path | TextEncoder]",
    Typed(
        "Encoders: folders, Hub ids, opencse-small or opencse-mini.",
        repeated=True,
        metavar="MODEL",
        said="the built-in encoder's name, a folder, a Hub id or a `SentenceEncoder`; one or several.",
    ),
]
FORMATS = (
    "File of text (one text per line, a table, JSON, Parquet, XML, Markdown, HTML, PDF, e-mail, subtitles; also .gz "
    ".xz .bz2 .zst), a quoted pattern ('*.txt'), a folder of files, or a Hub data set."
)
TextToRead = Annotated["Text", Typed(FORMATS, said="a file, a Hub data set id, a `Source`, or a list of texts.")]
OutFolder = Annotated["str | Path", Typed(flags=("--out", "-o"), parser=Path, metavar="FOLDER")]
Data = Annotated[
    "str | Path",
    Typed(
        "Evaluation data: a folder with sts/, transfer/, ... (or one of these), or 'hub' to download them.",
        ("--data",),
        said="folder with ``sts/``, ``transfer/``, ... (or one suite's own folder), or ``hub``.",
    ),
]
Reporter = Annotated[
    "Progress",
    Typed(
        "receives decisions, results and counts, for instance `opencse.progress.Terminal`; nothing by default.",
        hidden=True,
    ),
]
TrustRemoteCode = Annotated[
    "bool",
    Typed(
        "Run the Python code that the model's folder brings; read it first.",
        said="run the Python code that the model's folder brings; see `SentenceEncoder.load`.",
    ),
]
Device = Annotated["str | None", Typed("cpu, cuda or mps; by default a GPU if there is one.")]
Rerank = Annotated[
    "str | Path | CrossEncoder | None",
    Typed(
        "Re-rank by a cross-encoder with one output: a folder or a Hub id (sentence-transformers, transformers).",
        said="re-rank by this cross-encoder with one output: a folder or Hub id of sentence-transformers or "
        "transformers; or a loaded `opencse.reranking.cross_encoder.CrossEncoder`.",
    ),
]
RerankDepth = Annotated["int", Typed("First texts of each ranking that --rerank scores again.", least=1)]
RerankPrecision = Annotated["Literal['float32', 'bf16']", Typed("Numbers that --rerank computes with.")]
Pooling = Annotated[
    "str | None", Typed("How token vectors become one: mean, cls, max, ...; by default the model's own.")
]
Precision = Annotated[
    "Literal['auto', 'float32', 'bf16']",
    Typed(
        "Arithmetic of the vectors; bf16 is faster where the processor has it, and almost as exact. auto: bf16 "
        "where it is faster and cosines to float32 stay above .9999 in a sample of the texts."
    ),
]
Dimensions = Annotated[
    "int | None",
    Typed(
        "Keep only the first N dimensions of each vector, for models trained for it (Matryoshka); by default all.",
        least=1,
    ),
]
Columns = Annotated[
    "Sequence[str] | None",
    Typed("Columns to read, by name or (without header) by position; each text is read by itself."),
]
RowColumns = Annotated[
    "Sequence[str] | None",
    Typed(
        "Columns to read, by name or (without header) by position: anchor[,positive[,negative]]; for recipes that "
        "learn from scores or classes, theirs last."
    ),
]
Split = Annotated["str | None", Typed("Split of a Hub data set; by default train.")]
Fields = Annotated[
    "Sequence[str] | None",
    Typed(
        "What the file calls its documents' title and text, or the text alone: headline,body; nested keys with "
        "dots: meta.title,body.text. [default: title,text]",
        said="what the file calls its documents' title and text, or the text alone: their sentences are read as "
        'running text. Nested keys have dots: ``["meta.title", "body.text"]``. Not together with ``columns``.',
    ),
]
ReadAs = Annotated[
    "str | None",
    Typed(
        "Read the file, or those of a pattern, as if its name ended so: csv, tsv, txt, jsonl, md, ...; by default its "
        "suffix says what it is."
    ),
]
KeepCode = Annotated["bool", Typed("Keep code blocks of HTML and Markdown; by default they are left out.")]
KeepRepeated = Annotated[
    "bool", Typed("Keep lines that most pages of a folder have, such as banners; by default they are left out.")
]
Quoted = Annotated[
    "bool",
    Typed(
        "Fields of a table with tabs may be in double quotes, as spreadsheets write them; by default a quotation "
        "mark there is text."
    ),
]
Pages = Annotated[
    "bool",
    Typed(
        "Each .txt file is text taken from a PDF: lines and hyphenated words are joined, running heads and page "
        "numbers left out; by default a line is a text."
    ),
]


class Reads(TypedDict, total=False):
    """What `opencse.text.files.kinds.Reading` says, as options of a command that reads text."""

    read_as: ReadAs
    keep_code: KeepCode
    keep_repeated: KeepRepeated
    quoted: Quoted
    pages: Pages


SkipLines = Annotated[
    "Collection[int]",
    Typed(
        "File of line numbers of TEXT to leave out, one per line, from 1.",
        default=None,
        file=True,
        parser=lines_of,
        said="line numbers of a file to leave out, from 1.",
    ),
]
Settings = Annotated[
    "Iterable[str]",
    Typed(
        "Change a setting: training.epochs=2; may be repeated. All of them: opencse recipes show RECIPE.",
        ("--set", "-s"),
        repeated=True,
        keyed=True,
        said="settings of the recipe to change, ``key.path=value`` each, or a dictionary; they come last. Of one key "
        "the last counts.",
    ),
]
KeepIdenticalIds = Annotated[
    "bool",
    Typed(
        "Retrieval: rank a document with the id and the text of the query also where it is not judged relevant; by "
        "default it is left out."
    ),
]
Engine = Annotated[
    "Literal['local', 'ray']", Typed("Where the work runs: this machine, or a Ray cluster (RAY_ADDRESS).")
]
Report = Annotated[
    "bool",
    Typed(
        "Write report.html at the end.",
        ("--report/--no-report",),
        default=True,
        said="write ``report.html`` at the end, what training changed; needs ``opencse[train]``, and is left out with "
        "a message where that is not installed.",
    ),
]
IndexModel = Annotated[
    "str | Path | SentenceEncoder | None",
    Typed(
        "Folder of the index's model, if it was moved; another model is refused.",
        said="the index's model, if it was moved or is loaded already; another model is refused.",
    ),
]
Fast = Annotated["bool", Typed("Transfer, probing: SentEval's faster settings, for a first look.")]
Tasks = Annotated[
    "Sequence[str] | None",
    Typed("Only these tasks of the suite, comma-separated.", said="the tasks of the suite to score; all by default."),
]
