"""`serve`: serves models and indexes over HTTP."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Literal

from opencse.commands.declared import Typed, command, needs
from opencse.commands.shared import (
    Device,
    Pooling,
    Precision,
    Reporter,
    Rerank,
    RerankDepth,
    RerankPrecision,
    TrustRemoteCode,
)
from opencse.errors import UserError
from opencse.numerals import number_of
from opencse.progress import SILENT, Progress

if TYPE_CHECKING:
    from opencse.commands.opening import Model
    from opencse.encoder.text_encoder import TextEncoder
    from opencse.kernels.precision import PrecisionName
    from opencse.search.index import Index

KEY_VARIABLE = "OPENCSE_API_KEY"
_NEEDED = ("fastapi", "uvicorn", "prometheus_client")
_FEW = 20_000
"""Rows up to which the first index is encoded at the start for a model without an index."""


@command
@needs(rerank="index")
def serve(
    models: Annotated[
        str | Path | TextEncoder | Sequence[str | Path | TextEncoder],
        Typed("Encoders: folders, Hub ids, opencse-small or -mini; two are shown side by side.", repeated=True),
    ],
    *,
    index: Annotated[
        str | Path | Sequence[str | Path] | None,
        Typed("Folder of an index (opencse index build) to search; may be repeated.", repeated=True),
    ] = None,
    name: Annotated[
        Sequence[str] | None,
        Typed(
            "Name of a model in requests, in the models' order; may be repeated. By default the folder's name.",
            repeated=True,
        ),
    ] = None,
    host: str = "127.0.0.1",
    port: Annotated[int, Typed(least=0, most=65535)] = 8000,
    api_key_file: Annotated[
        str | Path | None,
        Typed("File of API keys, one per line; or set OPENCSE_API_KEY. By default no key is needed.", file=True),
    ] = None,
    allow_host: Annotated[
        Sequence[str] | None,
        Typed("Host name that requests may use, for instance behind a proxy; may be repeated.", repeated=True),
    ] = None,
    too_long: Annotated[
        Literal["cut", "refuse"],
        Typed("Truncate or refuse texts longer than the model reads, unless the request says otherwise."),
    ] = "cut",
    max_body: Annotated[int, Typed(least=1)] = 4194304,
    max_texts: Annotated[int, Typed(least=1)] = 2048,
    max_waiting: Annotated[int, Typed(least=1)] = 8192,
    grace: Annotated[float, Typed(least=1, most=86400)] = 30,
    rerank: Rerank = None,
    rerank_depth: RerankDepth = 50,
    rerank_precision: RerankPrecision = "float32",
    precision: Precision = "float32",
    pooling: Pooling = None,
    device: Device = None,
    trust_remote_code: TrustRemoteCode = False,
    progress: Reporter = SILENT,
) -> None:
    """Serves models over HTTP until it is stopped: OpenAI-style embeddings, search, similarity, and a page at ``/``.

    Vectors are the same as from `SentenceEncoder.encode` with the same precision, whichever requests are encoded
    together (in bf16 up to rounding). To mount the application in another server, use
    `opencse.serving.app.create_app`.

    Example:
        >>> import opencse
        >>> opencse.serve("opencse-mini", port=8000, api_key_file="keys.txt")  # doctest: +SKIP

    Args:
        models: the built-in encoder's name, a folder, a Hub id, or a `SentenceEncoder`; one or several. The first one
            answers requests that name no model.
        index: folder of an index, or several; each is searched with the model that it was built with. For models
            without an index, the texts of the first one are encoded at the start.
        name: names of the models in requests, in their order; by default the last part of folder or id.
        host: Address to listen on; 0.0.0.0 lets other machines in.
        port: Port to listen on; 0 takes a free one.
        api_key_file: file of API keys, one per line, one of which requests must send. By default the key is
            ``OPENCSE_API_KEY``, if that variable is set; otherwise no key is needed.
        allow_host: host names that requests may use in addition to this machine's own, if no key is needed and ``host``
            is local; for instance behind a proxy.
        too_long: what happens to texts longer than the model reads, unless a request says otherwise (``truncate``):
            ``cut`` truncates them and lists them in the answer, ``refuse`` answers an error.
        max_body: Bytes in a request, at most.
        max_texts: Texts in a request, at most.
        max_waiting: Texts that may wait, at most; further requests get status 503.
        grace: Seconds that running requests get to finish when the server stops.

    Raises:
        UserError: for bad input, a port that is taken, or a package that is missing, in one line.
    """
    from opencse.commands.opening import Model, open_for_vectors, second_stage
    from opencse.environment import require_packages
    from opencse.search.index import Index

    require_packages("opencse serve", "serve", *_NEEDED)
    from opencse.serving.app import create_app
    from opencse.serving.guard import is_local
    from opencse.serving.requests import Limits
    from opencse.serving.server import address, bind, run
    from opencse.serving.service import Service

    all_models = [models] if isinstance(models, Model) else list(models)
    folders = [index] if isinstance(index, str | Path) else list(index or [])
    limits = Limits(body_bytes=max_body, texts=max_texts, waiting_texts=max_waiting)
    names = _names(all_models, name)
    keys = _keys(api_key_file)
    listening = bind(host, port)
    with closing(listening), TemporaryDirectory(prefix="opencse-") as scratch:
        encoders = {
            name: open_for_vectors(model, progress, pooling, device, trust_remote_code)
            for name, model in zip(names, all_models, strict=True)
        }
        for one, encoder in encoders.items():
            progress.say(
                f"{one}: {encoder.dimension} dimensions, at most {encoder.max_length} tokens, on {encoder.device_kind}"
            )
        local = is_local(host)
        if not local and not keys:
            progress.say(
                f"warning: everybody who can reach {host} can use this server, because it needs no API key; add "
                "--api-key-file, or serve on 127.0.0.1"
            )
        opened = [Index.open(folder) for folder in folders]
        precisions = _precisions(precision, encoders, opened, progress)
        indexes = _indexes(opened, encoders, precisions, Path(scratch), progress)
        stage = second_stage(rerank, rerank_depth, rerank_precision, progress, device, trust_remote_code)
        if stage is not None:
            progress.say(f"searches are re-ranked by {stage.model.name}, the first {stage.depth} texts of each query")
        cut = too_long == "cut"
        service = Service(encoders, indexes, stage=stage, limits=limits, cut=cut, precisions=precisions)
        hosts = [*(allow_host or [])] if local and not keys else None
        app = create_app(service, keys=keys, hosts=hosts)
        url = address(listening)
        message = f"{url}/ is the page, {url}/v1 the OpenAI-style endpoint; stop with Ctrl-C"
        run(app, listening, grace=grace, ready=lambda: progress.say(message), limits=limits)
        progress.say("stopped")


def _precisions(
    choice: Literal["auto", "float32", "bf16"],
    encoders: Mapping[str, TextEncoder],
    indexes: Sequence[Index],
    progress: Progress,
) -> dict[str, PrecisionName]:
    """The arithmetic of each model; ``auto`` is measured on texts of the first index, or on built-in ones."""
    from opencse.encoder.first_look import AMONG, measured_precision, sample_of
    from opencse.modules.prompts import Role
    from opencse.text import sample
    from opencse.text.readers import Source

    texts: list[str] = []
    if choice == "auto":
        rows = indexes[0].rows(limit=AMONG) if indexes else []
        lines = Source(str(sample.TRAIN)).read().rows
        texts = sample_of([hit.text for hit in rows] or [line[0] for line in lines])
    precisions: dict[str, PrecisionName] = {}
    for name, encoder in encoders.items():
        measured = measured_precision(choice, encoder, texts, encoder.prompts.of(Role.DOCUMENT))
        precisions[name] = measured.name
        if choice != "float32":
            progress.say(f"{name}: computes in {measured.name} ({measured.reason})")
    return precisions


def _indexes(
    opened: Sequence[Index],
    encoders: Mapping[str, TextEncoder],
    precisions: Mapping[str, PrecisionName],
    scratch: Path,
    progress: Progress,
) -> dict[str, Index]:
    """Gives each model its index; a model without one gets an index of the first one's texts, if they are few."""
    from opencse.encoder.fingerprint import fingerprint
    from opencse.search.building import BuildSettings
    from opencse.search.index import Index
    from opencse.search.rows import IndexRow

    model_of = {fingerprint(encoder): name for name, encoder in reversed(list(encoders.items()))} if opened else {}
    indexes: dict[str, Index] = {}
    for index in opened:
        name = model_of.get(index.info().fingerprint, next(iter(encoders)))
        index.encoder = encoders[name]  # refuses an index of another model
        if name in indexes:
            raise UserError(f"{index.folder}: {name} has an index already; give one index per model")
        indexes[name] = index
        info = index.info()
        progress.say(
            f"{name}: searches {index.folder}, {number_of(info.documents, 'text')} ({info.kind}); weight of the "
            f"vectors in hybrid search {info.hybrid}"
        )
    if not indexes:
        return {}
    first = next(iter(indexes.values()))
    info = first.info()
    for name, encoder in encoders.items():
        if name in indexes:
            continue
        if info.rows > _FEW:
            progress.say(f"{name}: has no index; build one of the same text (opencse index build), and add its --index")
            continue
        texts = number_of(info.rows, "text of the first one is", "texts of the first one are")
        progress.say(f"{name}: has no index, so the {texts} encoded now")
        unique_ids = info.documents == info.rows
        rows = [IndexRow(hit.text, hit.id if unique_ids else None, hit.metadata) for hit in first.rows()]
        how = BuildSettings(precision=precisions.get(name, "float32"))
        indexes[name] = Index.build(scratch / f"index-{len(indexes)}", rows, encoder, how=how, progress=progress)
    return indexes


