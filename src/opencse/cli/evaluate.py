"""``opencse evaluate``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Aggregation(StrEnum):
    """How a year's subsets become one score."""

    ALL = "all"
    MEAN = "mean"
    WMEAN = "wmean"


class Correlation(StrEnum):
    """Which correlation the table shows."""

    SPEARMAN = "spearman"
    PEARSON = "pearson"


def evaluate(
    models: Annotated[
        list[str], typer.Argument(help="Encoders: folders, Hub ids, or opencse-mini.", metavar="MODEL...")
    ],
    data: Annotated[str, typer.Option(help="Folder with sts12 ... sts16, stsb, sickr; or 'hub'.")],
    pooling: Annotated[str | None, typer.Option(help="Replaces the model's own: cls, mean, first_last_0, ...")] = None,
    tasks: Annotated[str | None, typer.Option(help="Some of the tasks, comma-separated.")] = None,
    aggregation: Annotated[
        Aggregation, typer.Option(help="What the table shows; the JSON holds all.")
    ] = Aggregation.ALL,
    correlation: Annotated[Correlation, typer.Option(help="What the table shows.")] = Correlation.SPEARMAN,
    subsets: Annotated[bool, typer.Option("--subsets", help="One row a subset.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the whole result here.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps; by default a GPU if there is one.")] = None,
) -> None:
    """Score encoders on the seven STS tasks (Spearman x 100)."""
    from rich.console import Console

    from opencse import run
    from opencse.cli.console import ConsoleReporter
    from opencse.errors import UserError
    from opencse.evaluation import sts_table

    if json_file is not None and len(models) > 1:
        raise UserError("--json takes the result of one model; name one, or call evaluate for each")
    chosen = None if tasks is None else [task.strip() for task in tasks.split(",")]
    reporter = ConsoleReporter()
    results = {
        model: run.evaluate(model, data, pooling=pooling, tasks=chosen, device=device, reporter=reporter)
        for model in models
    }
    if json_file is not None:
        results[models[0]].write_json(json_file)
    Console().print(sts_table(results, aggregation=aggregation.value, correlation=correlation.value, subsets=subsets))
