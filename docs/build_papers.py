"""Writes docs/results/papers.md, the papers' tables beside ours, and its pictures: python docs/build_papers.py [OUT].

OUT is the folder of a comparison made with benchmarks/studies/papers.toml and papers-sweeps.toml; its scores are put
into docs/results/papers.json first, from which alone the page is made.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from opencse.analysis.figures import standalone
from opencse.analysis.figures.lines import lines
from opencse.analysis.significance import PairedSeeds, after_holm, brief, paired_bootstrap, paired_seeds, summary
from opencse.evaluation import spearman
from opencse.recipes.recipe import resolve_recipe
from opencse.records import write_json, write_text
from opencse.studies.record import StudyRecord
from opencse.studies.running import read_arrays
from opencse.studies.study import folder_name

RESULTS = Path(__file__).with_name("results")
PAGE, SCORES, FIGURES = RESULTS / "papers.md", RESULTS / "papers.json", RESULTS / "figures"
VERDICTS = Path(__file__).with_name("papers_verdicts.toml")
METRIC, BASE = "dev.stsb", "simcse"
SYSTEMS = {
    "simcse": None,
    "esimcse": 84.85 - 82.5,
    "simcse++": 83.77 - 82.5,
    "sscl": 77.80 - 76.25,
    "sscl-progressive": 77.90 - 76.25,
    "gaussian-sampling": 76.38 - 74.80,
    "queue-dcl": None,
}
"""What each paper reports above the SimCSE it compares with, on BERT-base: of STS-B dev, for SSCL and the thesis of the
average over the seven STS tasks; None where nothing is published."""

Seeds = Mapping[int, float]


@dataclass(frozen=True)
class Table:
    """One published table.

    Attributes:
        key: of its picture and verdict.
        title: paper and table.
        base: the recipe that both curves are measured from.
        rows: (label, recipe) in published order, the base among them.
        metric: what the paper scored, by the name in the recipes' presets.
        published: values that the presets do not have, by recipe.
    """

    key: str
    title: str
    base: str
    rows: Sequence[tuple[str, str]]
    metric: str = METRIC
    published: Mapping[str, float] | None = None

    def of_paper(self, recipe: str) -> float | None:
        """The published score of a row; None for a curve printed without numbers."""
        own = (self.published or {}).get(recipe)
        return published(recipe, self.metric) if own is None else own


def _variants(recipe: str, presets: Mapping[str, str]) -> list[tuple[str, str]]:
    """(label, recipe with preset); an empty preset is the recipe itself."""
    return [(label, f"{recipe}:{preset}" if preset else recipe) for label, preset in presets.items()]


TABLES = (
    Table(
        "dropout",
        "SimCSE, Table 3: dropout",
        "simcse",
        _variants(
            "simcse",
            {
                "0": "dropout-0",
                ".01": "dropout-0.01",
                ".05": "dropout-0.05",
                ".1": "",
                ".15": "dropout-0.15",
                ".2": "dropout-0.2",
                ".5": "dropout-0.5",
                ".1, one mask": "dropout-fixed-0.1",
            },
        ),
    ),
    Table(
        "augmentations",
        "SimCSE, Table 1: augmentations",
        "simcse",
        _variants(
            "simcse",
            {
                "none": "",
                "crop 10%": "crop-10",
                "crop 20%": "crop-20",
                "crop 30%": "crop-30",
                "delete 10%": "delete-words-10",
                "delete 20%": "delete-words-20",
                "delete 30%": "delete-words-30",
                "delete one": "delete-one-word",
                "delete one, no dropout": "delete-one-word-no-dropout",
            },
        ),
    ),
    Table(
        "pooling",
        "SimCSE, Table 6: pooling",
        "simcse",
        _variants(
            "simcse",
            {"MLP in training": "", "MLP kept": "mlp-kept", "no MLP": "no-mlp", "first-last": "first-last"},
        ),
    ),
    Table(
        "temperature",
        "SSCL, Table 6: SimCSE's temperature",
        "simcse",
        _variants(
            "simcse",
            {".001": "temperature-0.001", ".01": "temperature-0.01", ".05": "", ".1": "temperature-0.1"},
        ),
        metric="sts.average",
    ),
    Table(
        "repetition",
        "ESimCSE, Table 9: rate of repetition",
        "esimcse",
        _variants(
            "esimcse",
            {f".{rate:02}": f"rate-0.{rate:02}".rstrip("0") for rate in (8, 12, 16, 20, 24, 28)}
            | {".32": "", ".36": "rate-0.36"},
        ),
    ),
    Table(
        "repeated",
        "ESimCSE, Table 10: what is repeated or put in",
        "esimcse",
        _variants("esimcse", {"sub-words": "", "words": "words", "stop words": "stop-words", "[MASK]": "mask"}),
    ),
    Table(
        "queue",
        "ESimCSE, Table 11: length of the queue",
        "esimcse",
        _variants(
            "esimcse",
            {"1x": "queue-1x", "1.5x": "queue-1.5x", "2x": "queue-2x", "2.5x": "", "3x": "queue-3x"},
        ),
    ),
    Table(
        "m",
        "SimCSE++, Table 5: m, the weight of negatives",
        "simcse++",
        _variants("simcse++", {".5": "m-0.5", ".8": "m-0.8", ".9": "", "1": "m-1", "1.1": "m-1.1", "1.2": "m-1.2"}),
    ),
    Table(
        "lambda",
        "SimCSE++, Table 5: weight of DCL",
        "simcse++",
        _variants(
            "simcse++",
            {
                ".02": "lambda-0.02",
                ".05": "lambda-0.05",
                ".1": "",
                ".2": "lambda-0.2",
                ".5": "lambda-0.5",
                "1": "lambda-1",
            },
        ),
    ),
    Table(
        "dcl-temperature",
        "SimCSE++, Table 5: temperature of DCL",
        "simcse++",
        _variants(
            "simcse++",
            {
                "1": "dcl-temperature-1",
                "2": "dcl-temperature-2",
                "5": "",
                "10": "dcl-temperature-10",
                "20": "dcl-temperature-20",
                "50": "dcl-temperature-50",
            },
        ),
    ),
    Table(
        "layer",
        "SSCL, Figure 3 (a): which layer is the negative",
        "sscl",
        _variants("sscl", {"1": "layer-1", "2": "layer-2", "3": "layer-3", "last but one": ""}),
        metric="sts.average",
    ),
    Table(
        "stack",
        "SSCL, Figure 3 (b): how many layers are negatives",
        "sscl-progressive",
        [("1", "sscl"), ("2", "sscl-progressive"), *_variants("sscl-progressive", {"3": "stack-3", "4": "stack-4"})],
        metric="sts.average",
    ),
    Table(
        "dimension",
        "SSCL, Table 5: dimensions kept",
        "sscl-progressive",
        _variants("sscl-progressive", {"all": "", "256": "dimension-256", "128": "dimension-128"}),
        metric="sts.average",
    ),
    Table(
        "thesis-negatives",
        "Park's thesis, Tables 5 and 7: more negatives",
        "simcse",
        [
            ("SimCSE", "simcse"),
            ("Gaussian of the batch", "gaussian-sampling"),
            *_variants(
                "gaussian-sampling",
                {
                    "N(0, 1)": "standard",
                    "N(mu, 1)": "batch-mean",
                    "N(0, sd)": "batch-sd",
                    "covariance": "covariance",
                    "noisy anchor": "noisy-anchor",
                    "memory bank": "memory-bank",
                },
            ),
        ],
        metric="sts.average",
        published={"simcse": 74.80},
    ),
    Table(
        "thesis-stabilisers",
        "Park's thesis, Table 4: stabilisers",
        "simcse",
        [
            ("SimCSE", "simcse"),
            ("AWP", "weight-perturbation"),
            ("SAM", "weight-perturbation:sam"),
            ("label smoothing", "simcse:label-smoothing"),
        ],
        metric="sts.average",
        published={"simcse": 74.80},
    ),
)

_INTRODUCTION = """# The papers' tables, in shape

