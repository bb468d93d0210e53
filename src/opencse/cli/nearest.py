"""``opencse nearest``: show the sentences nearest to a query by one or more encoders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Unpack

import typer

from opencse.api.options.vectors import NearestOptions
from opencse.cli.options import JsonOption, require_json, typed_and_read, with_options
from opencse.cli.typed import quoted


@with_options()
def nearest(
    models: Annotated[list[str], typer.Argument(help="Encoders: folders, Hub ids, or opencse-mini.", metavar="MODEL")],
    corpus: Annotated[
        str | None,
        typer.Option(help="Sentences to search: a file (txt, csv, tsv, jsonl, parquet) or a Hub data set."),
    ] = None,
    query: Annotated[
        list[str] | None, typer.Option("--query", "-q", help="Query, quoted; may be repeated.", parser=quoted)
    ] = None,
    queries: Annotated[Path | None, typer.Option(help="File of more queries, one per line.")] = None,
    json_file: JsonOption = None,
    **options: Unpack[NearestOptions],
) -> None:
    """Show the sentences nearest to a query by one or more encoders, side by side.

    Each model encodes a file once: its vectors are saved in NAME.index next to it.
    Sentences that differ only in case or white space are shown once, and the query itself is left out. With a
    calibration in a model's folder (`opencse calibrate`), each line also shows which share of random pairs of that
    text has a lower cosine.
    """
    from opencse.api.vectors import nearest
    from opencse.cli.console import show
    from opencse.errors import UserError
    from opencse.evaluation.neighbours import Neighbours, neighbours_table
    from opencse.outputs import has_keys

    all_queries = typed_and_read(query, queries)
    index = options["index"]
    read = [corpus, queries, *(index if isinstance(index, list) else [])]
    require_json(json_file, lambda old: has_keys(old, Neighbours.model_fields), read=read, models=models)
    if not all_queries:
        raise UserError("no query; give one with --query, or a file of them with --queries")
    neighbours = nearest(models, corpus, all_queries, **options)
    if json_file is not None:
        neighbours.write_json(json_file)
    show(neighbours_table(neighbours))
