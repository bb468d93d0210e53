"""Fills the templates of this folder's pages."""

from __future__ import annotations

from pathlib import Path

import jinja2


def filled(template: str, **values: object) -> str:
    """The text of a template of this folder with its values; a value that is missing is an error."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False)
    return environment.from_string((Path(__file__).parent / template).read_text(encoding="utf-8")).render(values)
