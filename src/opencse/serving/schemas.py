"""The JSON bodies of requests; unknown keys and wrong types are refused."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr
from pydantic.json_schema import WithJsonSchema

from opencse.modules.prompts import Role

_TEXT = {"type": "string", "minLength": 1}
_TEXTS = {"type": "array", "items": _TEXT, "minItems": 1}
_IDS = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}


def _is_ids(value: object) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(type(item) is int for item in value)


def _inputs(value: object) -> list[str] | list[list[int]]:
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list) and value:
        if all(isinstance(item, str) for item in value):
            empty = next((number for number, text in enumerate(value) if not text), None)
            if empty is not None:
                raise ValueError(f"text {empty + 1} of {len(value)} is empty; send texts of at least one character")
            return value
        if _is_ids(value):
            return [value]
        if all(_is_ids(item) for item in value):
            return value
    raise ValueError("give a text, a list of texts, a list of token ids, or a list of such lists; none of them empty")


def _texts(value: object) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(item, str) for item in texts):
        raise ValueError("give a text, or a list of at least one text")
    blank = next((number for number, text in enumerate(texts, start=1) if not text.strip()), None)
    if blank is not None:
        raise ValueError(f"text {blank} of {len(texts)} is blank; send texts with at least one letter")
    return texts


Inputs = Annotated[
    Any,
    BeforeValidator(_inputs),
    WithJsonSchema({"anyOf": [_TEXT, _TEXTS, _IDS, {"type": "array", "items": _IDS, "minItems": 1}]}),
]
RequestTexts = Annotated[Any, BeforeValidator(_texts), WithJsonSchema({"anyOf": [_TEXT, _TEXTS]})]
Scalar = StrictStr | StrictBool | StrictInt | Annotated[StrictFloat, Field(allow_inf_nan=False)] | None


class Body(BaseModel):
    """The keys that every request may have."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: str | None = Field(None, description="Name of the model; by default the first one.")
    truncate: bool | None = Field(
        None, description="Truncate texts that are longer than the model reads (true) or refuse them (false)."
    )
    user: str | None = Field(None, description="Accepted and ignored.")


InputType = Literal["query", "document", "passage", "search_query", "search_document"]
"""The names of queries and documents, other servers' names included."""


class EmbeddingsRequest(Body):
    """The body of ``POST /v1/embeddings``.

    Example:
        >>> body = EmbeddingsRequest(input="A cat sleeps.", input_type="query")
        >>> body.input, body.role.value
        (['A cat sleeps.'], 'query')
    """

    input: Inputs = Field(description="A text, texts, token ids of one text, or of several.")
    input_type: InputType | None = Field(
        None,
        description="Role of the texts: query or document (also passage, search_query, search_document), which selects "
        "the model's prompt; by default its default prompt, if it has one.",
    )
    encoding_format: Literal["float", "base64"] | None = Field(None, description="base64: float32, little-endian.")
    dimensions: int | None = Field(None, ge=1, description="Keep the first dimensions only, and L2-normalise them.")

    @property
    def role(self) -> Role:
        """The role of the texts, which selects the prompt."""
        if self.input_type is None:
            return Role.PLAIN
        return Role.QUERY if self.input_type in ("query", "search_query") else Role.DOCUMENT


class SearchRequest(Body):
    """The body of ``POST /search``.

    Example:
        >>> SearchRequest(query="sleeping cats", where={"year": {">=": 2020}}).k
        10
    """

    query: RequestTexts = Field(description="A query, or several.")
    k: int = Field(10, ge=1, description="Number of results for each query.")
    threshold: float | None = Field(
        None, allow_inf_nan=False, description="Lowest score of a result; of re-ranked ones that of the cross-encoder."
    )
    where: dict[str, Scalar | list[Scalar] | dict[str, Scalar | list[Scalar]]] | None = Field(
        None, description='Metadata of results: {"year": 2020}, {"year": [2020, 2021]} or {"year": {">=": 2020}}.'
    )
    hybrid: bool = Field(False, description="Rank by keywords (BM25) and vectors together.")
    hybrid_weight: float | None = Field(
        None, ge=0, le=1, description="Weight of the vectors in a hybrid search; by default that of the index."
    )
    rerank: bool | None = Field(
        None, description="Re-rank by the server's cross-encoder; by default where the server has one."
    )
    rerank_depth: int | None = Field(
        None, ge=1, description="Results of each query that are re-ranked, at least k; by default the server's."
    )


class SimilarityRequest(Body):
    """The body of ``POST /similarity``.

    Example:
        >>> SimilarityRequest(texts=["a cat", "a dog"]).others is None
        True
    """

    texts: RequestTexts = Field(description="The rows of the matrix.")
    others: RequestTexts | None = Field(None, description="Its columns; by default the same texts.")
