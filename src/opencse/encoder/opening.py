"""Opens the encoder that gives a model's vectors and is ready first: `opencse.load`."""

from __future__ import annotations

from pathlib import Path

from opencse.encoder.static import StaticEncoder
from opencse.encoder.text_encoder import TextEncoder
from opencse.errors import plain_failures
from opencse.foreign import checks_trust
from opencse.model_folder.static_folder import read_static


@plain_failures
@checks_trust
def load(
    model: str | Path = "opencse-mini",
    *,
    pooling: str | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
) -> TextEncoder:
    """Opens an encoder to encode with: without torch, in a fraction of a second, where the model is word vectors.

    That is so for the built-in encoder and every static one, on the CPU; torch and transformers take five seconds to
    import. For any other model it is a `SentenceEncoder`. Both have `encode`, `encode_query`, `encode_document` and
    `similarity` with the same arguments and vectors, bit for bit. What needs the network itself (to train, save or
    export it, or to get tensors) opens a `SentenceEncoder`.

    Args:
        model: the built-in encoder's name, a folder, or a Hub id.
        pooling: replaces the folder's own.
        device: where to put it; by default a GPU if there is one, and the CPU for word vectors.
        trust_remote_code: see `SentenceEncoder`.

    Raises:
        UserError: see `SentenceEncoder`.

    Example:
        >>> import opencse
        >>> encoder = opencse.load("opencse-mini")
        >>> encoder.encode(["A dog runs.", "It rains."], normalize_embeddings=True).shape
        (2, 448)
    """
    if device in (None, "cpu"):
        parts = read_static(model, pooling=pooling)
        if parts is not None:
            return StaticEncoder(parts)
    from opencse.encoder.encoder import SentenceEncoder

    return SentenceEncoder.load(model, pooling=pooling, device=device, trust_remote_code=trust_remote_code)
