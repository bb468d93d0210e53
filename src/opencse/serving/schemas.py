"""The bodies of requests, strictly read: unknown keys and other types are refused."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr
from pydantic.json_schema import WithJsonSchema

from opencse.modules.prompts import Role

_TEXT = {"type": "string", "minLength": 1}
_TEXTS = {"type": "array", "items": _TEXT, "minItems": 1}
_IDS = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}


def _is_ids(value: object) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(type(one) is int for one in value)


def _inputs(value: object) -> list[str] | list[list[int]]:
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list) and value:
        if all(isinstance(one, str) for one in value):
            empty = next((place for place, text in enumerate(value) if not text), None)
            if empty is not None:
                raise ValueError(f"text {empty + 1} of {len(value)} is empty; send texts of at least one character")
            return value
        if _is_ids(value):
            return [value]
        if all(_is_ids(one) for one in value):
            return value
    raise ValueError("a text, a list of texts, a list of token ids, or a list of such lists is expected; none is empty")


def _texts(value: object) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(one, str) for one in texts):
        raise ValueError("a text or a list of at least one text is expected")
    blank = next((place for place, text in enumerate(texts, start=1) if not text.strip()), None)
    if blank is not None:
        raise ValueError(f"text {blank} of {len(texts)} is blank")
    return texts


Inputs = Annotated[
    Any,
    BeforeValidator(_inputs),
    WithJsonSchema({"anyOf": [_TEXT, _TEXTS, _IDS, {"type": "array", "items": _IDS, "minItems": 1}]}),
]
Texts = Annotated[Any, BeforeValidator(_texts), WithJsonSchema({"anyOf": [_TEXT, _TEXTS]})]
Scalar = StrictStr | StrictBool | StrictInt | Annotated[StrictFloat, Field(allow_inf_nan=False)] | None


class Body(BaseModel):
    """What every request may say."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: str | None = Field(None, description="Which of the served models; the first without it.")
    truncate: bool | None = Field(
        None, description="Cut texts that are longer than the model reads (true) or refuse them (false)."
    )
    user: str | None = Field(None, description="Taken and not used.")


InputType = Literal["query", "document", "passage", "search_query", "search_document"]
"""The names that other servers have for queries and documents."""


class EmbeddingsRequest(Body):
    """``POST /v1/embeddings``."""

    input: Inputs = Field(description="A text, texts, token ids of one text, or of several.")
    input_type: InputType | None = Field(
        None,
        description="What the texts are for: query or document (also passage, search_query, search_document), each "
        "read with the model's prompt for it; without it, with the model's default prompt, if it has one.",
    )
    encoding_format: Literal["float", "base64"] | None = Field(None, description="base64: float32, little-endian.")
    dimensions: int | None = Field(None, ge=1, description="Keep so many coordinates, and L2-normalise what is left.")

    @property
    def role(self) -> Role:
        """What the texts are for."""
        if self.input_type is None:
            return Role.PLAIN
        return Role.QUERY if self.input_type in ("query", "search_query") else Role.DOCUMENT


class SearchRequest(Body):
    """``POST /search``."""

    query: Texts = Field(description="A query, or several.")
    k: int = Field(10, ge=1, description="Results for each query, at most.")
    threshold: float | None = Field(None, allow_inf_nan=False, description="Lowest score of a result.")
    where: dict[str, Scalar | list[Scalar] | dict[str, Scalar | list[Scalar]]] | None = Field(
        None, description='Metadata of results: {"year": 2020}, {"year": [2020, 2021]} or {"year": {">=": 2020}}.'
    )
    hybrid: bool = Field(False, description="Rank by words (BM25) too.")
    hybrid_weight: float | None = Field(None, ge=0, le=1, description="Share of the vectors in that; half without it.")


class SimilarityRequest(Body):
    """``POST /similarity``."""

    texts: Texts = Field(description="The rows of the matrix.")
    others: Texts | None = Field(None, description="Its columns; the texts themselves without them.")
