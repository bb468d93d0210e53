"""``opencse demo``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opencse.cli.jobs import out_folder

if TYPE_CHECKING:
    from opencse.cli.console import ConsoleReporter
    from opencse.encoder.encoder import SentenceEncoder
    from opencse.evaluation import ScoredPairs
    from opencse.runs.job import TrainJob, TrainResult

HELD_OUT = 160
PAIRS, TEXT_ONLY, ENCODER, REPORT = "pairs.csv", "text-only", "encoder", "report.html"
EXAMPLES = (
    "What should I do when my train is late?",
    "Why does my phone battery run down so fast in the cold?",
    "Training for a long running race",
    "What makes a good password?",
    "Stars and planets in the night sky",
)


@dataclass(frozen=True)
class Judged:
    """What the demo measures of an encoder.

    Attributes:
        spearman: x 100, on the sample's test pairs.
        cosines: of these pairs.
        found: share (x 100) of held-out queries whose sentence is among the first three of the whole text.
        hits: for each of `EXAMPLES`, the three nearest sentences with their cosines.
    """

    spearman: float
    cosines: list[float]
    found: float
    hits: list[list[tuple[float, str]]]


def demo(
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", parser=out_folder, metavar="FOLDER", help="Folder for the encoders and the report."
        ),
    ] = Path("demo-out"),
    seed: Annotated[int, typer.Option(help="Seed of the runs.")] = 42,
) -> None:
    """The main job on the built-in sample, offline: train, evaluate before and after, search, write a report."""
    import time

    from rich.console import Console

    from opencse import SentenceEncoder
    from opencse.cli.console import ConsoleReporter, echo
    from opencse.cli.jobs import make_folder
    from opencse.evaluation import read_scored_pairs
    from opencse.runs.job import TrainJob
    from opencse.text import sample
    from opencse.text.readers import Source

    started = time.perf_counter()
    console, reporter = Console(highlight=False), ConsoleReporter()
    _make_room(out)
    make_folder(out)
    queries = _hold_out(out / PAIRS)
    console.rule("1. raw text alone: 3,421 sentences, the next sentence as the positive", align="left")
    settings = ("training.epochs=6", f"training.seed={seed}")
    job = TrainJob(Source(str(sample.TRAIN)), recipe="next-sentence", settings=settings, dev=None)
    _run(job, out / TEXT_ONLY, reporter)
    console.rule("2. pairs: 1,400 paraphrases and questions with the sentence they belong to", align="left")
    settings = ("training.epochs=10", f"training.seed={seed}")
    job = TrainJob(Source(str(out / "pairs.csv")), recipe="simcse-supervised", settings=settings)
    result = _run(job, out / ENCODER, reporter)

    console.rule("3. evaluate on what was neither trained nor selected on", align="left")
    test = read_scored_pairs(sample.TEST)
    encoders = {
        "before": SentenceEncoder.load(),
        "raw text alone": SentenceEncoder.load(out / TEXT_ONLY),
        "pairs": SentenceEncoder.load(out / ENCODER),
    }
    judged = {name: _judge(encoder, test, queries) for name, encoder in encoders.items()}
    console.print(f"{'':<16}graded pairs   queries found")
    for name, it in judged.items():
        console.print(f"{name:<16}[bold]{it.spearman:>12.2f}{it.found:>16.1f}[/bold]")
    console.print(
        f"150 graded pairs: Spearman x 100. {HELD_OUT} queries: % whose sentence is in the first 3 of 3,421.",
        style="dim",
    )

    console.rule("4. search: some examples", align="left")
    for query, hits in zip(EXAMPLES, judged["pairs"].hits, strict=True):
        console.print(f"[bold]{query}[/bold]")
        for cosine, text in hits:
            console.print(f"   {cosine:.2f}  {text}", markup=False)

    report = out / REPORT
    _write(report, result, judged, test, time.perf_counter() - started)
    console.rule("done", align="left")
    echo(f"encoder {out / 'encoder'}   report {report}   {time.perf_counter() - started:.0f} s")


def _run(job: TrainJob, out: Path, reporter: ConsoleReporter) -> TrainResult:
    from opencse.errors import InterruptedRunError

    try:
        return job.run(out, reporter=reporter)
    except InterruptedRunError:
        reporter.finish()
        raise InterruptedRunError("stopped") from None


def _make_room(out: Path) -> None:
    """Removes an older demo; a folder with anything else in it is refused."""
    import shutil

    from opencse.errors import UserError
    from opencse.runs.folder import RunFolder, State, names_in
    from opencse.runs.lock import LOCK, require_free

    names = names_in(out)
    if not names:
        return
    runs = [RunFolder(out / name) for name in (TEXT_ONLY, ENCODER) if name in names]
    own = names <= {PAIRS, TEXT_ONLY, ENCODER, REPORT} and (out / PAIRS).is_file()
    if not own or (out / PAIRS).read_bytes() != _split()[0] or State.FOREIGN in [run.state() for run in runs]:
        raise UserError(f"{out}: exists and is no demo's folder; choose another --out")
    for run in runs:
        require_free(run.path / LOCK)
        shutil.rmtree(run.path)
    for name in names & {PAIRS, REPORT}:
        (out / name).unlink()


def _split() -> tuple[bytes, list[tuple[str, str]]]:
    """The sample's pairs but the last ones, as a csv file, and those."""
    import csv
    import io

    from opencse.text import sample

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


