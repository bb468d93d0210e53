"""Errors as they are answered: format, status and what clients may see."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from opencse.serving.errors import ApiError, invalid, overloaded, without_folders
from opencse.serving.schemas import EmbeddingsRequest


def test_an_error_has_openais_format() -> None:
    response = ApiError(404, "no model 'x'", param="model", code="model_not_found").response()
    assert response.status_code == 404
    assert json.loads(bytes(response.body)) == {
        "error": {
            "message": "no model 'x'", "type": "invalid_request_error", "param": "model", "code": "model_not_found",
        }
    }  # fmt: skip


@pytest.mark.parametrize(
    ("body", "message", "code"),
    [
        ("{", "the body is not JSON", "invalid_json"),
        ("[]", "the body: ", "invalid_value"),
        (
            '{"input": "a", "nope": 1}',
            "nope: there is no such key; known: model, truncate, user, input, ",
            "invalid_value",
        ),
        ('{"input": ""}', "input: text 1 of 1 is empty", "invalid_value"),
        ('{"input": "a", "dimensions": 0}', "dimensions: ", "invalid_value"),
    ],
)
def test_the_first_fault_of_a_body_is_named(body: str, message: str, code: str) -> None:
    with pytest.raises(ValidationError) as caught:
        EmbeddingsRequest.model_validate_json(body)
    error = invalid(caught.value, EmbeddingsRequest.model_fields)
    assert error.message.startswith(message)
    assert (error.status, error.code) == (400, code)


def test_a_busy_server_says_when_to_try_again() -> None:
    for seconds, header in ((0, "1"), (7, "7")):
        error = overloaded("busy", seconds)
        assert (error.status, error.headers["Retry-After"]) == (503, header)


def test_clients_do_not_see_where_files_are() -> None:
    assert without_folders("/srv/data/ix: damaged (rows.sqlite)") == "ix: damaged (rows.sqlite)"
    assert without_folders("give 1/2 or a/b") == "give 1/2 or a/b"
