"""What an index tells: hits, and what it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Hit:
    """A row that was found.

    Attributes:
        id: of the row, or of the document that the text is a passage of.
        score: similarity to the query by the model's function; of a hybrid search the weighted mean of both scores, in
            [0, 1].
        text: the row's; of a document the best passage.
        metadata: by column; None where a row has no value.
    """

    id: str
    score: float
    text: str
    metadata: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class IndexInfo:
    """What an index is.

    Attributes:
        folder: where it is.
        similarity: what vectors are compared by: cosine, dot, euclidean or manhattan.
        kind: flat, hnsw or ivfpq.
        rows: texts in it; of documents their passages.
        documents: different ids.
        dimension: of a vector.
        model: what the encoder was loaded by when the index was built.
        fingerprint: of that encoder; only an encoder with the same one may query.
        pooling: what replaced the model's own, or None.
        query_prompt: put before queries.
        document_prompt: put before the texts of the index.
        columns: metadata, by name the kind of its values: number, text or mixed.
        max_length: ids of the longest passage; None: texts are not cut.
        overlap: ids that two passages of a document may share.
        version: counts the changes.
        megabytes: of the vectors.
        language: whose stems words are reduced to in a hybrid search; None: words are as they are.
    """

    folder: str
    kind: str
    rows: int
    documents: int
    dimension: int
    model: str
    fingerprint: str
    pooling: str | None
    query_prompt: str
    document_prompt: str
    columns: Mapping[str, str]
    max_length: int | None
    overlap: int
    version: int
    megabytes: float
    similarity: str = "cosine"
    language: str | None = None
