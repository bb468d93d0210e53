"""Opens the encoders and cross-encoders that users name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from opencse.encoder.opening import KnownModel, load, open_bert
from opencse.encoder.text_encoder import TextEncoder
from opencse.errors import UserError
from opencse.foreign import code_notice
from opencse.kernels.precision import PrecisionName
from opencse.model_folder.locate import locate
from opencse.progress import Progress
from opencse.search.result import IndexInfo

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder
    from opencse.reranking.cross_encoder import CrossEncoder
    from opencse.reranking.second_stage import SecondStage

FEW = 200
"""Texts that are encoded without torch in less time than torch and transformers take to load."""
Model = str | Path | TextEncoder
"""The built-in encoder's name, a folder or a Hub id; or an encoder."""


def open_encoder(
    model: Model,
    progress: Progress,
    pooling: str | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
) -> SentenceEncoder:
    """Opens an encoder whose network is used, and reports where code of its folder is run.

    Raises:
        UserError: if it cannot be loaded, or a pooling or device is named for one that is loaded already.
        TypeError: for a ``model`` of another kind.
    """
    from opencse.encoder.encoder import SentenceEncoder

    if isinstance(model, SentenceEncoder):
        _require_none(pooling, device)
        return model
    if isinstance(model, TextEncoder):
        raise UserError("this needs the network of a model; open it with SentenceEncoder")
    encoder = SentenceEncoder.load(model, pooling=pooling, device=device, trust_remote_code=trust_remote_code)
    if encoder.own_code:
        progress.say(code_notice(encoder.own_code))
    return encoder


def open_for_vectors(
    model: Model,
    progress: Progress,
    pooling: str | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
    *,
    texts: int | None = None,
    known: KnownModel | None = None,
) -> TextEncoder:
    """Opens an encoder for its vectors alone (see `load`), and reports where code of its folder is run.

    Args:
        model: its name, or an encoder.
        progress: receives the report.
        pooling: replaces the model's own.
        device: where to put it.
        trust_remote_code: run the code that the folder names, where it names any.
        texts: how many are encoded, if that is known: up to `FEW`, a BERT in numpy saves the time to load torch.
        known: the fingerprint of a model by its files, so that it need not be computed with torch.

    Raises:
        UserError: see `open_encoder`.
        TypeError: for a ``model`` of another kind.
    """
    if isinstance(model, TextEncoder):
        _require_none(pooling, device)
        return model
    if texts is not None and texts <= FEW and device in (None, "cpu"):
        folder = locate(model)
        light = open_bert(folder, pooling=pooling, known=known)
        if light is not None:
            return light
    encoder = load(model, pooling=pooling, device=device, trust_remote_code=trust_remote_code)
    if encoder.own_code:
        progress.say(code_notice(encoder.own_code))
    return encoder


def encoder_of(
    info: IndexInfo,
    model: Model | None,
    progress: Progress,
    device: str | None,
    trust_remote_code: bool,
    *,
    texts: int | None = None,
    known: KnownModel | None = None,
) -> TextEncoder:
    """The encoder of an index: the model that it names, or ``model`` in its place.

    See `open_for_vectors` for ``texts`` and ``known``.
    """
    source = info.model if model is None else model
    if not source:
        raise UserError(f"{info.folder}: names no model; give the one it was built with (--model)")
    pooling = None if isinstance(source, TextEncoder) else info.pooling
    try:
        return open_for_vectors(source, progress, pooling, device, trust_remote_code, texts=texts, known=known)
    except UserError as error:
        if model is not None:
            raise
        raise UserError(f"{error}; if the model was moved, give its folder with --model") from None


def _require_none(pooling: str | None, device: str | None) -> None:
    if pooling is not None or device is not None:
        raise UserError("pooling and device are chosen when a model is loaded; leave them out with a SentenceEncoder")


def name_of(model: Model) -> str:
    """The name of a model in records."""
    return model.network_name if isinstance(model, TextEncoder) else str(model)


def second_stage(
    rerank: str | Path | CrossEncoder | None,
    depth: int,
    precision: PrecisionName,
    progress: Progress,
    device: str | None,
    trust_remote_code: bool,
) -> SecondStage | None:
    """The second stage of a search by the cross-encoder ``rerank``; None where none is named.

    Raises:
        UserError: see `open_cross_encoder`; and for a depth below 1.
    """
    if rerank is None:
        return None
    from opencse.reranking.second_stage import SecondStage

    return SecondStage(open_cross_encoder(rerank, progress, device, precision, trust_remote_code), depth)


def open_cross_encoder(
    model: str | Path | CrossEncoder,
    progress: Progress,
    device: str | None,
    precision: PrecisionName,
    trust_remote_code: bool,
) -> CrossEncoder:
    """Opens a cross-encoder, and reports where code of its folder is run.

    Raises:
        UserError: if it is none, or cannot be loaded.
        TypeError: for a ``model`` of another kind.
    """
    from opencse.reranking.cross_encoder import CrossEncoder

    if isinstance(model, CrossEncoder):
        return model
    opened = CrossEncoder.load(model, device=device, precision=precision, trust_remote_code=trust_remote_code)
    if opened.own_code:
        progress.say(code_notice(opened.own_code))
    return opened
