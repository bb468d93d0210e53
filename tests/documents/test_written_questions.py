"""Written questions are trained on, except those about held-out documents, which select."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from opencse.asking.plan import references_of
from opencse.documents.given import WrittenRow, numbers_of_documents, read_written
from opencse.documents.material import material_of
from opencse.errors import UserError
from opencse.text.documents import Document
from opencse.text.scripts import normalised

NOUNS = ["kettle", "valve", "bridge", "violin", "river", "lamp", "map", "bee", "loaf", "salt"]


def corpus(count: int, sentences: int = 3) -> list[Document]:
    return [
        Document(
            f"Title of {NOUNS[n % 10]} number {n}",
            tuple(f"Fact {part} of the {NOUNS[n % 10]} {n} is {n * 31 + part}." for part in range(sentences)),
            f"doc-{n}",
        )
        for n in range(count)
    ]


def about(documents: list[Document], each: int = 2) -> list[WrittenRow]:
    return [
        (f"question {part} on {document.name} please", f"{document.title}\n{document.body}", document.name)
        for document in documents
        for part in range(each)
    ]


@pytest.mark.slow
def test_questions_about_held_out_documents_select_and_no_other_row_has_them() -> None:
    documents = corpus(1200)
    plain, material = material_of(documents), material_of(documents, written=about(documents))
    assert plain.questions is not None
    assert material.questions is not None
    assert [one.queries for one in material.questions.sets[:-1]] == [one.queries for one in plain.questions.sets]
    written = material.questions.sets[-1]
    assert (written.kind, written.label) == ("written", "written questions")
    assert len(written) > 100
    assert not material.questions.from_pairs
    assert not set(written.units) & {unit for one in plain.questions.sets for unit in one.units}
    asked = {query.split()[3] for query in written.queries}
    trained = {row[0].split()[3] for row in material.rows if row[0].startswith("question ")}
    assert asked
    assert trained
    assert not asked & trained, "held out by document"
    assert asked | trained == {document.name for document in documents}
    answers = {query: written.candidates[row] for query, row in zip(written.queries, written.answers, strict=True)}
    for query, answer in list(answers.items())[:20]:
        assert normalised(documents[int(query.split()[3][4:])].body) in normalised(answer)
    assert len(material.rows) > len(plain.rows)
    assert "written questions" in material.facts
    few = material_of(documents[:60], written=about(documents[:60], each=20))
    assert few.questions is not None
    assert 5 < len(set(few.questions.units)) < 20, "about a fifth, where the documents alone would give no questions"


def test_the_file_of_the_command_is_read(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    row = {"question": "Why?", "answer": "So.", "document": "7", "passage": 1, "model": "m", "ranks": {"words": None}}
    path.write_text(f"{json.dumps(row)}\n{json.dumps({**row, 'question': 'How?'})}\n")
    assert read_written(path) == [("Why?", "So.", "7"), ("How?", "So.", "7")], "an id may be a number"
    with pytest.raises(UserError, match="three, question, answer, document"):
        read_written([("Why?", "So.")])
    own = tmp_path / "pairs.csv"
    own.write_text("question,answer\nWhy?,So.\n", encoding="utf-8")
    with pytest.raises(
        UserError, match=r"pairs\.csv: no column 'document'; .*; give a file that .*, or pairs with --pairs"
    ):
        read_written(own)


def test_questions_about_another_corpus_are_refused() -> None:
    with pytest.raises(UserError, match=r"4 of 4 questions are about documents .* 'question 0 .*' about 'doc-7'"):
        material_of(corpus(5), written=about(corpus(9)[7:]))


def test_rows_refer_to_documents_without_ids_by_their_content() -> None:
    documents = [replace(one, name="") for one in corpus(9)]
    rows = [("Why?", one.body, reference) for one, reference in zip(documents, references_of(documents), strict=True)]
    assert numbers_of_documents(rows, documents).tolist() == [*range(9)]
    changed = [*documents[::-1], Document("", ("A new one.",))]
    assert numbers_of_documents(rows, changed).tolist() == [*range(8, -1, -1)]
    edited = [replace(documents[0], sentences=("Other text.",)), *documents[1:]]
    with pytest.raises(UserError, match=r"1 of 9 questions .* run opencse questions with this CORPUS again"):
        numbers_of_documents(rows, edited)
