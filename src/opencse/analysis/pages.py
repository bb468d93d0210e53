"""Findings as parts of a page, each with a line that says how to read it."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence

from opencse.analysis.figures import before_after, bins, by_layer, densities, plane, quantiles, spectra, token_map
from opencse.analysis.inspection import Findings, SubjectFindings
from opencse.analysis.report import Section, code, figure, figures, folded, paragraph, table
from opencse.analysis.significance import ALPHA, Comparison, verdict
from opencse.evaluation.sts.data import TASKS

NOTHING = "-"


def lead(findings: Findings) -> str:
    """The verdict, and what it rests on."""
    found = findings.difference
    if found is None:
        only = findings.subjects[0]
        parts = []
        if only.sts and "sts.average" in only.sts:
            parts.append(f"{only.sts['sts.average']:.2f} on average over the seven STS tasks")
        if only.spearman is not None:
            parts.append(f"{only.spearman:.2f} on {findings.n_pairs:,} graded pairs ({findings.pairs})")
        return paragraph(f"{only.name}: {', '.join(parts) or 'nothing to judge it on'}.", "verdict")
    first, last = findings.subjects[0], findings.subjects[-1]
    on, before, after = _scores(findings, first, last)
    kind = "verdict" + {True: " better", False: " worse", None: ""}[_clear(found)]
    sentence = f"{last.name} {_words(found)} {first.name}: {before:.2f} to {after:.2f} on {on}."
    return paragraph(sentence, kind) + paragraph(
        f"Difference {verdict(found)}. Spearman x 100; the interval is over other pairs of the same kind, "
        "not over seeds.",
        "muted",
    )


def sections(findings: Findings) -> list[Section]:
    """Every part that there is something to say in."""
    made = [tasks(findings), geometry(findings), groups(findings), bias(findings), layers(findings),
            calibration(findings), neighbours(findings)]  # fmt: skip
    return [section for section in made if section is not None]


def tasks(findings: Findings) -> Section | None:
    """The STS tasks."""
    known = {one.name: one.sts for one in findings.subjects if one.sts}
    if not known:
        return None
    titles = {f"sts.{key}": task.title for key, task in TASKS.items()}
    rows = [
        [name, *(f"{scores[key]:.2f}" if key in scores else NOTHING for key in (*titles, "sts.average"))]
        for name, scores in known.items()
    ]
    drawn = {
        name: {titles[key]: value for key, value in scores.items() if key in titles} for name, scores in known.items()
    }
    body = table(["", *titles.values(), "average"], rows) + figures(figure(before_after(drawn)))
    return Section("Semantic textual similarity", paragraph("Spearman x 100, all pairs of a task together.") + body)


def geometry(findings: Findings) -> Section | None:
    """Alignment, uniformity, spectrum."""
    known = [(one.name, one.geometry, one) for one in findings.subjects if one.geometry is not None]
    if not known:
        return None
    rows = [
        [
            name,
            NOTHING if found.positives is None else f"{found.positives.alignment:.3f}",
            f"{found.uniformity:.3f}",
            f"{found.mean_cosine:.3f}",
            f"{found.effective_rank:.1f} of {min(found.n, found.dimension)}",
            f"{found.top_eigenvalue / found.n:.3f}",
            f"{found.sum_gram / found.n:.3f}",
        ]
        for name, found, _ in known
    ]
    points = {
        name: (found.uniformity, found.positives.alignment) for name, found, _ in known if found.positives is not None
    }
    scores = {name: one.sts["sts.average"] for name, _, one in known if one.sts and "sts.average" in one.sts}
    pictures = []
    if points:
        pictures.append(
            figure(
                plane(points, scores if len(scores) == len(points) else None),
                "Good vectors are low in both: like sentences near each other, all sentences spread out.",
            )
        )
    pictures.append(
        figure(
            spectra({name: found.singular_values for name, found, _ in known}),
            "A steep fall means that a few directions hold most of the vectors.",
        )
    )
    head = ["", "alignment", "uniformity", "mean cosine", "effective rank", "top eigenvalue / n", "Sum(WWᵀ) / n"]
    first = known[0][1]
    positives = "" if first.positives is None else f"; {first.positives.n:,} positive pairs of high gold score"
    note = (
        f"{first.n:,} distinct sentences of {findings.pairs}{positives}. Lower is better, but for the effective rank."
    )
    return Section(
        "How the vectors fill their space", table(head, rows) + paragraph(note, "muted") + figures(*pictures)
    )


def groups(findings: Findings) -> Section | None:
    """Densities by gold group."""
    pictures = []
    for one in findings.subjects:
        if one.densities is None:
            continue
        filled = [group for group in one.densities.groups if group.density is not None]
        drawn = {f"{g.lower:g}-{g.upper:g}": g.density or [] for g in filled}
        pictures.append(figure(densities(one.densities.grid, drawn, one.name)))
    if not pictures:
        return None
    note = (
        "Cosine of the graded pairs, by gold score. Hills that move right from row to row are what a score should do."
    )
    return Section("Cosine by likeness", paragraph(note) + figures(*pictures))


def bias(findings: Findings) -> Section | None:
    """What the cosine follows beside meaning."""
    known = [(one.name, one.bias) for one in findings.subjects if one.bias is not None]
    if not known:
        return None
    rows = [
        [name, _signed(found.length_difference.partial), _signed(found.word_overlap.partial)] for name, found in known
    ]
    lengths = known[0][1].length_difference.bins
    overlaps = known[0][1].word_overlap.bins
    pictures = [
        figure(
            bins(
                [f"{b.lower:g}" + ("+" if b.upper is None else "") for b in lengths],
                {name: [b.mean_cosine for b in found.length_difference.bins] for name, found in known},
                "difference of the two lengths, words",
            ),
            "Mean cosine of the graded pairs.",
        ),
        figure(
            bins(
                [f"{b.lower:g}" + ("+" if b.upper is None else "") for b in overlaps],
                {name: [b.mean_cosine for b in found.word_overlap.bins] for name, found in known},
                "overlap of the two bags of words, F1",
            ),
            "Mean cosine of the graded pairs.",
        ),
    ]
    note = (
        "Correlation of the cosine with length difference and word overlap among pairs that people find equally alike; "
        "0 is free of bias, below 0 in the first column prefers pairs of like length."
    )
    return Section(
        "What else the cosine follows",
        paragraph(note) + table(["", "length difference", "word overlap"], rows) + figures(*pictures),
    )


def layers(findings: Findings) -> Section | None:
    """From layer to layer."""
    known = [(one, one.layers) for one in findings.subjects if one.layers is not None]
    if not known:
        return None
    pictures = [
        figure(
            by_layer({one.name: found.set_sim for one, found in known}, "SetSim: cosine with the next layer's vector"),
            "Near 1: the layer adds little to the sentence vector.",
        )
    ]
    tokens = {one.name: found.tok_sim for one, found in known if found.tok_sim is not None}
    if tokens:
        pictures.append(
            figure(
                by_layer(tokens, "TokSim: mean cosine of two tokens of a sentence"),
                "Near 1: the tokens of a sentence can hardly be told apart.",
            )
        )
    maps = [
        figure(token_map(one.tokens.tokens, one.tokens.cosines, f"{one.name}, layer {one.tokens.layer}"))
        for one, _ in known
        if one.tokens is not None
    ]
    return Section("Layer by layer", figures(*pictures) + folded("Tokens of one sentence", figures(*maps)))


def calibration(findings: Findings) -> Section | None:
    """What a cosine means on the person's text."""
    known = [(one.name, one.random_pairs) for one in findings.subjects if one.random_pairs is not None]
    if not known:
        return None
    percents = list(known[0][1].shown())
    rows = [[name, *(f"{value:.2f}" for value in found.shown().values())] for name, found in known]
    note = (
        f"Cosine of random pairs of {findings.source or 'your text'}: a pair whose cosine is above the 99 % column's "
        "is nearer than 99 of 100 pairs taken at random. Cosines of two models do not compare; these percentages do."
    )
    picture = figure(quantiles(percents, {name: list(found.shown().values()) for name, found in known}))
    return Section(
        "What a cosine means on your text",
        paragraph(note) + table(["", *(f"{percent:g} %" for percent in percents)], rows) + figures(picture),
    )


