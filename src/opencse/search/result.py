"""What an index returns: hits of a search, its description, and the recall of an approximate one."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from opencse.modules.similarity import HybridWeight
from opencse.text.files.kinds import Reading, typed


@dataclass(frozen=True)
class Hit:
    """A row that a search found.

    Example:
        >>> Hit("7", 0.83, "A cat sleeps.", {"year": 2020}).metadata["year"]
        2020

    Attributes:
        id: the id of the row, or of the document that the text is a passage of.
        score: similarity to the query by the model's function; in a hybrid search the weighted mean of both scaled
            scores, in [0, 1].
        text: the text of the row; of a document its best passage.
        metadata: by column; None where a row has no value.
        copies: ids of the next hits, which have the same text and are not shown again.
        similarity: to the query by the model's function, where ``score`` is another number: in a hybrid search.
    """

    id: str
    score: float
    text: str
    metadata: Mapping[str, object] = field(default_factory=dict)
    copies: tuple[str, ...] = ()
    similarity: float | None = None


class SearchResult(list[list[Hit]]):
    """The hits of each query, best first, and what their scores are.

    Example:
        >>> result = SearchResult([[Hit("7", 0.83, "A cat sleeps.")]], "cosine", "english")
        >>> result[0][0].id, result.score, result.language
        ('7', 'cosine', 'english')

    Attributes:
        score: what hits are scored by: the name of the similarity, or ``hybrid score``.
        similarity: name of the similarity.
        language: whose word stems a hybrid search compares; None: no stemming.
    """

    def __init__(self, hits: Iterable[list[Hit]], score: str, language: str | None, similarity: str = "cosine") -> None:
        super().__init__(hits)
        self.score, self.language, self.similarity = score, language, similarity


@dataclass(frozen=True)
class IndexInfo(Reading):
    """Describes an index.

    Attributes:
        folder: path of the index.
        similarity: how vectors are compared: cosine, dot, euclidean or manhattan.
        kind: flat or hnsw.
        rows: number of texts; of documents their passages.
        documents: number of different ids.
        dimension: the dimension of a vector.
        model: name or folder from which the encoder was loaded when the index was built.
        fingerprint: the fingerprint of that encoder; only an encoder with the same one may be used for queries.
        pooling: replaces the model's own pooling, or None.
        query_prompt: prefix of queries.
        document_prompt: prefix of the texts of the index.
        columns: the columns of metadata, each with the type of its values: number, text or mixed.
        max_length: tokens of the longest passage; None: texts are not split.
        overlap: tokens that two neighbouring passages of a document may share.
        version: number of changes.
        megabytes: size of the vectors.
        language: whose word stems a hybrid search compares; None: no stemming.
        precision: in which the texts were encoded: float32 or bf16.
        hybrid: weight of the vectors in a hybrid search, and what it was fitted on.
        encoded_dimension: the dimension of the model's vectors, whose first ``dimension`` are kept; None: all are.
        fields: names of the title and text that it was built with; None: the usual ones. `add` reads the same.
        ids: name of the id that it was built with; None: ``_id``, if there is one.
        keep_code: whether it was given when the index was built, as the further fields of `Reading`.
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
    precision: str = "float32"
    hybrid: HybridWeight = field(default_factory=HybridWeight)
    encoded_dimension: int | None = None
    fields: Sequence[str] | None = None
    ids: str | None = None

    @property
    def dimensions(self) -> str:
        """How many dimensions the vectors have, in words."""
        of_all = "" if self.encoded_dimension is None else f"the first {self.dimension} of {self.encoded_dimension}"
        return f"{of_all or self.dimension} dimensions"

    @property
    def reading(self) -> str:
        """The options of the build that say how files are read, as they are typed; empty without any."""
        ids = () if self.ids is None else ("--id", self.ids)
        return shlex.join((*typed({"fields": self.fields, **self.how}), *ids))


@dataclass(frozen=True)
class Recall:
    """The share of the exact search's first k hits that the index finds among its first k.

    Example:
        >>> Recall({1: 0.995, 10: 0.98}, 200).line()
        'recall@1 0.9950, recall@10 0.9800 against the exact search (200 texts of the index, each without itself)'

    Attributes:
        at: recall by k, in [0, 1].
        queries: how many texts of the index were searched for, each removed from its own hits.
    """

    at: dict[int, float]
    queries: int

    def line(self) -> str:
        """Describes the measurement in one line."""
        values = ", ".join(f"recall@{k} {value:.4f}" for k, value in self.at.items())
        return f"{values} against the exact search ({self.queries:,} texts of the index, each without itself)"
