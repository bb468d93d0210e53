"""What an index returns: hits of a search, its description, and the recall of an approximate one."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pydantic import Field

from opencse.kernels.precision import PrecisionName
from opencse.modules.similarity import HybridWeight, Similarity
from opencse.settings import Settings
from opencse.text.files.kinds import typed


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


class IndexFacts(Settings):
    """What is stored about an index, and what of it is reported.

    Attributes:
        version: number of changes so far.
        model: name or folder of the encoder; empty for an encoder that was passed as an object.
        fingerprint: of the encoder; only one with the same fingerprint may be used. See `opencse.encoder.fingerprint`.
        pooling: replaces the model's own pooling, or None.
        precision: in which the texts are encoded.
        query_prompt: prefix of queries.
        document_prompt: prefix of the texts of the index.
        dimension: the dimension of a vector.
        encoded_dimension: the dimension of the model's vectors, whose first ``dimension`` are kept; None: all are.
        similarity: how vectors are compared; the model's function.
        kind: flat or hnsw.
        rows: number of texts; of documents their passages.
        columns: the columns of metadata, each with the type of its values: number, text or mixed.
        max_length: tokens of the longest passage; None: texts are not split.
        overlap: tokens that two neighbouring passages of a document may share.
        language: whose word stems a hybrid search compares; None: no stemming.
        fields: names of the title and text that it was built with (``--fields``); None: the usual ones. `add` reads the
            same, as for the following.
        ids: name of the id that it was built with (``--id``); None: ``_id``, if there is one.
        keep_code: whether it was given when the index was built, as the further fields of `Reading`.
    """

    version: int = 0
    model: str
    fingerprint: str
    pooling: str | None = None
    precision: PrecisionName = "float32"
    query_prompt: str = ""
    document_prompt: str = ""
    dimension: int
    encoded_dimension: int | None = None
    similarity: Similarity = Similarity.COSINE
    kind: str = "flat"
    rows: int = 0
    columns: dict[str, str] = Field(default_factory=dict)
    max_length: int | None = None
    overlap: int = 0
    language: str | None = None
    fields: tuple[str, ...] | None = None
    ids: str | None = None
    read_as: str | None = None
    keep_code: bool = False
    keep_repeated: bool = False
    quoted: bool = False
    pages: bool = False


class IndexInfo(IndexFacts):
    """Describes an index.

    Attributes:
        folder: path of the index.
        documents: number of different ids.
        megabytes: size of the vectors.
        hybrid: weight of the vectors in a hybrid search, and what it was fitted on.
    """

    folder: str
    documents: int
    megabytes: float
    hybrid: HybridWeight = HybridWeight()

    @property
    def dimensions(self) -> str:
        """How many dimensions the vectors have, in words."""
        of_all = "" if self.encoded_dimension is None else f"the first {self.dimension} of {self.encoded_dimension}"
        return f"{of_all or self.dimension} dimensions"

    @property
    def reading(self) -> str:
        """The options of the build that say how files are read, as they are typed; empty without any."""
        ids = () if self.ids is None else ("--id", self.ids)
        return shlex.join((*typed(vars(self)), *ids))


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
