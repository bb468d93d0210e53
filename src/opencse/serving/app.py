"""The ASGI application."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse
from starlette.middleware import Middleware
from starlette.staticfiles import StaticFiles

from opencse.modules.prompts import Role
from opencse.modules.rows import unit_rows
from opencse.modules.similarity import Similarity
from opencse.serving.errors import ApiError, answer_errors
from opencse.serving.guard import Guard, Keys
from opencse.serving.metrics import CONTENT_TYPE
from opencse.serving.projection import Method
from opencse.serving.request_body import answer, parse, read_body, while_connected
from opencse.serving.schemas import Body, EmbeddingsRequest, SearchRequest, SimilarityRequest
from opencse.serving.served_model import Given, ServedModel
from opencse.serving.service import Service
from opencse.version import __version__

PAGE = Path(__file__).parent / "page"
B = TypeVar("B", bound=Body)


def create_app(service: Service, *, keys: Collection[str] = (), hosts: Collection[str] | None = None) -> FastAPI:
    """The application that serves ``service``, for any ASGI server.

    Args:
        service: models and indexes; closed when the application ends.
        keys: API keys, one of which requests must send; none: everybody may ask.
        hosts: beside this machine's own names those that requests may be for; None: any.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.close)

    started = int(time.time())
    app = FastAPI(
        title="opencse", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None,
        redirect_slashes=False,
    )  # fmt: skip
    answer_errors(app)

    async def read(request: Request, kind: type[B], work: Callable[[B], Awaitable[Response]]) -> Response:
        with service.held.body() as hold:
            body = await read_body(request, service.limits, hold)
            asked = await parse(body, kind)
            return await while_connected(request, work(asked))

    async def tokens(model: ServedModel, texts: Sequence[Any], role: Role, asked: Body) -> Given:
        most = service.limits.texts
        if len(texts) > most:
            message = f"{len(texts):,} texts are more than the {most:,} of one request; send them in parts"
            raise ApiError(400, message, code="too_many_texts")
        prompt = model.encoder.prompts.of(role)
        return await model.read(texts, prompt=prompt, cut=service.cut if asked.truncate is None else asked.truncate)

    @app.post("/v1/embeddings", openapi_extra=_body(EmbeddingsRequest))
    async def embeddings(request: Request) -> Response:
        """The vectors of texts, as OpenAI's endpoint of the same path gives them."""

        async def work(asked: EmbeddingsRequest) -> Response:
            model = service.model(asked.model)
            dimension = model.encoder.dimension
            if asked.dimensions is not None and asked.dimensions > dimension:
                message = f"dimensions: {model.name} has {dimension}, not {str(asked.dimensions)[:20]}"
                raise ApiError(400, message, param="dimensions")
            if asked.input_type is not None and not isinstance(asked.input[0], str):
                message = "input_type: token ids are taken as they are, without a prompt; send texts, or leave it out"
                raise ApiError(400, message, param="input_type")
            given = await tokens(model, asked.input, asked.role, asked)
            vectors = await model.vectors(given)
            if asked.dimensions is not None:
                vectors = unit_rows(vectors[:, : asked.dimensions])
            values: list[Any]
            if asked.encoding_format == "base64":
                values = [base64.b64encode(vector.astype("<f4").tobytes()).decode() for vector in vectors]
            else:
                values = vectors.tolist()
            content = {
                "object": "list",
                "data": [
                    {"object": "embedding", "index": i, "embedding": value} for i, value in enumerate(values)
                ],
                "model": model.name,
            } | _used(given)  # fmt: skip
            return await answer(content, vectors.size)

        return await read(request, EmbeddingsRequest, work)

    @app.post("/search", openapi_extra=_body(SearchRequest))
    async def search(request: Request) -> Response:
        """The texts of the index that are nearest to each query."""

        async def work(asked: SearchRequest) -> Response:
            model, index = service.index(asked.model)
            if asked.k > service.limits.hits:
                raise ApiError(400, f"k: at most {service.limits.hits:,} results are given", param="k")
            given = await tokens(model, asked.query, Role.QUERY, asked)
            found = await index.search(
                model,
                asked.query,
                given,
                asked.k,
                threshold=asked.threshold,
                where=asked.where,
                hybrid=asked.hybrid,
                hybrid_weight=asked.hybrid_weight,
            )
            data = [
                {
                    "object": "search_result",
                    "index": i,
                    "hits": [
                        {"id": hit.id, "score": float(hit.score), "text": hit.text, "metadata": dict(hit.metadata)}
                        for hit in hits
                    ],
                }
                for i, hits in enumerate(found)
            ]
            return await answer({"object": "list", "data": data, "model": model.name} | _used(given))

        return await read(request, SearchRequest, work)

    @app.post("/similarity", openapi_extra=_body(SimilarityRequest))
    async def similarity(request: Request) -> Response:
        """The similarity of every text with every other, by the model's own function."""

        async def work(asked: SimilarityRequest) -> Response:
            model = service.model(asked.model)
            others = asked.others or []
            rows, columns = len(asked.texts), len(others) or len(asked.texts)
            if rows * columns > service.limits.pairs:
                most = service.limits.pairs
                message = f"{rows:,} x {columns:,} similarities are more than the {most:,} of one request"
                raise ApiError(400, message, code="too_many_pairs")
            given = await tokens(model, [*asked.texts, *others], Role.PLAIN, asked)
            vectors, function = await model.vectors(given), model.encoder.similarity_fn_name
            matrix = function.matrix(vectors[:rows], vectors[rows:] if others else vectors)
            if function is Similarity.COSINE:
                matrix = np.clip(matrix, -1, 1)
            content = {
                "object": "similarity", "function": function.value, "matrix": matrix.tolist(), "model": model.name,
            } | _used(given)  # fmt: skip
            return await answer(content, matrix.size)

        return await read(request, SimilarityRequest, work)

    @app.get("/map")
    async def corpus_map(request: Request, model: str | None = None, method: Method = "pca") -> Response:
        """The corpus in two dimensions."""
        _, index = service.index(model)
        drawn = await while_connected(request, index.map(method))
        return await answer(drawn.told(), 20 * len(drawn.points))

    @app.get("/info")
    async def info() -> Response:
        """Models, indexes and limits."""
        return await answer(await service.told() | {"version": __version__})

    @app.get("/v1/models")
    async def models() -> Response:
        """The models, as OpenAI lists them."""
        return await answer({"object": "list", "data": [_model(one, started) for one in service.models.values()]})

    @app.get("/v1/models/{name:path}")
    async def one_model(name: str) -> Response:
        """One of them."""
        return await answer(_model(service.model(name), started))

    @app.get("/health")
    async def health() -> Response:
        """Whether requests are answered."""
        if not service.alive:
            raise ApiError(503, "a thread of the server has ended; start it again", kind="server_error")
        return await answer({"status": "ok", "version": __version__})

    @app.get("/metrics")
    async def metrics() -> Response:
        """Counters for Prometheus."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE)

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        """The page."""
        return FileResponse(PAGE / "index.html", headers={"Cache-Control": "no-cache"})

    app.mount("/page", StaticFiles(directory=PAGE))
    paths = [path for route in app.routes if isinstance(path := getattr(route, "path", None), str) and "{" not in path]
    app.user_middleware.append(Middleware(Guard, keys=Keys(keys), hosts=hosts, metrics=service.metrics, paths=paths))
    return app


def _body(kind: type[Body]) -> dict[str, Any]:
    """How the OpenAPI schema tells of a body that is read by ourselves."""
    schema = kind.model_json_schema()
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _used(given: Given) -> dict[str, Any]:
    """What was read of the texts."""
    return {"usage": {"prompt_tokens": given.tokens, "total_tokens": given.tokens}, "truncated": given.cut}


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
