"""``opencse compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opencse.cli.jobs import out_folder
from opencse.cli.models import Trust


def compare(
    text: Annotated[str, typer.Argument(help="What every run is trained on: a text file or Hub data set id.")],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", parser=out_folder, metavar="FOLDER", help="Folder of the comparison; what it holds is kept."
        ),
    ],
    recipes: Annotated[
        str, typer.Option("--recipes", "-r", help="Comma-separated; presets may follow: simcse,simcse:dropout-0.2.")
    ],
    data: Annotated[str, typer.Option(help="Folder with sts/, transfer/, ... (or one suite's own folder), or 'hub'.")],
    starts: Annotated[
        str, typer.Option("--starts", "-m", help="Where to start, comma-separated: folders, Hub ids, opencse-mini.")
    ] = "opencse-mini",
    seeds: Annotated[str, typer.Option(help="Comma-separated, or a range: 42-46.")] = "42-46",
    suites: Annotated[str, typer.Option(help="What is judged, comma-separated: sts, transfer, ...")] = "sts",
    fast: Annotated[bool, typer.Option("--fast", help="Transfer tasks with SentEval's fast classifier.")] = False,
    baseline: Annotated[str | None, typer.Option(help="The recipe that others stand beside; the first one.")] = None,
    metric: Annotated[str | None, typer.Option(help="What is compared; sts.average where it is there.")] = None,
    dev: Annotated[str, typer.Option(help="Graded pairs to select on: a file, 'sample' or 'none'.")] = "sample",
    kept: Annotated[
        bool, typer.Option("--kept/--last", help="Judge the encoder a run keeps on the dev pairs, or its last step's.")
    ] = False,
    columns: Annotated[str | None, typer.Option(help="Columns of TEXT to read; see opencse train.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", "-s", help="A setting of every run: key=value.")] = None,
    resamples: Annotated[int, typer.Option(min=0, help="Bootstrap samples of the sentence pairs; 0: none.")] = 1_000,
    workers: Annotated[int, typer.Option(min=1, help="Runs at a time, each with its share of the cores.")] = 1,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps; by default a GPU if there is one.")] = None,
    trust_remote_code: Trust = False,
) -> None:
    """Compare recipes over seeds and starts, with intervals and significance.

    What is judged is the encoder of each run's last step, because the question is what a recipe does; --kept judges
    what `opencse train` would keep, which may be the start. The start stands beside them as it is read where training
    begins, and as it was given where that differs.

    Every run is kept as it finishes, and the same command goes on where it was broken off. OUT ends with
    comparison.md, comparison.svg and comparison.json.
    """
    from opencse.cli.console import ConsoleReporter, echo, show
    from opencse.cli.jobs import open_source
    from opencse.cli.studies import command_line, listed, run_all, seeds_of, suites_of
    from opencse.errors import UserError, nearest
    from opencse.studies.outcome import write_comparison
    from opencse.studies.study import Study
    from opencse.studies.tables import comparison_table

    names = listed(recipes)
    beside = baseline or (names[0] if names else "")
    if beside not in names:
        raise UserError(f"the baseline {beside!r} is not among the recipes{nearest(beside, names)}: {', '.join(names)}")
    reporter = ConsoleReporter()
    study = Study(
        text=open_source(text, columns, "train", None),
        out=out,
        recipes=names,
        starts=listed(starts),
        seeds=seeds_of(seeds),
        suites=suites_of(data, suites, fast, device),
        dev=dev,
        settings=tuple(set_ or ()),
        judge="kept" if kept else "last",
        device=device,
        trust_remote_code=trust_remote_code,
        metric=metric,
    )
    records = run_all(study, workers, reporter)
    comparison = write_comparison(
        study, records, beside, metric=metric, resamples=resamples, command=command_line(), reporter=reporter
    )
    show(comparison_table(comparison))
    echo(str(out / "comparison.md"))
