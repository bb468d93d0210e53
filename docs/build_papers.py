"""Writes docs/results/papers.md, the papers' tables beside ours, and its pictures.

    python docs/build_papers.py [--systems FOLDER] [--combination FOLDER] [--second FOLDER] [--sweeps FOLDER]

The folders are those of the comparisons made with benchmarks/studies/papers.toml, papers-combination.toml, papers.toml
with encoder.layers=3, and papers-sweeps.toml; the scores of those that are given are put into docs/results/papers.json
first, from which alone the page is made. Sweeps are added to those there, so that further seeds may be run elsewhere; a
run that is there is replaced.
"""

from __future__ import annotations

import argparse
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from papers_tables import BASE, COMBINATION, DEV, STS, SYSTEMS, TABLES, Table

from opencse.analysis.figures import standalone
from opencse.analysis.figures.lines import lines
from opencse.evaluation import spearman
from opencse.records import write_json, write_text
from opencse.statistics import PairedSeeds, after_holm, brief, paired_bootstrap, paired_seeds, summary
from opencse.studies.record import StudyRecord
from opencse.studies.running import read_arrays
from opencse.studies.study import folder_name

RESULTS = Path(__file__).with_name("results")
PAGE, SCORES, FIGURES = RESULTS / "papers.md", RESULTS / "papers.json", RESULTS / "figures"
VERDICTS = Path(__file__).with_name("papers_verdicts.toml")
Seeds = Mapping[int, float]
Kept = Mapping[str, Mapping[str, object]]


_INTRODUCTION = """# The papers' tables, in shape

Do the published systems and ablations behave on another network as they did on BERT-base? Not the same numbers, but
where the peak is, what collapses, what is harmless.

**The start** is not an unsupervised model: it is the backbone of all-MiniLM-L6-v2 (BERT, 6 layers x 384), **which was
tuned on sentence pairs, cut after five of its six layers and read at [CLS]**. There it behaves as BERT does before
SimCSE: nearly all cosines are near 1, and it scores {dev:.2f} on STS-B dev and {start:.2f} on the seven STS
tasks. Nothing here says how good a model one gets; the uncut model is far better.

**The systems** ran {systems_budget} ({chosen}), and are scored on the seven STS tasks (Spearman x 100, `all`,
mean of the seven), which nothing was chosen on, and on STS-B's 1,500 development pairs. **The ablations**
{sweeps_budget}, scored on the development pairs alone. What is scored is the last step's encoder; no checkpoint
is chosen. The other systems have SimCSE's settings, as in their papers, and the recipes' own everywhere else. SimCSE,
ESimCSE and SimCSE++ print their ablations on the same pairs; SSCL and the thesis print averages over the seven tasks.

    head -16000 DATA/wiki/wiki100k.txt > wiki16k.txt
    opencse compare wiki16k.txt --study benchmarks/studies/papers.toml --starts MINILM --data DATA --out SYSTEMS
    opencse compare wiki16k.txt --study benchmarks/studies/papers-combination.toml --starts MINILM --data DATA --out TWO
    opencse compare wiki16k.txt --study benchmarks/studies/papers-sweeps.toml --starts MINILM --data DATA --out SWEEPS
    python docs/build_papers.py --systems SYSTEMS --combination TWO --sweeps SWEEPS

MINILM is the backbone as a plain transformers folder: with a modules.json its own mean pooling would be taken instead
of [CLS].
The papers' runs have about 15,600 steps at a third to a tenth of the rate: what only shows late cannot show here.
{made}"""


_NOTE = (
    "Mean ± standard deviation over seeds; differences are paired by seed, with half their 95% interval, p after "
    'Holm over the column. "Over other pairs": at how many seeds the model is above or below SimCSE beyond what '
    "other sentence pairs would bring (STS-B dev, paired bootstrap, 95%). Published gains are each paper's over "
    "the SimCSE it compares with, on BERT-base, on the seven tasks."
)


def gather(
    systems: Path | None, combination: Path | None, sweeps: Path | None, second: Path | None = None
) -> dict[str, object]:
    """The scores of the comparisons whose folders are given."""
    found: dict[str, object] = {}
    for name, folder in (("systems", systems), ("combination", combination), ("second", second)):
        if folder is not None:
            found |= {name: scores_of(folder, STS), f"{name}_dev": scores_of(folder, DEV)}
    if sweeps is not None:
        found["sweeps"] = scores_of(sweeps, DEV)
    return found


