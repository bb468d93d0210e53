"""``opencse nearest``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opencse.cli.models import Trust

if TYPE_CHECKING:
    from opencse.cli.console import ConsoleReporter
    from opencse.evaluation.embedding import Encode


def nearest(
    models: Annotated[
        list[str], typer.Argument(help="Encoders: folders, Hub ids, or opencse-mini.", metavar="MODEL...")
    ],
    corpus: Annotated[
        str,
        typer.Option(help="Sentences to look among: a file (txt, csv, tsv, jsonl, parquet) or Hub data set id."),
    ],
    query: Annotated[
        list[str] | None, typer.Option("--query", "-q", help="A sentence, quoted; may be repeated.")
    ] = None,
    queries: Annotated[Path | None, typer.Option(help="File of more queries, one a line.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Sentences to show for each query.")] = 3,
    columns: Annotated[
        str | None, typer.Option(help="Columns of --corpus to read, by name or (without header) by position.")
    ] = None,
    split: Annotated[str, typer.Option(help="Split of a Hub data set.")] = "train",
    pooling: Annotated[str | None, typer.Option(help="Replaces the models' own.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the lists here.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps; by default a GPU if there is one.")] = None,
    trust_remote_code: Trust = False,
) -> None:
    """Show the sentences nearest to a query by one or more encoders, side by side.

    Sentences that differ in case or white space alone are shown once, and the query itself is left out. With a
    calibration in a model's folder (`opencse calibrate`) also how many random pairs of that text are below.
    """
    from opencse.analysis.calibration import Calibration
    from opencse.cli.console import ConsoleReporter, show
    from opencse.cli.jobs import open_source, require_writable
    from opencse.encoder.locate import locate
    from opencse.errors import UserError
    from opencse.evaluation.neighbours import compare_neighbours, neighbours_table
    from opencse.text.readers import Source

    if len(set(models)) < len(models):
        raise UserError("a model is named twice; name each once")
    asked = list(query or [])
    if queries is not None:
        asked += [row[0] for row in Source(str(queries)).read().rows]
    if json_file is not None:
        require_writable(json_file)
    if not asked:
        raise UserError("no query; give one with --query, or a file of them with --queries")
    for model in models:
        locate(model, code=trust_remote_code)  # before any of them encodes the corpus
    texts = [text for row in open_source(corpus, columns, split, None).read().rows for text in row]
    reporter = ConsoleReporter()
    encoders = {model: _loading(model, pooling, device, reporter, trust_remote_code) for model in models}
    calibrations = {
        model: Calibration.load(model, trust_remote_code=trust_remote_code)
        for model in models
        if pooling is None and Path(model).is_dir()
    }
    found = compare_neighbours(
        encoders,
        texts,
        asked,
        k=k,
        source=corpus,
        percentile_of={model: one.percentile_of for model, one in calibrations.items() if one is not None},
        progress=reporter.say,
    )
    if json_file is not None:
        found.write_json(json_file)
    show(neighbours_table(found))


def _loading(
    model: str, pooling: str | None, device: str | None, reporter: ConsoleReporter, trust_remote_code: bool
) -> Encode:
    """An encode function that loads its model when it is called, so that one at a time is in memory."""
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from opencse.cli.models import load_encoder

    def encode(texts: Sequence[str]) -> NDArray[np.floating]:
        encoder = load_encoder(model, pooling=pooling, device=device, trust_remote_code=trust_remote_code)
        reporter.start(f"encoding with {model}", len(texts))
        try:
            return encoder.encode(texts, progress=lambda done, _: reporter.advance(done))
        finally:
            reporter.finish()

    return encode
