"""Questions answered by hybrid search: each weight's score is what a search with that weight gives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opencse.documents.dev_choice import UserQueries
from opencse.documents.hybrid import SHARES, fit_index_to_queries, values_by_share
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.evaluation.retrieval.data import RetrievalTask
from opencse.ranking import Measure
from opencse.search.index import Index
from search_texts import DOCUMENTS, LINES


@pytest.fixture(scope="module")
def index(mini: SentenceEncoder, tmp_path_factory: pytest.TempPathFactory) -> Index:
    rows = [{"text": text, "id": f"d{row}"} for row, text in enumerate(DOCUMENTS)]
    return Index.build(tmp_path_factory.mktemp("index") / "index", rows, mini)


@pytest.fixture
def queries() -> UserQueries:
    """40 documents are asked for by every second word of their first line."""
    texts = [" ".join(line.split()[::2]) for line in LINES[:80:2]]
    ids = [f"d{row}" for row in range(len(DOCUMENTS))]
    judged = [{row: 1} for row in range(40)]
    return UserQueries(RetrievalTask("toy", ids, DOCUMENTS, [f"q{row}" for row in range(40)], texts, judged, 0))


def test_each_weight_scores_as_a_search_with_it(index: Index, mini: SentenceEncoder, queries: UserQueries) -> None:
    measure = Measure.parse("mrr@10")
    texts = queries.task.queries[:5]
    with index.snapshot() as snapshot:
        vectors = snapshot.similarity.prepared(mini.encode(texts))
        values = values_by_share(
            texts,
            vectors,
            snapshot,
            snapshot.keywords,
            lambda number, rows: measure.of_ranking([int(row == number) for row in rows.tolist()], [1]),
        )
    for share in (0, 8, 20):
        hits = index.search(texts, 10, hybrid=True, hybrid_weight=float(SHARES[share]))
        expected = [
            measure.of_ranking([int(hit.id == f"d{number}") for hit in of_query], [1])
            for number, of_query in enumerate(hits)
        ]
        assert values[:, share].tolist() == pytest.approx(expected)


def test_ids_of_other_texts_are_refused(index: Index, mini: SentenceEncoder, queries: UserQueries) -> None:
    task = queries.task
    with index.snapshot() as snapshot:
        later = replace(task, documents=[*DOCUMENTS[1:], DOCUMENTS[0]])  # numbered from another row on
        with pytest.raises(UserError, match=r"40 of 40 relevant documents of toy are other texts .*\('d0' is '"):
            fit_index_to_queries(snapshot, mini, UserQueries(later))
        edited = replace(task, documents=[f"A title. {text}" for text in DOCUMENTS])
        assert fit_index_to_queries(snapshot, mini, UserQueries(edited)).questions == 40
