"""What is evaluated is not trained on, whatever a run is chosen by."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import Heard, write_collection
from opencse import UserError
from opencse.documents.dev_choice import Dev, UserQueries
from opencse.runs.run import Run
from opencse.text import sample
from opencse.text.given import GivenTexts
from opencse.text.readers import Source
from opencse.text.scripts import normalised
from opencse.training.questions import Guard, Questions
from opencse.training.selection import GradedPairSelector, TrainedTexts

pytestmark = pytest.mark.in_full

PAIRS = Source(str(sample.PAIRS)).read().rows


def test_letter_case_and_punctuation_do_not_count() -> None:
    trained = TrainedTexts.among([("A dog.",), ("The sun", "..."), ("a",)], ["A dog.", "  a DOG!", "...", "dog"])
    found = [text in trained for text in ("A dog.", "  a DOG!", "A dog barks.", "dog", "...")]
    assert found == [True, True, False, False, True]
    pairs = TrainedTexts.among([("A", "B", "C"), ("D", "E")], ["a", "b", "c", "d", "e"])
    assert [pairs.pair("b", "A"), pairs.pair("C", "b"), pairs.pair("a", "d")] == [True, True, False]


def prepared(text: GivenTexts | Source, model: Path) -> tuple[Run, Questions, list[str]]:
    """A run chosen by questions from its text."""
    lines = Heard()
    settings = ("training.max_steps=1", "training.batch_size=4", "training.precision=float32")
    recipe = "simcse-supervised" if text.read().width > 1 else "simcse"
    made = Run(text=text, recipe=recipe, model=str(model), settings=settings, dev="text").open(lines)
    assert isinstance(made.selector, Questions)
    return made, made.selector, lines.said


def test_a_few_general_questions_that_are_trained_on_are_not_asked(tiny_folder: Path) -> None:
    own = [(f"The lamp number {n} is lit at dusk.", f"At dusk somebody lights lamp {n}.") for n in range(600)]
    shared = [*PAIRS[:3], (PAIRS[5][1], "An own text.")]
    _, selector, lines = prepared(GivenTexts((*own, *shared)), tiny_folder)
    assert selector.guard is not None
    assert len(Guard.built_in()) == len(PAIRS)
    assert 0 < len(PAIRS) - len(selector.guard) < 40
    trained = {normalised(text) for row in shared for text in row}
    assert not trained & {normalised(text) for text in selector.guard.questions.texts()}
    assert [line for line in lines if "general questions are also in the training text and are ignored" in line]


@pytest.mark.slow
@pytest.mark.parametrize("file", [sample.TRAIN, sample.PAIRS])
def test_rows_that_are_trained_and_rows_that_are_asked_about_are_disjoint(file: Path, tiny_folder: Path) -> None:
    made, selector, _ = prepared(Source(str(file)), tiny_folder)
    rows = Source(str(file)).read().rows
    trained = {normalised(text) for row in set(made.inputs.cells[:, :, 0].ravel().tolist()) for text in rows[row]}
    asked = {normalised(text) for text in selector.held_out()}
    assert len(trained) > 500
    assert len(asked) > 100
    assert trained & asked == set()


def beir(folder: Path, queries: list[str]) -> Path:
    documents = {f"d{n}": f"Document number {n} tells of things." for n in range(len(queries))}
    asked = {f"q{n}": query for n, query in enumerate(queries)}
    return write_collection(folder, documents, asked, zip(asked, documents, [1] * len(asked), strict=True), "dev")


def test_queries_that_are_trained_on_do_not_choose(tmp_path: Path) -> None:
    queries = UserQueries.read(beir(tmp_path / "beir", ["How hot?", "How cold?", "How wet?"]))
    rows = [("how cold", "Quite."), ("Document number 0 tells of things.", "x")]
    left, lines = queries.without(TrainedTexts.among(rows, queries.forbidden_texts()))
    assert isinstance(left, UserQueries)
    assert left.task.queries == ["How hot?", "How wet?"]
    assert left.task.judged == [{0: 1}, {2: 1}]
    assert left.fingerprint() != queries.fingerprint()
    assert lines == ["queries    1 of 3 queries are also in the training text and are ignored"]
    with pytest.raises(UserError, match="all 3 queries are also in the training text"):
        queries.without(TrainedTexts.among([(query,) for query in queries.task.queries], queries.forbidden_texts()))


def test_graded_pairs_that_are_trained_on_as_pairs_do_not_choose() -> None:
    dev = Dev.of("sample").open(GivenTexts((("a",), ("b",))))
    assert isinstance(dev, GradedPairSelector)
    first, second = dev.pairs.first, dev.pairs.second
    texts = dev.forbidden_texts()
    assert dev.without(TrainedTexts.among([(first[0],), (second[0],)], texts)) == (dev, [])
    rows = [(second[0], first[0]), (first[1], second[1], "a negative")]
    left, lines = dev.without(TrainedTexts.among(rows, texts))
    assert isinstance(left, GradedPairSelector)
    assert left.pairs.first == first[2:]
    assert lines == ["pairs      2 of 150 graded pairs are also in the training text and are ignored"]
    with pytest.raises(UserError, match="so they cannot select"):
        dev.without(TrainedTexts.among(zip(first, second, strict=True), texts))
