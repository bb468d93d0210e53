"""The application of ``opencse label``: a page on which a person types queries and marks the texts that answer them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import FileResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.middleware import Middleware
from starlette.staticfiles import StaticFiles

from opencse.labelling.labels import TARGET, Level
from opencse.labelling.session import LabelSession
from opencse.serving.guard import Keys, Metrics, RequestGuard, TokenGuard
from opencse.serving.requests import (
    ApiError,
    HeldBytes,
    Limits,
    answer,
    new_app,
    parse,
    read_body,
)
from opencse.serving.served_model import Worker

_PAGE = Path(__file__).parent / "page"
_TEXTS = 64 * 2**10
"""Bytes of a request: a query of 4,000 characters, or the id of a text."""
B = TypeVar("B", bound="LabelBody")
Number = Annotated[int, Field(ge=1)]


class LabelBody(BaseModel):
    """The base of the bodies of requests; unknown keys and wrong types are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class NewQuery(LabelBody):
    """A query to add."""

    text: str


class QueryNumber(LabelBody):
    """A query to open or to delete."""

    number: Number


class QueryText(LabelBody):
    """The new text of a query."""

    number: Number
    text: str


class Mark(LabelBody):
    """The mark of a text for a query: 2 right, 1 partly, 0 not, null none; ``digest`` is of the text shown."""

    number: Number
    id: str
    level: Literal[0, 1, 2] | None
    digest: str | None = None


class Finished(LabelBody):
    """Whether all texts of a query were looked at."""

    number: Number
    finished: bool


def create_label_app(session: LabelSession, *, indexes: Sequence[str], models: Sequence[str]) -> FastAPI:
    """Creates the application of a session, for pages of this machine whose requests have ``app.state.token``.

    Args:
        session: whose methods are called on one thread, one after the other.
        indexes: folders of the indexes, which the page names.
        models: the models of each of them; empty where an index names none.
    """
    about = {"indexes": list(indexes), "models": list(models)}
    worker = Worker("opencse-label")
    limits = Limits(body_bytes=_TEXTS)
    bodies = HeldBytes(limits)

    app = new_app("opencse label", worker.close)

    async def change(request: Request, kind: type[B], work: Callable[[B], dict[str, Any] | None]) -> Response:
        _require_own_page(request)
        with bodies.body() as hold:
            body = await parse(await read_body(request, limits, hold), kind)

        def called() -> dict[str, Any]:
            content = work(body) or {}
            return {**content, "state": _state(session, about)}

        # Not stopped when the client disconnects: what was marked is saved.
        return await answer(await worker.call(called))

    @app.get("/labels")
    async def labels() -> Response:
        """Returns all queries with the counts of their marks."""
        return await answer(await worker.call(lambda: _state(session, about)))

    @app.post("/labels/add")
    async def add(request: Request) -> Response:
        """Adds a query; returns its number."""
        return await change(request, NewQuery, lambda body: {"number": session.add(body.text)})

    @app.post("/labels/open")
    async def open_query(request: Request) -> Response:
        """Searches for a query; returns the texts to be marked."""

        def work(body: QueryNumber) -> dict[str, Any]:
            query, texts = session.open_query(body.number)
            content = {"number": query.number, "text": query.text, "finished": query.finished}
            return {"query": {**content, "texts": [asdict(text) for text in texts]}}

        return await change(request, QueryNumber, work)

    @app.post("/labels/edit")
    async def edit(request: Request) -> Response:
        """Changes the text of a query."""
        return await change(request, QueryText, lambda body: session.edit(body.number, body.text))

    @app.post("/labels/delete")
    async def delete(request: Request) -> Response:
        """Deletes a query with its marks."""
        return await change(request, QueryNumber, lambda body: session.delete(body.number))

    @app.post("/labels/mark")
    async def mark(request: Request) -> Response:
        """Marks a text for a query."""
        return await change(request, Mark, lambda body: session.mark(body.number, body.id, body.level, body.digest))

    @app.post("/labels/finish")
    async def finish(request: Request) -> Response:
        """Records whether all texts of a query were looked at."""
        return await change(request, Finished, lambda body: session.finish(body.number, body.finished))

    @app.get("/labels/text")
    async def text(
        text_id: Annotated[str, Query(alias="id", max_length=10_000)],
        digest: Annotated[str | None, Query(max_length=100)] = None,
    ) -> Response:
        """Returns all of a document's text."""
        return await answer({"text": await worker.call(lambda: session.text_of(text_id, digest))})

    @app.get("/labels/scores")
    async def scores() -> Response:
        """Returns how vectors, BM25 and hybrid search score by the marks so far."""
        return await answer(asdict(await worker.call(session.scores)))

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        """Returns the web page."""
        return FileResponse(_PAGE / "label.html", headers={"Cache-Control": "no-cache"})

    app.mount("/page", StaticFiles(directory=_PAGE))
    app.state.token = secrets.token_urlsafe(24)
    app.user_middleware += [
        Middleware(RequestGuard, keys=Keys([]), hosts=[], metrics=Metrics(), paths=[]),
        Middleware(TokenGuard, token=app.state.token),
    ]
    return app


def _require_own_page(request: Request) -> None:
    """Refuses a change that the page of another site sends.

    Raises:
        ApiError: 403.
    """
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2] != request.headers.get("host"):
        raise ApiError(403, "changes are accepted from this server's own page only", code="foreign_origin")


def _state(session: LabelSession, about: Mapping[str, list[str]]) -> dict[str, Any]:
    labels = session.labels
    levels: tuple[tuple[str, Level], ...] = (("right", 2), ("partly", 1), ("wrong", 0))
    queries = [
        {
            "number": query.number,
            "text": query.text,
            "finished": query.finished,
            "shown": len(query.pool),
            "split": labels.split_of(query.number),
            **{name: query.count(level) for name, level in levels},
        }
        for query in labels.queries
    ]
    return {
        "target": TARGET,
        "answered": len(labels.answered),
        "split": labels.split,
        "queries": queries,
        "documents": 0 if labels.corpus is None else labels.corpus.documents,
        "folder": str(session.folder),
        "notes": session.notes,
        **about,
    }