def scores_of(out: Path, metric: str) -> dict[str, object]:
    """One metric of a comparison's folder: the start's score, and those of the runs by recipe and seed."""
    found = [StudyRecord.read(path.parent) for path in sorted(out.glob("runs/*/*/*/record.json"))]
    runs = [record for record in found if record is not None and metric in record.results]
    starts = [StudyRecord.read(path.parent) for path in out.glob("starts/*/*/record.json")]
    start = next(one for one in starts if one is not None)
    scores: dict[str, dict[int, float]] = {}
    for run in runs:
        if run.recipe is not None and run.seed is not None:
            scores.setdefault(run.recipe, {})[run.seed] = round(run.results[metric], 4)
    environment = start.environment.model_dump(mode="json")
    folders = {(run.recipe, run.seed): path for run in runs for path in [_folder(out, run)]}
    compared = {(name, BASE) for name in (*SYSTEMS, *COMBINATION)} | {
        (name, table.base) for table in TABLES for _, name in table.rows
    }
    over_pairs: dict[str, dict[int, list[float]]] = {}
    for recipe, base in sorted(compared) if metric == DEV else ():
        for seed in scores.get(recipe, {}).keys() & scores.get(base, {}).keys() if recipe != base else ():
            interval = _over_pairs(folders[recipe, seed], folders[base, seed])
            if interval is not None:
                over_pairs.setdefault(f"{recipe} beside {base}", {})[seed] = [round(end, 2) for end in interval]
    return {
        "metric": metric,
        "start": round(start.results[metric], 4),
        "scores": {name: dict(sorted(own.items())) for name, own in sorted(scores.items())},
        "over_pairs": {name: dict(sorted(own.items())) for name, own in over_pairs.items()},
        "environment": {key: environment[key] for key in ("python", "torch", "transformers") if environment.get(key)},
        "date": f"{max(run.created for run in runs):%Y-%m-%d}",
    }