def _names(models: Sequence[Model], requested: Sequence[str] | None) -> list[str]:
    """The name of each model in requests."""
    from opencse.commands.opening import name_of

    if requested is not None and len(requested) > 0:
        if len(requested) != len(models):
            raise UserError(
                f"name: {number_of(len(requested), 'name')} for {number_of(len(models), 'model')}; give one --name "
                "per model"
            )
        names = list(requested)
    else:
        names = [_short(name_of(model)) for model in models]
    for name in names:
        if not name.strip() or not name.isprintable():
            raise UserError(f"name: {name!r} cannot name a model; use letters and digits")
    if len(set(names)) < len(names):
        raise UserError(
            f"two models would be called {next(n for n in names if names.count(n) > 1)!r}; give each a name"
        )
    return names


def _short(name: str) -> str:
    """The Hub id, or the last part of a folder, so that clients do not see where it is."""
    path = Path(name)
    return path.resolve().name or name if path.exists() else name


def _keys(file: str | Path | None) -> list[str]:
    """The API keys of a file or of the environment; empty: none is required."""
    if file is None:
        value = os.environ.get(KEY_VARIABLE)
        if value is None:
            return []
        keys, source = [value.strip()], KEY_VARIABLE
    else:
        source, lines = str(file), Path(file).read_text(encoding="utf-8").splitlines()
        keys = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not keys or not all(re.fullmatch(r"[!-~]+", key) for key in keys):
        raise UserError(f"{source}: API keys are ASCII letters, digits and signs, one per line, and at least one")
    return keys
