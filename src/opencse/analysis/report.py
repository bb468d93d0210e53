"""The report: a page that needs no other file, and its sections about what was found in models."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeVar

from markupsafe import Markup

from opencse.analysis.bias import Bin
from opencse.analysis.figures import (
    before_after,
    bins,
    by_layer,
    densities,
    distinct_ids,
    plane,
    quantiles,
    spectra,
    themed,
    token_map,
)
from opencse.analysis.inspection import Findings, SubjectFindings
from opencse.errors import printable
from opencse.evaluation.sts import TASKS
from opencse.markdown import without_home
from opencse.numerals import number_of
from opencse.records import save_text
from opencse.statistics import PairedBootstrapTasks, verdict

if TYPE_CHECKING:
    from jinja2 import Environment


@dataclass(frozen=True)
class ReportSection:
    """A section of a page: its title as plain text, and its body as made by the functions here."""

    title: str
    body: Markup


def paragraph(text: str, kind: str = "") -> Markup:
    """Makes a paragraph of plain text.

    Args:
        text: plain text.
        kind: ``muted``, ``verdict``, ``verdict better``, ``verdict worse`` or empty.
    """
    return _markup(_parts().paragraph(text, kind))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    """Makes a table of plain texts, scrolled sideways where it is too wide."""
    return _markup(_parts().table(head, rows))


def figure(svg: str, caption: str = "") -> Markup:
    """Makes a picture (SVG text) in the page's colours, with plain text under it."""
    return _markup(_parts().figure(Markup(distinct_ids(themed(svg))), caption))


def figures(*pictures: Markup) -> Markup:
    """Places pictures side by side where there is room."""
    return _markup(_parts().figures(pictures))


def quote(text: str) -> Markup:
    """Makes a quotation of plain text."""
    return _markup(_parts().quote(text))


def code(text: str) -> Markup:
    """Makes a block of code."""
    return _markup(_parts().code(text))


def steps(items: Sequence[tuple[str, str]]) -> Markup:
    """Makes a list of plain texts, each with the command that does it, where there is one."""
    return _markup(_parts().steps(items))


def folded(summary: str, body: Markup) -> Markup:
    """Folds ``body`` behind a line of plain text that opens it."""
    return _markup(_parts().folded(summary, body))


def write_report(path: Path, title: str, lead: Markup, sections: Sequence[ReportSection]) -> None:
    """Writes the page, atomically.

    Args:
        path: of the page.
        title: plain text.
        lead: shown under the title.
        sections: the parts, in order.

    Raises:
        UserError: if it cannot be written.
    """
    page = _templates().get_template("page.html").render(title=title, lead=lead, sections=sections)
    save_text(path, printable(without_home(page) + "\n", keep="\n\t"))


@cache
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("opencse.analysis")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def _parts() -> Any:  # noqa: ANN401 - the macros of a template have no types
    return _templates().get_template("parts.html").module


def _markup(part: object) -> Markup:
    return Markup(part)


T = TypeVar("T")

NOTHING = "-"
_AVERAGE = "sts.average"


def lead(findings: Findings) -> Markup:
    """Writes the verdict, and the data it is based on."""
    difference = findings.difference
    if difference is None:
        return paragraph(_single_scores(findings, findings.subjects[0]), "verdict")
    sentence, note = _compared(findings, difference)
    direction = difference.direction()
    return paragraph(sentence, f"verdict {direction}" if direction else "verdict") + paragraph(note, "muted")


def aside(findings: Findings) -> Markup:
    """Writes the comparison on general pairs, which selected nothing, below another verdict."""
    difference = findings.difference
    if difference is None:
        return Markup()
    return paragraph("On general pairs, which selected nothing: " + " ".join(_compared(findings, difference)), "muted")


def _compared(findings: Findings, difference: PairedBootstrapTasks) -> tuple[str, str]:
    """Compares the last encoder with the first: a sentence, and the data it is based on."""
    first, last = findings.subjects[0], findings.subjects[-1]
    on, before, after = _scores(findings, first, last)
    direction = difference.direction()
    words = f"is {direction} than" if direction else "is not shown to differ from"
    sentence = f"{last.name} {words} {first.name}: {before:.2f} to {after:.2f} on {on}."
    note = (
        f"Difference {verdict(difference)}. Spearman x 100; the interval is over other pairs of the same kind, "
        "not over seeds."
    )
    return sentence, note


def sections(findings: Findings) -> list[ReportSection]:
    """Returns every section for which there are findings."""
    parts = [tasks(findings), geometry(findings), groups(findings), bias(findings), layers(findings),
            calibration(findings), neighbours(findings)]  # fmt: skip
    return [section for section in parts if section is not None]


def tasks(findings: Findings) -> ReportSection | None:
    """Writes the scores of the STS tasks."""
    known = _by_model(findings, lambda one: one.sts or None)
    if not known:
        return None
    titles = {f"sts.{key}": task.title for key, task in TASKS.items()}
    rows = [[name, *(_fixed(scores.get(key), 2) for key in (*titles, _AVERAGE))] for name, scores in known.items()]
    drawn = {
        name: {titles[key]: value for key, value in scores.items() if key in titles} for name, scores in known.items()
    }
    note = paragraph("Spearman x 100, all pairs of a task together.")
    body = note + table(["", *titles.values(), "average"], rows) + figures(figure(before_after(drawn)))
    return ReportSection("Semantic textual similarity", body)


