"""Opens the encoders that users name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from opencse.api.options.shared import ModelOptions
from opencse.arrays import Embeddings
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.foreign import code_notice
from opencse.kernels.precision import PrecisionName
from opencse.progress import Progress, Silent

Model = str | Path | SentenceEncoder
"""The built-in encoder's name, a folder or a Hub id; or an encoder."""


def load_encoder(model: Model, options: ModelOptions) -> SentenceEncoder:
    """Opens an encoder as the options of a command say.

    Raises:
        UserError: see `open_encoder`.
    """
    return open_encoder(
        model,
        options["progress"] or Silent(),
        pooling=options["pooling"],
        device=options["device"],
        trust_remote_code=options["trust_remote_code"],
    )


def open_encoder(
    model: Model,
    progress: Progress,
    *,
    pooling: str | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
) -> SentenceEncoder:
    """Opens an encoder, and reports where code of its folder is run.

    Raises:
        UserError: if it cannot be loaded, or a pooling or device is named for one that is loaded already.
        TypeError: for a ``model`` of another kind.
    """
    if isinstance(model, SentenceEncoder):
        if pooling is not None or device is not None:
            raise UserError(
                "pooling and device are chosen when a model is loaded; leave them out with a SentenceEncoder"
            )
        return model
    encoder = SentenceEncoder.load(model, pooling=pooling, device=device, trust_remote_code=trust_remote_code)
    if encoder.own_code:
        progress.say(code_notice(encoder.own_code))
    return encoder


def name_of(model: Model) -> str:
    """The name of a model in records."""
    return type(model.backbone).__name__ if isinstance(model, SentenceEncoder) else str(model)


def encoded(
    encoder: SentenceEncoder,
    texts: Sequence[str],
    title: str,
    progress: Progress,
    *,
    prompt: str,
    precision: PrecisionName = "float32",
) -> Embeddings:
    """The vectors of ``texts``, each with ``prompt`` before it; progress is shown as a bar called ``title``."""
    progress.start(title, len(texts))
    try:
        return encoder.encode(
            texts, prompt=prompt, precision=precision, progress=lambda done, _: progress.advance(done)
        )
    finally:
        progress.finish()
