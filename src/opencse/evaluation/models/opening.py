"""Opens any model for evaluation: a folder, a Hub id, word vectors, a bag of words, an object or a function."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from opencse.encoder.opening import load
from opencse.encoder.static import StaticEncoder
from opencse.errors import UserError
from opencse.evaluation.embedding import NO_LAYERS, ByLayer, EmbeddingModel, Encode, Searching
from opencse.foreign import checks_trust, code_notice
from opencse.model_folder.locate import BAG_OF_WORDS, DITTO, WORDS
from opencse.modules.prompts import Role
from opencse.progress import SILENT, Count, Say, uncounted
from opencse.search.passages import PassageSplitter
from opencse.text.files.lines import require_file

if TYPE_CHECKING:
    from opencse.kernels.precision import PrecisionName  # which needs torch


@runtime_checkable
class Encodes(Protocol):
    """Anything with ``encode(list of n texts) -> (n, d)``: a sentence-transformers model, for instance."""

    def encode(self, texts: list[str], /) -> Any:  # noqa: ANN401 - an array, a tensor, a list of them
        """Encodes the texts."""


@runtime_checkable
class _EncodesForSearch(Protocol):
    def encode_query(self, texts: list[str], /) -> Any: ...  # noqa: ANN401

    def encode_document(self, texts: list[str], /) -> Any: ...  # noqa: ANN401


@runtime_checkable
class _Placed(Protocol):
    @property
    def device(self) -> object: ...


@checks_trust
def open_model(
    model: object,
    *,
    pooling: str | None = None,
    layer: int | None = None,
    device: str | None = None,
    progress: Count = uncounted,
    say: Say = SILENT.say,
    trust_remote_code: bool = False,
    precision: PrecisionName = "float32",
) -> EmbeddingModel:
    """Opens a model for evaluation.

    Args:
        model: one of

            - a `SentenceEncoder`, or what its `load` takes: a folder, a Hub id, ``opencse-mini``;
            - ``words:FILE``, the average of word vectors (see `WordVectors`);
            - ``ditto:MODEL`` or ``ditto-LAYER-HEAD:MODEL``, a folder or Hub id read by Ditto (see `Ditto`);
            - ``bag-of-words`` (see `BagOfWords`);
            - an object with ``encode(list of texts)``, for instance a sentence-transformers model; for retrieval its
              ``encode_query`` and ``encode_document`` are used, where it has both;
            - a function of a list of texts.

            The last two give a (n, d) array, a tensor, or a list of vectors.
        pooling: replaces the model's own; only for a folder or Hub id.
        layer: of an encoder, whose vectors replace the last layer's, from 0 (the embedding layer's
            output) to its depth; see ``opencse.encoder.layers.vectors_by_layer``.
        device: where to run; for a folder or Hub id, and without effect on word vectors and bags of words.
        progress: called with (texts done, texts in all) by encoders and word vectors.
        say: called with a line about words without vectors, and about code of a model's folder that is run.
        trust_remote_code: see `SentenceEncoder.load`; only for a folder or Hub id.
        precision: see `SentenceEncoder.encode`; only for encoders, without ``layer``.

    Raises:
        UserError: if ``model`` is none of these, or for a pooling, layer or device that it does not have.

    Example:
        >>> model = open_model("bag-of-words")
        >>> model.name, model.encode(["a cat"]).shape
        ('bag-of-words', (1, 4096))
        >>> open_model(lambda texts: [[len(text), 1.0] for text in texts]).encode(["cat"]).tolist()
        [[3.0, 1.0]]
    """
    if isinstance(model, str | Path):
        return _open_named(str(model), pooling, layer, device, progress, say, trust_remote_code, precision)
    if pooling is not None:
        raise UserError("pooling is chosen when a model is loaded; give a folder or Hub id, not the loaded model")
    if device is not None:
        raise UserError(f"a loaded model stays on its device; move it there yourself instead of asking for {device}")
    ours = sys.modules.get("opencse.encoder.encoder")  # nothing heavy is loaded to find out whether it is one of ours
    if isinstance(model, StaticEncoder) or (ours is not None and isinstance(model, ours.SentenceEncoder)):
        return _open_encoder(model, model.network_name, layer, progress, precision)
    _require_no_layer(type(model).__name__, layer)
    return _open_object(model)


def require_model(model: object) -> None:
    """Raises an error for a named model that does not exist, before another one is scored for long.

    Raises:
        UserError: see `opencse.model_folder.locate.locate`.
    """
    if isinstance(model, str | Path) and str(model) != BAG_OF_WORDS:
        from opencse.model_folder.locate import locate

        if str(model).startswith(WORDS):
            require_file(Path(_words_file(str(model))))
        else:
            locate(str(model).partition(":")[2] if str(model).startswith(DITTO) else model, weights=False)


def _open_named(
    model: str,
    pooling: str | None,
    layer: int | None,
    device: str | None,
    progress: Count,
    say: Say,
    trust_remote_code: bool,
    precision: PrecisionName,
) -> EmbeddingModel:
    words = model.startswith(WORDS)
    if model.startswith(DITTO):
        _require_no_layer(model, layer)
        return _open_ditto(model, pooling, device, progress, trust_remote_code)
    if not words and model != BAG_OF_WORDS:
        encoder = load(model, pooling=pooling, device=device, trust_remote_code=trust_remote_code)
        if encoder.own_code:
            say(code_notice(encoder.own_code))
        return _open_encoder(encoder, model, layer, progress, precision)
    _require_no_layer(model, layer)
    if pooling is not None:
        raise UserError(f"{model}: has no pooling to replace; leave --pooling out")
    if not words:
        from opencse.evaluation.models.words import BagOfWords

        return EmbeddingModel(model, BagOfWords().encode, device="cpu")
    from opencse.evaluation.models.words import WordVectors

    file = _words_file(model)
    vectors = WordVectors.load(file)

    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        means, coverage = vectors.encode_and_count(texts, progress)
        say(f"{file}: {coverage}")
        return means

    return EmbeddingModel(model, encode, pooling="mean", device="cpu")


def _open_ditto(
    model: str, pooling: str | None, device: str | None, progress: Count, trust_remote_code: bool
) -> EmbeddingModel:
    from opencse.encoder.encoder import SentenceEncoder
    from opencse.evaluation.models.ditto import Ditto, parse_ditto
    from opencse.modules.pooling import Pooling

    layer, head, name = parse_ditto(model)
    encoder = SentenceEncoder.load(
        name, pooling=pooling or Pooling.FIRST_LAST_0, device=device, trust_remote_code=trust_remote_code
    )
    ditto = Ditto(encoder, layer, head, encoder.pooling)
    how = f"{ditto.pooling}, weighted by layer {layer}, head {head}"
    return EmbeddingModel(
        model, partial(ditto.encode, progress=progress), pooling=how, device=str(encoder.device), code=encoder.own_code
    )


def _words_file(model: str) -> str:
    file = model.removeprefix(WORDS)
    if not file:
        raise UserError(f"{model}: names no file; write {WORDS}FILE with a file of word vectors")
    return file


def _require_no_layer(model: str, layer: int | None) -> None:
    if layer is not None:
        raise UserError(NO_LAYERS.format(model))


def _open_encoder(
    encoder: Any,  # noqa: ANN401 - its module is heavy
    name: str,
    layer: int | None,
    progress: Count,
    precision: PrecisionName,
) -> EmbeddingModel:
    if isinstance(encoder, StaticEncoder):
        _require_no_layer(name, layer)

    def encode(texts: Sequence[str], role: Role = Role.PLAIN) -> NDArray[np.float32]:
        prompt = encoder.prompts.of(role)
        vectors: NDArray[np.float32] = encoder.encode(
            list(texts), prompt=prompt, progress=progress, precision=precision
        )
        return vectors

    def of_layer(texts: Sequence[str], role: Role = Role.PLAIN) -> NDArray[np.float32]:
        from opencse.encoder.layers import vectors_by_layer

        return vectors_by_layer(encoder, list(texts), [layer or 0], role=role, progress=progress)[layer or 0]

    label, method = (name, encode) if layer is None else (f"{name}, layer {layer}", of_layer)
    searching = None
    if encoder.prompts.differ:
        searching = Searching(partial(method, role=Role.QUERY), partial(method, role=Role.DOCUMENT))
    return EmbeddingModel(
        label,
        method,
        pooling=str(encoder.pooling),
        device=encoder.device_kind if isinstance(encoder, StaticEncoder) else str(encoder.device),
        code=encoder.own_code,
        layers=None if layer is not None or isinstance(encoder, StaticEncoder) else _layers_of(encoder, progress),
        searching=searching,
        similarity=encoder.similarity_fn_name,
        hybrid_weight=encoder.hybrid_weight,
        split=lambda texts: PassageSplitter(encoder, encoder.max_length).split(texts),
    )


def _layers_of(encoder: Any, progress: Count) -> ByLayer:  # noqa: ANN401 - its module is heavy
    def encode(texts: Sequence[str], layers: Sequence[int], role: Role) -> dict[int, NDArray[np.float32]]:
        from opencse.encoder.layers import vectors_by_layer

        return vectors_by_layer(encoder, list(texts), layers, role=role, progress=progress)

    return ByLayer(encoder.depth, int(encoder.backbone.config.hidden_size), encode)


def _open_object(model: object) -> EmbeddingModel:
    device = str(model.device) if isinstance(model, _Placed) and model.device is not None else None
    if isinstance(model, Encodes):
        searching = None
        if isinstance(model, _EncodesForSearch):
            searching = Searching(_arrays(model.encode_query), _arrays(model.encode_document))
        return EmbeddingModel(type(model).__name__, _arrays(model.encode), device=device, searching=searching)
    if callable(model):
        function: Callable[[list[str]], object] = model
        name = model.__name__ if isinstance(model, FunctionType) else type(model).__name__
        return EmbeddingModel(name, _arrays(function), device=device)
    raise UserError(
        f"a {type(model).__name__} cannot be evaluated; give a folder, a Hub id, opencse-mini, {WORDS}FILE, "
        f"{BAG_OF_WORDS}, an object with encode(list of texts), or a function of a list of texts"
    )


def _arrays(encode: Callable[[list[str]], object]) -> Encode:
    """Returns ``encode`` with its vectors as an array."""
    return lambda texts: _as_array(encode(list(texts)))


def _as_array(vectors: object) -> NDArray[np.floating]:
    """Returns a tensor, or a list of tensors, as an array on the CPU; anything else as numpy reads it."""
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        if isinstance(vectors, list) and vectors and isinstance(vectors[0], torch.Tensor):
            vectors = torch.stack(vectors)
        if isinstance(vectors, torch.Tensor):
            vectors = vectors.detach().float().cpu().numpy()
    return np.asarray(vectors)
