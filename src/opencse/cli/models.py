"""What the commands that open a model have in common."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder

Trust = Annotated[
    bool,
    typer.Option("--trust-remote-code", help="Run the Python code that the model's folder brings; read it first."),
]


def load_encoder(
    model: str | Path, *, trust_remote_code: bool, pooling: str | None = None, device: str | None = None
) -> SentenceEncoder:
    """The encoder, with a line on stderr where code of its folder is run."""
    from opencse.encoder.encoder import SentenceEncoder
    from opencse.errors import printable
    from opencse.foreign import told

    encoder = SentenceEncoder.load(model, pooling=pooling, device=device, trust_remote_code=trust_remote_code)
    if encoder.own_code:
        sys.stderr.write(printable(told(encoder.own_code)) + "\n")
    return encoder
