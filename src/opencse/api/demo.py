"""The main job on the built-in sample, offline: train, evaluate before and after, search, write a report."""

from __future__ import annotations

import csv
import io
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from opencse import __version__
from opencse.analysis.figures import gold_against_cosine, training_curves
from opencse.analysis.report import Section, code, figure, figures, paragraph, quote, table, write_report
from opencse.api.index import build_index
from opencse.encoder.encoder import SentenceEncoder
from opencse.environment import require_packages
from opencse.errors import InterruptedRunError, UserError
from opencse.evaluation import ScoredPairs, distinct, embed, read_scored_pairs, spearman
from opencse.evaluation.ranking import nearest_rows
from opencse.progress import Progress, Silent
from opencse.runs.finish import TrainResult
from opencse.runs.folder import REPORT, RunFolder, State, make, names_in
from opencse.runs.job import TrainJob
from opencse.runs.lock import LOCK, require_free
from opencse.runs.report import losses_of
from opencse.text import sample
from opencse.text.readers import Source
from opencse.training.metrics import MetricsLog

HELD_OUT = 160
PAIRS, TEXT_ONLY, ENCODER, INDEX = "pairs.csv", "text-only", "encoder", "index"
EXAMPLES = (
    "What should I do when my train is late?",
    "Why does my phone battery run down so fast in the cold?",
    "Training for a long running race",
    "What makes a good password?",
    "Stars and planets in the night sky",
)


@dataclass(frozen=True)
class DemoScores:
    """What the demo measures of an encoder.

    Attributes:
        spearman: x 100, on the sample's 150 test pairs.
        cosines: of these pairs.
        found: share (x 100) of `HELD_OUT` held-out queries whose sentence is among the first three of the whole text.
        hits: for each of `EXAMPLES`, the three nearest sentences with their cosines.
    """

    spearman: float
    cosines: list[float]
    found: float
    hits: list[list[tuple[float, str]]]


@dataclass(frozen=True)
class DemoResult:
    """What the demo made.

    Attributes:
        encoder: folder of the encoder trained on pairs.
        index: folder with a search index of the sample's text, by that encoder.
        report: the page.
        scores: by encoder: ``before``, ``raw text alone``, ``pairs``; on what was neither trained nor selected on.
        seconds: of everything.
    """

    encoder: Path
    index: Path
    report: Path
    scores: dict[str, DemoScores]
    seconds: float


def demo(out: str | Path = "demo-out", *, seed: int = 42, progress: Progress | None = None) -> DemoResult:
    """The main job on the built-in sample, offline: train, evaluate before and after, search, index, write a report.

    Args:
        out: folder for the encoders, the index and the report; a new or empty one, or that of an older demo, which is
            replaced.
        seed: of the runs.
        progress: hears of it.

    Raises:
        UserError: for a folder with anything else in it, or one that cannot be made.
        InterruptedRunError: on Ctrl-C.
    """
    require_packages("the demo's report", "train", "matplotlib")
    started, folder, tell = time.perf_counter(), Path(out), progress or Silent()
    _make_room(folder)
    make(folder)
    queries = _hold_out(folder / PAIRS)
    tell.say("1. raw text alone: 3,421 sentences, the next sentence as the positive")
    settings = ("training.epochs=6", f"training.seed={seed}")
    job = TrainJob(Source(str(sample.TRAIN)), recipe="next-sentence", settings=settings, dev=None)
    _run(job, folder / TEXT_ONLY, tell)
    tell.say("2. pairs: 1,400 paraphrases and questions with the sentence they belong to")
    settings = ("training.epochs=10", f"training.seed={seed}")
    job = TrainJob(Source(str(folder / PAIRS)), recipe="simcse-supervised", settings=settings)
    result = _run(job, folder / ENCODER, tell)
    tell.say("3. evaluate on what was neither trained nor selected on")
    test = read_scored_pairs(sample.TEST)
    encoders = {
        "before": SentenceEncoder.load(),
        "raw text alone": SentenceEncoder.load(folder / TEXT_ONLY),
        "pairs": SentenceEncoder.load(folder / ENCODER),
    }
    scores = {name: _measure(encoder, test, queries) for name, encoder in encoders.items()}
    tell.say("4. index the text for search")
    build_index(folder / INDEX, folder / ENCODER, sample.TRAIN, overwrite=True, progress=tell)
    page = folder / REPORT
    _write(page, result, scores, test, time.perf_counter() - started)
    return DemoResult(folder / ENCODER, folder / INDEX, page, scores, time.perf_counter() - started)


