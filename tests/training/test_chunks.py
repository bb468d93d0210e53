"""Gradient caching: the plain step's gradients, whatever the recipe, and the memory of one chunk."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse.objective.vectors.chunks import WHOLE, Chunks
from steps import NAMES, gap, gradients, prepared

ALL = 10**6


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_the_plain_steps(name: str, tiny_folder: Path, tmp_path: Path, sentences: list[str]) -> None:
    """Without dropout those of all rows at once; with it those of the same chunks with their graphs kept."""
    run = prepared(name, tiny_folder, tmp_path, sentences)
    plain = gradients(run, WHOLE, dropout=False)
    assert any(gradient.abs().max() > 1e-6 for gradient in plain[0].values())
    still = gradients(run, Chunks(5), dropout=False)
    assert gap(still[:-1], plain[:-1]) < 1e-10
    kept = gradients(run, Chunks(5, keep=ALL), dropout=True)
    again = gradients(run, Chunks(5), dropout=True)
    assert gap(again, kept) < 1e-10
    if run.encoder.has_dropout:
        assert gap(kept[:1], plain[:1]) > 1e-4, "dropout was on"
