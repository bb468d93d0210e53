"""Measures several models on the same texts, for a report that compares them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import numpy as np
from pydantic import AwareDatetime, Field, FiniteFloat

from opencse.analysis.bias import Densities, PairBias, densities, pair_bias
from opencse.analysis.calibration import RandomPairs, random_pairs
from opencse.analysis.geometry import Geometry, geometry, positive_sides
from opencse.analysis.layers import LayerSimilarities, TokenSimilarities, layer_similarities, token_similarities
from opencse.arrays import Floats
from opencse.encoder.encoder import SentenceEncoder
from opencse.environment import Environment, installed
from opencse.evaluation.embedding import Embedded, EmbeddingModel, SearchEncode, distinct, embed
from opencse.evaluation.neighbours import Neighbours, compare_neighbours
from opencse.evaluation.pairs import ScoredPairs
from opencse.evaluation.sts import Sts, StsData
from opencse.numerals import number_of
from opencse.progress import SILENT, Say
from opencse.settings import Settings
from opencse.statistics import PairedBootstrapTasks, paired_bootstrap_tasks
from opencse.text.scripts import count_words, first_words

LAYER_SENTENCES = 200
"""Sentences that layers are compared on, drawn at random: files of pairs are often ordered by genre."""
CORPUS_SENTENCES = 2_000
QUERIES = 4


@dataclass(frozen=True)
class Subject:
    """A model to analyze.

    Attributes:
        model: how it encodes, and its name.
        encoder: the model itself where it is one of ours, for its layers.
    """

    model: EmbeddingModel
    encoder: SentenceEncoder | None = None


@dataclass(frozen=True)
class AnalysisTexts:
    """The texts that models are analyzed on; what is None is left out of the findings.

    Attributes:
        pairs: graded pairs.
        texts: your sentences.
        source: name of these sentences.
        sts: the STS tasks.
        queries: sentences whose nearest neighbours are listed; by default a few of ``texts``, drawn at random.
    """

    pairs: ScoredPairs | None = None
    texts: Sequence[str] | None = None
    source: str | None = None
    sts: StsData | None = None
    queries: Sequence[str] | None = None


class SubjectFindings(Settings):
    """The findings on one model.

    Attributes:
        name: of the model.
        pooling: how its token vectors become one, where known.
        spearman: x 100, on the pairs.
        geometry: of the pairs' distinct sentences, pairs of high gold score as positives.
        densities: of the pairs' cosines, by group of gold scores.
        bias: of the pairs' cosines.
        layers: of a model with layers.
        tokens: of the longest of the queries' sentences, in the last layer.
        random_pairs: cosines of random pairs of your sentences.
        sts: the STS scores, by name.
    """

    name: str
    pooling: str | None
    spearman: FiniteFloat | None = None
    geometry: Geometry | None = None
    densities: Densities | None = None
    bias: PairBias | None = None
    layers: LayerSimilarities | None = None
    tokens: TokenSimilarities | None = None
    random_pairs: RandomPairs | None = None
    sts: dict[str, FiniteFloat] | None = None


class Findings(Settings):
    """The findings on all models, in their order.

    Attributes:
        schema_version: changes when a key changes its meaning.
        opencse: this library's version.
        created: when, UTC.
        environment: versions and machine.
        pairs: name of the graded pairs.
        n_pairs: their number.
        source: name of your sentences.
        subjects: the findings on each model.
        difference: the last model minus the first: the mean over the STS tasks if there were any, else on the pairs;
            None for one model, or without pairs.
        neighbours: nearest sentences of each query, by each model.
    """

    schema_version: Literal[1] = 1
    opencse: str | None = Field(default_factory=lambda: installed("opencse"))
    created: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))
    environment: Environment
    pairs: str | None
    n_pairs: int
    source: str | None
    subjects: list[SubjectFindings]
    difference: PairedBootstrapTasks | None
    neighbours: Neighbours | None


def inspect(
    subjects: Sequence[Subject],
    material: AnalysisTexts,
    *,
    resamples: int = 2_000,
    seed: int = 0,
    progress: Say = SILENT.say,
) -> Findings:
    """Analyzes models, one after another, all on the same texts.

    Args:
        subjects: at least one, with names that differ.
        material: the texts.
        resamples: of the bootstrap over pairs.
        seed: of every random choice.
        progress: called with one line at each step.

    Raises:
        UserError: if a model gives vectors that are not finite.
    """
    generator = np.random.default_rng(seed)
    texts = _sample(material.texts, generator)
    queries = list(material.queries or _default_queries(texts))
    of_pairs = [] if material.pairs is None else distinct([material.pairs.first, material.pairs.second])
    sentences = texts or _sample(of_pairs, generator)
    findings, by_task = [], []
    of_texts: dict[str, Embedded] = {}
    for subject in subjects:
        progress(f"analyzing {subject.model.name}")
        if texts:
            of_texts[subject.model.name] = embed(subject.model.encode, distinct([texts, queries]))
        model, cosines = _analyze(
            subject, material, texts, sentences, queries, of_texts.get(subject.model.name), progress
        )
        findings.append(model)
        by_task.append(cosines)
    neighbours = None
    if texts and queries:
        encoders = {subject.model.name: _searching(subject.model, of_texts[subject.model.name]) for subject in subjects}
        neighbours = compare_neighbours(encoders, texts, queries, source=material.source)
    return Findings(
        environment=Environment.here(subjects[0].model.device),
        pairs=None if material.pairs is None else material.pairs.name,
        n_pairs=0 if material.pairs is None else len(material.pairs),
        source=material.source,
        subjects=findings,
        difference=_difference(material, by_task[-1], by_task[0], resamples, seed) if len(subjects) > 1 else None,
        neighbours=neighbours,
    )


def _searching(model: EmbeddingModel, embedded: Embedded) -> SearchEncode:
    """Returns a function that encodes queries and texts for search, with the model's prompts where it has them."""
    if model.searching is None:
        return lambda queries, texts: (embedded.of(queries), embedded.of(texts))
    searching = model.searching
    return lambda queries, texts: (searching.queries(queries), searching.documents(texts))


