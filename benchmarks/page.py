"""Builds the table between the marks of a page in docs/results from its records; draws the picture of one record.

    python benchmarks/page.py docs/results/speed.md docs/results/records/speed-[0-9]*.json
    python benchmarks/page.py docs/results/scale.md docs/results/records/serving-peers.json
    python benchmarks/page.py docs/results/search.md docs/results/records/search-peers.json

`speed.py --json FILE` writes a record of speed; give it a ``processor`` (the column's heading) and ``trains_in`` (the
precision that `opencse train` chooses on that processor). The others are written by serving_peers.py and
search_peers.py.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import search_peers
import serving_peers
from rows import Row

from opencse.analysis.figures.base import AFTER, BEFORE, INK, canvas, standalone, to_svg

BEGIN, END = "<!-- measured -->", "<!-- /measured -->"
_STEPS = {
    "training step, 4 x 256": "training step, random BERT mini",
    "training step, all-MiniLM-L6-v2": "training step, all-MiniLM-L6-v2",
    "training step, 12 x 768": "training step, random BERT base",
    "training step, all-MiniLM-L6-v2, texts of mixed lengths up to 256 ids": "training step, all-MiniLM-L6-v2, "
    "texts of up to 256 ids",
}
_STS = "seven STS tasks, 40 pairs of each file, all-MiniLM-L6-v2"


def wanted_rows() -> list[tuple[str, str]]:
    """The page's rows: a heading, and the name of the record's row; ``{}`` is the precision that training chooses."""
    peer = "compared with sentence-transformers"
    rows = []
    for heading, work in _STEPS.items():
        rows.append((f"**{heading}**: as each trains by default", f"{work}, {{}} {peer} float32"))
        rows.append(("both in bf16", f"{work}, bf16 {peer} bf16"))
        rows.append(("both in float32", f"{work}, float32 {peer} float32"))
    encode = "encode, all-MiniLM-L6-v2, mean"
    return [
        *rows,
        ("**encode**, both in float32 (equal to 2e-7)", f"{encode}, float32 {peer} float32"),
        ("bf16 (cosine .9999) compared with float32", f"{encode}, bf16 {peer} float32"),
        ("**seven STS tasks**, both in float32", f"{_STS}, float32 {peer} + scipy"),
        ("bf16 compared with float32", f"{_STS}, bf16 {peer} + scipy"),
        ("**encode, opencse-mini**, compared with model2vec", "encode, opencse-mini compared with model2vec"),
        ("compared with StaticEmbedding", "encode, opencse-mini compared with StaticEmbedding"),
    ]


def table(records: Sequence[dict[str, Any]]) -> str:
    """One row per work, one column per record (its first of that name; "-" where it has none)."""
    lines = ["| opencse compared with |" + "".join(f" {record['processor']} |" for record in records)]
    lines.append("|---|" + "---:|" * len(records))
    for heading, name in wanted_rows():
        cells = []
        for record in records:
            ratios = [row["ratio"] for row in record["rows"] if row["name"] == name.format(record["trains_in"])]
            cells.append(f" {ratios[0]:.2f}x |" if ratios else " - |")
        lines.append(f"| {heading} |{''.join(cells)}")
    return "\n".join(lines)


TABLES = {"speed": table, "scale": serving_peers.table, "search": search_peers.table}
"""What makes the table of each page, by the page's name."""


def fill(page: Path, records: Sequence[dict[str, Any]]) -> str:
    """The text of a page with its table between the two marks."""
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    return f"{before}{BEGIN}\n\n{TABLES[page.stem](records)}\n\n{END}{rest.split(END)[1]}"


def drawn(rows: Sequence[Row]) -> str:
    """Draws a bar for each row: how many times as fast as the peer, with the middle half of the turns.

    Starts are left out, because an import is not the peer's work.
    """
    rows = [row for row in rows if row.unit != "starts/s"]
    figure, axes = canvas("opencse compared with others", "times as fast", "", width=11, height=0.5 + 0.3 * len(rows))
    for position, row in enumerate(reversed(rows)):
        axes.barh(position, row.ratio, 0.6, color=AFTER)
        axes.plot([row.low, row.high], [position, position], color=INK, linewidth=1)
        axes.annotate(f" {row.ratio:.2f}", (max(row.ratio, row.high), position), va="center", fontsize=7, color=INK)
    axes.axvline(1, color=BEFORE, linewidth=1)
    axes.set_yticks(range(len(rows)), [row.name for row in reversed(rows)], fontsize=7)
    axes.margins(x=0.1)
    return standalone(to_svg(figure))


def main() -> None:
    """Writes the page."""
    page, *records = map(Path, sys.argv[1:])
    loaded = [json.loads(record.read_text(encoding="utf-8")) for record in records]
    page.write_text(fill(page, loaded), encoding="utf-8")


if __name__ == "__main__":
    main()
