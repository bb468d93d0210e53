"""One self-contained HTML page about a run."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opencse.errors import UserError

_STYLE = """
body { font: 16px/1.55 system-ui, sans-serif; color: #243b53; max-width: 880px; margin: 2.5rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
table { border-collapse: collapse; } td, th { padding: .3rem .9rem .3rem 0; text-align: left; vertical-align: top; }
th { font-weight: 600; border-bottom: 1px solid #bcccdc; } td.n { font-variant-numeric: tabular-nums; }
.big { font-size: 1.35rem; font-weight: 650; color: #0b7285; } .muted { color: #627d98; font-size: .9rem; }
svg { width: 100%; height: auto; } blockquote { margin: .4rem 0; font-style: italic; }
"""


@dataclass(frozen=True)
class Section:
    """A headed part of the page; ``body`` is HTML."""

    title: str
    body: str


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An HTML table of plain texts (escaped here)."""
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    body = "".join(
        "<tr>" + "".join(f'<td class="n">{html.escape(cell)}</td>' for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def write_report(path: Path, title: str, lead: str, sections: Sequence[Section]) -> None:
    """Writes the page.

    Args:
        path: of the page.
        title: plain text.
        lead: HTML shown under the title.
        sections: the parts, in order.

    Raises:
        UserError: if it cannot be written.
    """
    parts = "".join(f"<section><h2>{html.escape(s.title)}</h2>{s.body}</section>" for s in sections)
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><h1>{html.escape(title)}</h1>{lead}{parts}</body></html>\n"
    )
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error})") from None
