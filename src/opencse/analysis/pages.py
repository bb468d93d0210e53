"""Findings as parts of a page, each with a line that says how to read it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from statistics import fmean
from typing import TypeVar

from markupsafe import Markup

from opencse.analysis.bias import Bin
from opencse.analysis.figures import before_after, bins, by_layer, densities, plane, quantiles, spectra, token_map
from opencse.analysis.inspection import Findings, SubjectFindings
from opencse.analysis.report import Section, code, figure, figures, folded, paragraph, quote, steps, table
from opencse.evaluation.sts.data import TASKS
from opencse.statistics import PairedBootstrapTasks, verdict

T = TypeVar("T")

NOTHING = "-"
_AVERAGE = "sts.average"


def lead(findings: Findings) -> Markup:
    """The verdict, and what it rests on."""
    found = findings.difference
    if found is None:
        return paragraph(_alone(findings, findings.subjects[0]), "verdict")
    sentence, note = _compared(findings, found)
    direction = found.direction()
    return paragraph(sentence, f"verdict {direction}" if direction else "verdict") + paragraph(note, "muted")


def aside(findings: Findings) -> Markup:
    """The same of pairs that selected nothing, below a verdict of another kind."""
    found = findings.difference
    if found is None:
        return Markup()
    return paragraph("On general pairs, which selected nothing: " + " ".join(_compared(findings, found)), "muted")


def _compared(findings: Findings, found: PairedBootstrapTasks) -> tuple[str, str]:
    """What the last encoder is against the first, and what that rests on."""
    first, last = findings.subjects[0], findings.subjects[-1]
    on, before, after = _scores(findings, first, last)
    direction = found.direction()
    words = f"is {direction} than" if direction else "is not shown to differ from"
    sentence = f"{last.name} {words} {first.name}: {before:.2f} to {after:.2f} on {on}."
    note = (
        f"Difference {verdict(found)}. Spearman x 100; the interval is over other pairs of the same kind, "
        "not over seeds."
    )
    return sentence, note


def sections(findings: Findings) -> list[Section]:
    """Every part that there is something to say in."""
    made = [tasks(findings), geometry(findings), groups(findings), bias(findings), layers(findings),
            calibration(findings), neighbours(findings)]  # fmt: skip
    return [section for section in made if section is not None]


def tasks(findings: Findings) -> Section | None:
    """The STS tasks."""
    known = _known(findings, lambda one: one.sts or None)
    if not known:
        return None
    titles = {f"sts.{key}": task.title for key, task in TASKS.items()}
    rows = [[name, *(_fixed(scores.get(key), 2) for key in (*titles, _AVERAGE))] for name, scores in known.items()]
    drawn = {
        name: {titles[key]: value for key, value in scores.items() if key in titles} for name, scores in known.items()
    }
    note = paragraph("Spearman x 100, all pairs of a task together.")
    body = note + table(["", *titles.values(), "average"], rows) + figures(figure(before_after(drawn)))
    return Section("Semantic textual similarity", body)


def geometry(findings: Findings) -> Section | None:
    """Alignment, uniformity, spectrum."""
    known = _known(findings, lambda one: one.geometry)
    if not known:
        return None
    head = ["", "alignment", "uniformity", "mean cosine", "effective rank", "top eigenvalue / n"]
    rows = [
        [
            name,
            _fixed(None if found.positives is None else found.positives.alignment, 3),
            f"{found.uniformity:.3f}",
            f"{found.mean_cosine:.3f}",
            f"{found.effective_rank:.1f} of {min(found.n, found.dimension)}",
            f"{found.top_eigenvalue / found.n:.3f}",
        ]
        for name, found in known.items()
    ]
    points = {name: (found.uniformity, found.positives.alignment) for name, found in known.items() if found.positives}
    scores = {one.name: one.sts[_AVERAGE] for one in findings.subjects if one.sts and _AVERAGE in one.sts}
    pictures = []
    if points:
        drawn = plane(points, scores if scores.keys() >= points.keys() else None)
        caption = "Good vectors are low in both: similar sentences near each other, all sentences spread out."
        pictures.append(figure(drawn, caption))
    drawn = spectra({name: found.singular_values for name, found in known.items()})
    pictures.append(figure(drawn, "A steep fall means that a few directions hold most of the vectors."))
    first = next(iter(known.values()))
    positives = f"; {first.positives.n:,} positive pairs of high gold score" if first.positives else ""
    note = (
        f"{first.n:,} distinct sentences of {findings.pairs}{positives}. Lower is better, but for the effective rank."
    )
    return Section("Embedding geometry", table(head, rows) + paragraph(note, "muted") + figures(*pictures))


def groups(findings: Findings) -> Section | None:
    """Densities by gold group."""
    pictures = []
    for name, found in _known(findings, lambda one: one.densities).items():
        drawn = {f"{g.lower:g}-{g.upper:g}": g.density for g in found.groups if g.density is not None}
        pictures.append(figure(densities(found.grid, drawn, name)))
    if not pictures:
        return None
    note = (
        "Cosines of the graded pairs, grouped by gold score. The higher the gold score, the further to the right a "
        "group should lie; the less two groups overlap, the better the model tells them apart."
    )
    return Section("Similarity by gold score", paragraph(note) + figures(*pictures))


def bias(findings: Findings) -> Section | None:
    """What the cosine follows beside meaning."""
    known = _known(findings, lambda one: one.bias)
    if not known:
        return None
    rows = [
        [name, _fixed(found.length_difference.partial, 3, "+"), _fixed(found.word_overlap.partial, 3, "+")]
        for name, found in known.items()
    ]
    pictures = [
        _by_bin({name: found.length_difference.bins for name, found in known.items()}, "length difference (words)"),
        _by_bin({name: found.word_overlap.bins for name, found in known.items()}, "word overlap (F1)"),
    ]
    note = (
        "Correlation of the cosine with length difference and with word overlap, the gold score held fixed. 0 is free "
        "of bias; below 0 in the first column, the model prefers pairs of similar length; above 0 in the second, pairs "
        "that share words."
    )
    return Section(
        "Length and overlap bias",
        paragraph(note) + table(["", "length difference", "word overlap"], rows) + figures(*pictures),
    )


def layers(findings: Findings) -> Section | None:
    """From layer to layer."""
    known = _known(findings, lambda one: one.layers)
    if not known:
        return None
    drawn = by_layer({name: found.set_sim for name, found in known.items()}, "SetSim")
    pictures = [
        figure(drawn, "Cosine of a layer's sentence vector with the next layer's. Near 1: the layer adds little to it.")
    ]
    tokens = {name: found.tok_sim for name, found in known.items() if found.tok_sim is not None}
    if tokens:
        caption = "Mean cosine of two tokens of a sentence. Near 1: its tokens can hardly be told apart."
        pictures.append(figure(by_layer(tokens, "TokSim"), caption))
    maps = [
        figure(token_map(found.tokens, found.cosines, f"{name}: cosine of tokens, layer {found.layer}"))
        for name, found in _known(findings, lambda one: one.tokens).items()
    ]
    return Section("Layer by layer", figures(*pictures) + folded("Tokens of one sentence", figures(*maps)))


def calibration(findings: Findings) -> Section | None:
    """What a cosine means on the user's text."""
    known = _known(findings, lambda one: None if one.random_pairs is None else one.random_pairs.shown())
    if not known:
        return None
    percents = list(next(iter(known.values())))
    head = ["", *(f"{percent:g} %" for percent in percents)]
    rows = [[name, *(f"{value:.2f}" for value in found.values())] for name, found in known.items()]
    note = (
        f"Cosines of random pairs of {findings.source or 'your text'}: a pair whose cosine is above the 99 % column's "
        "is more similar than 99 of 100 random pairs. Cosines of two models do not compare; these percentages do."
    )
    picture = figure(quantiles(percents, {name: list(found.values()) for name, found in known.items()}))
    return Section("What a cosine means on your text", paragraph(note) + table(head, rows) + figures(picture))


