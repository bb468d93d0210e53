"""The version of the package."""

from __future__ import annotations

import re

import opencse


def test_the_version_has_three_numbers() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", opencse.__version__)
