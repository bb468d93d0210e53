"""What a comparison writes into its folder."""

from __future__ import annotations

from opencse.studies.files import WRITTEN


def test_the_files_of_a_comparison() -> None:
    assert WRITTEN == ("comparison.json", "comparison.md", "comparison.svg", "grid.svg")
