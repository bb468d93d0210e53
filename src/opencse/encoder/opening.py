"""Opens the lightest encoder that gives a model's vectors."""

from __future__ import annotations

from pathlib import Path

from opencse.encoder.static import StaticEncoder
from opencse.encoder.text_encoder import TextEncoder
from opencse.foreign import checks_trust
from opencse.model_folder.static_folder import read_static


@checks_trust
def open_text_encoder(
    model: str | Path, *, pooling: str | None = None, device: str | None = None, trust_remote_code: bool = False
) -> TextEncoder:
    """Opens an encoder for its vectors alone: without torch where the model is word vectors, on the CPU.

    Torch takes a second and more to import, transformers another three. What needs the network itself (to train,
    inspect or export it) opens a `SentenceEncoder`, which gives the same vectors.

    Args:
        model: the built-in encoder's name, a folder, or a Hub id.
        pooling: replaces the folder's own.
        device: where to put it; by default a GPU if there is one, and the CPU for word vectors.
        trust_remote_code: see `SentenceEncoder`.

    Raises:
        UserError: see `SentenceEncoder`.

    Example:
        >>> open_text_encoder("opencse-mini").encode(["A dog runs."]).shape
        (1, 448)
    """
    if device in (None, "cpu"):
        parts = read_static(model, pooling=pooling)
        if parts is not None:
            return StaticEncoder(parts)
    from opencse.encoder.encoder import SentenceEncoder

    return SentenceEncoder.load(model, pooling=pooling, device=device, trust_remote_code=trust_remote_code)
