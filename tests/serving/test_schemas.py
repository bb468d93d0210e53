"""Bodies of requests: what they mean, and what is refused."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from opencse.modules.prompts import Role
from opencse.serving.schemas import EmbeddingsRequest, SearchRequest, SimilarityRequest


@pytest.mark.parametrize(
    ("value", "texts"),
    [("a", ["a"]), (["a", "b"], ["a", "b"]), ([1, 2], [[1, 2]]), ([[1], [2, 3]], [[1], [2, 3]])],
)
def test_inputs_of_all_kinds(value: object, texts: object) -> None:
    assert EmbeddingsRequest(input=value).input == texts


@pytest.mark.parametrize("value", ["", [], ["a", ""], [[]], [[1], []], [1, "a"], {"a": 1}, None, 5, [True]])
def test_other_inputs_are_refused(value: object) -> None:
    with pytest.raises(ValidationError):
        EmbeddingsRequest(input=value)


def test_the_input_type_selects_the_role() -> None:
    roles = {None: Role.PLAIN, "query": Role.QUERY, "search_query": Role.QUERY, "passage": Role.DOCUMENT}
    for name, role in roles.items():
        assert EmbeddingsRequest.model_validate({"input": "a", "input_type": name}).role is role


def test_defaults_of_a_search() -> None:
    body = SearchRequest(query="a")
    assert (body.query, body.k, body.threshold, body.where, body.hybrid) == (["a"], 10, None, None, False)
    for wrong in ({"k": 0}, {"hybrid_weight": 2.0}, {"threshold": float("inf")}, {"where": {"a": [[1]]}}, {"q": 1}):
        with pytest.raises(ValidationError):
            SearchRequest.model_validate({"query": "a", **wrong})
    with pytest.raises(ValidationError, match="text 2 of 2 is blank"):
        SimilarityRequest(texts=["a", " "])


def test_the_schema_describes_every_key() -> None:
    for schema in (EmbeddingsRequest, SearchRequest, SimilarityRequest):
        assert all(field.description for field in schema.model_fields.values())
