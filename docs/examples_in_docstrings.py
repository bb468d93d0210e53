"""Lets the reference show the examples of docstrings as code: an extension of griffe, which mkdocs.yml names.

Griffe recognises examples under the heading "Examples:", the docstrings have "Example:".
"""

from __future__ import annotations

import re
from typing import Any

import griffe


class ExamplesInDocstrings(griffe.Extension):
    """Writes the heading that griffe recognises."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:  # noqa: ANN401 - griffe's further arguments
        """Called for every object that was loaded."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"(?m)^Example:$", "Examples:", obj.docstring.value)
