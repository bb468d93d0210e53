"""The sentences nearest to a query by several models, next to each other (SimCSE, section 7 and Table 8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import Field, FiniteFloat

from opencse.errors import UserError
from opencse.evaluation.embedding import SearchEncode, checked
from opencse.modules.similarity import Similarity
from opencse.numerals import number_of
from opencse.progress import SILENT, Say
from opencse.ranking import nearest_rows
from opencse.records import JsonRecord
from opencse.settings import Settings
from opencse.text.scripts import folded

if TYPE_CHECKING:
    from rich.table import Table

ABSENT = "-"


class Neighbour(Settings):
    """One sentence near a query.

    Attributes:
        text: the sentence.
        score: similarity of its vector to the query's, by the model's function.
        percentile: percent of random pairs with a lower cosine, by the model's calibration; None without one.
    """

    text: str
    score: FiniteFloat
    percentile: FiniteFloat | None = None


class QueryNeighbours(Settings):
    """The sentences nearest to one query by each model, the nearest first; at most k."""

    query: str
    models: dict[str, list[Neighbour]]


class Neighbours(JsonRecord):
    """The nearest sentences of some queries, by several models.

    Attributes:
        source: name of the corpus, or None.
        sentences: sentences in the corpus.
        distinct: different ones among them; only these are listed.
        k: sentences requested.
        queries: in the order requested.
        similarity: by model, the function that compares its vectors.
    """

    source: str | None
    sentences: int
    distinct: int
    k: int
    queries: list[QueryNeighbours]
    similarity: dict[str, Similarity] = Field(default_factory=dict)


def compare_neighbours(
    encoders: Mapping[str, SearchEncode],
    corpus: Sequence[str],
    queries: Sequence[str],
    *,
    k: int = 3,
    source: str | None = None,
    percentile_of: Mapping[str, Callable[[float], float]] | None = None,
    similarity_of: Mapping[str, Similarity] | None = None,
    progress: Say = SILENT.say,
) -> Neighbours:
    """Finds the k sentences of a corpus that are most similar to each query, by every model.

    Of sentences that differ only in case or white space the first is listed. The query itself, likewise, is
    left out. Equal scores are in corpus order.

    Args:
        encoders: by label, in the order to show; each is called once, on the distinct queries and sentences.
        corpus: m sentences.
        queries: sentences, in the corpus or not.
        k: how many to list.
        source: recorded in the result.
        percentile_of: by label, for models that are calibrated (``opencse.analysis.calibration``): a cosine -> the
            percent of random pairs below it.
        similarity_of: by label, what vectors are compared by; the cosine for models that are not named.
        progress: called with one line at each step.

    Raises:
        UserError: if a query is blank, or a vector holds NaN or infinite values.
        ValueError: if an encoder does not return an (n, d) array.

    Example:
        >>> from opencse.evaluation.models.words import BagOfWords
        >>> words = BagOfWords().encode
        >>> corpus = ["a cat sleeps", "a dog barks", "the sun"]
        >>> found = compare_neighbours({"words": lambda q, d: (words(q), words(d))}, corpus, ["a cat"], k=1)
        >>> found.queries[0].models["words"][0].text
        'a cat sleeps'
    """
    if not all(query.strip() for query in queries):
        raise UserError("a query is blank; give each a sentence")
    by_key: dict[str, str] = {}
    for text in corpus:
        by_key.setdefault(folded(text), text)
    keys, texts = list(by_key), list(by_key.values())
    progress(f"corpus: {number_of(len(corpus), 'sentence')}, {len(texts):,} of them different")
    compared = {label: (similarity_of or {}).get(label, Similarity.COSINE) for label in encoders}
    lists: dict[str, list[list[Neighbour]]] = {}
    for label, encode in encoders.items():
        lists[label] = _nearest(encode, keys, texts, queries, k, compared[label], (percentile_of or {}).get(label))
        progress(f"{label}: done")
    results = [
        QueryNeighbours(query=query, models={label: neighbours[number] for label, neighbours in lists.items()})
        for number, query in enumerate(queries)
    ]
    return Neighbours(
        source=source, sentences=len(corpus), distinct=len(texts), k=k, queries=results, similarity=compared
    )


def neighbours_table(neighbours: Neighbours) -> Table:
    """Lays out the lists as in SimCSE's Table 8: for each query one row per rank and one column per model."""
    from rich.table import Table
    from rich.text import Text

    labels = list(neighbours.queries[0].models)
    functions = ", ".join(dict.fromkeys(neighbours.similarity.get(label, Similarity.COSINE) for label in labels))
    table = Table(title=f"Nearest of {neighbours.distinct:,} sentences, with {functions}", show_lines=False)
    table.add_column("")
    for label in labels:
        table.add_column(Text(label), overflow="fold")
    for query in neighbours.queries:
        table.add_row("Query", Text(query.query, style="bold"), *[""] * (len(labels) - 1), end_section=True)
        longest = max((len(hits) for hits in query.models.values()), default=0)
        for rank in range(longest):
            cells = [_cell(query.models[label], rank) for label in labels]
            table.add_row(f"#{rank + 1}", *[Text(cell) for cell in cells], end_section=rank == longest - 1)
        if not longest:
            table.add_row("#1", *[ABSENT] * len(labels), end_section=True)
    return table


def _nearest(
    encode: SearchEncode,
    keys: Sequence[str],
    texts: Sequence[str],
    queries: Sequence[str],
    k: int,
    similarity: Similarity,
    percentile_of: Callable[[float], float] | None,
) -> list[list[Neighbour]]:
    distinct_queries = list(dict.fromkeys(queries))
    query_vectors, text_vectors = encode(distinct_queries, texts)
    vectors = checked(distinct_queries, query_vectors).of(queries)
    # One more than requested, since the query itself may be among them and is left out.
    positions, scores = nearest_rows(vectors, checked([*texts], text_vectors).vectors, k + 1, similarity)
    lists = []
    for query, rows, values in zip(queries, positions.tolist(), scores.tolist(), strict=True):
        key = folded(query)
        hits = [(row, value) for row, value in zip(rows, values, strict=True) if keys[row] != key]
        lists.append(
            [
                Neighbour(
                    text=texts[row],
                    score=value,
                    percentile=None if percentile_of is None else percentile_of(value),
                )
                for row, value in hits[:k]
            ]
        )
    return lists


def _cell(hits: list[Neighbour], rank: int) -> str:
    if rank >= len(hits):
        return ABSENT
    hit = hits[rank]
    above = "" if hit.percentile is None else f", above {hit.percentile:.1f} % of random pairs"
    return f"{hit.text} ({hit.score:.3f}{above})"
