"""Questions from a held-out share of the training text."""

from __future__ import annotations

import pytest

from opencse import SentenceEncoder
from opencse.adapting.text_questions import text_questions
from opencse.text.readers import Texts


def running(documents: int = 300) -> Texts:
    rows: list[tuple[str, ...]] = [
        (f"The {d} sheep of farm {d} ate {s} apples at {d} o'clock.",) for d in range(documents) for s in range(4)
    ]
    return Texts(rows, [n // 4 for n in range(len(rows))], "text")


@pytest.mark.slow
def test_kinds_of_questions_weigh_the_same() -> None:
    found = text_questions(running())
    assert found is not None
    assert [questions.kind for questions in found.sets] == ["neighbours"], "60 documents are too few to ask for halves"
    found = text_questions(running(1_500))
    assert found is not None
    assert [questions.kind for questions in found.sets] == ["neighbours", "halves"]
    encoder = SentenceEncoder.load(device="cpu")
    values = found.values(encoder)
    by_kind = found.parts(values)
    assert values.mean() == pytest.approx(sum(by_kind.values()) / 2)
    assert len(values) == len(found.units) == sum(len(questions) for questions in found.sets)
    assert by_kind["neighbours"] != pytest.approx(by_kind["halves"])
