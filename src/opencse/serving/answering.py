"""Answers requests: what their bodies hold, and what is sent back."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr
from pydantic.json_schema import WithJsonSchema

from opencse.modules.prompts import Role
from opencse.modules.similarity import Similarity, first_of, unit_rows
from opencse.numerals import number_of
from opencse.serving.requests import ApiError, answer
from opencse.serving.served_model import ServedModel, TokenizedTexts
from opencse.serving.service import Service

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


async def embeddings(service: Service, body: EmbeddingsRequest) -> Response:
    """Returns the vectors of texts.

    Raises:
        ApiError: for an unknown model, too many texts, or dimensions that the model does not have.
    """
    model = service.model(body.model)
    dimension = model.encoder.dimension
    if body.dimensions is not None and body.dimensions > dimension:
        message = f"dimensions: {model.name} has {dimension}, not {str(body.dimensions)[:20]}"
        raise ApiError(400, message, param="dimensions")
    if body.input_type is not None and not isinstance(body.input[0], str):
        message = "input_type: token ids get no prompt; send texts, or leave input_type out"
        raise ApiError(400, message, param="input_type")
    texts = await _tokens(service, model, body.input, body.role, body.truncate)
    vectors = await model.vectors(texts)
    if body.dimensions is not None:
        vectors = unit_rows(first_of(vectors, body.dimensions))
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


async def search(service: Service, body: SearchRequest) -> Response:
    """Returns the texts of an index that are most similar to each query, re-ranked if the request says so.

    Raises:
        ApiError: for an unknown index or re-ranker, too many texts, or too many hits.
    """
    model, index = service.index(body.model)
    if body.k > service.limits.hits:
        raise ApiError(400, f"k: at most {service.limits.hits:,} results per query; ask for fewer", param="k")
    reranker = service.reranker_for(body.rerank, body.rerank_depth)
    first = body.k if reranker is None else reranker.hits(len(body.query), body.k, body.rerank_depth)
    texts = await _tokens(service, model, body.query, Role.QUERY, body.truncate)
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
                | ({"copies": list(hit.copies)} if hit.copies else {})
                | ({} if hit.similarity is None else {"similarity": float(hit.similarity)})
                for hit in hits
            ],
        }
        for i, hits in enumerate(results)
    ]
    by = {} if reranker is None else {"reranked_by": reranker.name}
    return await answer({"object": "list", "data": data, "model": model.name} | by | _usage(texts))


async def similarity(service: Service, body: SimilarityRequest) -> Response:
    """Returns the similarity of every text with every other.

    Raises:
        ApiError: for an unknown model, or too many pairs.
    """
    model = service.model(body.model)
    others = body.others or []
    rows, columns = len(body.texts), len(others) or len(body.texts)
    if rows * columns > service.limits.pairs:
        most = service.limits.pairs
        message = f"{rows:,} x {columns:,} similarities are more than the {most:,} of one request; send fewer texts"
        raise ApiError(400, message, code="too_many_pairs")
    texts = await _tokens(service, model, [*body.texts, *others], Role.PLAIN, body.truncate)
    vectors, function = await model.vectors(texts), model.encoder.similarity_fn_name
    matrix = function.matrix(vectors[:rows], vectors[rows:] if others else vectors)
    if function is Similarity.COSINE:
        matrix = np.clip(matrix, -1, 1)
    content = {
        "object": "similarity", "function": function.value, "matrix": matrix.tolist(), "model": model.name,
    } | _usage(texts)  # fmt: skip
    return await answer(content, matrix.size)


async def _tokens(
    service: Service, model: ServedModel, texts: Sequence[Any], role: Role, truncate: bool | None
) -> TokenizedTexts:
    """Tokenises the texts of a request, which may not be too many."""
    most = service.limits.texts
    if len(texts) > most:
        sent = number_of(len(texts), "text is", "texts are")
        message = f"{sent} more than the {most:,} of one request; send them in several requests"
        raise ApiError(400, message, code="too_many_texts")
    prompt = model.encoder.prompts.of(role)
    return await model.read(texts, prompt=prompt, truncate=service.cut if truncate is None else truncate)


def _usage(texts: TokenizedTexts) -> dict[str, Any]:
    """The part of an answer that counts tokens and lists truncated texts."""
    return {"usage": {"prompt_tokens": texts.tokens, "total_tokens": texts.tokens}, "truncated": texts.truncated}
