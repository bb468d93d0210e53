"""``opencse reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opencse.cli.jobs import out_folder
from opencse.cli.models import Trust


def reproduce(
    recipe: Annotated[
        str, typer.Argument(help="A recipe with presets, of a backbone or an ablation: simcse:bert-base.")
    ],
    text: Annotated[str, typer.Argument(help="What the paper trained on: a text file or Hub data set id.")],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            parser=out_folder,
            metavar="FOLDER",
            help="Folder of the runs; what is in it is not made again.",
        ),
    ],
    data: Annotated[str, typer.Option(help="Folder with sts/, transfer/, ... (or one suite's own folder), or 'hub'.")],
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Another start than the paper's, for instance a local copy.")
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="42-46, or 1,2,3; the recipe's own, else the paper's one.")] = None,
    suites: Annotated[str, typer.Option(help="What is judged, comma-separated: sts, transfer, ...")] = "sts",
    fast: Annotated[bool, typer.Option("--fast", help="Transfer tasks with SentEval's fast classifier.")] = False,
    dev: Annotated[str, typer.Option(help="Graded pairs to select on (the papers': STS-B dev).")] = "sample",
    columns: Annotated[str | None, typer.Option(help="Columns of TEXT to read; see opencse train.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", "-s", help="A setting of every run: key=value.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Runs at a time, each with its share of the cores.")] = 1,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps; by default a GPU if there is one.")] = None,
    trust_remote_code: Trust = False,
) -> None:
    """Run a paper's row as the recipe has it, and print the published scores beside those got."""
    from opencse.cli.console import ConsoleReporter, show
    from opencse.cli.jobs import open_source
    from opencse.cli.studies import run_all, seeds_of, suites_of
    from opencse.studies.reproduction import published, reproduced
    from opencse.studies.study import Study
    from opencse.studies.tables import expected_table

    row = published(recipe, model)
    reporter = ConsoleReporter()
    study = Study(
        text=open_source(text, columns, "train", None),
        out=out,
        recipes=[recipe],
        starts=[row.start],
        seeds=row.seeds if seeds is None else seeds_of(seeds),
        suites=suites_of(data, suites, fast, device),
        dev=dev,
        settings=tuple(set_ or ()),
        judge="kept",
        device=device,
        trust_remote_code=trust_remote_code,
    )
    for line in row.lines(dev, len(set_ or ())):
        reporter.say(line)
    records = run_all(study, workers, reporter)
    show(expected_table(row.expected, reproduced(records)))
