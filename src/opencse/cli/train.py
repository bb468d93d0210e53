"""``opencse train``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opencse.cli.jobs import out_folder
from opencse.cli.models import Trust


def train(
    text: Annotated[
        str,
        typer.Argument(help="Text file (txt, csv, tsv, jsonl, parquet; .gz .xz .bz2 too) or Hub data set id."),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", parser=out_folder, metavar="FOLDER", help="Folder for the trained encoder.")
    ],
    recipe: Annotated[
        str, typer.Option("--recipe", "-r", help="Recipe (opencse recipes) or TOML file; :PRESET may follow.")
    ] = "simcse",
    model: Annotated[
        str,
        typer.Option("--model", "-m", help="Where to start: the built-in encoder, a folder, a Hub id, or a preset."),
    ] = "opencse-mini",
    preset: Annotated[
        str | None, typer.Option(help="More presets of the recipe, joined by colons; --model's own is applied.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(help="Columns to read, by name or (without header) by position: anchor[,positive[,negative]]."),
    ] = None,
    skip_lines: Annotated[
        Path | None, typer.Option(help="File of line numbers of TEXT to leave out, one a line.")
    ] = None,
    split: Annotated[str, typer.Option(help="Split of a Hub data set.")] = "train",
    dev: Annotated[
        str,
        typer.Option(
            help="What the best encoder is chosen by: 'text' (questions from a held-out share of TEXT), 'auto' (that; "
            "'sample' where TEXT is small), 'sample' (150 graded pairs), a file of graded pairs, a folder of queries "
            "with relevant documents (BEIR's layout), or 'none'."
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
    """Train a sentence encoder from text; no labels needed.

    The encoder that is best by --dev is kept, unless the start is better by it. A model with a pooling of its own keeps
    it; --set encoder.pooling=cls (mean, ...) says otherwise.
    """
    from opencse.cli.console import ConsoleReporter
    from opencse.cli.jobs import open_source, run_job
    from opencse.runs.job import TrainJob

    reporter = ConsoleReporter()
    source = open_source(text, columns, split, skip_lines)
    settings = list(set_ or []) + ([f"training.seed={seed}"] if seed is not None else [])
    job = TrainJob(source, recipe, model, preset, tuple(settings), dev, device, trust_remote_code, metric=metric)
    run_job(job, out, resume=resume, overwrite=overwrite, dry_run=dry_run, reporter=reporter, report=report)
