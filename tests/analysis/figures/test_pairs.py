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
    models = {"m": {"0-1": [1.0, 0.0, 0.0], "4-5": [0.0, 0.0, 2.0]}, "narrow": {"0-1": [0.0, 1.0, 0.0]}}
    first, second = densities([0.0, 0.5, 1.0], models)
    assert ">0-1<" in first
    assert ">4-5<" in first
    assert set(re.findall(r">(0\.\d|1\.0)<", first)) == set(re.findall(r">(0\.\d|1\.0)<", second)) > {"0.0", "1.0"}
    assert token_map(["x1", "y2"], [[1.0, 0.2], [0.2, 1.0]], "t").count(">x1<") == 2
