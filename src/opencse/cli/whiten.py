"""``opencse whiten``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opencse.cli.jobs import out_folder
from opencse.cli.models import Trust


def whiten(
    model: Annotated[str, typer.Argument(help="Encoder: a folder, a Hub id, or opencse-mini.")],
    text: Annotated[
        str,
        typer.Argument(help="Text file (txt, csv, tsv, jsonl, parquet; .gz .xz .bz2 too) or Hub data set id."),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", parser=out_folder, metavar="FOLDER", help="Folder for the whitened encoder.")
    ],
    dimension: Annotated[
        int | None, typer.Option(min=1, help="Keep the first so many dimensions; by default all that vary.")
    ] = None,
    sentences: Annotated[
        int, typer.Option(min=1, help="Fit on so many different texts of TEXT, drawn at random.")
    ] = 50_000,
    columns: Annotated[
        str | None,
        typer.Option(help="Columns to read, by name or (without header) by position; each text is read by itself."),
    ] = None,
    split: Annotated[str, typer.Option(help="Split of a Hub data set.")] = "train",
    pooling: Annotated[str | None, typer.Option(help="Replaces the model's own.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps; by default a GPU if there is one.")] = None,
    trust_remote_code: Trust = False,
) -> None:
    """Whiten an encoder: fit a linear map on the vectors of a text and save it as the encoder's last layer.

    A baseline that takes minutes (BERT-whitening), and a way to shorter vectors.
    """
    from opencse.baselines.whitening import Whitening, whitened
    from opencse.cli.console import ConsoleReporter, echo
    from opencse.cli.jobs import make_folder, open_source
    from opencse.cli.models import load_encoder
    from opencse.errors import UserError
    from opencse.evaluation.transforms import sample_texts
    from opencse.runs.card import whitened_card
    from opencse.runs.folder import require_empty

    require_empty(out)
    source = open_source(text, columns, split, None)
    encoder = load_encoder(model, pooling=pooling, device=device, trust_remote_code=trust_remote_code)
    if dimension is not None and dimension > encoder.dimension:
        raise UserError(f"--dimension {dimension} is above the {encoder.dimension} of {model}; give a smaller one")
    texts = sample_texts(source, sentences)
    make_folder(out)
    reporter = ConsoleReporter()
    # Unit length comes last in a folder, so it is fitted without and then put back behind the map.
    unit, encoder.normalize = encoder.normalize, False
    reporter.start("encoding", len(texts))
    try:
        vectors = encoder.encode(texts, progress=lambda done, _: reporter.advance(done))
    finally:
        reporter.finish()
    whitening = Whitening.fit(vectors, dimension)
    made = whitened(encoder, whitening)
    made.normalize = unit
    made.save(out, card=whitened_card(model, encoder, whitening, source.name, source.fingerprint(), len(texts)))
    dropped = f" ({whitening.dropped} without variance)" if whitening.dropped else ""
    reporter.say(f"whitening  {encoder.dimension} to {whitening.dimension} dimensions{dropped}, {len(texts):,} texts")
    echo(str(out))
