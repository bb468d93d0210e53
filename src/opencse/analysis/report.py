"""One self-contained HTML page: no script, no request, light and dark, readable on a phone."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opencse.analysis.figures.base import themed
from opencse.errors import printable
from opencse.records import write_text

_STYLE = """
:root { color-scheme: light dark; --bg: #ffffff; --panel: #f6f8fa; --ink: #243b53; --muted: #5f7388; --line: #d5dee7;
  --before: #8593a1; --after: #0b7285; --third: #c05621; --series-3: #6b46c1; --series-4: #2f855a; --series-5: #b83280;
  --series-6: #975a16; --good: #1c7c54; --bad: #b3341f; }
@media (prefers-color-scheme: dark) { :root { --bg: #10171e; --panel: #18222c; --ink: #dbe5ee; --muted: #94a6b8;
  --line: #2c3a48; --before: #8b9aa9; --after: #45c4d8; --third: #f0925c; --series-3: #b497f5; --series-4: #63cf9a;
  --series-5: #ee83bd; --series-6: #dcb25c; --good: #63cf9a; --bad: #ff8a75; } }
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--bg); max-width: 60rem;
  margin: 0 auto; padding: 2.2rem 1.1rem 4rem; overflow-wrap: break-word; }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0 0 .3rem; }
h2 { font-size: 1.15rem; margin: 2.6rem 0 .7rem; padding-top: .9rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; }
p { margin: .5rem 0; } a { color: var(--after); }
.verdict { font-size: 1.2rem; line-height: 1.45; margin: .9rem 0; padding: .8rem 1rem; background: var(--panel);
  border-left: 4px solid var(--muted); border-radius: 0 .4rem .4rem 0; }
.verdict.better { border-color: var(--good); } .verdict.worse { border-color: var(--bad); }
.scroll { overflow-x: auto; margin: .6rem 0; }
table { border-collapse: collapse; font-size: .93rem; }
td, th { padding: .32rem 1.1rem .32rem 0; text-align: left; vertical-align: top; }
th { font-weight: 600; border-bottom: 1px solid var(--line); white-space: nowrap; }
td { border-bottom: 1px solid color-mix(in srgb, var(--line) 55%, transparent);
  font-variant-numeric: tabular-nums; }
tr:last-child td { border-bottom: 0; }
.figures { display: flex; flex-wrap: wrap; gap: 1rem 1.4rem; margin: .8rem 0; }
figure { margin: 0; flex: 1 1 20rem; max-width: 30rem; min-width: 0; }
figure.wide { flex-basis: 100%; max-width: 100%; overflow-x: auto; } figure.wide svg { min-width: 34rem; }
figcaption { color: var(--muted); font-size: .87rem; margin-top: .1rem; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--ink); }
blockquote { margin: 1rem 0 .2rem; padding-left: .8rem; border-left: 3px solid var(--after); font-style: italic; }
code, pre { font: .88rem/1.5 ui-monospace, monospace; background: var(--panel); border-radius: .3rem; }
code { padding: .1rem .3rem; } pre { padding: .8rem 1rem; overflow-x: auto; } pre code { padding: 0; }
details { margin: .6rem 0; } summary { cursor: pointer; color: var(--muted); }
.muted { color: var(--muted); font-size: .9rem; }
@media print { h2 { break-after: avoid; } figure, tr { break-inside: avoid; } }
"""


@dataclass(frozen=True)
class Section:
    """A headed part of the page; ``body`` is HTML."""

    title: str
    body: str


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph of plain text (escaped here); ``kind`` is ``muted``, ``verdict``, ``verdict better`` or none."""
    return f'<p class="{kind}">{html.escape(text)}</p>' if kind else f"<p>{html.escape(text)}</p>"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An HTML table of plain texts (escaped here), scrolled sideways where it is too wide."""
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def figure(svg: str, caption: str = "", *, wide: bool = False) -> str:
    """A picture in the page's colours, with plain text under it (escaped here)."""
    under = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
    return f"<figure{' class=wide' if wide else ''}>{themed(svg)}{under}</figure>"


def figures(*pictures: str) -> str:
    """Pictures side by side where there is room."""
    return f'<div class="figures">{"".join(pictures)}</div>'


def code(text: str) -> str:
    """A block of code (escaped here)."""
    return f"<pre><code>{html.escape(text)}</code></pre>"


def folded(summary: str, body: str) -> str:
    """``body`` (HTML) behind a line of plain text that opens it."""
    return f"<details><summary>{html.escape(summary)}</summary>{body}</details>"


def write_report(path: Path, title: str, lead: str, sections: Sequence[Section]) -> None:
    """Writes the page, in full or not at all.

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
    write_text(path, printable(page, keep="\n\t"))