Do the published systems and ablations behave on another network as they did on BERT-base? Not the same numbers, but
where the peak is, what collapses, what is harmless.

**The start** is not an unsupervised model: it is the backbone of all-MiniLM-L6-v2 (BERT, 6 layers x 384), **which was
tuned on sentence pairs, cut after five of its six layers and read at [CLS]**. There it behaves as BERT does before
SimCSE: nearly all cosines are near 1, and it scores {start:.2f} on STS-B dev. Nothing here says how good a model one
gets; the uncut model is far better.

Every number of ours is **Spearman x 100 on STS-B's 1,500 development pairs**, of the last step's encoder. SimCSE,
ESimCSE and SimCSE++ print their ablations on the same pairs, where they also chose the best checkpoint; here no
checkpoint is chosen, but rate and steps were, with `simcse` at seed 7 on these pairs ({chosen}). The other systems
have SimCSE's settings, as in their papers, and the recipes' own everywhere else. SSCL and the thesis print
averages over the seven STS tasks; theirs stand beside our dev scores.

    head -16000 DATA/wiki/wiki100k.txt > wiki16k.txt
    opencse compare wiki16k.txt --study benchmarks/studies/papers.toml --starts MINILM --data DATA --out OUT
    opencse compare wiki16k.txt --study benchmarks/studies/papers-sweeps.toml --starts MINILM --data DATA --out OUT
    python docs/build_papers.py OUT

