"""Who is kept: the best by the questions, noise or not, unless it forgot; and what the verdict says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pytest

from opencse import SentenceEncoder
from opencse.arrays import Floats, Integers
from opencse.training.questions import Guard, Questions
from opencse.training.selection import DevScore, History


@dataclass(eq=False)
class Fixed(Questions):
    """Questions whose values are told beforehand: a fake encoder is its values."""

    name = "made-up questions"
    source = "nowhere"
    count = "4 questions"
    own_words: bool = False
    unknown = "nothing is known"

    @property
    def units(self) -> Integers:
        return np.arange(4)

    def held_out(self) -> list[str]:
        return []

    def content(self) -> list[object]:
        return [self.name]

    def values(self, encoder: SentenceEncoder) -> Floats:
        return np.array(cast("Sequence[float]", encoder), dtype=np.float64)

    def parts(self, values: Floats) -> dict[str, float]:
        return {"first": float(values[0])}


def as_encoder(*values: float) -> SentenceEncoder:
    return cast("SentenceEncoder", values)


def never() -> bool:
    raise AssertionError("asked although the scores tell")


def verdict_of(chooser: Questions, history: History) -> str:
    return chooser.choose(history, 20, None, never).verdict


def test_a_gain_has_the_error_of_its_questions() -> None:
    chooser = Fixed()
    first = chooser.begin(as_encoder(10, 20, 30, 40))
    assert (first.value, first.error, first.forgets) == (25.0, 0.0, False)
    found = chooser.score(as_encoder(20, 20, 30, 50))
    assert found.value == 30.0
    assert found.error == pytest.approx(np.std([10, 0, 0, 10], ddof=1) / 2)
    assert found.record() == {"dev": 30.0, "dev_error": found.error, "dev_first": 20.0}


def test_noise_does_not_go_to_the_start_and_is_told() -> None:
    chooser = Fixed()
    history = History()
    history.add(0, chooser.begin(as_encoder(10, 20, 30, 40)))
    history.add(5, chooser.score(as_encoder(40, 0, 30, 34)))
    assert history.best_step == 5
    verdict = verdict_of(chooser, history)
    assert verdict.startswith(
        "the model of step 5 is kept: nDCG@10 of 4 questions from nowhere 25.00 before, 26.00 now"
    )
    assert "(+1.00, 95% interval -" in verdict
    assert "may be noise" in verdict
    history.add(10, chooser.score(as_encoder(20, 31, 40, 50)))
    assert "may be noise" not in verdict_of(chooser, history)
    assert verdict_of(chooser, history).endswith("nothing is known")


def test_the_start_is_kept_where_it_answers_best() -> None:
    chooser = Fixed()
    history = History({0: chooser.begin(as_encoder(10, 20, 30, 40)), 5: chooser.score(as_encoder(9, 20, 30, 40))})
    assert verdict_of(chooser, history) == (
        "the start is kept unchanged: no trained encoder answers better (nDCG@10 of 4 questions from nowhere: "
        "start 25.00, best of training 24.75 at step 5)"
    )


def test_what_loses_in_other_words_is_not_kept_however_much_it_gained() -> None:
    chooser = Fixed()
    history = History({0: DevScore(50.0, guard=60.0)})
    assert not history.add(5, DevScore(90.0, guard=20.0, guard_error=1.0, forgets=True))
    assert chooser.choose(history, 5, None, never).kept == "start"
    assert "that share few words with their answers) (60.00 before, 20.00 after)" in verdict_of(chooser, history)
    assert history.add(10, DevScore(55.0, guard=59.0, guard_error=1.0, share=0.5)), "an average that does not lose"
    verdict = verdict_of(chooser, history)
    assert verdict.startswith("the model of step 10, averaged with the start (50% trained), is kept: ")
    assert "answers) 60.00 before, 59.00 now (-1.00, 95% interval -2.96 to +0.96, so it may be noise)" in verdict


def test_a_text_that_asks_about_itself_is_not_believed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Guard.of_pairs((f"question {n}", f"answer {n}") for n in range(9))
    general = np.arange(9.0)
    monkeypatch.setattr(Guard, "values", lambda guard, encoder: general + float(encoder[1]))
    for own_words, change, kept in ((True, -2, "start"), (True, -0.5, "best"), (True, 1, "best"), (False, -2, "best")):
        for guard in (watch, None):
            chooser = Fixed(own_words=own_words, guard=guard)
            history = History({0: chooser.begin(as_encoder(10, 20, 30, 40))})
            history.add(5, chooser.score(as_encoder(40, 20 + change, 30, 40)))
            choice = chooser.choose(history, 5, None, never)
            assert choice.kept == (kept if guard else "best")
            assert ("in other words" in choice.verdict) == (guard is not None)
            assert ("from nowhere, in its words" in choice.verdict) == own_words
            told = choice.kept == "best" and guard is not None and change < 0
            assert ("queries in other words than your documents' may find less" in choice.verdict) == told