def _run(job: TrainJob, out: Path, progress: Progress) -> TrainResult:
    try:
        return job.run(out, progress=progress)
    except InterruptedRunError:
        progress.finish()
        raise InterruptedRunError("stopped") from None


def _make_room(out: Path) -> None:
    """Removes an older demo; a folder with anything else in it is refused."""
    names = names_in(out)
    if not names:
        return
    runs = [RunFolder(out / name) for name in (TEXT_ONLY, ENCODER) if name in names]
    own = names <= {PAIRS, TEXT_ONLY, ENCODER, INDEX, REPORT} and (out / PAIRS).is_file()
    if not own or (out / PAIRS).read_bytes() != _split()[0] or State.FOREIGN in [run.state() for run in runs]:
        raise UserError(f"{out}: exists and is no demo's folder; choose another --out")
    for run in runs:
        require_free(run.path / LOCK)
        shutil.rmtree(run.path)
    for name in names & {PAIRS, REPORT}:
        (out / name).unlink()


def _split() -> tuple[bytes, list[tuple[str, str]]]:
    """The sample's pairs but the last ones, as a csv file, and those."""
    with sample.PAIRS.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream))
    written = io.StringIO(newline="")
    csv.writer(written).writerows(rows[:-HELD_OUT])
    return written.getvalue().encode(), [(query, wanted) for query, wanted in rows[-HELD_OUT:]]


def _hold_out(path: Path) -> list[tuple[str, str]]:
    """Writes the sample's pairs but the last ones, and returns those."""
    kept, held_out = _split()
    path.write_bytes(kept)
    return held_out


def _measure(encoder: SentenceEncoder, test: ScoredPairs, queries: list[tuple[str, str]]) -> DemoScores:
    texts = [line for line in sample.TRAIN.read_text(encoding="utf-8").splitlines() if line]
    asked = [*EXAMPLES, *(query for query, _ in queries)]
    places, cosines = nearest_rows(encoder.encode(asked), encoder.encode(texts), 3)
    nearest = [[(float(c), texts[p]) for c, p in zip(*row, strict=True)] for row in zip(cosines, places, strict=True)]
    shown, rest = nearest[: len(EXAMPLES)], nearest[len(EXAMPLES) :]
    right = sum(wanted in [text for _, text in hits] for (_, wanted), hits in zip(queries, rest, strict=True))
    cosines_of_pairs = embed(encoder.encode, distinct([test.first, test.second])).cosines(test.first, test.second)
    return DemoScores(
        spearman=100 * spearman(cosines_of_pairs, test.scores),
        cosines=cosines_of_pairs.tolist(),
        found=100 * right / len(queries),
        hits=shown,
    )


def _write(
    path: Path,
    result: TrainResult,
    found: dict[str, DemoScores],
    test: ScoredPairs,
    seconds: float,
) -> None:
    folder = RunFolder(result.folder)
    losses = losses_of(MetricsLog(folder.metrics_file).read(), folder.record())
    searches = Markup()
    for query, before, after in zip(EXAMPLES, found["before"].hits, found["pairs"].hits, strict=True):
        rows = [[f"{b[0]:.2f}", b[1], f"{a[0]:.2f}", a[1]] for b, a in zip(before, after, strict=True)]
        searches += quote(query) + table(["", "before", "", "after"], rows)
    scores = [[name, f"{it.spearman:.2f}", f"{it.found:.1f}"] for name, it in found.items()]
    lead = (
        table(["", "150 graded pairs", f"{HELD_OUT} queries found"], scores)
        + paragraph(f"Pairs: {result.verdict}.")
        + paragraph(
            f"opencse {__version__}, built-in encoder and sample, {seconds:.0f} s. Graded pairs: Spearman x 100 of "
            "cosine and gold score. Queries: share (%) whose sentence is among the first three of 3,421. None of "
            "either was trained or selected on.",
            "muted",
        )
    )
    curve = training_curves(losses, result.scores)
    commands = (
        "opencse train TEXT --recipe next-sentence --out DIR      # running text\n"
        "opencse train TEXT --recipe simcse --out DIR             # loose sentences\n"
        "opencse train TEXT --recipe simcse-supervised --out DIR  # pairs"
    )
    gold = gold_against_cosine(test.scores.tolist(), {name: it.cosines for name, it in found.items()})
    write_report(
        path,
        "OpenCSE demo: from raw text to a better encoder",
        lead,
        [
            Section("Training on pairs", figures(*map(figure, curve))),
            Section("Cosine against gold score", figures(*map(figure, gold))),
            Section("Search: some examples", searches),
            Section("Next: your own text", code(commands)),
        ],
    )
