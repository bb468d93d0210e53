"""Answers errors in the format of OpenAI's API."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Literal

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from opencse.errors import OutdatedError, UserError, printable, shortened

ErrorType = Literal["invalid_request_error", "authentication_error", "server_error", "overloaded_error"]
_FOLDERS = re.compile(r"(?<![\w./\\])(?:[A-Za-z]:)?[/\\](?:[^\s'\"():;,/\\]+[/\\]+)*(?=[^\s'\"():;,/\\])")
_log = logging.getLogger("opencse.serving")


class ApiError(Exception):
    """An error that is answered to the client.

    Example:
        >>> ApiError(400, "k: at most 1,000 results per query", param="k").response().status_code
        400

    Attributes:
        status: HTTP status code.
        message: one line: what is wrong and how to fix it.
        kind: OpenAI's ``type``.
        param: the invalid key of the body.
        code: identifies the error for programs.
        headers: to send with the answer.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: ErrorType = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.kind = status, message, kind
        self.param, self.code, self.headers = param, code, dict(headers or {})

    def response(self) -> JSONResponse:
        """The answer that is sent."""
        content = {"message": printable(self.message), "type": self.kind, "param": self.param, "code": self.code}
        return JSONResponse({"error": content}, self.status, self.headers)


def invalid(error: ValidationError, keys: Iterable[str]) -> ApiError:
    """The error for an invalid body, whose possible ``keys`` are listed where one is unknown: its first fault."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "json_invalid":
        return ApiError(400, f"the body is not JSON ({shortened(first['msg'], 160)})", code="invalid_json")
    problem = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        problem = f"there is no such key; known: {', '.join(keys)}"
    key = shortened(key)
    message = f"{key}: {problem}" if key else f"the body: {problem}"
    return ApiError(400, shortened(message, 300), param=key or None, code="invalid_value")


def overloaded(message: str, seconds: int) -> ApiError:
    """The error for a busy server: the client may try again after some seconds."""
    return ApiError(
        503, message, kind="overloaded_error", code="overloaded", headers={"Retry-After": str(max(1, seconds))}
    )


def without_folders(message: str) -> str:
    r"""Shortens each absolute path in a message to its last part, so that clients do not see where files are.

    Example:
        >>> without_folders("/home/alice/my-index/rows.sqlite: damaged (see 'C:\\models\\a.json')")
        "rows.sqlite: damaged (see 'a.json')"
        >>> without_folders("unknown column 'a/b'")
        "unknown column 'a/b'"
    """
    return _FOLDERS.sub("", message)


def answer_errors(app: FastAPI) -> None:
    """Makes ``app`` answer every error in OpenAI's format."""

    async def api(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, ApiError)
        return error.response()

    async def http(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        message = {
            404: f"no such address: {shortened(request.url.path)} (see /openapi.json)",
            405: f"{shortened(request.url.path)} does not take {shortened(request.method)}",
        }.get(error.status_code, str(error.detail))
        return ApiError(error.status_code, message, headers=error.headers).response()

    async def query(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        name = str(first["loc"][-1])
        return ApiError(400, shortened(f"{name}: {first['msg']}", 300), param=name, code="invalid_value").response()

    async def user(_: Request, error: Exception) -> JSONResponse:
        if isinstance(error, OutdatedError):
            _log.error("%s", error)
            message = "the index of this server is missing, damaged or replaced; see the server's log"
            return ApiError(503, message, kind="server_error", code="index_outdated").response()
        return ApiError(400, without_folders(str(error))).response()

    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return ApiError(500, "the server failed; see its log", kind="server_error").response()

    app.add_exception_handler(ApiError, api)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, query)
    app.add_exception_handler(UserError, user)
    app.add_exception_handler(Exception, unexpected)
