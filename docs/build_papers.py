"""Writes docs/results/papers.md and ablations.md, the papers' tables compared with ours.

    python docs/build_papers.py [--best-rates FOLDER] [--five-layers-best-rates FOLDER] [--processor FOLDER]
        [--systems FOLDER] [--systems-transformed FILE] [--five-layers FOLDER] [--five-layers-transformed FILE]
        [--search FOLDER] [--tuned FOLDER] [--combination FOLDER] [--second FOLDER] [--sweeps FOLDER ...]

The folders are those of the comparisons of benchmarks/studies/papers.toml (with `--tune training.learning_rate=...`,
from both starts; some of these runs again on a processor; all at one rate, from both starts; the search for a
combination with other recipes at a seed of its own), papers-tuned.toml, papers-combination.toml, papers-tuned.toml with
encoder.layers=3, and papers-sweeps.toml with the others of that name. The files are what `opencse evaluate MODELS
--transform KIND --json FILE` writes about the last/ encoders of a comparison's runs. Their scores are first put into
docs/results/records/papers-scores.json; runs at one rate and of the search are added to it, and a run that it already
has is replaced. The pages are docs/papers.md.jinja and those of the other names, filled from that file and from
docs/papers.toml, which lists the published tables and a verdict on each.
"""

from __future__ import annotations

import argparse
import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from best_rates import at_best_rates, best_rates, by_rate
from combinations import UNTRAINED, combinations
from comparisons import BASE, DEV, FIGURES, RESULTS, STS, Comparison, Scores, added, markdown, of_paper, scores_of
from templates import filled

from opencse.analysis.figures import standalone
from opencse.analysis.figures.base import AFTER, BEFORE, INK, THIRD, new_figure, to_svg
from opencse.evaluation import spearman
from opencse.evaluation.sts.result import StsResult
from opencse.numerals import number_of
from opencse.records import save_json, save_text
from opencse.statistics import PairedSeeds, brief, paired_seeds

SCORES = RESULTS / "records" / "papers-scores.json"
PUBLISHED = Path(__file__).parent / "papers.toml"
GAINS, CURVES = "papers-gains.svg", "papers-ablations.svg"
TRANSFORMED = ("systems-transformed", "five-layers-transformed")
GROWING = ("systems", "five-layers", "search", "processor", *TRANSFORMED)
"""Comparisons whose new runs are added to those of the record; those of others replace them."""


def gather(paths: Mapping[str, Path | Sequence[Path] | None]) -> dict[str, Any]:
    """The scores of the comparisons whose folders are given, and of the evaluations whose files are."""
    scores: dict[str, Any] = {}
    for name, path in paths.items():
        if path is None:
            continue
        if not isinstance(path, Path):
            scores[name] = reduce(added, (scores_of(one, DEV) for one in path))
        elif name.endswith("_transformed"):
            scores[name] = transformed_scores(path)
        else:
            scores |= {name: scores_of(path, STS), f"{name}_dev": scores_of(path, DEV)}
            if name.endswith("best_rates"):
                scores[f"{name}_tried"] = scores_of(path / "tuning", DEV)
    return scores


def transformed_scores(file: Path) -> dict[str, Any]:
    """The averages of a comparison's encoders under a transform, by recipe with its name and seed.

    Recipes and rates are read from the names of folders, which have _ for colons and brackets.
    """
    by_recipe: dict[str, dict[int, float]] = {}
    for line in json.loads(file.read_text(encoding="utf-8")):
        record = StsResult.model_validate(line)
        path, _, transform = (record.model or "").partition(" + ")
        parts = Path(path).parts
        folder, seed = parts[-3:-1] if "runs" in parts else ("start", UNTRAINED)
        recipe, _, rate = folder.partition("_learning_rate_")
        name = recipe.replace("_", ":") + (f" (learning_rate={rate.removesuffix('_')})" if rate else "")
        name += f" + {transform.partition(' (')[0]}"
        by_recipe.setdefault(name, {})[int(seed)] = round(record.values()[STS], 4)
    return {"metric": STS, "scores": by_recipe}


