"""The form of the pages: links lead to headings that exist, and a heading is a paragraph of its own."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = {
    path.resolve(): re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
}


def anchors_of(page: str) -> set[str]:
    """The anchors that GitHub makes of the headings of a page."""
    anchors: Counter[str] = Counter()
    names = set()
    for heading in re.findall(r"^#+ (.*)$", page, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\s-]", "", plain.lower()).strip().replace(" ", "-")
        names.add(f"{name}-{anchors[name]}" if anchors[name] else name)
        anchors[name] += 1
    return names


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_to_headings(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", PAGES[page]):
        linked = (page.parent / target).resolve() if target else page
        if "://" not in target and linked.suffix == ".md":
            assert anchor in anchors_of(PAGES[linked]), f"{target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_heading_has_a_blank_line_above(page: Path) -> None:
    assert re.findall(r"^.*\S.*\n#+ .*$", PAGES[page], re.MULTILINE) == []


def test_the_anchors_are_githubs() -> None:
    page = "# One, two\n\n## `simcse`\n\n## simcse++\n\n## [A link](x.md) here?\n"
    assert anchors_of(page) == {"one-two", "simcse", "simcse-1", "a-link-here"}
