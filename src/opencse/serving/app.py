"""The routes of the server: /v1/embeddings, /search, /similarity, /map, /info, and the web page. Start reading here."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse
from starlette.middleware import Middleware
from starlette.staticfiles import StaticFiles

from opencse.serving import answering
from opencse.serving.answering import Body, EmbeddingsRequest, SearchRequest, SimilarityRequest
from opencse.serving.guard import CONTENT_TYPE, Keys, RequestGuard
from opencse.serving.requests import (
    ApiError,
    answer,
    new_app,
    parse,
    read_body,
    while_connected,
)
from opencse.serving.served_index import Method
from opencse.serving.served_model import ServedModel
from opencse.serving.service import Service
from opencse.version import __version__

PAGE = Path(__file__).parent / "page"
B = TypeVar("B", bound=Body)


def create_app(service: Service, *, keys: Collection[str] = (), hosts: Collection[str] | None = None) -> FastAPI:
    """Creates the application that serves ``service``, for any ASGI server.

    Example:
        >>> import opencse
        >>> service = Service({"mini": opencse.load(device="cpu")})
        >>> app = create_app(service, keys=["secret"])
        >>> "/v1/embeddings" in {route.path for route in app.routes}
        True
        >>> service.close()

    Args:
        service: models and indexes; closed when the application ends.
        keys: API keys, one of which requests must send; empty: no key is required.
        hosts: host names that requests may be for, in addition to this machine's own; None: any.
    """
    started = int(time.time())
    app = new_app("opencse", service.close)

    async def read(request: Request, kind: type[B], respond: Callable[[Service, B], Awaitable[Response]]) -> Response:
        with service.held.body() as hold:
            body = await read_body(request, service.limits, hold)
            return await while_connected(request, respond(service, await parse(body, kind)))

    @app.post("/v1/embeddings", openapi_extra=_body(EmbeddingsRequest))
    async def embeddings(request: Request) -> Response:
        """Returns the vectors of texts, like OpenAI's endpoint of the same path."""
        return await read(request, EmbeddingsRequest, answering.embeddings)

    @app.post("/search", openapi_extra=_body(SearchRequest))
    async def search(request: Request) -> Response:
        """Returns the texts of the index that are most similar to each query."""
        return await read(request, SearchRequest, answering.search)

    @app.post("/similarity", openapi_extra=_body(SimilarityRequest))
    async def similarity(request: Request) -> Response:
        """Returns the similarity of every text with every other, by the model's own function."""
        return await read(request, SimilarityRequest, answering.similarity)

    @app.get("/map")
    async def corpus_map(request: Request, model: str | None = None, method: Method = "pca") -> Response:
        """Returns the texts of an index as points in two dimensions."""
        _, index = service.index(model)
        layout = await while_connected(request, index.map(method))
        return await answer(layout, 20 * len(layout["points"]))

    @app.get("/info")
    async def info() -> Response:
        """Returns models, indexes and limits, for the page."""
        return await answer(await service.info() | {"version": __version__})

    @app.get("/v1/models")
    async def models() -> Response:
        """Lists the models in OpenAI's format."""
        return await answer({"object": "list", "data": [_model(one, started) for one in service.models.values()]})

    @app.get("/v1/models/{name:path}")
    async def one_model(name: str) -> Response:
        """Describes one model in OpenAI's format."""
        return await answer(_model(service.model(name), started))

    @app.get("/health")
    async def health() -> Response:
        """Tells whether the server works, for load balancers."""
        if not service.alive:
            raise ApiError(503, "a thread of the server has ended; restart the server", kind="server_error")
        return await answer({"status": "ok", "version": __version__})

    @app.get("/metrics")
    async def metrics() -> Response:
        """Returns the counters in Prometheus' format."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE)

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        """Returns the web page."""
        return FileResponse(PAGE / "index.html", headers={"Cache-Control": "no-cache"})

    app.mount("/page", StaticFiles(directory=PAGE))
    paths = [path for route in app.routes if isinstance(path := getattr(route, "path", None), str) and "{" not in path]
    app.user_middleware.append(
        Middleware(RequestGuard, keys=Keys(keys), hosts=hosts, metrics=service.metrics, paths=paths)
    )
    return app


def _body(kind: type[Body]) -> dict[str, Any]:
    """The OpenAPI schema of a body, which FastAPI does not know because the routes read it themselves."""
    schema = kind.model_json_schema()
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _model(model: ServedModel, created: int) -> dict[str, Any]:
    return {
        "id": model.name,
        "object": "model",
        "created": created,
        "owned_by": "opencse",
        "dimensions": model.encoder.dimension,
        "similarity": model.encoder.similarity_fn_name.value,
        "max_length": model.encoder.max_length,
        "fingerprint": model.fingerprint,
    }