def pages(scores: Scores, published: Mapping[str, Any]) -> dict[str, str]:
    """The pages in Markdown, by file name."""
    parts = {name: Comparison(record) for name, record in scores.items()}
    return {
        "papers.md": systems_page(parts, published),
        "ablations.md": ablations_page(parts, published),
    }


def systems_page(parts: Mapping[str, Comparison], published: Mapping[str, Any]) -> str:
    """The page of the papers' systems."""
    sts, dev, tuned = at_best_rates(parts["best_rates"]), at_best_rates(parts["best_rates_dev"]), parts["tuned"]
    gains, at_one_rate = published_gains(published), gains_here(parts["systems"], published)
    pairs = gains_here(sts, published)
    verdicts = {name: verdict(pair, gains[name]) for name, pair in pairs.items()}
    before = gains_here(tuned, published)
    return filled(
        "papers.md.jinja",
        start=f"{sts.start:.2f}",
        dev_start=f"{dev.start:.2f}",
        simcse=brief(over_start(sts)),
        at_one_rate=brief(over_start(parts["systems"])),
        seeds=number_of(len(sts.scores[BASE]), "seed"),
        systems=systems_table(parts, pairs, gains, verdicts, at_one_rate),
        verdicts={word: [name for name in verdicts if verdicts[name] == word] for word in VERDICTS},
        hold_at_one_rate=[name for name, pair in at_one_rate.items() if verdict(pair, gains[name]) == VERDICTS[0]],
        rates=list(next(iter(by_rate(parts["best_rates_tried"]).values()))),
        best=best_rates(parts["best_rates"])[BASE],
        five=five_layers(parts, published),
        picture=GAINS,
        combinations=combinations(parts, published).rstrip(),
        tuned_start=f"{tuned.start:.2f}",
        tuned_best=max(before, key=lambda name: before[name].difference),
        tuned_gain=brief(max(before.values(), key=lambda pair: pair.difference)),
        made=parts["best_rates"].made(published["machines"]["best_rates"]),
        made_at_one_rate=parts["systems"].made(published["machines"]["systems"]),
    )


def over_start(sts: Comparison) -> PairedSeeds:
    """SimCSE minus its start."""
    return paired_seeds(sts.scores[BASE], dict.fromkeys(sts.scores[BASE], sts.start))


def five_layers(parts: Mapping[str, Comparison], published: Mapping[str, Any]) -> dict[str, Any]:
    """The second start, SimCSE and the system that gains most over it there, each at its best rate."""
    second = at_best_rates(parts["five_layers_best_rates"])
    pairs = gains_here(second, published)
    best = max(pairs, key=lambda name: pairs[name].difference)
    return {"start": f"{second.start:.2f}", "simcse": second.mean(BASE), "best": best, "gain": brief(pairs[best])}


def published_gains(published: Mapping[str, Any]) -> dict[str, float]:
    """Each system's average minus that of the SimCSE it compares with."""
    return {name: value - base for name, (value, base) in published["systems"].items()}


def gains_here(sts: Comparison, published: Mapping[str, Any]) -> dict[str, PairedSeeds]:
    """Each of the systems that were run minus SimCSE, with p after Holm."""
    return sts.adjusted([name for name in published["systems"] if name in sts.scores], BASE)


VERDICTS = ("holds", "not seen here", "not decided")


def verdict(pair: PairedSeeds, gain: float) -> str:
    """Whether a published gain shows (p < .05 after Holm), or the 95% interval excludes a gain of its size."""
    if pair.direction() == "better":
        return VERDICTS[0]
    return VERDICTS[1] if pair.interval is not None and pair.interval[1] < gain else VERDICTS[2]


