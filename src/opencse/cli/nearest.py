"""``opencse nearest``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opencse.cli import options as own


def nearest(
    models: Annotated[list[str], typer.Argument(help="Encoders: folders, Hub ids, or opencse-mini.", metavar="MODEL")],
    corpus: Annotated[
        str | None,
        typer.Option(help="Sentences to search: a file (txt, csv, tsv, jsonl, parquet) or a Hub data set."),
    ] = None,
    query: Annotated[list[str] | None, typer.Option("--query", "-q", help="Query, quoted; may be repeated.")] = None,
    queries: Annotated[Path | None, typer.Option(help="File of more queries, one a line.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Sentences to show for each query.")] = 3,
    index: Annotated[
        list[str] | None,
        typer.Option(help="Index to search in place of --corpus; one for each model, in their order."),
    ] = None,
    cache: Annotated[
        bool,
        typer.Option(
            "--cache/--no-cache", help="Keep the vectors of CORPUS in NAME.index beside it, for the next time."
        ),
    ] = True,
    columns: own.OwnColumns = None,
    split: Annotated[str | None, typer.Option(help="Split of a Hub data set; train by default.")] = None,
    pooling: own.Pooling = None,
    json_file: own.Json = None,
    device: own.Device = None,
    trust_remote_code: own.Trust = False,
) -> None:
    """Show the sentences nearest to a query by one or more encoders, side by side.

    A file is encoded once by each model: its vectors are kept in NAME.index beside it.
    Sentences that differ in case or white space alone are shown once, and the query itself is left out. With a
    calibration in a model's folder (`opencse calibrate`) also how many random pairs of that text are below.
    """
    import opencse
    from opencse.cli.console import show
    from opencse.errors import UserError
    from opencse.evaluation.neighbours import Neighbours, neighbours_table
    from opencse.outputs import has_keys
    from opencse.progress import Terminal

    asked = own.texts(query, queries)
    read = [corpus, queries, *(index or [])]
    own.require_json(json_file, lambda old: has_keys(old, Neighbours.model_fields), read=read, models=models)
    if not asked:
        raise UserError("no query; give one with --query, or a file of them with --queries")
    found = opencse.nearest(
        models,
        corpus,
        asked,
        k=k,
        index=index,
        cache=cache,
        columns=own.listed(columns),
        split=split,
        pooling=pooling,
        device=device,
        trust_remote_code=trust_remote_code,
        progress=Terminal(),
    )
    if json_file is not None:
        found.write_json(json_file)
    show(neighbours_table(found))
