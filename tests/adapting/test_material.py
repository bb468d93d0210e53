"""What documents and given pairs leave to train on and to ask about."""

from __future__ import annotations

import random

import pytest

from opencse import UserError
from opencse.adapting.holdout import normalised
from opencse.adapting.material import TIMES, material_of
from opencse.text.documents import Document


def collection(count: int, sentences: int = 4, titled: bool = True) -> list[Document]:
    draw = random.Random(2)

    def some(words: int) -> str:
        return " ".join(f"w{draw.randint(0, 5_000)}" for _ in range(words))

    return [Document(some(4) if titled else "", tuple(f"{some(8)}." for _ in range(sentences))) for _ in range(count)]


def in_rows(rows: list[tuple[str, ...]]) -> set[str]:
    return {normalised(text) for row in rows for text in row}


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


def test_documents_without_titles_give_neighbours() -> None:
    found = material_of(collection(400, titled=False))
    assert found.kind == "neighbours"
    assert found.questions is not None
    assert found.questions.sets[0].kind == "neighbours"
    assert not in_rows(found.rows) & {normalised(query) for query in found.questions.sets[0].queries}


def test_a_repeated_text_of_a_held_out_document_is_not_trained_on() -> None:
    documents = collection(800)
    asked = material_of(documents).questions
    assert asked is not None
    victim = documents[int(asked.units[0])]
    copy = Document(f"{victim.title.upper()}!", ("Something else is said here.", victim.sentences[1], "And more yet."))
    found = material_of([*documents, copy])
    trained = in_rows(found.rows)
    assert normalised(victim.title) not in trained
    assert normalised(victim.sentences[1]) not in trained


def test_loose_sentences_are_trained_on_by_themselves() -> None:
    found = material_of(collection(900, sentences=1, titled=False))
    assert found.kind == "sentences"
    assert found.questions is not None
    assert all(len(row) == 1 for row in found.rows)


def test_few_documents_allow_no_questions() -> None:
    found = material_of(collection(20))
    assert found.questions is None
    assert found.kind == "titles"
    assert in_rows(found.rows) >= {normalised(document.title) for document in collection(20)}, "nothing is held out"
    with pytest.raises(UserError, match="fewer than two pairs or sentences to train on"):
        material_of([Document("", ("One only.",))])


def some_pairs(count: int) -> list[tuple[str, str]]:
    draw = random.Random(3)
    return [
        (f"q{n} " + " ".join(f"w{draw.randint(0, 99)}" for _ in range(6)), f"an answer a{n} of {n}")
        for n in range(count)
    ]


def test_enough_pairs_are_asked_about_and_no_document_is_held_out() -> None:
    documents, pairs = collection(800), some_pairs(600)
    found, alone = material_of(documents, pairs=pairs), material_of(documents)
    assert found.kind == "titles"
    assert found.questions is not None
    assert alone.questions is not None
    asked = {query for questions in found.questions.sets for query in questions.queries}
    assert 100 <= len(asked) <= 120
    assert (found.questions.source, alone.questions.source) == ("held-out pairs", "held-out text")
    assert asked < {question for question, _ in pairs}
    assert {f"{d.title} {d.body}" for d in documents} < set(found.questions.sets[0].candidates)
    assert not asked & {text for row in found.rows for text in row}, "no question is learned by heart"
    trained = [row for row in found.rows if row in pairs]
    assert set(trained) == {pair for pair in pairs if pair[0] not in asked}
    assert {(d.title, d.body) for d in documents} <= set(found.rows), "all documents are trained on"
    times = len(trained) / len(set(trained))
    rest = len(found.rows) - len(trained)
    assert times == min(TIMES, rest // len(set(trained)))
    assert 1 < times < TIMES
    assert f"{len(set(trained)):,} given pairs, {times:.0f} times each" in found.facts


def test_few_pairs_are_all_trained_on_and_documents_asked_about() -> None:
    documents, pairs = collection(800), some_pairs(40)
    found, alone = material_of(documents, pairs=pairs), material_of(documents)
    assert found.questions is not None
    assert alone.questions is not None
    assert found.questions.fingerprint() == alone.questions.fingerprint()
    own = alone.rows[: len(found.rows) - len(pairs) * TIMES]
    assert found.rows == own + pairs * TIMES
    assert len(own) * 2 >= len(alone.rows) > len(own), "pairs by shared words stand beside documents alone"


def test_a_title_that_is_a_question_held_out_is_not_trained_on() -> None:
    documents, pairs = collection(800), some_pairs(600)
    plain = material_of(documents, pairs=pairs).questions
    assert plain is not None
    query = plain.sets[0].queries[0]
    found = material_of(
        [*documents, Document(f"{query.upper()}!", ("A body of some words.", "And much more here."))], pairs=pairs
    )
    assert normalised(query) not in in_rows(found.rows)
    assert normalised("A body of some words.") in in_rows(found.rows), "its neighbouring sentences are"


def test_beside_pairs_loose_sentences_are_not_trained_on() -> None:
    found = material_of(collection(900, sentences=1, titled=False), pairs=some_pairs(40))
    assert {len(row) for row in found.rows} == {2}
    assert found.rows == some_pairs(40) * TIMES
    assert found.facts.endswith("training on 40 given pairs, 10 times each")


def test_text_without_spaces_between_words_is_no_shorter_for_it() -> None:
    draw = random.Random(5)

    def some(characters: int) -> str:
        return "".join(chr(draw.randint(0x4E00, 0x5E00)) for _ in range(characters))

    documents = [Document(some(8), tuple(f"{some(14)}。" for _ in range(4))) for _ in range(700)]
    found = material_of(documents)
    assert found.kind == "titles"
    assert found.questions is not None
    assert len(found.questions.sets[0]) >= 100
    loose = material_of([Document("", (some(14),)) for _ in range(900)])
    assert loose.questions is not None
    assert loose.questions.sets[0].kind == "crops"
