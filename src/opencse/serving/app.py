"""The routes of the server: /v1/embeddings, /search, /similarity, /map, /info, and the web page. Start reading here."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse
from starlette.middleware import Middleware
from starlette.staticfiles import StaticFiles

from opencse.modules.prompts import Role
from opencse.modules.similarity import Similarity, unit_rows
from opencse.numerals import number_of
from opencse.serving.errors import ApiError, answer_errors
from opencse.serving.guard import Keys, RequestGuard
from opencse.serving.metrics import CONTENT_TYPE
from opencse.serving.projection import Method
from opencse.serving.request_body import answer, parse, read_body, while_connected
from opencse.serving.schemas import Body, EmbeddingsRequest, SearchRequest, SimilarityRequest
from opencse.serving.served_model import ServedModel, TokenizedTexts
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
            return await while_connected(request, work(await parse(body, kind)))

    async def tokens(model: ServedModel, texts: Sequence[Any], role: Role, truncate: bool | None) -> TokenizedTexts:
        most = service.limits.texts
        if len(texts) > most:
            sent = number_of(len(texts), "text is", "texts are")
            message = f"{sent} more than the {most:,} of one request; send them in several requests"
            raise ApiError(400, message, code="too_many_texts")
        prompt = model.encoder.prompts.of(role)
        return await model.read(texts, prompt=prompt, truncate=service.cut if truncate is None else truncate)

    @app.post("/v1/embeddings", openapi_extra=_body(EmbeddingsRequest))
    async def embeddings(request: Request) -> Response:
        """Returns the vectors of texts, like OpenAI's endpoint of the same path."""

        async def work(body: EmbeddingsRequest) -> Response:
            model = service.model(body.model)
            dimension = model.encoder.dimension
            if body.dimensions is not None and body.dimensions > dimension:
                message = f"dimensions: {model.name} has {dimension}, not {str(body.dimensions)[:20]}"
                raise ApiError(400, message, param="dimensions")
            if body.input_type is not None and not isinstance(body.input[0], str):
                message = "input_type: token ids get no prompt; send texts, or leave input_type out"
                raise ApiError(400, message, param="input_type")
            texts = await tokens(model, body.input, body.role, body.truncate)
            vectors = await model.vectors(texts)
            if body.dimensions is not None:
                vectors = unit_rows(vectors[:, : body.dimensions])
            values: list[Any]
            if body.encoding_format == "base64":
                values = [base64.b64encode(vector.astype("<f4").tobytes()).decode() for vector in vectors]
            else:
                values = vectors.tolist()
            content = {
                "object": "list",
                "data": [
                    {"object": "embedding", "index": i, "embedding": value} for i, value in enumerate(values)
                ],
                "model": model.name,
            } | _usage(texts)  # fmt: skip
            return await answer(content, vectors.size)

        return await read(request, EmbeddingsRequest, work)

    @app.post("/search", openapi_extra=_body(SearchRequest))
    async def search(request: Request) -> Response:
        """Returns the texts of the index that are most similar to each query."""

        async def work(body: SearchRequest) -> Response:
            model, index = service.index(body.model)
            if body.k > service.limits.hits:
                raise ApiError(400, f"k: at most {service.limits.hits:,} results per query; ask for fewer", param="k")
            reranker = service.reranker_for(body.rerank, body.rerank_depth)
            first = body.k if reranker is None else reranker.hits(len(body.query), body.k, body.rerank_depth)
            texts = await tokens(model, body.query, Role.QUERY, body.truncate)
            results = await index.search(
                model,
                body.query,
                texts,
                first,
                threshold=body.threshold if reranker is None else None,
                where=body.where,
                hybrid=body.hybrid,
                hybrid_weight=body.hybrid_weight,
            )
            if reranker is not None:
                results = await reranker.rerank(body.query, results, body.k, body.threshold)
            data = [
                {
                    "object": "search_result",
                    "index": i,
                    "hits": [
                        {"id": hit.id, "score": float(hit.score), "text": hit.text, "metadata": dict(hit.metadata)}
                        for hit in hits
                    ],
                }
                for i, hits in enumerate(results)
            ]
            by = {} if reranker is None else {"reranked_by": reranker.name}
            return await answer({"object": "list", "data": data, "model": model.name} | by | _usage(texts))

        return await read(request, SearchRequest, work)

    @app.post("/similarity", openapi_extra=_body(SimilarityRequest))
    async def similarity(request: Request) -> Response:
        """Returns the similarity of every text with every other, by the model's own function."""

        async def work(body: SimilarityRequest) -> Response:
            model = service.model(body.model)
            others = body.others or []
            rows, columns = len(body.texts), len(others) or len(body.texts)
            if rows * columns > service.limits.pairs:
                most = service.limits.pairs
                message = (
                    f"{rows:,} x {columns:,} similarities are more than the {most:,} of one request; send fewer texts"
                )
                raise ApiError(400, message, code="too_many_pairs")
            texts = await tokens(model, [*body.texts, *others], Role.PLAIN, body.truncate)
            vectors, function = await model.vectors(texts), model.encoder.similarity_fn_name
            matrix = function.matrix(vectors[:rows], vectors[rows:] if others else vectors)
            if function is Similarity.COSINE:
                matrix = np.clip(matrix, -1, 1)
            content = {
                "object": "similarity", "function": function.value, "matrix": matrix.tolist(), "model": model.name,
            } | _usage(texts)  # fmt: skip
            return await answer(content, matrix.size)

        return await read(request, SimilarityRequest, work)

    @app.get("/map")
    async def corpus_map(request: Request, model: str | None = None, method: Method = "pca") -> Response:
        """Returns the texts of an index as points in two dimensions."""
        _, index = service.index(model)
        layout = await while_connected(request, index.map(method))
        return await answer(asdict(layout), 20 * len(layout.points))

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


def _usage(texts: TokenizedTexts) -> dict[str, Any]:
    """The part of an answer that counts tokens and lists truncated texts."""
    return {"usage": {"prompt_tokens": texts.tokens, "total_tokens": texts.tokens}, "truncated": texts.truncated}


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
