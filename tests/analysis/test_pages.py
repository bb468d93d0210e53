"""The sections of a report say what was found, and are left out where nothing was."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from opencse.analysis import pages
from opencse.analysis.inspection import AnalysisTexts, Findings, Subject, inspect
from opencse.evaluation import EmbeddingModel, ScoredPairs

WORDS = ["cat", "dog", "sun", "rain", "train"]


def letters(texts: Sequence[str]) -> NDArray[np.float64]:
    return np.array([[text.count(letter) for letter in "acdginorstu"] for text in texts], dtype=np.float64)


def lengths(texts: Sequence[str]) -> NDArray[np.float64]:
    return np.array([[len(text), 1.0] for text in texts])


@pytest.fixture(scope="module")
def findings() -> Findings:
    texts = [f"{one} {two}" for one in WORDS for two in WORDS]
    gold = np.array(
        [float(len(set(one.split()) & set(two.split()))) for one, two in zip(texts, texts[3:], strict=False)]
    )
    pairs = ScoredPairs("mine", gold, texts[:-3], texts[3:])
    subjects = [Subject(EmbeddingModel("lengths", lengths)), Subject(EmbeddingModel("letters", letters))]
    return inspect(subjects, AnalysisTexts(pairs=pairs, texts=texts, source="my text"), resamples=50)


def test_the_verdict_names_both_models_and_their_scores(findings: Findings) -> None:
    verdict = pages.lead(findings)
    assert "letters is better than lengths" in verdict
    assert "22 graded pairs (mine)" in verdict


def test_there_is_a_section_for_each_finding_and_none_for_what_is_absent(findings: Findings) -> None:
    titles = [section.title for section in pages.sections(findings)]
    assert titles == [
        "Embedding geometry",
        "Similarity by gold score",
        "Length and overlap bias",
        "What a cosine means on your text",
        "Nearest neighbours",
    ]


def test_advice_compares_models_and_is_empty_for_one(findings: Findings) -> None:
    advice = pages.advice(findings, "runs/letters")
    assert advice is not None
    assert "Take letters where your texts are like these pairs." in advice.body
    assert "opencse evaluate runs/letters" in advice.body
    alone = findings.model_copy(update={"difference": None, "subjects": findings.subjects[:1]})
    assert pages.advice(alone, "runs/lengths") is None
    assert pages.aside(alone) == ""
    assert "22 graded pairs (mine)" in pages.lead(alone)


def test_how_to_load_quotes_the_folder() -> None:
    assert "opencse.load(&#34;my folder&#34;)" in pages.how_to_load("my folder").body