def neighbours(findings: Findings) -> Section | None:
    """The nearest sentences of some queries."""
    if findings.neighbours is None:
        return None
    parts = []
    for asked in findings.neighbours.queries:
        names = list(asked.models)
        longest = max(len(found) for found in asked.models.values())
        rows = []
        for rank in range(longest):
            cells: list[str] = []
            for name in names:
                found = asked.models[name]
                cells += [f"{found[rank].cosine:.2f}", found[rank].text] if rank < len(found) else ["", ""]
            rows.append(cells)
        head = [cell for name in names for cell in ("", name)]
        parts.append(f"<blockquote>{html.escape(asked.query)}</blockquote>" + table(head, rows))
    note = f"The nearest of {findings.neighbours.distinct:,} of your sentences, with their cosines."
    return Section("Nearest neighbours", paragraph(note) + "".join(parts))


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


def made_with(findings: Findings) -> str:
    """Versions and machine, as a muted line."""
    facts = {key: value for key, value in findings.environment.model_dump().items() if value is not None}
    told = ", ".join(f"{key} {value}" for key, value in facts.items())
    return paragraph(f"opencse {findings.opencse}; {told}; {findings.created:%Y-%m-%d %H:%M} UTC", "muted")


def _scores(findings: Findings, first: SubjectFindings, last: SubjectFindings) -> tuple[str, float, float]:
    if first.sts and last.sts:
        shared = [key for key in first.sts if key in last.sts and key != "sts.average"]
        before, after = (_mean([one[key] for key in shared]) for one in (first.sts, last.sts))
        return f"{len(shared)} STS tasks", before, after
    return f"{findings.n_pairs:,} graded pairs ({findings.pairs})", first.spearman or 0.0, last.spearman or 0.0


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _clear(found: Comparison) -> bool | None:
    """Whether it is better (worse: False); None where no difference is shown."""
    if found.p is None or found.p >= ALPHA:
        return None
    return found.difference > 0


def _words(found: Comparison) -> str:
    return {True: "is better than", False: "is worse than", None: "is not shown to differ from"}[_clear(found)]


def _signed(value: float | None) -> str:
    return NOTHING if value is None else f"{value:+.3f}"
