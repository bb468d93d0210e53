"""Draws how rates change as the work grows, each curve from its record; what was not recorded is left out.

python benchmarks/growth.py docs/results/records docs/results/figures/growth.svg
"""

from __future__ import annotations

import json
import math
import re
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opencse.analysis.figures.base import coloured, new_figure, standalone, to_svg

Curve = list[tuple[float, float]]
"""(size of the work, rate), by size."""
_SIZES = {"": 1.0, "MB": 1.0, "GB": 1_000.0}
_ACROSS = 3
_PEER = ", FAISS"


@dataclass(frozen=True)
class Panel:
    """One of the small pictures: curves by their names, on logarithmic axes."""

    title: str
    xlabel: str
    ylabel: str
    curves: dict[str, Curve]


def panels(records: Path) -> list[Panel]:
    """The pictures that the records in a folder give, those without a curve left out."""
    scale, speed = _read(records / "scale.json"), _read(records / "speed.json")
    search, serving = _read(records / "search-peers.json"), _read(records / "serving-clients.json")
    every = [
        Panel("Training, by batch", "batch", "examples/s", _training(scale)),
        Panel("Training, by length", "ids of a text", "ids/s", {"bf16": _column(speed, "length", 2)}),
        Panel("Tokenising, by corpus", "MB", "rows/s", {"tokenise": _column(scale, "text", 4)}),
        Panel("Encoding, by corpus", "sentences", "sentences/s", {"opencse-mini": _column(scale, "sentences", 2)}),
        Panel("Search, by rows", "rows of the index", "queries/s", _searches(search)),
        Panel("Server, by clients", "clients", "requests/s", _servers(serving)),
    ]
    drawable = []
    for panel in every:
        curves = {name: curve for name, curve in panel.curves.items() if curve}
        if curves:
            drawable.append(Panel(panel.title, panel.xlabel, panel.ylabel, curves))
    return drawable


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record


def _tables(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for section in record.get("sections", []):
        yield from section.get("tables", [])


def _column(record: dict[str, Any], first: str, column: int) -> Curve:
    """The numbers of a column, by those of the first; of the first table whose first column has that name."""
    for table in _tables(record):
        if table["columns"][0] == first:
            return [(number(row[0]), number(row[column])) for row in table["rows"]]
    return []


def _training(record: dict[str, Any]) -> dict[str, Curve]:
    """Examples per second of a step, whole and in chunks, of cells such as "564 MiB, 1.4 s"."""
    for table in _tables(record):
        if table["columns"][0] == "batch":
            curves = {}
            for column, name in enumerate(table["columns"][1:], start=1):
                timed = [(number(row[0]), row[column].rpartition(", ")[2]) for row in table["rows"]]
                curves[name] = [(batch, batch / number(seconds)) for batch, seconds in timed if seconds != "-"]
            return curves
    return {}


def number(cell: str) -> float:
    """The number that a cell begins with, sizes in MB: ``2 GB`` is 2,000.

    >>> number("8,755"), number("2 GB"), number("1.4 s")
    (8755.0, 2000.0, 1.4)
    """
    match = re.match(r"([\d,.]+)\s*(MB|GB|)", cell)
    if match is None:
        raise ValueError(f"{cell!r} begins with no number")
    return float(match[1].replace(",", "")) * _SIZES[match[2]]


def _searches(record: dict[str, Any]) -> dict[str, Curve]:
    curves: dict[str, Curve] = {}
    for row in record.get("rows", []):
        for side, key in (("opencse", "ours"), ("FAISS", "peer")):
            curves.setdefault(f"{row['kind']}, {side}", []).append((row["rows"], row["one"][key]))
    return curves


def _servers(record: dict[str, Any]) -> dict[str, Curve]:
    rates: dict[str, dict[int, list[float]]] = {}
    for row in record.get("rows", []):
        name = row["server"] + (f", {row['settings']}" if row["settings"] else "")
        rates.setdefault(name, {}).setdefault(row["clients"], []).append(row["rate"])
    return {
        name: [(clients, statistics.median(several)) for clients, several in sorted(of_clients.items())]
        for name, of_clients in rates.items()
    }


def _family(name: str) -> str:
    """What the curve of FAISS and ours have in common."""
    return name.removesuffix(_PEER).removesuffix(", opencse")


def drawn(shown: Sequence[Panel]) -> str:
    """The panels as one picture, three in a row; FAISS's curves are dashed."""
    down = -(-len(shown) // _ACROSS)
    figure = new_figure(3.6 * min(_ACROSS, len(shown)), 2.8 * down)
    grid = figure.subplots(down, min(_ACROSS, len(shown)), squeeze=False)
    for axes, panel in zip(grid.flat, shown, strict=False):
        axes.set(title=panel.title, xlabel=panel.xlabel, ylabel=panel.ylabel, xscale="log", yscale="log")
        colours = {family: colour for colour, family, _ in coloured(dict.fromkeys(map(_family, panel.curves)))}
        for name, curve in panel.curves.items():
            style = "--" if name.endswith(_PEER) else "-"
            axes.plot(
                *zip(*curve, strict=True), style, color=colours[_family(name)], marker="o", markersize=3, label=name
            )
        points = [point for curve in panel.curves.values() for point in curve]
        sizes, rates = sorted({size for size, _ in points}), [rate for _, rate in points]
        middle, span = math.sqrt(min(rates) * max(rates)), max(4 * max(rates) / min(rates), 101)
        axes.set_ylim(middle / math.sqrt(span), middle * math.sqrt(span))  # a level rate looks level
        if max(sizes) < 100 * min(sizes):
            axes.set_xticks(sizes)
            axes.set_xticks([], minor=True)
    for axes in list(grid.flat)[len(shown) :]:
        figure.delaxes(axes)
    return standalone(to_svg(figure, {"fontsize": 6, "handlelength": 3}))


def main() -> None:
    """Writes the picture."""
    records, picture = map(Path, sys.argv[1:])
    picture.write_text(drawn(panels(records)), encoding="utf-8")


if __name__ == "__main__":
    main()