def _judge(encoder: SentenceEncoder, test: ScoredPairs, queries: list[tuple[str, str]]) -> Judged:
    from opencse.evaluation import distinct, embed, spearman
    from opencse.search.exact import top_k
    from opencse.text import sample

    texts = [line for line in sample.TRAIN.read_text(encoding="utf-8").splitlines() if line]
    asked = [*EXAMPLES, *(query for query, _ in queries)]
    places, cosines = top_k(encoder.encode(asked), encoder.encode(texts), 3)
    nearest = [[(float(c), texts[p]) for c, p in zip(*row, strict=True)] for row in zip(cosines, places, strict=True)]
    shown, rest = nearest[: len(EXAMPLES)], nearest[len(EXAMPLES) :]
    right = sum(wanted in [text for _, text in hits] for (_, wanted), hits in zip(queries, rest, strict=True))
    cosines_of_pairs = embed(encoder.encode, distinct([test.first, test.second])).cosines(test.first, test.second)
    return Judged(
        spearman=100 * spearman(cosines_of_pairs, test.scores),
        cosines=cosines_of_pairs.tolist(),
        found=100 * right / len(queries),
        hits=shown,
    )


def _write(
    path: Path,
    result: TrainResult,
    judged: dict[str, Judged],
    test: ScoredPairs,
    seconds: float,
) -> None:
    from markupsafe import Markup

    from opencse import __version__
    from opencse.analysis.figures import gold_against_cosine, training_curves
    from opencse.analysis.report import Section, code, figure, figures, paragraph, quote, table, write_report
    from opencse.runs.folder import RunFolder
    from opencse.runs.report import losses_of
    from opencse.training.metrics import MetricsLog

    folder = RunFolder(result.folder)
    losses = losses_of(MetricsLog(folder.metrics_file).read(), folder.record())
    searches = Markup()
    for query, before, after in zip(EXAMPLES, judged["before"].hits, judged["pairs"].hits, strict=True):
        rows = [[f"{b[0]:.2f}", b[1], f"{a[0]:.2f}", a[1]] for b, a in zip(before, after, strict=True)]
        searches += quote(query) + table(["", "before", "", "after"], rows)
    scores = [[name, f"{it.spearman:.2f}", f"{it.found:.1f}"] for name, it in judged.items()]
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
    gold = gold_against_cosine(test.scores.tolist(), {name: it.cosines for name, it in judged.items()})
    commands = (
        "opencse train TEXT --recipe next-sentence --out DIR      # running text\n"
        "opencse train TEXT --recipe simcse --out DIR             # loose sentences\n"
        "opencse train TEXT --recipe simcse-supervised --out DIR  # pairs"
    )
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