def added(there: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """The scores of both, by recipe and seed; of a run that is in both, those of ``found``."""
    both = {**there, "date": max(there["date"], found["date"])}
    for part in ("scores", "over_pairs"):
        old, new = there[part], found[part]
        joined = {name: _by_seed(old.get(name, {})) | _by_seed(new.get(name, {})) for name in sorted(old | new)}
        both[part] = {name: dict(sorted(own.items())) for name, own in joined.items()}
    return both


def _by_seed(own: Mapping[Any, object]) -> dict[int, object]:
    return {int(seed): value for seed, value in own.items()}


def _folder(out: Path, run: StudyRecord) -> Path:
    return out / "runs" / folder_name(run.start) / folder_name(str(run.recipe)) / str(run.seed)


def _over_pairs(ours: Path, theirs: Path) -> tuple[float, float] | None:
    """95% interval of one model's score minus another's over other sentence pairs; None where no pairs were kept."""
    a, b = read_arrays(ours, "dev"), read_arrays(theirs, "dev")
    if not a or not b:
        return None
    return paired_bootstrap(a["stsb.gold"], a["stsb.cosine"], b["stsb.cosine"]).interval


class Found:
    """The scores, and what can be said of them."""

    def __init__(self, kept: Mapping[str, object]) -> None:
        """``kept``: see `scores_of`, as JSON has it."""
        self.kept = kept
        scores: Mapping[str, Mapping[str, float]] = kept["scores"]  # type: ignore[assignment]
        self.scores: dict[str, Seeds] = {
            name: {int(seed): value for seed, value in own.items()} for name, own in scores.items()
        }
        self.start = float(kept["start"])  # type: ignore[arg-type]

    def beside(self, recipe: str, base: str) -> PairedSeeds | None:
        """A recipe minus another, at the seeds that both have."""
        if recipe not in self.scores or base not in self.scores:
            return None
        return paired_seeds(self.scores[recipe], self.scores[base])

    def adjusted(self, recipes: Sequence[str], base: str) -> dict[str, PairedSeeds]:
        """Each of them but ``base`` minus it, with p after Holm over all."""
        beside = {name: one for name in recipes if name != base and (one := self.beside(name, base)) is not None}
        return after_holm(beside)

    def over_pairs(self, recipe: str, base: str) -> str:
        """At how many seeds the model is beyond the base's for other pairs too: ``2 above of 3``, ``none of 1``."""
        kept: Mapping[str, Mapping[str, Sequence[float]]] = self.kept.get("over_pairs", {})  # type: ignore[assignment]
        intervals = list(kept.get(f"{recipe} beside {base}", {}).values())
        above, below = sum(low > 0 for low, _ in intervals), sum(high < 0 for _, high in intervals)
        if not intervals:
            return ""
        words = [f"{count} {word}" for count, word in ((above, "above"), (below, "below")) if count]
        return f"{' and '.join(words) or 'none'} of {len(intervals)}"

    def mean(self, recipe: str) -> str:
        """Mean, and standard deviation where there are several seeds."""
        own = summary(list(self.scores[recipe].values()))
        return f"{own.mean:.2f}" if own.sd is None else f"{own.mean:.2f} ± {own.sd:.2f}"


def page(kept: Kept, verdicts: Mapping[str, str]) -> str:
    """The whole page in Markdown."""
    systems, dev, found = (Found(kept[part]) for part in ("systems", "systems_dev", "sweeps"))
    parts_made = {"Systems": ("systems", systems), "Ablations": ("sweeps", found)}
    if "combination" in kept:
        parts_made["Combination"] = ("combination", Found(kept["combination"]))
    if "second" in kept:
        parts_made["Another start"] = ("second", Found(kept["second"]))
    told = [f"{label}: {made(one, verdicts[f'{name}_machine'])}" for label, (name, one) in parts_made.items()]
    introduction = _INTRODUCTION.format(
        start=systems.start,
        dev=dev.start,
        chosen=verdicts["chosen"],
        systems_budget=verdicts["systems_budget"],
        sweeps_budget=verdicts["sweeps_budget"],
        made=" ".join(f"{one}." for one in told),
    )
    tables = [table for table in TABLES if len(_known(table, found)) > 1]
    parts = [introduction, "## What holds", verdicts["summary"], "## The systems", _systems(systems, dev, SYSTEMS)]
    parts += [_NOTE, verdicts.get("systems", "")]
    if "combination" in kept:
        combined, combined_dev = parts_made["Combination"][1], Found(kept["combination_dev"])
        parts += ["## A combination", _systems(combined, combined_dev, COMBINATION), verdicts.get("combination", "")]
    if "second" in kept:
        second, second_dev = parts_made["Another start"][1], Found(kept["second_dev"])
        parts += ["## Another start", _systems(second, second_dev, SYSTEMS | COMBINATION), verdicts.get("second", "")]
    parts += [
        verdicts.get("transfer", ""),
        verdicts.get("longer", ""),
        verdicts.get("next-sentence", ""),
        verdicts.get("supervised", ""),
        "## The ablations",
        _overview(tables, found, verdicts),
    ]
    for table in tables:
        parts += [f"### {table.title}", _rows(table, found), f"![{table.title}](figures/papers-{table.key}.svg)"]
        parts.append(verdicts.get(table.key, ""))
    missing = [table.title for table in TABLES if table not in tables]
    if missing:
        parts += ["## Not run", f"{'; '.join(missing)}. The second command above makes what is missing."]
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def made(found: Found, machine: str) -> str:
    """When a comparison was made, by which versions and where."""
    environment: Mapping[str, str] = found.kept["environment"]  # type: ignore[assignment]
    versions = ", ".join(f"{key} {value}" for key, value in environment.items())
    return f"{found.kept['date']}, {versions}, {machine}, one thread"


def pictures(kept: Kept) -> dict[str, str]:
    """An SVG for each table that has results, by file name."""
    found = Found(kept["sweeps"])
    drawn = {}
    for table in TABLES:
        rows = _known(table, found)
        if len(rows) < 2:
            continue
        ours = [(float(place), _above(found, recipe, table.base)) for place, (_, recipe) in enumerate(rows)]
        curves = {"here": ours}
        base = table.of_paper(table.base)
        printed = [(float(place), table.of_paper(recipe)) for place, (_, recipe) in enumerate(rows)]
        theirs = [(place, value - base) for place, value in printed if value is not None and base is not None]
        if len(theirs) > 1:
            curves["published"] = theirs
        ticks = [label.replace(", ", ",\n").replace(" ", "\n") for label, _ in rows]
        drawn[f"papers-{table.key}.svg"] = standalone(
            lines(curves, table.title, "", f"points above {table.base}", ticks=ticks)
        )
    return drawn


def _known(table: Table, found: Found) -> list[tuple[str, str]]:
    """The rows that have results; none where the base has none."""
    return [row for row in table.rows if row[1] in found.scores] if table.base in found.scores else []


def _above(found: Found, recipe: str, base: str) -> float:
    difference = found.beside(recipe, base)
    if difference is None:
        raise RuntimeError(f"{recipe} or {base} has no scores")
    return difference.difference


def _overview(tables: Sequence[Table], found: Found, verdicts: Mapping[str, str]) -> str:
    """One row a table: the published shape in two numbers, ours, and the verdict's first sentence."""
    rows = []
    for table in tables:
        known = _known(table, found)
        pairs = [(table.of_paper(recipe), _above(found, recipe, table.base)) for _, recipe in known]
        both = [(theirs, ours) for theirs, ours in pairs if theirs is not None]
        order = f"{spearman(*np.array(both, dtype=np.float64).T):+.2f}" if len(both) > 2 else ""
        best = max(known, key=lambda row: _above(found, row[1], table.base))[0]
        printed = [(value, label) for label, recipe in known if (value := table.of_paper(recipe)) is not None]
        theirs = max(printed)[1] if len(printed) > 1 else "no numbers"
        said = re.search(r"\*\*(.+?)\.?\*\*", verdicts.get(table.key, ""))
        rows.append([table.title, theirs, best, order, f"{len(known)} of {len(table.rows)}", said[1] if said else ""])
    return _markdown(["table", "best, published", "best, here", "order agrees (Spearman)", "rows run", "verdict"], rows)


def _systems(found: Found, dev: Found, systems: Mapping[str, float | None]) -> str:
    """The start, some systems, what they gain; ``systems`` has each one's published gain."""
    names = [name for name in systems if name in found.scores]
    adjusted = found.adjusted(names, BASE)
    start = after_holm(
        {name: paired_seeds(found.scores[name], dict.fromkeys(found.scores[name], found.start)) for name in names}
    )
    rows = [["the start", "", f"{dev.start:.2f}", "", f"{found.start:.2f}", "", "", "", ""]]
    for name in names:
        gain, here = systems[name], adjusted.get(name)
        rows.append(
            [
                name + (" (ours)" if name == "queue-dcl" else ""),
                str(len(found.scores[name])),
                dev.mean(name),
                dev.over_pairs(name, BASE),
                found.mean(name),
                brief(start[name]),
                "" if here is None else brief(here),
                "" if gain is None else f"{gain:+.2f}",
                "" if here is None or gain is None else _holds(here),
            ]
        )
    head = [
        "recipe",
        "seeds",
        "STS-B dev",
        "against simcse over other pairs",
        "seven STS tasks",
        "against the start",
        "against simcse",
        "published",
        "holds here",
    ]
    return _markdown(head, rows)


def _holds(found: PairedSeeds) -> str:
    """Whether a positive published gain was found too."""
    p = found.decisive_p()
    if p is None or p >= 0.05:
        return "not shown"
    return "yes" if found.difference > 0 else "no, the other way"


def _rows(table: Table, found: Found) -> str:
    """One row a setting."""
    known = _known(table, found)
    adjusted = found.adjusted([recipe for _, recipe in known], table.base)
    rows = []
    for label, recipe in known:
        theirs = table.of_paper(recipe)
        rows.append(
            [
                label,
                f"`{recipe}`",
                "" if theirs is None else f"{theirs:.2f}",
                found.mean(recipe),
                brief(adjusted[recipe]) if recipe in adjusted else "",
                found.over_pairs(recipe, table.base),
                str(len(found.scores[recipe])),
            ]
        )
    metric = "STS-B dev" if table.metric == DEV else "STS average"
    head = [
        "setting",
        "recipe",
        f"published ({metric})",
        "here",
        f"against {table.base}, same seeds",
        "over other pairs",
        "seeds",
    ]
    return _markdown(head, rows)


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines_ = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines_)


def main() -> None:
    """Gathers, if there is something to gather, and writes page and pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", type=Path)
    parser.add_argument("--combination", type=Path)
    parser.add_argument("--second", type=Path)
    parser.add_argument("--sweeps", type=Path)
    asked = parser.parse_args()
    kept = json.loads(SCORES.read_text(encoding="utf-8"))
    if found := gather(asked.systems, asked.combination, asked.sweeps, asked.second):
        kept |= {part: added(kept["sweeps"], own) if part == "sweeps" else own for part, own in found.items()}
        write_json(SCORES, kept)
    write_text(PAGE, page(kept, tomllib.loads(VERDICTS.read_text(encoding="utf-8"))))
    for name, drawn in pictures(kept).items():
        write_text(FIGURES / name, drawn)


if __name__ == "__main__":
    main()