def systems_table(
    parts: Mapping[str, Comparison],
    pairs: Mapping[str, PairedSeeds],
    gains: Mapping[str, float],
    verdicts: Mapping[str, str],
    at_one_rate: Mapping[str, PairedSeeds],
) -> str:
    """One row per system: its best rate, its scores, the published gain over SimCSE, ours, the verdict; at one rate."""
    sts, dev, rates = at_best_rates(parts["best_rates"]), parts["best_rates_dev"], best_rates(parts["best_rates"])
    rows = [["the start", "", f"{dev.start:.2f}", f"{sts.start:.2f}", "", "", "", ""]]
    for name in [BASE, *pairs]:
        gain = ["", "", "", ""]
        if name != BASE:
            before = at_one_rate.get(name)
            same = "" if before is None else f"{brief(before)}, {verdict(before, gains[name])}"
            gain = [f"{gains[name]:+.2f}", brief(pairs[name]), verdicts[name], same]
        rows.append([f"`{name}`", rates[name], at_best_rates(dev).mean(name), sts.mean(name), *gain])
    scores = ["system", "best rate", "STS-B dev", "seven STS tasks"]
    return markdown([*scores, "published gain", "gain here", "verdict", "all at 3e-5"], rows)


def ablations_page(parts: Mapping[str, Comparison], published: Mapping[str, Any]) -> str:
    """The page of the papers' ablations."""
    sweeps, machines = parts["sweeps"], published["machines"]
    tables = measured(sweeps, published)
    values: dict[str, Any] = {
        "start": f"{sweeps.start:.2f}",
        "tuned_start": f"{parts['tuned_dev'].start:.2f}",
        "simcse": sweeps.mean(BASE),
        "ablations": ablations_table(sweeps, parts["tuned_sweeps"], tables),
        "picture": CURVES,
        "missing": "; ".join(table["title"] for table in published["tables"] if table not in tables),
    }
    titles = {"sweeps": "Ablations", "tuned_sweeps": "From the tuned start"}
    if "combination" in parts:
        both, name = parts["combination"], list(published["combination"])[-1]
        values["combination"] = {"gain": brief(both.adjusted(list(both.scores), BASE)[name])}
        values["combination"]["seeds"] = len(both.scores[name])
        titles["combination"] = "Combination"
    if "second" in parts:
        second, name = parts["second"], list(published["combination"])[-1]
        recipes = {"simcse": "simcse", "sscl": "sscl", "combination": name}
        values["second"] = {key: second.mean(recipe) for key, recipe in recipes.items()} | {
            "start": f"{second.start:.2f}"
        }
        titles["second"] = "Three layers"
    values["made"] = " ".join(f"{title}: {parts[name].made(machines[name])}." for name, title in titles.items())
    return filled("ablations.md.jinja", **({"combination": None, "second": None} | values))


