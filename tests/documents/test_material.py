"""What documents give to train on and to ask about."""

from __future__ import annotations

import pytest

from opencse.documents.material import material_of
from opencse.text.documents import Document
from opencse.text.scripts import normalised
from toy_documents import collection


def in_rows(rows: list[tuple[str, ...]]) -> set[str]:
    return {normalised(text) for row in rows for text in row}


@pytest.mark.slow
def test_titles_and_neighbours_are_trained_on_and_titles_asked_about() -> None:
    documents = collection(800)
    found = material_of(documents)
    assert found.kind == "titles"
    assert found.questions is not None
    assert [questions.kind for questions in found.questions.sets] == ["pairs"]
    asked = {documents[unit].title for unit in found.questions.units}
    assert {(d.title, d.body) for d in documents if d.title not in asked} <= set(found.rows)
    assert (documents[0].sentences[0], documents[0].sentences[1]) in found.rows or documents[0].title in asked
    trained = in_rows(found.rows)
    for document in documents:
        if document.title in asked:
            assert not trained & {normalised(text) for text in (document.title, document.body, *document.sentences)}
    assert 100 <= len(asked) <= 400


def test_passages_are_paired_with_their_sentences_and_rare_words_and_hold_nothing_held_out() -> None:
    documents = [
        Document("", tuple(f"{sentence} common{number % 50} shared{number % 70}." for sentence in document.sentences))
        for number, document in enumerate(collection(400, titled=False))
    ]
    found = material_of(documents)
    assert found.questions is not None
    of_body = {document.body: document for document in documents}
    short = [row for row in found.rows if row[1] in of_body and len(row[0].split()) <= 5]
    assert len(short) == len(found.rows) // 7, "half as many as neighbours, sentences and pairs by words"
    assert all(word in of_body[text].body for query, text in short for word in query.split())
    rests = {document.body.removeprefix(f"{document.sentences[0]} "): document for document in documents}
    assert any(rests[text].sentences[0] == query for query, text in found.rows if text in rests)
    held_out = set(found.questions.units.tolist())
    trained = " ".join(text for row in found.rows for text in row)
    assert len(held_out) > 30
    assert not any(sentence in trained for unit in held_out for sentence in documents[unit].sentences)


@pytest.mark.slow
def test_nothing_is_held_out_where_nothing_asks() -> None:
    documents = collection(900)
    pairs = [(f"question {n} of a user", f"an answer to number {n} of them") for n in range(600)]
    written = [(f"written {n} about it", one.body, f"text-{one.fingerprint}") for n, one in enumerate(documents)]
    asking = material_of(documents, pairs=pairs, written=written)
    material = material_of(documents, pairs=pairs, written=written, asks=False)
    assert asking.questions is not None
    assert material.questions is None
    assert material.many_pairs
    assert asking.many_pairs
    rows = {*material.rows}
    assert len({*asking.rows} & {*pairs}) < 600
    assert {*pairs} < rows
    assert {row[:2] for row in written} < rows
    assert all((one.title, one.body) in rows for one in documents)
    assert not material_of(documents, pairs=pairs[:30], asks=False).many_pairs
