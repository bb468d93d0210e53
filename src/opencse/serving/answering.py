"""The answers of the server's routes that compute: embeddings, search and similarity."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from fastapi import Response

from opencse.modules.prompts import Role
from opencse.modules.similarity import Similarity, first_of, unit_rows
from opencse.numerals import number_of
from opencse.serving.errors import ApiError
from opencse.serving.request_body import answer
from opencse.serving.schemas import EmbeddingsRequest, SearchRequest, SimilarityRequest
from opencse.serving.served_model import ServedModel, TokenizedTexts
from opencse.serving.service import Service


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
