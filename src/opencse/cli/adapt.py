"""``opencse adapt``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opencse.cli.jobs import out_folder
from opencse.cli.models import Trust


def adapt(
    corpus: Annotated[
        str,
        typer.Argument(
            help="Documents: .txt (a sentence a line, blank lines between documents), .jsonl or a table with title and "
            "text, or a folder in BEIR's layout (its corpus.jsonl alone is read)."
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", parser=out_folder, metavar="FOLDER", help="Folder for the adapted encoder.")
    ],
    model: Annotated[
        str,
        typer.Option("--model", "-m", help="What to adapt: the built-in encoder, a folder, a Hub id, or a preset."),
    ] = "opencse-mini",
    recipe: Annotated[
        str, typer.Option("--recipe", "-r", help="How to train; another recipe for pairs, or a TOML file.")
    ] = "adapt",
    dev: Annotated[
        str,
        typer.Option(
            help="What the best encoder is chosen by: 'auto' (questions about held-out documents), 'sample' (150 "
            "graded pairs), a file of graded pairs, a folder of queries with relevant documents (BEIR's layout), or "
            "'none'."
        ),
    ] = "auto",
    metric: Annotated[
        str | None, typer.Option(help="How answers to questions are judged: ndcg@10 (default), mrr@10, recall@100, ...")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", help="Any setting: key.path=value, for instance training.epochs=2."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Short for --set training.seed=N.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps; by default a GPU if there is one.")] = None,
    trust_remote_code: Trust = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint in --out.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a run or encoder of opencse in --out; other files stay.")
    ] = False,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html at the end.")] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would happen, and stop.")] = False,
) -> None:
    """Adapt an encoder to your documents; no labels needed.

    Titles with their texts and neighbouring sentences are what it learns from. Some documents are held out, and
    questions about them choose what is kept: a step, its average with the start, or the start.
    """
    from opencse.adaptation import adaptation_job
    from opencse.cli.console import ConsoleReporter
    from opencse.cli.jobs import run_job

    reporter = ConsoleReporter()
    settings = list(set_ or []) + ([f"training.seed={seed}"] if seed is not None else [])
    job = adaptation_job(
        corpus,
        model=model,
        recipe=recipe,
        settings=settings,
        dev=dev,
        metric=metric,
        device=device,
        trust_remote_code=trust_remote_code,
        reporter=reporter,
    )
    run_job(job, out, resume=resume, overwrite=overwrite, dry_run=dry_run, reporter=reporter, report=report)