def neighbours(findings: Findings) -> Section | None:
    """The nearest sentences of some queries."""
    if findings.neighbours is None:
        return None
    body = paragraph(f"The nearest of {findings.neighbours.distinct:,} of your sentences, with their cosines.")
    for asked in findings.neighbours.queries:
        rows = []
        for rank in range(max(map(len, asked.models.values()))):
            ranked = [found[rank] if rank < len(found) else None for found in asked.models.values()]
            rows.append([cell for hit in ranked for cell in ((f"{hit.score:.2f}", hit.text) if hit else ("", ""))])
        body += quote(asked.query) + table([cell for name in asked.models for cell in ("", name)], rows)
    return Section("Nearest neighbours", body)


def advice(findings: Findings, last: str) -> Section | None:
    """What to do after looking at several models; ``last`` is where the last of them lies. None for a single one."""
    found = findings.difference
    if found is None:
        return None
    first, name = findings.subjects[0].name, findings.subjects[-1].name
    better = {"better": name, "worse": first}.get(found.direction() or "")
    chosen = (
        f"Take {better} where your texts are like these pairs."
        if better
        else f"Nothing here speaks for {name} or for {first}: take the faster one, or the one with shorter vectors."
    )
    return Section(
        "What to do next",
        steps(
            [
                (chosen, ""),
                ("Look at the nearest neighbours of your own sentences: they say what the average hides.", ""),
                (
                    "Before you rely on it, evaluate both on queries of your own (a folder in BEIR's layout):",
                    f"opencse evaluate {shlex.quote(last)} OTHER_MODEL --suite retrieval --data FOLDER",
                ),
            ]
        ),
    )


