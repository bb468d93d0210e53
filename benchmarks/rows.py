"""What a row of the table of speeds is, and how two sides are timed side by side.

Each turn times both, one right after the other, so that other work on the machine slows both; a ratio is of one turn.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from opencse.environment import Environment, installed
from opencse.kernels.precision import choose_precision

FEWEST = 3
"""Turns of a row, however long they take."""
PEERS = ("sentence-transformers", "model2vec", "tokenizers")


@dataclass(frozen=True)
class Row:
    """One line of the table: the same work by both sides.

    Attributes:
        name: the work, and the peer with its settings.
        ours: median rate of opencse, in ``unit``.
        peer: of the peer.
        ratio: median over the turns of ours compared with the peer's; above 1 opencse is the faster (or the smaller).
        low: first quartile of those ratios.
        high: third quartile.
        unit: of the rates, for instance ``sentences/s``.
        note: what else is to be said, for instance how exact the result is.
    """

    name: str
    ours: float
    peer: float
    ratio: float
    low: float
    high: float
    unit: str
    note: str = ""

    def line(self) -> str:
        """The row in Markdown."""
        spread = f"{self.low:.2f} to {self.high:.2f}"
        return (
            f"| {self.name} | {self.peer:,.4g} | {self.ours:,.4g} {self.unit} | {self.ratio:.2f}x ({spread}) "
            f"| {self.note} |"
        )


HEADER = "| work | peer | opencse | ratio (middle half) | |\n|---|---|---|---|---|"


def paired(
    name: str,
    ours: Callable[[int], object],
    peer: Callable[[int], object],
    *,
    size: float,
    unit: str,
    turns: int,
    note: str = "",
    clock: Callable[[], float] = time.perf_counter,
) -> Row:
    """The row of two sides; see `timed`."""
    return timed(name, {"ours": ours}, peer, size=size, unit=unit, turns=turns, notes={"ours": note}, clock=clock)[0]


def timed(
    name: str,
    ours: dict[str, Callable[[int], object]],
    peer: Callable[[int], object],
    *,
    size: float,
    unit: str,
    turns: int,
    notes: dict[str, str] | None = None,
    clock: Callable[[], float] = time.perf_counter,
    seconds: float = math.inf,
) -> list[Row]:
    """Rows of several of our ways compared with one peer, timed in turn after two turns to warm up.

    Args:
        name: of the rows; ``{}`` in it stands for the way.
        ours: what is timed, by the name of the way; called with the number of the turn.
        peer: the peer's.
        size: pieces of work in one call; the rates are ``size`` by seconds.
        unit: of the rates.
        turns: that count.
        notes: of each way.
        clock: in seconds; `time.process_time` leaves out what other work takes from a shared machine, and is right for
            one thread.
        seconds: after which no further turn begins, once three count.
    """
    times: dict[str, list[float]] = {way: [] for way in ours}
    base: list[float] = []
    began = time.perf_counter()
    for turn in range(-2, turns):
        over = time.perf_counter() - began
        if (turn >= FEWEST and over > seconds) or (turn == -1 and over > seconds / 4):
            continue
        for call, taken in ((peer, base), *((ours[way], times[way]) for way in ours)):
            started = clock()
            call(turn + 2)
            if turn >= 0:
                taken.append(clock() - started)
    return [_row(name.format(way), taken, base, size, unit, (notes or {}).get(way, "")) for way, taken in times.items()]


def _row(name: str, ours: Sequence[float], peer: Sequence[float], size: float, unit: str, note: str) -> Row:
    ratios = [theirs / own for own, theirs in zip(ours, peer, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    return Row(name, size / statistics.median(ours), size / statistics.median(peer), middle, low, high, unit, note)


def machine() -> str:
    """Versions, processor, its arithmetic units, threads and the date, in a line."""
    here = Environment.here("cpu")
    units = [name for name in ("avx2", "avx512_f", "avx512_bf16", "amx_bf16") if torch.cpu.get_capabilities().get(name)]
    versions = [f"{peer} {installed(peer)}" for peer in PEERS if installed(peer)]
    return ", ".join(
        [
            f"{processor()} ({here.cpu_count} cores, {torch.get_num_threads()} threads; {' '.join(units)})",
            f"load {os.getloadavg()[0]:.1f}",
            f"opencse {here.commit}, torch {here.torch}, transformers {here.transformers}",
            *versions,
            f"Python {here.python}, {time.strftime('%Y-%m-%d')}",
        ]
    )


def processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "processor unknown"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "processor unknown")


def write_json(path: Path, rows: Sequence[Row], arguments: dict[str, str]) -> None:
    """Writes the rows, the arguments and the machine; `page.py` makes a column of it."""
    record = {
        "processor": processor(),
        "trains_in": choose_precision("auto", torch.device("cpu")).name,
        "arguments": arguments,
        "machine": machine(),
        "rows": [asdict(row) for row in rows],
    }
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