def geometry(findings: Findings) -> ReportSection | None:
    """Writes alignment, uniformity and spectrum."""
    known = _by_model(findings, lambda one: one.geometry)
    if not known:
        return None
    head = ["", "alignment", "uniformity", "mean cosine", "effective rank", "top eigenvalue / n"]
    rows = [
        [
            name,
            _fixed(None if shape.positives is None else shape.positives.alignment, 3),
            f"{shape.uniformity:.3f}",
            f"{shape.mean_cosine:.3f}",
            f"{shape.effective_rank:.1f} of {min(shape.n, shape.dimension)}",
            f"{shape.top_eigenvalue / shape.n:.3f}",
        ]
        for name, shape in known.items()
    ]
    points = {name: (shape.uniformity, shape.positives.alignment) for name, shape in known.items() if shape.positives}
    scores = {one.name: one.sts[_AVERAGE] for one in findings.subjects if one.sts and _AVERAGE in one.sts}
    pictures = []
    if points:
        drawn = plane(points, scores if scores.keys() >= points.keys() else None)
        caption = "Good vectors are low in both: similar sentences near each other, all sentences spread out."
        pictures.append(figure(drawn, caption))
    drawn = spectra({name: shape.singular_values for name, shape in known.items()})
    pictures.append(figure(drawn, "A steep fall means that a few directions hold most of the vectors."))
    first = next(iter(known.values()))
    positives = f"; {number_of(first.positives.n, 'positive pair')} of high gold score" if first.positives else ""
    sentences = number_of(first.n, "distinct sentence")
    note = f"{sentences} of {findings.pairs}{positives}. Lower is better, but for the effective rank."
    return ReportSection("Embedding geometry", table(head, rows) + paragraph(note, "muted") + figures(*pictures))


def groups(findings: Findings) -> ReportSection | None:
    """Writes the densities of the cosines by gold score."""
    known = _by_model(findings, lambda one: one.densities)
    if not known:
        return None
    curves = {
        name: {f"{g.lower:g}-{g.upper:g}": g.density for g in one.groups if g.density is not None}
        for name, one in known.items()
    }
    pictures = map(figure, densities(next(iter(known.values())).grid, curves))
    note = (
        "Cosines of the graded pairs, grouped by gold score. The higher the gold score, the further to the right a "
        "group should lie; the less two groups overlap, the better the model separates them."
    )
    return ReportSection("Similarity by gold score", paragraph(note) + figures(*pictures))


def bias(findings: Findings) -> ReportSection | None:
    """Writes how far cosines follow length and shared words."""
    known = _by_model(findings, lambda one: one.bias)
    if not known:
        return None
    rows = [
        [name, _fixed(biases.length_difference.partial, 3, "+"), _fixed(biases.word_overlap.partial, 3, "+")]
        for name, biases in known.items()
    ]
    pictures = [
        _by_bin({name: biases.length_difference.bins for name, biases in known.items()}, "length difference (words)"),
        _by_bin({name: biases.word_overlap.bins for name, biases in known.items()}, "word overlap (F1)"),
    ]
    note = (
        "Correlation of the cosine with length difference and with word overlap, the gold score held fixed. 0 is free "
        "of bias; below 0 in the first column, the model prefers pairs of similar length; above 0 in the second, pairs "
        "that share words."
    )
    return ReportSection(
        "Length and overlap bias",
        paragraph(note) + table(["", "length difference", "word overlap"], rows) + figures(*pictures),
    )


def layers(findings: Findings) -> ReportSection | None:
    """Writes how sentence and token vectors change from layer to layer."""
    known = _by_model(findings, lambda one: one.layers)
    if not known:
        return None
    drawn = by_layer({name: model.set_sim for name, model in known.items()}, "SetSim")
    pictures = [
        figure(drawn, "Cosine of a layer's sentence vector with the next layer's. Near 1: the layer adds little to it.")
    ]
    tokens = {name: model.tok_sim for name, model in known.items() if model.tok_sim is not None}
    if tokens:
        caption = "Mean cosine of two tokens of a sentence. Near 1: its tokens can hardly be distinguished."
        pictures.append(figure(by_layer(tokens, "TokSim"), caption))
    maps = [
        figure(token_map(model.tokens, model.cosines, f"{name}: cosine of tokens, layer {model.layer}"))
        for name, model in _by_model(findings, lambda one: one.tokens).items()
    ]
    return ReportSection("Layer by layer", figures(*pictures) + folded("Tokens of one sentence", figures(*maps)))