def measured(sweeps: Comparison, published: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The published tables of which two rows or more were run."""
    return [table for table in published["tables"] if len(sweeps.known(table)) > 1]


def ablations_table(sweeps: Comparison, tuned: Comparison, tables: Sequence[Mapping[str, Any]]) -> str:
    """One row per published table: the best values, how far the order agrees from both starts, and the verdict."""
    rows = []
    for table in tables:
        known = sweeps.known(table)
        gains = [sweeps.gain(recipe, table["base"]) for _, recipe in known]
        best = known[gains.index(max(gains))][0]
        printed = [(value, label) for label, recipe in known if (value := of_paper(table, recipe)) is not None]
        theirs = max(printed)[1] if len(printed) > 1 else "no numbers"
        orders = [order(one, table) for one in (sweeps, tuned)]
        rows.append([table["title"], theirs, best, *orders, f"{len(known)} of {len(table['rows'])}", table["verdict"]])
    head = ["best, published", "best, here", "order agrees", "the same, tuned start", "rows run", "verdict"]
    return markdown(["table", *head], rows)


def order(sweeps: Comparison, table: Mapping[str, Any]) -> str:
    """Spearman's correlation of the published scores of a table's rows with ours; empty for fewer than three."""
    pairs = [(of_paper(table, recipe), sweeps.gain(recipe, table["base"])) for _, recipe in sweeps.known(table)]
    numbers = [(theirs, ours) for theirs, ours in pairs if theirs is not None]
    return f"{spearman(*np.array(numbers, dtype=np.float64).T):+.2f}" if len(numbers) > 2 else ""


def pictures(scores: Scores, published: Mapping[str, Any]) -> dict[str, str]:
    """The pictures of both pages as SVG, by file name."""
    parts = {name: Comparison(record) for name, record in scores.items()}
    tables = measured(parts["sweeps"], published)
    gains = gains_picture(at_best_rates(parts["best_rates"]), by_rate(parts["best_rates_tried"]), published)
    return {GAINS: standalone(gains), CURVES: standalone(curves_picture(parts["sweeps"], tables))}


def gains_picture(sts: Comparison, tried: Mapping[str, Mapping[str, float]], published: Mapping[str, Any]) -> str:
    """Each system's gain over SimCSE with its 95% interval, and the published gain; scores of some systems by rate."""
    gains, pairs = published_gains(published), gains_here(sts, published)
    figure = new_figure(9.6, 0.9 + 0.3 * len(pairs))
    axes, curves = figure.subplots(1, 2)
    for row, (name, pair) in enumerate(pairs.items()):
        if pair.interval is not None:
            axes.plot(pair.interval, [row, row], color=AFTER, linewidth=1.6)
        axes.plot([pair.difference], [row], "o", color=AFTER, markersize=6, label=None if row else "here, 95%")
        axes.plot([gains[name]], [row], "D", color=THIRD, markersize=5, label=None if row else "published")
    axes.axvline(0, color=INK, linewidth=0.7, alpha=0.6)
    axes.set(title="Gain over SimCSE, seven STS tasks", xlabel=f"points above {BASE}, each at its best rate")
    axes.set_yticks(range(len(pairs)), list(pairs))
    axes.invert_yaxis()
    for name, color in zip(published["by_rate"], (INK, AFTER, THIRD, BEFORE), strict=True):
        rates = [float(rate) for rate in tried.get(name, {})]
        curves.plot(rates, list(tried.get(name, {}).values()), "o-", color=color, markersize=4, label=name)
    curves.set_xscale("log")
    curves.set(title="STS-B dev by learning rate, one seed", xlabel="learning rate")
    return to_svg(figure, {"loc": "lower left"})


def curves_picture(sweeps: Comparison, tables: Sequence[Mapping[str, Any]]) -> str:
    """A small curve for each published table: points above its base, here and published."""
    columns = 3
    figure = new_figure(10.5, 2.5 * math.ceil(len(tables) / columns))
    panels = figure.subplots(math.ceil(len(tables) / columns), columns, squeeze=False).ravel()
    for number, (panel, table) in enumerate(zip(panels, tables, strict=False)):
        rows, base = sweeps.known(table), table["base"]
        ours = [sweeps.gain(recipe, base) for _, recipe in rows]
        panel.plot(ours, "o-", color=AFTER, markersize=4, linewidth=1.3, label=None if number else "here")
        zero = of_paper(table, base)
        printed = [(index, of_paper(table, recipe)) for index, (_, recipe) in enumerate(rows)]
        theirs = [(index, value - zero) for index, value in printed if value is not None and zero is not None]
        if len(theirs) > 1:
            dashed = {"color": THIRD, "markersize": 3.5, "linewidth": 1, "label": None if number else "published"}
            panel.plot(*zip(*theirs, strict=True), "D--", **dashed)
        panel.set_title(table["title"])
        labels = [label for label, _ in rows]
        upright = sum(map(len, labels)) < 45
        panel.set_xticks(range(len(rows)), labels, rotation=0 if upright else 90)
    for panel in panels[len(tables) :]:
        panel.remove()
    figure.supylabel("points above the base", fontsize=8, color=INK)
    return to_svg(figure, {"loc": "lower left"})


def main() -> None:
    """Gathers the scores of the folders that are given, and writes pages and pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    alone = ("best-rates", "five-layers-best-rates", "tuned", "combination", "second")
    for name in (*GROWING, *alone):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--sweeps", type=Path, nargs="+")
    scores = json.loads(SCORES.read_text(encoding="utf-8"))
    if new := gather(vars(parser.parse_args())):
        grown = {part for part in new if part.removesuffix("_dev").replace("_", "-") in GROWING and part in scores}
        scores |= {part: added(scores[part], own) if part in grown else own for part, own in new.items()}
        save_json(SCORES, scores)
    published = tomllib.loads(PUBLISHED.read_text(encoding="utf-8"))
    for name, text in pages(scores, published).items():
        save_text(RESULTS / name, text)
    for name, drawn in pictures(scores, published).items():
        save_text(FIGURES / name, drawn)


if __name__ == "__main__":
    main()
