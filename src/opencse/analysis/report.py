"""Writes a report as one self-contained HTML page: without scripts or requests, light and dark, for any screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from opencse.analysis.figures.base import distinct_ids, themed
from opencse.errors import printable
from opencse.markdown import without_home
from opencse.records import save_text

if TYPE_CHECKING:
    from jinja2 import Environment


@dataclass(frozen=True)
class ReportSection:
    """A section of a page: its title as plain text, and its body as made by the functions here."""

    title: str
    body: Markup


def paragraph(text: str, kind: str = "") -> Markup:
    """Makes a paragraph of plain text.

    Args:
        text: plain text.
        kind: ``muted``, ``verdict``, ``verdict better``, ``verdict worse`` or empty.
    """
    return _markup(_parts().paragraph(text, kind))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    """Makes a table of plain texts, scrolled sideways where it is too wide."""
    return _markup(_parts().table(head, rows))


def figure(svg: str, caption: str = "") -> Markup:
    """Makes a picture (SVG text) in the page's colours, with plain text under it."""
    return _markup(_parts().figure(Markup(distinct_ids(themed(svg))), caption))


def figures(*pictures: Markup) -> Markup:
    """Places pictures side by side where there is room."""
    return _markup(_parts().figures(pictures))


def quote(text: str) -> Markup:
    """Makes a quotation of plain text."""
    return _markup(_parts().quote(text))


def code(text: str) -> Markup:
    """Makes a block of code."""
    return _markup(_parts().code(text))


def steps(items: Sequence[tuple[str, str]]) -> Markup:
    """Makes a list of plain texts, each with the command that does it, where there is one."""
    return _markup(_parts().steps(items))


def folded(summary: str, body: Markup) -> Markup:
    """Folds ``body`` behind a line of plain text that opens it."""
    return _markup(_parts().folded(summary, body))


def write_report(path: Path, title: str, lead: Markup, sections: Sequence[ReportSection]) -> None:
    """Writes the page, atomically.

    Args:
        path: of the page.
        title: plain text.
        lead: shown under the title.
        sections: the parts, in order.

    Raises:
        UserError: if it cannot be written.
    """
    page = _templates().get_template("page.html").render(title=title, lead=lead, sections=sections)
    save_text(path, printable(without_home(page) + "\n", keep="\n\t"))


@cache
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("opencse.analysis")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def _parts() -> Any:  # noqa: ANN401 - the macros of a template have no types
    return _templates().get_template("parts.html").module


def _markup(part: object) -> Markup:
    return Markup(part)
