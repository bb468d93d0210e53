"""``opencse demo``."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder
    from opencse.evaluation import ScoredPairs
    from opencse.job import TrainResult

QUERIES = (
    "How do I keep my bicycle chain from making noise?",
    "Why does bread dough need time?",
    "What should I do when my train is late at night?",
    "How can I save money on heating?",
    "How do birds find their way over long distances?",
)


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the encoder and the report.")] = Path("demo-out"),
    seed: Annotated[int, typer.Option(help="Seed of the run.")] = 42,
) -> None:
    """The main job on the built-in sample, offline: train, evaluate before and after, search, write a report."""
    import shutil
    import time

    from rich.console import Console

    from opencse import SentenceEncoder
    from opencse.cli.console import ConsoleReporter
    from opencse.errors import UserError
    from opencse.evaluation import evaluate_pairs, read_scored_pairs
    from opencse.job import TrainJob
    from opencse.search.exact import top_k
    from opencse.text import sample
    from opencse.text.readers import Source

    started = time.perf_counter()
    console, reporter = Console(highlight=False), ConsoleReporter()
    if out.exists():
        if not (out / "pairs.csv").is_file():
            raise UserError(f"{out}: exists and is no demo's folder; choose another --out")
        shutil.rmtree(out)
    out.mkdir(parents=True)
    console.rule("1. raw text alone: 3,421 sentences, the next sentence as the positive", align="left")
    text_only = TrainJob(Source(str(sample.TRAIN)), recipe="next-sentence", settings=(f"training.seed={seed}",))
    text_only.run(out / "text-only", reporter=reporter)
    console.rule("2. the same text with 1,560 paraphrases and questions beside it", align="left")
    pairs = Source(str(_join_pairs(out / "pairs.csv")))
    settings = ("training.epochs=2", f"training.seed={seed}")
    result = TrainJob(pairs, recipe="simcse-supervised", settings=settings).run(out / "encoder", reporter=reporter)

    console.rule("3. evaluate on 150 held-out graded pairs (Spearman x 100)", align="left")
    encoders = {
        "before": SentenceEncoder.load(),
        "raw text alone": SentenceEncoder.load(out / "text-only"),
        "with pairs": SentenceEncoder.load(out / "encoder"),
    }
    test = read_scored_pairs(sample.TEST)
    scores = {name: evaluate_pairs(encoder.encode, test).spearman for name, encoder in encoders.items()}
    for name, score in scores.items():
        console.print(f"{name:<16}[bold]{score:.2f}[/bold]")

    console.rule("4. search the 3,421 sentences", align="left")
    texts = [line for line in sample.TRAIN.read_text(encoding="utf-8").splitlines() if line]
    found: dict[str, list[list[tuple[float, str]]]] = {}
    for name in ("before", "with pairs"):
        encode = encoders[name].encode
        places, cosines = top_k(encode(list(QUERIES)), encode(texts), 3)
        found[name] = [
            [(float(c), texts[p]) for c, p in zip(row_c, row_p, strict=True)]
            for row_c, row_p in zip(cosines, places, strict=True)
        ]
    for query, hits in zip(QUERIES, found["with pairs"], strict=True):
        console.print(f"[bold]{query}[/bold]")
        for cosine, hit in hits:
            console.print(f"  {cosine:.2f}  {hit}", markup=False)

    report = out / "report.html"
    _write(report, result, scores, encoders, test, found, time.perf_counter() - started)
    console.rule("done", align="left")
    console.print(f"encoder {out / 'encoder'}   report {report}   {time.perf_counter() - started:.0f} s")


def _join_pairs(path: Path) -> Path:
    """The sample's pairs, and every two neighbouring sentences of its articles, as one file."""
    import csv

    from opencse.text import sample

    with sample.PAIRS.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream))
    for article in sample.TRAIN.read_text(encoding="utf-8").strip().split("\n\n"):
        sentences = article.splitlines()
        rows += [list(pair) for pair in pairwise(sentences)]
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(rows)
    return path


def _write(
    path: Path,
    result: TrainResult,
    scores: dict[str, float],
    encoders: dict[str, SentenceEncoder],
    test: ScoredPairs,
    found: dict[str, list[list[tuple[float, str]]]],
    seconds: float,
) -> None:
    import html

    from opencse import __version__
    from opencse.analysis.figures import gold_against_cosine, training_curve
    from opencse.analysis.report import Section, table, write_report
    from opencse.evaluation import distinct, embed
    from opencse.training.metrics import MetricsLog

    losses = {int(r["step"]): r["loss"] for r in MetricsLog(result.folder / "metrics.jsonl").read() if "loss" in r}
    cosines = {}
    for name, encoder in encoders.items():
        embedded = embed(encoder.encode, distinct([test.first, test.second]))
        cosines[name] = embedded.cosines(test.first, test.second).tolist()
    searches = []
    for query, before, after in zip(QUERIES, found["before"], found["with pairs"], strict=True):
        rows = [[f"{b[0]:.2f}", b[1], f"{a[0]:.2f}", a[1]] for b, a in zip(before, after, strict=True)]
        searches.append(f"<blockquote>{html.escape(query)}</blockquote>" + table(["", "before", "", "after"], rows))
    numbers = ", ".join(f"{score:.1f} {name}" for name, score in scores.items())
    lead = (
        f'<p class="big">Held-out pairs: {numbers}</p>'
        f"<p>{html.escape(result.verdict)}.</p>"
        f'<p class="muted">opencse {__version__}, built-in encoder and sample, {seconds:.0f} s. '
        "Spearman's correlation x 100 of cosine and gold score on 150 pairs that were neither trained nor selected on."
        "</p>"
    )
    write_report(
        path,
        "OpenCSE demo: from raw text to a better encoder",
        lead,
        [
            Section("Training, text and pairs", training_curve(losses, result.scores)),
            Section("Cosine against gold score", gold_against_cosine(test.scores.tolist(), cosines)),
            Section("Search", "".join(searches)),
            Section(
                "Next",
                "<p>Your own text: <code>opencse train TEXT --recipe next-sentence --out DIR</code> for running text, "
                "<code>--recipe simcse</code> for loose sentences, <code>--recipe simcse-supervised</code> for pairs."
                "</p>",
            ),
        ],
    )
