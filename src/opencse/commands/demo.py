"""Runs the demo: trains on the built-in sample, evaluates before and after, builds an index and writes a report."""

from __future__ import annotations

import csv
import io
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from opencse.commands.declared import command
from opencse.commands.index import build_index
from opencse.commands.shared import OutFolder, Reporter
from opencse.errors import InterruptedRunError
from opencse.numerals import number_of
from opencse.progress import SILENT, Progress
from opencse.version import __version__

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder
    from opencse.evaluation import ScoredPairs
    from opencse.runs.finish import TrainResult
    from opencse.runs.run import Run

HELD_OUT = 0.12
"""Share of the sample's articles that nothing is trained on."""
TEXT, PAIRS, TEXT_ONLY, ENCODER, INDEX = "text.txt", "pairs.csv", "text-only", "encoder", "index"
EXAMPLES = (
    "What should I do when my train is late?",
    "Why does my phone battery run down so fast in the cold?",
    "Training for a long running race",
    "What makes a good password?",
    "Stars and planets in the night sky",
)


@dataclass(frozen=True)
class DemoScores:
    """The scores of an encoder in the demo.

    Attributes:
        spearman: x 100, on the sample's 150 test pairs.
        cosines: of these pairs.
        found: share (x 100) of the held-out queries whose sentence is among the first three of the text.
        hits: for each of `EXAMPLES`, the three nearest sentences with their cosines.
    """

    spearman: float
    cosines: list[float]
    found: float
    hits: list[list[tuple[float, str]]]


@dataclass(frozen=True)
class DemoResult:
    """The files and scores of the demo.

    Attributes:
        encoder: folder of the encoder trained on pairs.
        index: folder with a search index of the sample's text, by that encoder.
        report: the HTML page.
        scores: by encoder (``before``, ``raw text alone``, ``pairs``), on data that no run trained on or selected by.
        queries: how many queries are held out, each about a sentence of a held-out article.
        seconds: of all steps together.
    """

    encoder: Path
    index: Path
    report: Path
    scores: dict[str, DemoScores]
    queries: int
    seconds: float


@command
def demo(
    out: OutFolder = "demo-out",
    *,
    seed: int = 42,
    overwrite: bool = False,
    progress: Reporter = SILENT,
) -> DemoResult:
    """Trains on the built-in sample, evaluates before and after, builds a search index, and writes a report; offline.

    Args:
        out: folder for the encoders, the index and the report; a new or empty one.
        seed: seed of the runs.
        overwrite: Replace an older demo in --out.
        progress: receives progress and results.

    Raises:
        UserError: for a folder that is not empty, or one that cannot be created.
        InterruptedRunError: on Ctrl-C.

    Example:
        >>> result = demo("demo-out")  # doctest: +SKIP
        >>> sorted(result.scores)  # doctest: +SKIP
        ['before', 'pairs', 'raw text alone']
    """
    from opencse.environment import require_packages
    from opencse.files import made_folder

    require_packages("the demo's report", "train", "matplotlib")
    folder = Path(out)
    _make_room(folder, overwrite)
    with made_folder(folder):
        return _run_demo(folder, seed, progress)


def _run_demo(folder: Path, seed: int, progress: Progress) -> DemoResult:
    from opencse.encoder.encoder import SentenceEncoder
    from opencse.evaluation import read_scored_pairs
    from opencse.runs.folder import REPORT
    from opencse.runs.run import Run
    from opencse.text import sample
    from opencse.text.readers import Source

    started = time.perf_counter()
    parts = split_sample()
    (folder / TEXT).write_text(parts.text, encoding="utf-8")
    (folder / PAIRS).write_bytes(parts.pairs)
    queries = parts.queries
    progress.say(
        f"held out: {parts.held_out} of the sample's articles, and {number_of(len(queries), 'query')} about them"
    )
    progress.say("1. raw text alone: the next sentence as the positive")
    settings = ("training.epochs=6", f"training.seed={seed}")
    job = Run(text=Source(str(folder / TEXT)), recipe="next-sentence", settings=settings, dev=None)
    _run(job, folder / TEXT_ONLY, progress)
    progress.say("2. pairs: paraphrases and questions, with the sentence they belong to")
    settings = ("training.epochs=10", f"training.seed={seed}")
    job = Run(text=Source(str(folder / PAIRS)), recipe="simcse-supervised", settings=settings)
    result = _run(job, folder / ENCODER, progress)
    progress.say("3. evaluate on data that was not used for training or selection")
    test = read_scored_pairs(sample.TEST)
    encoders = {
        "before": SentenceEncoder.load(),
        "raw text alone": SentenceEncoder.load(folder / TEXT_ONLY),
        "pairs": SentenceEncoder.load(folder / ENCODER),
    }
    scores = {name: _measure(encoder, test, queries) for name, encoder in encoders.items()}
    progress.say("4. index the text for search")
    build_index(folder / INDEX, folder / ENCODER, sample.TRAIN, overwrite=True, progress=progress)
    page = folder / REPORT
    _write(page, result, scores, test, len(queries), time.perf_counter() - started)
    return DemoResult(folder / ENCODER, folder / INDEX, page, scores, len(queries), time.perf_counter() - started)


def _run(job: Run, out: Path, progress: Progress) -> TrainResult:
    try:
        return job.train(out, overwrite=True, progress=progress)
    except InterruptedRunError:
        progress.finish()
        raise InterruptedRunError("stopped") from None


