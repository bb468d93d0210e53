"""Writes docs/results/figures.md: the papers' analyses of encoders trained from one start, and their pictures.

    python docs/build_figures.py [--analysis FOLDER --runs FOLDER] [--paths FOLDER] [--ranks FOLDER]

The first folder is what `opencse analyze START simcse/42/last ...` wrote, the second that of these runs (FOLDER/recipe/
seed), whose logs have the cosines of positives and negatives. The third is of runs whose logs have alignment and
uniformity of the dev pairs along training, the fourth of runs that log the rank of a correlation. What the pictures
show is first put into docs/results/records/figures.json; the page is docs/figures.md.jinja, filled from that file.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from comparisons import FIGURES, RESULTS, markdown
from templates import filled

from opencse.analysis.figures import standalone
from opencse.analysis.figures.base import INK, SERIES, coloured, new_figure, to_svg
from opencse.analysis.figures.plane import plane
from opencse.analysis.inspection import Findings, SubjectFindings
from opencse.records import save_json, save_text
from opencse.runs.report import path_of, series
from opencse.studies.study import StudyRecord
from opencse.training.callbacks import MetricsLog

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAGE, RECORD = RESULTS / "figures.md", RESULTS / "records" / "figures.json"
MEASURES, DENSITIES, PATHS = "systems-measures.svg", "systems-densities.svg", "paths.svg"
START = "the start"
Shown = Mapping[str, Mapping[str, Any]]
"""By name of the encoder, what the pictures show of it."""


def gather(analysis: Path, runs: Path) -> dict[str, Any]:
    """What the pictures show, from a report of `opencse analyze` and the logs of the runs."""
    findings = Findings.model_validate_json((analysis / "report.json").read_text(encoding="utf-8"))
    encoders = {}
    for number, subject in enumerate(findings.subjects):
        recipe, seed, _ = subject.name.rsplit("/", 2) if number else (START, "", "")
        encoders[recipe] = of_subject(subject) | ({} if recipe == START else of_log(runs / recipe / seed))
    environment = findings.environment.model_dump(mode="json")
    return {
        "pairs": findings.n_pairs,
        "encoders": encoders,
        "environment": {key: environment[key] for key in ("python", "torch", "transformers")},
        "date": f"{findings.created:%Y-%m-%d}",
    }


def of_subject(subject: SubjectFindings) -> dict[str, Any]:
    """The measures of one encoder."""
    geometry, bias, layers = subject.geometry, subject.bias, subject.layers
    if geometry is None or geometry.positives is None or subject.densities is None or layers is None:
        raise ValueError(f"{subject.name}: the report has no graded pairs or no layers; analyze with --pairs")
    if subject.spearman is None or bias is None or bias.length_difference.partial is None or layers.tok_sim is None:
        raise ValueError(f"{subject.name}: the pairs leave a measure undefined; analyze with others")
    return {
        "spearman": rounded(subject.spearman, 2),
        "alignment": rounded(geometry.positives.alignment),
        "uniformity": rounded(geometry.uniformity),
        "mean_cosine": rounded(geometry.mean_cosine),
        "effective_rank": rounded(geometry.effective_rank, 1),
        "singular_values": [rounded(value, 5) for value in geometry.singular_values],
        "set_sim": [rounded(value) for value in layers.set_sim],
        "tok_sim": [rounded(value) for value in layers.tok_sim],
        "length": [[one.lower, one.n, None if one.mean_shift is None else rounded(one.mean_shift)]
                   for one in bias.length_difference.bins],
        "length_partial": rounded(bias.length_difference.partial),
        "density_at": [rounded(value) for value in subject.densities.grid],
        "densities": {
            f"{group.lower:g} to {group.upper:g}": [rounded(value) for value in group.density]
            for group in subject.densities.groups
            if group.density is not None
        },
    }  # fmt: skip


def of_log(run: Path) -> dict[str, Any]:
    """The mean cosines of positives and negatives in the batches of a run, by step."""
    log = MetricsLog(run / "metrics.jsonl").read()
    return {
        side: {step: rounded(value) for step, value in series(log, f"{side}_similarity").items()}
        for side in ("positive", "negative")
    }


def gather_paths(runs: Path) -> dict[str, Any]:
    """(uniformity, alignment) and the score of the dev pairs along each run of a folder, by recipe."""
    paths = {}
    for file in sorted(runs.glob("*/*/metrics.jsonl")):
        record, log = StudyRecord.read(file.parent), MetricsLog(file).read()
        if record is None or record.recipe is None:
            raise ValueError(f"{file.parent}: the run is not finished")
        paths[record.recipe.partition(" (")[0]] = {
            "path": [[rounded(uniformity), rounded(alignment)] for uniformity, alignment in path_of(log)],
            "dev": [rounded(score, 2) for score in series(log, "dev").values()],
        }
    return paths


def gather_ranks(runs: Path) -> dict[str, list[int]]:
    """The ranks of the correlation matrix that the log of each run of a folder has, by recipe."""
    found = {
        file.parent.parent.name: sorted({int(rank) for rank in series(log, "barlow_twins_rank").values()})
        for file in runs.glob("*/*/metrics.jsonl")
        for log in [MetricsLog(file).read()]
    }
    return dict(sorted(found.items(), key=lambda item: item[1]))


def rounded(value: float, digits: int = 4) -> float:
    """For the record."""
    return round(float(value), digits)


def page(record: Mapping[str, Any]) -> str:
    """The page in Markdown."""
    encoders: Shown = record["encoders"]
    head = ["", "alignment", "uniformity", "mean cosine", "effective rank", "length bias", "STS-B test"]
    rows = [
        [
            name if name == START else f"`{name}`",
            f"{one['alignment']:.3f}",
            f"{one['uniformity']:.2f}",
            f"{one['mean_cosine']:.3f}",
            f"{one['effective_rank']:.0f}",
            f"{one['length_partial']:+.3f}",
            f"{one['spearman']:.2f}",
        ]
        for name, one in encoders.items()
    ]
    made = ", ".join(f"{key} {value}" for key, value in record["environment"].items())
    return filled(
        "figures.md.jinja",
        table=markdown(head, rows),
        measures=MEASURES,
        densities=DENSITIES,
        pairs=f"{record['pairs']:,}",
        encoders=encoders,
        paths=record["paths"],
        ranks=record["ranks"],
        picture_of_paths=PATHS,
        made=f"{record['date']}, {made}",
    )


def pictures(record: Mapping[str, Any]) -> dict[str, str]:
    """The pictures as SVG, by file name."""
    encoders: Shown = record["encoders"]
    paths = {name: [(x, y) for x, y in one["path"]] for name, one in record["paths"].items()}
    ends = {START: next(iter(paths.values()))[0]}
    return {
        MEASURES: standalone(measures(encoders)),
        DENSITIES: standalone(densities(encoders)),
        PATHS: standalone(plane(ends, paths=paths)),
    }


def measures(encoders: Shown) -> str:
    """Six panels, one colour per encoder."""
    figure = new_figure(10.5, 5.6)
    panels: Sequence[Axes] = figure.subplots(2, 3).ravel().tolist()
    draw: list[Callable[[Axes, str, str, Mapping[str, Any]], None]] = [
        in_the_plane, spectrum, along_training, set_sim, tok_sim, by_length,
    ]  # fmt: skip
    for panel, drawn in zip(panels, draw, strict=True):
        for colour, name, one in coloured(encoders):
            drawn(panel, colour, name, one)
    panels[0].set(title="alignment by uniformity", xlabel="uniformity", ylabel="alignment (both: lower is better)")
    panels[1].set(title="singular values / largest", xlabel="rank", yscale="log")
    panels[2].set(title="cosine of positives, and of negatives (dashed)", xlabel="step")
    panels[3].set(title="SetSim: adjacent layers' vectors", xlabel="layers")
    panels[4].set(title="TokSim: tokens of a sentence", xlabel="layer")
    panels[5].set(
        title="shift in rank by difference in length", xlabel="difference in words", ylabel="above 0: ranked too high"
    )
    panels[5].axhline(0, color=INK, linewidth=0.7, alpha=0.6)
    return to_svg(figure, {"loc": "best"})


def in_the_plane(axes: Axes, colour: str, name: str, one: Mapping[str, Any]) -> None:
    """SimCSE, Fig. 3; the panel with the names of the colours."""
    axes.plot([one["uniformity"]], [one["alignment"]], "o", color=colour, markersize=7, label=name)


def spectrum(axes: Axes, colour: str, _: str, one: Mapping[str, Any]) -> None:
    """SimCSE, Fig. F.1."""
    values = [max(value, 1e-4) for value in one["singular_values"]]
    axes.plot(range(1, len(values) + 1), values, color=colour, linewidth=1.4)


def along_training(axes: Axes, colour: str, _: str, one: Mapping[str, Any]) -> None:
    """Park's thesis, Fig. 9."""
    for side, dashes in (("positive", "-"), ("negative", "--")):
        steps = one.get(side, {})
        axes.plot([int(step) for step in steps], list(steps.values()), dashes, color=colour, linewidth=1.4)