def calibration(findings: Findings) -> ReportSection | None:
    """Writes what a cosine means on your text."""
    known = _by_model(
        findings, lambda one: None if one.random_pairs is None else one.random_pairs.quantiles_by_percent()
    )
    if not known:
        return None
    percents = list(next(iter(known.values())))
    head = ["", *(f"{percent:g} %" for percent in percents)]
    rows = [
        [name, *(f"{value:.2f}" for value in quantiles_of_model.values())] for name, quantiles_of_model in known.items()
    ]
    note = (
        f"Cosines of random pairs of {findings.source or 'your text'}: a pair whose cosine is above the 99 % column's "
        "is more similar than 99 of 100 random pairs. Cosines of two models do not compare; these percentages do."
    )
    picture = figure(
        quantiles(percents, {name: list(quantiles_of_model.values()) for name, quantiles_of_model in known.items()})
    )
    return ReportSection("What a cosine means on your text", paragraph(note) + table(head, rows) + figures(picture))


def neighbours(findings: Findings) -> ReportSection | None:
    """Writes the nearest sentences of some queries."""
    if findings.neighbours is None:
        return None
    body = paragraph(f"The nearest of {findings.neighbours.distinct:,} of your sentences, with their cosines.")
    for query in findings.neighbours.queries:
        rows = []
        for rank in range(max(map(len, query.models.values()))):
            ranked = [hits[rank] if rank < len(hits) else None for hits in query.models.values()]
            rows.append([cell for hit in ranked for cell in ((f"{hit.score:.2f}", hit.text) if hit else ("", ""))])
        body += quote(query.query) + table([cell for name in query.models for cell in ("", name)], rows)
    return ReportSection("Nearest neighbours", body)


def advice(findings: Findings, last: str) -> ReportSection | None:
    """Writes the next steps after comparing several models; ``last`` is the path of the last. None for a single one."""
    difference = findings.difference
    if difference is None:
        return None
    first, name = findings.subjects[0].name, findings.subjects[-1].name
    better = {"better": name, "worse": first}.get(difference.direction() or "")
    recommendation = (
        f"Take {better} where your texts are like these pairs."
        if better
        else f"Nothing here speaks for {name} or for {first}: take the faster one, or the one with shorter vectors."
    )
    return ReportSection(
        "What to do next",
        steps(
            [
                (recommendation, ""),
                ("Look at the nearest neighbours of your own sentences: they say what the average hides.", ""),
                (
                    "Before you rely on it, evaluate both on your own queries (a folder in BEIR's layout):",
                    f"opencse evaluate {shlex.quote(last)} OTHER_MODEL --suite retrieval --data FOLDER",
                ),
            ]
        ),
    )


def how_to_load(folder: str) -> ReportSection:
    """Writes two ways to load the model."""
    quoted = json.dumps(folder)
    text = (
        "from sentence_transformers import SentenceTransformer\n"
        f"model = SentenceTransformer({quoted})\n\n"
        f"import opencse\nencoder = opencse.load({quoted})"
    )
    return ReportSection("Load the model", code(text))


def made_with(findings: Findings) -> Markup:
    """Writes version and time in one line, which unfolds to the machine and the other versions."""
    facts = findings.environment.model_dump()
    rows = [[key.replace("_", " "), str(value)] for key, value in facts.items() if value is not None]
    return folded(f"opencse {findings.opencse}, {findings.created:%Y-%m-%d %H:%M} UTC", table([], rows))


def _by_model(findings: Findings, part: Callable[[SubjectFindings], T | None]) -> dict[str, T]:
    """Returns one part of the findings by the name of the model, for the models that have it."""
    parts = {one.name: part(one) for one in findings.subjects}
    return {name: value for name, value in parts.items() if value is not None}


def _by_bin(known: dict[str, list[Bin]], trait: str) -> Markup:
    edges = [f"{one.lower:g}" + ("+" if one.upper is None else "") for one in next(iter(known.values()))]
    means = {name: [one.mean_cosine for one in trait_bins] for name, trait_bins in known.items()}
    return figure(bins(edges, means, trait), "Mean cosine of the graded pairs.")


def _single_scores(findings: Findings, only: SubjectFindings) -> str:
    parts = []
    if only.sts and _AVERAGE in only.sts:
        parts.append(f"{only.sts[_AVERAGE]:.2f} on average over the seven STS tasks")
    if only.spearman is not None:
        parts.append(f"{only.spearman:.2f} on {number_of(findings.n_pairs, 'graded pair')} ({findings.pairs})")
    return f"{only.name}: {', '.join(parts) or 'no graded pairs to evaluate it on'}."


def _scores(findings: Findings, first: SubjectFindings, last: SubjectFindings) -> tuple[str, float, float]:
    if first.sts and last.sts:
        shared = [key for key in first.sts if key in last.sts and key != _AVERAGE]
        before, after = (fmean(one[key] for key in shared) for one in (first.sts, last.sts))
        return f"{len(shared)} STS tasks", before, after
    return (
        f"{number_of(findings.n_pairs, 'graded pair')} ({findings.pairs})",
        first.spearman or 0.0,
        last.spearman or 0.0,
    )


def _fixed(value: float | None, digits: int, sign: str = "") -> str:
    return NOTHING if value is None else f"{value:{sign}.{digits}f}"
