"""The site: links lead to where it has a page."""

from __future__ import annotations

from pathlib import Path

import pytest

import helpers


@pytest.mark.parametrize(
    ("written", "place", "link", "wanted"),
    [
        ("guides/train.md", "guides/train.md", "parts.md#b", "parts.md#b"),  # the guide of that name
        ("guides/train.md", "guides/train.md", "../parts.md", "../reference/parts.md"),
        ("design.md", "design.md", "parts.md", "reference/parts.md"),
        ("recipes.md", "methods/index.md", "guides/parts.md#b", "../guides/parts.md#b"),
        ("recipes.md", "methods/index.md", "recipes.md", "index.md"),
        ("parts.md", "reference/parts.md", "recipes.md#a", "../methods/index.md#a"),
    ],
)
def test_links_lead_to_where_the_site_has_a_page(written: str, place: str, link: str, wanted: str) -> None:
    pytest.importorskip("mkdocs")
    site = helpers.script(Path(__file__).parents[1] / "docs" / "site.py")
    text = "See [it]({}), [elsewhere](https://host/parts.md) and [here](#b)."
    assert site.relocated(text.format(link), written, place) == text.format(wanted)