def _make_room(out: Path, overwrite: bool) -> None:
    """Refuses a folder that is not empty; with ``overwrite`` one whose runs or index are of something else."""
    from opencse.outputs import require_new, require_writable
    from opencse.runs.folder import REPORT, RunFolder
    from opencse.search.database import require_own

    require_writable(out, remedy="choose another --out")
    require_new(out, overwrite=overwrite)
    for name in (TEXT_ONLY, ENCODER):
        RunFolder(out / name).require(resume=False, overwrite=True, start=None)
    require_own(out / INDEX)
    (out / REPORT).unlink(missing_ok=True)


@dataclass(frozen=True)
class SampleParts:
    """The sample, split into data to train on and data to evaluate on.

    Attributes:
        text: the articles to train on, one sentence per line, a blank line between articles.
        pairs: a csv file of the pairs to train on; none of their texts is in a held-out article or query.
        queries: a question or paraphrase with its sentence, which is in a held-out article.
        held_out: number of held-out articles.
    """

    text: str
    pairs: bytes
    queries: list[tuple[str, str]]
    held_out: int


def split_sample() -> SampleParts:
    """Holds out some articles of the sample, and the pairs about them."""
    from opencse.documents.questions import hold_out
    from opencse.text import sample
    from opencse.text.readers import Source
    from opencse.text.scripts import normalised

    texts = Source(str(sample.TRAIN)).read()
    if texts.documents is None:
        raise RuntimeError("the built-in sample has no blank lines between its articles")
    held = hold_out(texts, HELD_OUT)
    articles: dict[int, list[str]] = {}
    for (sentence,), article, out in zip(texts.rows, texts.documents, held.left_out, strict=True):
        if not out:
            articles.setdefault(article, []).append(sentence)
    answers = {normalised(row[0]) for row, out in zip(texts.rows, held.left_out, strict=True) if out}
    with sample.PAIRS.open(encoding="utf-8", newline="") as stream:
        head, *rows = csv.reader(stream)
    queries = [(query, answer) for query, answer in rows if normalised(answer) in answers]
    apart = answers | {normalised(query) for query, _ in queries}
    written = io.StringIO(newline="")
    csv.writer(written).writerows([head, *(row for row in rows if not apart & {normalised(text) for text in row})])
    text = "\n\n".join("\n".join(sentences) for sentences in articles.values())
    return SampleParts(f"{text}\n", written.getvalue().encode(), queries, len(set(held.units[held.held].tolist())))


def _measure(encoder: SentenceEncoder, test: ScoredPairs, queries: list[tuple[str, str]]) -> DemoScores:
    from opencse.evaluation import distinct, embed, spearman
    from opencse.ranking import nearest_rows
    from opencse.text import sample

    texts = [line for line in sample.TRAIN.read_text(encoding="utf-8").splitlines() if line]
    questions = [*EXAMPLES, *(query for query, _ in queries)]
    rows, cosines = nearest_rows(encoder.encode_query(questions), encoder.encode_document(texts), 3)
    nearest = [[(float(c), texts[r]) for c, r in zip(*hit, strict=True)] for hit in zip(cosines, rows, strict=True)]
    examples, rest = nearest[: len(EXAMPLES)], nearest[len(EXAMPLES) :]
    right = sum(answer in [text for _, text in hits] for (_, answer), hits in zip(queries, rest, strict=True))
    cosines_of_pairs = embed(encoder.encode, distinct([test.first, test.second])).cosines(test.first, test.second)
    return DemoScores(
        spearman=100 * spearman(cosines_of_pairs, test.scores),
        cosines=cosines_of_pairs.tolist(),
        found=100 * right / len(queries),
        hits=examples,
    )


def _write(
    path: Path,
    result: TrainResult,
    by_encoder: dict[str, DemoScores],
    test: ScoredPairs,
    queries: int,
    seconds: float,
) -> None:
    from opencse.analysis.figures import gold_against_cosine, training_curves
    from opencse.analysis.report import ReportSection, figure, figures, paragraph, quote, steps, table, write_report
    from opencse.runs.folder import RunFolder
    from opencse.runs.report import first_steps, losses_of
    from opencse.training.callbacks import MetricsLog

    folder = RunFolder(result.folder)
    losses = losses_of(MetricsLog(folder.metrics_file).read(), folder.record())
    searches = Markup()
    for query, before, after in zip(EXAMPLES, by_encoder["before"].hits, by_encoder["pairs"].hits, strict=True):
        rows = [[f"{b[0]:.2f}", b[1], f"{a[0]:.2f}", a[1]] for b, a in zip(before, after, strict=True)]
        searches += quote(query) + table(["", "before", "", "after"], rows)
    scores = [[name, f"{one.spearman:.2f}", f"{one.found:.1f}"] for name, one in by_encoder.items()]
    lead = (
        table(["", "150 graded pairs", f"{queries} queries found"], scores)
        + paragraph(f"Pairs: {result.verdict}.")
        + paragraph(
            f"opencse {__version__}, built-in encoder and sample, {seconds:.0f} s. Graded pairs: Spearman x 100 of "
            "cosine and gold score. Queries: share (%) whose sentence is among the first three of 3,421. Neither the "
            "graded pairs nor the queries and the articles that answer them were trained or selected on.",
            "muted",
        )
    )
    curve = training_curves(losses, result.scores)
    gold = gold_against_cosine(test.scores.tolist(), {name: one.cosines for name, one in by_encoder.items()})
    write_report(
        path,
        "OpenCSE demo: from raw text to a better encoder",
        lead,
        [
            ReportSection("Training on pairs", figures(*map(figure, curve))),
            ReportSection("Cosine against gold score", figures(*map(figure, gold))),
            ReportSection("Search: some examples", searches),
            ReportSection("What to do next: your own text", steps(first_steps())),
        ],
    )
