"""Charts of pairs: one picture per encoder on one scale, and one row per group or token."""

from __future__ import annotations

import re

from opencse.analysis.figures import densities, gold_against_cosine, token_map


def test_encoders_share_one_scale() -> None:
    pictures = gold_against_cosine([1.0, 5.0], {"a": [0.0, 0.1], "b": [0.5, 1.0]})
    labels = [re.findall(r">(0\.\d|1\.0)<", svg) for svg in pictures]
    assert len(pictures) == 2
    assert labels[0] == labels[1] != []


def test_groups_and_tokens_are_named() -> None:
    svg = densities([0.0, 0.5, 1.0], {"0-1": [1.0, 0.0, 0.0], "4-5": [0.0, 0.0, 2.0]}, "m")
    assert ">0-1<" in svg
    assert ">4-5<" in svg
    assert token_map(["x1", "y2"], [[1.0, 0.2], [0.2, 1.0]], "t").count(">x1<") == 2