def _analyze(
    subject: Subject,
    material: AnalysisTexts,
    texts: list[str],
    sentences: Sequence[str],
    queries: Sequence[str],
    of_texts: Embedded | None,
    report: Say,
) -> tuple[SubjectFindings, dict[str, Floats]]:
    """Returns the findings on one model, and the cosines by which it is compared."""
    cosines: dict[str, Floats] = {}
    measured: dict[str, object] = {"name": subject.model.name, "pooling": subject.model.pooling}
    if material.pairs is not None:
        on_pairs, of_pairs = _on_pairs(subject, material.pairs, report)
        measured |= on_pairs
        cosines = {"pairs": of_pairs}
    if material.sts is not None:
        record = Sts().evaluate(subject.model, material.sts, report)
        cosines = {one.task: one.arrays["cosine"] for one in record.scores if one.arrays}
        measured["sts"] = record.values()
    if of_texts is not None:
        vectors = of_texts.of(texts)
        known = vectors.any(axis=1)
        if not known.all():
            report(f"{subject.model.name}: {int((~known).sum()):,} of the texts have no token it knows, and no cosines")
        if known.sum() > 1:
            measured["random_pairs"] = random_pairs(vectors[known])
    if subject.encoder is not None and subject.encoder.depth and sentences:
        longest = max(queries or sentences[:QUERIES], key=len)
        measured["layers"] = layer_similarities(subject.encoder, sentences[:LAYER_SENTENCES])
        measured["tokens"] = token_similarities(subject.encoder, first_words(longest, 14))
    return SubjectFindings.model_validate(measured), cosines


def _on_pairs(subject: Subject, pairs: ScoredPairs, report: Say) -> tuple[dict[str, object], Floats]:
    from opencse.statistics.correlation import spearman

    embedded = embed(subject.model.encode, distinct([pairs.first, pairs.second]))
    cosines = embedded.cosines(pairs.first, pairs.second)
    low, high = min(0.0, float(pairs.scores.min())), float(pairs.scores.max())
    edges = np.linspace(low, high, 6).tolist()
    unknown = int((~embedded.vectors.any(axis=1)).sum())
    if unknown:
        report(
            f"{subject.model.name}: {number_of(unknown, 'sentence')} of the pairs without a token it knows, so there "
            "is no geometry"
        )
    return {
        "spearman": 100 * spearman(cosines, pairs.scores),
        "geometry": None if unknown else geometry(embedded.vectors, positive_sides(embedded, pairs)),
        "densities": densities(cosines, pairs.scores, edges=edges),
        "bias": pair_bias(cosines, pairs),
    }, cosines


def _difference(
    material: AnalysisTexts, system: Mapping[str, Floats], baseline: Mapping[str, Floats], resamples: int, seed: int
) -> PairedBootstrapTasks | None:
    gold: dict[str, Floats] = {}
    if material.sts is not None:
        gold = {key: task.gold for key, task in material.sts.tasks.items()}
    elif material.pairs is not None:
        gold = {"pairs": material.pairs.scores}
    if not gold or not resamples:
        return None
    return paired_bootstrap_tasks(gold, system, baseline, resamples=resamples, seed=seed)


def _sample(texts: Sequence[str] | None, generator: np.random.Generator) -> list[str]:
    """Returns up to ``CORPUS_SENTENCES`` different texts, in random order."""
    if not texts:
        return []
    different = distinct([texts])
    return [different[i] for i in generator.permutation(len(different))[:CORPUS_SENTENCES]]


def _default_queries(texts: Sequence[str]) -> list[str]:
    """Selects a few texts as queries, rather short ones, so that their neighbours are quickly read."""
    short = [text for text in texts if 5 <= count_words(text) <= 14]
    return list(short[:QUERIES] or texts[:QUERIES])
