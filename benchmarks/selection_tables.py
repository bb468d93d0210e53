"""How each criterion of `selection.py` agrees with the truth, from its records."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from opencse.ranking import Measure

GUARD = "guard (150 graded pairs)"

MEASURES = ("ndcg@10", "mrr@10", "recall@1", "recall@10")
MIXED = {"neighbours and halves": ("neighbours", "halves"), "neighbours and crops": ("neighbours", "crops")}
SHIPPED = {"Running text": "neighbours and halves", "Titles with their texts": "pairs"}
"""What `--dev text` asks of a kind of text; of loose sentences crops."""
LOST = 1.0
"""Points on the general pairs that an encoder may lose and still be kept."""
HARM = 0.3
"""Points of truth below the start that count as a worse model."""
Judged = dict[str, Any]


@dataclass(frozen=True)
class Group:
    """All that one start became on one text."""

    task: str
    start: Judged
    runs: list[tuple[Judged, Judged]]


def load_groups(out: Path) -> list[Group]:
    """The records, by text and start; runs that diverged are left out, since nobody would be offered them."""
    starts: dict[str, Judged] = {}
    runs: dict[str, list[tuple[Judged, Judged]]] = {}
    for path in sorted((out / "records").glob("*.json")):
        record = json.loads(path.read_text())
        if "start" in record:
            starts[path.stem.removesuffix(" start")] = record["start"]
        elif record["end"] is not None and record["half"] is not None:
            runs.setdefault(" ".join(record["case"][:2]), []).append((record["end"], record["half"]))
    return [Group(name.rsplit(" ", 1)[0], starts[name], found) for name, found in sorted(runs.items())]


def worth(judged_: Judged, criterion: str, measure: str) -> float | None:
    """What a criterion says of an encoder; None where the text does not allow it."""
    if criterion == GUARD:
        return float(judged_["guard"])
    if criterion.startswith("alignment of ") or criterion.startswith("uniformity of "):
        what, _, kind = criterion.partition(" of ")
        return -float(judged_[what][kind]) if kind in judged_[what] else None
    kinds_ = MIXED.get(criterion, (criterion,))
    if not all(kind in judged_["ranks"] for kind in kinds_):
        return None
    by = Measure.parse(measure)
    return float(np.mean([by.of_ranks(np.array(judged_["ranks"][kind])).mean() for kind in kinds_]))


def truth(judged_: Judged) -> float:
    """The mean truth of an encoder."""
    return float(np.mean(judged_["truth"]))


def row(groups: list[Group], criterion: str, measure: str, *, guarded: bool = False) -> list[str] | None:
    """How a criterion agrees with the truth, as a line of the table; None where no text allows it.

    ``guarded``: an encoder that lost more than `LOST` on the general pairs is not chosen (the command itself asks that
    it be lost beyond their noise).
    """
    agreed, gains, harms, regrets, decisions, safe = [], [], [], [], 0, 0
    for group in groups:
        before = worth(group.start, criterion, measure)
        if before is None:
            continue
        made = [judged_ for both in group.runs for judged_ in both]
        told = [worth(judged_, criterion, measure) or 0.0 for judged_ in made]
        if len(made) > 3 and len(set(told)) > 1:
            agreed.append(float(spearmanr(told, [truth(judged_) for judged_ in made])[0]))
        for both in group.runs:
            offered = [group.start, *both]
            least = group.start["guard"] - LOST if guarded else -np.inf
            chosen = max(
                (j for j in offered if j["guard"] >= least),
                key=lambda judged_: worth(judged_, criterion, measure) or 0.0,
            )
            gain = truth(chosen) - truth(group.start)
            gains.append(gain)
            regrets.append(max(truth(judged_) for judged_ in offered) - truth(chosen))
            decisions += 1
            if gain < -HARM:
                harms.append(-gain)
            safe += gain > HARM
    if not decisions:
        return None
    harm = f"{np.mean(harms):.1f}" if harms else "-"
    return [
        f"**as shipped: {criterion}, with the guard**" if guarded else criterion,
        measure if criterion != GUARD and " of " not in criterion else "-", f"{len(agreed)}",
        f"{np.mean(agreed):.2f}" if agreed else "-", f"{decisions}", f"{len(harms)}", harm, f"{safe}",
        f"{np.mean(gains):+.2f}", f"{np.mean(regrets):.2f}",
    ]  # fmt: skip


HEAD = [
    "criterion", "measure", "text x start", "Spearman", "choices", "worse than the start", "by", "better", "mean gain",
    "regret",
]  # fmt: skip


def tables(out: Path) -> str:
    """Markdown: a table for each kind of text."""
    groups = load_groups(out)
    sorts = {
        "Running text": [g for g in groups if g.task in ("scifact sentences", "cranfield sentences", "wiki")],
        "Titles with their texts": [g for g in groups if g.task.endswith("titles")],
        "Loose sentences": [g for g in groups if g.task in ("captions", "nli", "trec")],
        "Loose sentences without TREC": [g for g in groups if g.task in ("captions", "nli")],
    }
    lines = []
    for title, chosen in sorts.items():
        if not chosen:
            continue
        there = list(dict.fromkeys(kind for group in chosen for kind in group.start["ranks"]))
        runs = sum(len(group.runs) for group in chosen)
        best = np.mean([max(truth(j) for j in (g.start, *both)) - truth(g.start) for g in chosen for both in g.runs])
        last = [truth(both[0]) - truth(g.start) for g in chosen for both in g.runs]
        lines += [
            f"### {title}",
            "",
            f"{runs} runs, {len(chosen)} texts x starts. Always the trained encoder: mean gain {np.mean(last):+.2f}, "
            f"worse than the start in {sum(x < -HARM for x in last)}. Always the best: {best:+.2f}.",
            "",
            "| " + " | ".join(HEAD) + " |",
            "|" + "---|" * len(HEAD),
        ]
        listed = [(kind, measure) for kind in (*there, *MIXED) for measure in MEASURES]
        listed += [(f"{what} of {kind}", "") for what in ("alignment", "uniformity") for kind in there[:1]]
        rows = [found for kind, measure in [*listed, (GUARD, "")] if (found := row(chosen, kind, measure))]
        if shipped := row(chosen, SHIPPED.get(title, "crops"), "ndcg@10", guarded=True):
            rows.append(shipped)
        rows.sort(key=lambda cells: float(cells[-1]))
        lines += ["| " + " | ".join(cells) + " |" for cells in rows] + [""]
    everything = [group for group in groups if group.runs]
    lines += ["### Forgetting", ""]
    drops = [
        (g.start["guard"] - j["guard"], g.start["sts"] - j["sts"]) for g in everything for both in g.runs for j in both
    ]
    guard, sts = np.array(drops).T
    lines.append(
        f"Over {len(drops)} encoders, the loss on the 150 general pairs and that on STS-B's dev set agree with "
        f"Spearman {spearmanr(guard, sts)[0]:.2f}; of the {int((sts > 1).sum())} that lost more than 1.0 on STS-B, "
        f"{int(((sts > 1) & (guard > 1)).sum())} lost more than 1.0 on the 150 pairs."
    )
    return "\n".join(lines)