def set_sim(axes: Axes, colour: str, _: str, one: Mapping[str, Any]) -> None:
    """SSCL, Fig. 1."""
    labels = [f"{layer}-{layer + 1}" for layer in range(len(one["set_sim"]))]
    axes.plot(range(len(labels)), one["set_sim"], "o-", color=colour, markersize=3.5, linewidth=1.4)
    axes.set_xticks(range(len(labels)), labels)


def tok_sim(axes: Axes, colour: str, _: str, one: Mapping[str, Any]) -> None:
    """SSCL, Fig. 4."""
    axes.plot(range(len(one["tok_sim"])), one["tok_sim"], "o-", color=colour, markersize=3.5, linewidth=1.4)


def by_length(axes: Axes, colour: str, _: str, one: Mapping[str, Any]) -> None:
    """ESimCSE, Fig. 1."""
    bins = [(lower, shift) for lower, _, shift in one["length"] if shift is not None]
    axes.plot(range(len(bins)), [shift for _, shift in bins], "o-", color=colour, markersize=3.5, linewidth=1.4)
    axes.set_xticks(range(len(bins)), [f"{lower:g}+" for lower, _ in bins])


def densities(encoders: Shown) -> str:
    """A panel for each encoder: the cosines of five groups of gold scores (SimCSE, Fig. G.1)."""
    columns = 3
    rows = -(-len(encoders) // columns)
    figure = new_figure(10.5, 1.0 + 1.7 * rows)
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for number, (panel, (name, one)) in enumerate(zip(panels, encoders.items(), strict=False)):
        for colour, (group, values) in zip(SERIES, one["densities"].items(), strict=False):
            panel.plot(one["density_at"], values, color=colour, linewidth=1.4, label=None if number else group)
        panel.set(title=name, yticks=[], xlim=(-0.1, 1.0))
    for panel in panels[len(encoders) :]:
        panel.remove()
    figure.supxlabel("cosine, by gold score", fontsize=8, color=INK)
    return to_svg(figure, {"loc": "upper left"})


def main() -> None:
    """Gathers what is given, and writes page and pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--analysis", type=Path)
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--paths", type=Path)
    parser.add_argument("--ranks", type=Path)
    arguments = parser.parse_args()
    if (arguments.analysis is None) != (arguments.runs is None):
        parser.error("--analysis and --runs belong together")
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    if arguments.analysis is not None:
        record |= gather(arguments.analysis, arguments.runs)
    if arguments.paths is not None:
        record["paths"] = gather_paths(arguments.paths)
    if arguments.ranks is not None:
        record["ranks"] = gather_ranks(arguments.ranks)
    save_json(RECORD, record)
    save_text(PAGE, page(record))
    for name, drawn in pictures(record).items():
        save_text(FIGURES / name, drawn)


if __name__ == "__main__":
    main()