Runs are short ({budget}), the papers' about 15,600 steps at a tenth of the rate: what only shows late cannot show here.
{made}"""


def gather(out: Path) -> dict[str, object]:
    """The scores of a comparison's folder: the start's, and by recipe and seed."""
    found = [StudyRecord.read(path.parent) for path in sorted(out.glob("runs/*/*/*/record.json"))]
    runs = [record for record in found if record is not None and METRIC in record.results]
    starts = [StudyRecord.read(path.parent) for path in out.glob("starts/*/*/record.json")]
    start = next(one for one in starts if one is not None)
    scores: dict[str, dict[int, float]] = {}
    for run in runs:
        if run.recipe is not None and run.seed is not None:
            scores.setdefault(run.recipe, {})[run.seed] = round(run.results[METRIC], 4)
    environment = start.environment.model_dump(mode="json")
    folders = {(run.recipe, run.seed): path for run in runs for path in [_folder(out, run)]}
    compared = {(name, BASE) for name in SYSTEMS} | {(name, table.base) for table in TABLES for _, name in table.rows}
    over_pairs: dict[str, dict[int, list[float]]] = {}
    for recipe, base in sorted(compared):
        for seed in scores.get(recipe, {}).keys() & scores.get(base, {}).keys() if recipe != base else ():
            interval = _over_pairs(folders[recipe, seed], folders[base, seed])
            if interval is not None:
                over_pairs.setdefault(f"{recipe} beside {base}", {})[seed] = [round(end, 2) for end in interval]
    return {
        "metric": METRIC,
        "start": round(start.results[METRIC], 4),
        "scores": {name: dict(sorted(own.items())) for name, own in sorted(scores.items())},
        "over_pairs": {name: dict(sorted(own.items())) for name, own in over_pairs.items()},
        "environment": {key: environment[key] for key in ("python", "torch", "transformers") if environment.get(key)},
        "date": f"{max(run.created for run in runs):%Y-%m-%d}",
    }


def _folder(out: Path, run: StudyRecord) -> Path:
    return out / "runs" / folder_name(run.start) / folder_name(str(run.recipe)) / str(run.seed)


def _over_pairs(ours: Path, theirs: Path) -> tuple[float, float] | None:
    """95% interval of one model's score minus another's over other sentence pairs; None where no pairs were kept."""
    a, b = read_arrays(ours, "dev"), read_arrays(theirs, "dev")
    if not a or not b:
        return None
    return paired_bootstrap(a["stsb.gold"], a["stsb.cosine"], b["stsb.cosine"]).interval


def published(recipe: str, metric: str) -> float | None:
    """What the recipe's paper printed for it: of the last preset that has the score, else of BERT-base."""
    resolved = resolve_recipe(recipe)
    presets = resolved.recipe.presets
    named = [presets[name] for name in resolved.presets if name in presets] or [presets["bert-base"]]
    return next((one.expected[metric] for one in reversed(named) if metric in one.expected), None)


class Found:
    """The scores, and what can be said of them."""

    def __init__(self, kept: Mapping[str, object]) -> None:
        """``kept``: see `gather`, as JSON has it."""
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


