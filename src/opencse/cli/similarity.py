"""``opencse similarity``."""

from __future__ import annotations

from typing import Annotated

import typer


def similarity(
    model: Annotated[str, typer.Argument(help="Encoder: a folder, a Hub id, or opencse-mini.")],
    texts: Annotated[
        list[str], typer.Argument(help="A text and one or more others, each quoted.", metavar="TEXT OTHER...")
    ],
    pooling: Annotated[str | None, typer.Option(help="Replaces the model's own.")] = None,
) -> None:
    """Cosine similarity of one text to others, the most similar first."""
    from opencse import SentenceEncoder
    from opencse.errors import UserError

    if len(texts) < 2:
        raise UserError("give at least two texts, each in quotes")
    encoder = SentenceEncoder.load(model, pooling=pooling)
    row = encoder.similarity(texts[0], texts[1:])[0]
    for score, text in sorted(zip(row.tolist(), texts[1:], strict=True), reverse=True):
        typer.echo(f"{score:.4f}  {text}")
