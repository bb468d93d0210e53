"""Line charts: names are drawn as they are, and only what was measured."""

from __future__ import annotations

import pytest

from opencse.analysis.figures import training_curves


def test_no_picture_of_what_was_not_measured() -> None:
    assert len(training_curves({1: 2.0}, {})) == 1


def test_dollar_signs_and_letters_without_a_glyph_are_drawn_as_they_are(recwarn: pytest.WarningsRecorder) -> None:
    """A token or the name of a folder may hold what matplotlib would read as a formula."""
    from opencse.analysis.figures.lines import lines

    drawn = lines(
        {"m_$a_$": [(0.0, 1.0), (1.0, 2.0)], "$$": [(0.0, 2.0), (1.0, 1.0)]}, "$x", "pay $$", "猫", ticks=["$$", "$a$"]
    )
    for words in ("m_$a_$", "$x", "pay $$", "$a$"):
        assert f">{words}<" in drawn
    assert not [one for one in recwarn.list if "Glyph" in str(one.message)]