def page(kept: Mapping[str, object], verdicts: Mapping[str, str]) -> str:
    """The whole page in Markdown."""
    found = Found(kept)
    environment: Mapping[str, str] = kept["environment"]  # type: ignore[assignment]
    versions = ", ".join(f"{key} {value}" for key, value in environment.items())
    introduction = _INTRODUCTION.format(
        start=found.start,
        chosen=verdicts["chosen"],
        budget=verdicts["budget"],
        made=f"{kept['date']}; {versions}; a CPU with AMX, one thread, bf16.",
    )
    tables = [table for table in TABLES if len(_known(table, found)) > 1]
    parts = [introduction, "## What holds", verdicts["summary"], _overview(tables, found, verdicts)]
    parts += ["## The systems", _systems(found), verdicts.get("systems", "")]
    for table in tables:
        parts += [f"## {table.title}", _rows(table, found), f"![{table.title}](figures/papers-{table.key}.svg)"]
        parts.append(verdicts.get(table.key, ""))
    missing = [table.title for table in TABLES if table not in tables]
    if missing:
        parts += ["## Not run", f"{'; '.join(missing)}. The second command above makes what is missing."]
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def pictures(kept: Mapping[str, object]) -> dict[str, str]:
    """An SVG for each table that has results, by file name."""
    found = Found(kept)
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


def _systems(found: Found) -> str:
    """The main table: the start, the systems, what they gain."""
    names = [name for name in SYSTEMS if name in found.scores]
    beside = {name: one for name in names if name != BASE and (one := found.beside(name, BASE)) is not None}
    adjusted = after_holm(beside)
    start = after_holm(
        {name: paired_seeds(found.scores[name], dict.fromkeys(found.scores[name], found.start)) for name in names}
    )
    rows = [["the start", "", f"{found.start:.2f}", "", "", "", "", ""]]
    for name in names:
        gain, here = SYSTEMS[name], adjusted.get(name)
        holds = "" if here is None or gain is None else _holds(here)
        rows.append(
            [
                name + (" (ours)" if name == "queue-dcl" else ""),
                str(len(found.scores[name])),
                found.mean(name),
                brief(start[name]),
                "" if here is None else brief(here),
                found.over_pairs(name, BASE),
                "" if gain is None else f"{gain:+.2f}",
                holds,
            ]
        )
    head = [
        "recipe",
        "seeds",
        "STS-B dev",
        "beside the start",
        "beside simcse",
        "over other pairs",
        "published gain",
        "holds here",
    ]
    note = (
        "Mean ± standard deviation over seeds; differences are paired by seed, with half their 95% interval, p after "
        'Holm over the column. "Over other pairs": at how many seeds the model is above or below SimCSE beyond what '
        "other sentence pairs would bring (paired bootstrap, 95%). Published gains are each paper's over the SimCSE it "
        "compares with, on BERT-base."
    )
    return f"{_markdown(head, rows)}\n\n{note}"


def _holds(found: PairedSeeds) -> str:
    """Whether a positive published gain was found too."""
    p = found.decisive_p()
    if p is None or p >= 0.05:
        return "not shown"
    return "yes" if found.difference > 0 else "no, the other way"


def _rows(table: Table, found: Found) -> str:
    """One row a setting."""
    rows = []
    for label, recipe in _known(table, found):
        theirs = table.of_paper(recipe)
        seeds = found.beside(recipe, table.base)
        rows.append(
            [
                label,
                f"`{recipe}`",
                "" if theirs is None else f"{theirs:.2f}",
                found.mean(recipe),
                "" if recipe == table.base or seeds is None else f"{seeds.difference:+.2f}",
                found.over_pairs(recipe, table.base),
                str(len(found.scores[recipe])),
            ]
        )
    metric = "STS-B dev" if table.metric == METRIC else "STS average"
    head = [
        "setting",
        "recipe",
        f"published ({metric})",
        "here",
        f"beside {table.base}, same seeds",
        "over other pairs",
        "seeds",
    ]
    return _markdown(head, rows)


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines_ = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines_)


def main() -> None:
    """Gathers, if there is something to gather, and writes page and pictures."""
    if len(sys.argv) > 1:
        write_json(SCORES, gather(Path(sys.argv[1])))
    kept = json.loads(SCORES.read_text(encoding="utf-8"))
    write_text(PAGE, page(kept, tomllib.loads(VERDICTS.read_text(encoding="utf-8"))))
    for name, drawn in pictures(kept).items():
        write_text(FIGURES / name, drawn)


if __name__ == "__main__":
    main()