def how_to_load(folder: str) -> Section:
    """Two ways to open the model."""
    quoted = json.dumps(folder)
    text = (
        "from sentence_transformers import SentenceTransformer\n"
        f"model = SentenceTransformer({quoted})\n\n"
        "from opencse import SentenceEncoder\n"
        f"encoder = SentenceEncoder.load({quoted})"
    )
    return Section("Load the model", code(text))


def made_with(findings: Findings) -> Markup:
    """Version and time in a line, which opens to the machine and the other versions."""
    facts = findings.environment.model_dump()
    rows = [[key.replace("_", " "), str(value)] for key, value in facts.items() if value is not None]
    return folded(f"opencse {findings.opencse}, {findings.created:%Y-%m-%d %H:%M} UTC", table([], rows))


def _known(findings: Findings, part: Callable[[SubjectFindings], T | None]) -> dict[str, T]:
    """A part of the findings by the name of the model, of those that have it."""
    found = {one.name: part(one) for one in findings.subjects}
    return {name: value for name, value in found.items() if value is not None}


def _by_bin(known: dict[str, list[Bin]], trait: str) -> Markup:
    edges = [f"{one.lower:g}" + ("+" if one.upper is None else "") for one in next(iter(known.values()))]
    means = {name: [one.mean_cosine for one in found] for name, found in known.items()}
    return figure(bins(edges, means, trait), "Mean cosine of the graded pairs.")


def _alone(findings: Findings, only: SubjectFindings) -> str:
    parts = []
    if only.sts and _AVERAGE in only.sts:
        parts.append(f"{only.sts[_AVERAGE]:.2f} on average over the seven STS tasks")
    if only.spearman is not None:
        parts.append(f"{only.spearman:.2f} on {findings.n_pairs:,} graded pairs ({findings.pairs})")
    return f"{only.name}: {', '.join(parts) or 'no graded pairs to evaluate it on'}."


def _scores(findings: Findings, first: SubjectFindings, last: SubjectFindings) -> tuple[str, float, float]:
    if first.sts and last.sts:
        shared = [key for key in first.sts if key in last.sts and key != _AVERAGE]
        before, after = (fmean(one[key] for key in shared) for one in (first.sts, last.sts))
        return f"{len(shared)} STS tasks", before, after
    return f"{findings.n_pairs:,} graded pairs ({findings.pairs})", first.spearman or 0.0, last.spearman or 0.0


def _fixed(value: float | None, digits: int, sign: str = "") -> str:
    return NOTHING if value is None else f"{value:{sign}.{digits}f}"
