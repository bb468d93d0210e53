"""The demo evaluates on texts that no run has seen."""

from __future__ import annotations

import csv
import io

from opencse.api.demo import EXAMPLES, split_sample
from opencse.evaluation import read_scored_pairs
from opencse.text import sample
from opencse.text.scripts import normalised


def test_what_the_demo_evaluates_on_is_not_trained_on() -> None:
    """Texts, pairs and questions: none of those evaluated is in the text or the pairs that are written for training."""
    parts = split_sample()
    pairs = [text for row in csv.reader(io.StringIO(parts.pairs.decode())) for text in row]
    trained = {normalised(text) for text in (*parts.text.splitlines(), *pairs)}
    graded = read_scored_pairs(sample.TEST)
    asked = [text for query in parts.queries for text in query]
    assert len(parts.queries) > 100
    assert len(trained) > 4_000
    evaluated = {normalised(text) for text in (*asked, *EXAMPLES, *graded.first, *graded.second)}
    assert trained & evaluated == set()
    whole = {normalised(line) for line in sample.TRAIN.read_text().splitlines() if line}
    assert {normalised(answer) for _, answer in parts.queries} <= whole, "what is asked for is among what is searched"
