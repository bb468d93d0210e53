"""`serve`: models over HTTP."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from opencse.api.models import Model, name_of, open_encoder
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import fingerprint
from opencse.environment import require_packages
from opencse.errors import UserError, plain_failures, reason
from opencse.foreign import checks_trust
from opencse.progress import Progress, Silent
from opencse.search.index import Index
from opencse.search.rows import IndexRow

KEY_VARIABLE = "OPENCSE_API_KEY"
_NEEDED = ("fastapi", "uvicorn", "prometheus_client")
MOST_GRACE = 86_400
"""Seconds, a day."""
_FEW = 20_000
"""Texts that are encoded at the start for a model that has no index of its own."""


@plain_failures
@checks_trust
def serve(
    models: Model | Sequence[Model],
    *,
    index: str | Path | Sequence[str | Path] | None = None,
    name: Sequence[str] | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    api_key_file: str | Path | None = None,
    allow_host: Sequence[str] | None = None,
    too_long: Literal["cut", "refuse"] = "cut",
    max_body: int = 4 * 2**20,
    max_texts: int = 2_048,
    max_waiting: int = 8_192,
    grace: float = 30,
    pooling: str | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
    progress: Progress | None = None,
) -> None:
    """Serves models over HTTP until it is stopped: OpenAI-style embeddings, search, similarity, and a page at ``/``.

    Vectors are those of `SentenceEncoder.encode`, whatever requests are encoded together. For an application to
    mount elsewhere see `opencse.serving.app.create_app`.

    Args:
        models: the built-in encoder's name, a folder, a Hub id, or a `SentenceEncoder`; one or several. Requests that
            name none are answered by the first.
        index: folder of an index, or several; each is searched with the model that it was built with. Models without
            one get the first one's texts encoded at the start.
        name: what requests call the models, in their order; by default the last part of folder or id.
        host: address to listen on; another than this machine's own is reached by others.
        port: to listen on; 0: any free one.
        api_key_file: file of API keys, one a line, one of which requests must send. Without it the key is taken from
            ``OPENCSE_API_KEY``, if that is set; without either, everybody may ask.
        allow_host: names, beside this machine's own, that requests may be for, where no key is asked for and ``host``
            is local.
        too_long: what happens to texts that are longer than the model reads where a request does not say
            (``truncate``): they are cut, and the answer says which, or refused.
        max_body: bytes of a request.
        max_texts: texts of a request.
        max_waiting: texts that may wait for the encoder; requests beyond are told when to come back (503).
        grace: seconds that requests in work have to end, once the server is told to stop.
        pooling: replaces the models' own.
        device: where to run; a GPU if there is one.
        trust_remote_code: run the Python code that the models' folders bring; see `SentenceEncoder.load`.
        progress: hears of it.

    Raises:
        UserError: for bad input, a port that is taken, or a package that is missing, in one line.
    """
    require_packages("opencse serve", "serve", *_NEEDED)
    from opencse.serving.app import create_app
    from opencse.serving.guard import is_local
    from opencse.serving.limits import Limits
    from opencse.serving.server import address, bind, run
    from opencse.serving.service import Service

    tell = progress or Silent()
    given = [models] if isinstance(models, Model) else list(models)
    if not given:
        raise UserError("no model; name at least one")
    folders = [index] if isinstance(index, str | Path) else list(index or [])
    if isinstance(grace, bool) or not isinstance(grace, int | float) or not 0 < grace <= MOST_GRACE:
        raise UserError(f"grace is a number of seconds above 0, at most {MOST_GRACE:,}, not {grace!r}")
    limits = Limits(body_bytes=max_body, texts=max_texts, waiting_texts=max_waiting)
    names = _names(given, name)
    keys = _keys(api_key_file)
    listening = bind(host, port)
    with closing(listening), TemporaryDirectory(prefix="opencse-") as scratch:
        encoders = {
            name: open_encoder(model, tell, pooling=pooling, device=device, trust_remote_code=trust_remote_code)
            for name, model in zip(names, given, strict=True)
        }
        for name, encoder in encoders.items():
            tell.say(
                f"{name}: {encoder.dimension} dimensions, at most {encoder.max_length} tokens, on {encoder.device}"
            )
        local = is_local(host)
        if not local and not keys:
            tell.say(
                f"warning: whoever reaches {host} can use this server, since it asks for no API key; give "
                "--api-key-file, or serve on 127.0.0.1"
            )
        indexes = _indexes(folders, encoders, Path(scratch), tell)
        service = Service(encoders, indexes, limits=limits, cut=too_long == "cut")
        hosts = [*(allow_host or [])] if local and not keys else None
        app = create_app(service, keys=keys, hosts=hosts)
        url = address(listening)
        told = f"{url}/ is the page, {url}/v1 the OpenAI-style endpoint; Ctrl-C ends it"
        run(app, listening, grace=grace, ready=lambda: tell.say(told), limits=limits)
        tell.say("stopped")


def _indexes(
    folders: Sequence[str | Path], encoders: Mapping[str, SentenceEncoder], scratch: Path, tell: Progress
) -> dict[str, Index]:
    """The index of each model; a model without one gets the first one's texts, where they are few."""
    of = {fingerprint(encoder): name for name, encoder in reversed(list(encoders.items()))} if folders else {}
    found: dict[str, Index] = {}
    for folder in folders:
        index = Index.open(folder)
        name = of.get(index.info().fingerprint, next(iter(encoders)))
        index = Index.open(folder, encoder=encoders[name])  # which refuses another model's
        if name in found:
            raise UserError(f"{folder}: {name} has an index already; give one for each model")
        found[name] = index
        tell.say(f"{name}: searches {folder}, {index.info().documents:,} texts ({index.info().kind})")
    if not found:
        return {}
    first = next(iter(found.values()))
    info = first.info()
    for name, encoder in encoders.items():
        if name in found:
            continue
        if info.rows > _FEW:
            tell.say(f"{name}: has no index; build one of the same text (opencse index build) and give --index again")
            continue
        tell.say(f"{name}: has no index, so the {info.rows:,} texts of the first one are encoded now")
        named = info.documents == info.rows
        rows = [IndexRow(hit.text, hit.id if named else None, hit.metadata) for hit in first.rows()]
        found[name] = Index.build(scratch / f"index-{len(found)}", rows, encoder, progress=tell)
    return found


def _names(models: Sequence[Model], given: Sequence[str] | None) -> list[str]:
    """What requests call each model."""
    if given is not None and len(given) > 0:
        if len(given) != len(models):
            raise UserError(f"name: {len(given)} names for {len(models)} models; give each model one")
        names = list(given)
    else:
        names = [_short(name_of(model)) for model in models]
    for one in names:
        if not one.strip() or not one.isprintable():
            raise UserError(f"name: {one!r} cannot name a model; use letters and digits")
    if len(set(names)) < len(names):
        raise UserError(
            f"two models would be called {next(n for n in names if names.count(n) > 1)!r}; give each a name"
        )
    return names


def _short(name: str) -> str:
    """A Hub id as it is, of a folder the last part: where it lies is nobody's business."""
    path = Path(name)
    return path.resolve().name or name if path.exists() else name


def _keys(file: str | Path | None) -> list[str]:
    if file is None:
        set_ = os.environ.get(KEY_VARIABLE)
        if set_ is None:
            return []
        keys, where = [set_.strip()], KEY_VARIABLE
    else:
        where = str(file)
        try:
            lines = Path(file).read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError) as error:
            raise UserError(f"{file}: the API keys cannot be read ({reason(error)})") from None
        keys = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not keys or not all(keys):
        raise UserError(f"{where}: holds no API key; write one, or leave the file out to serve without keys")
    if not all(re.fullmatch(r"[!-~]+", key) for key in keys):
        raise UserError(f"{where}: API keys are ASCII letters, digits and signs, without spaces, one a line")
    return keys
