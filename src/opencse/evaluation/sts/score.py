"""STS: does the cosine of two sentences rank pairs as people rank their similarity?

Protocol of SimCSE (Gao et al. 2021, appendix B), which later papers share: no truncation by evaluation, cosine
of the sentence vectors, Spearman's correlation with the gold scores; for the years 2012 to 2016 over the
concatenation of the subsets (``all``), in addition to ``mean`` and ``wmean``; the average is over seven tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from opencse.arrays import Floats
from opencse.evaluation.embedding import Embedded
from opencse.evaluation.sts.data import HUB, TASKS, StsData, TaskPairs, load_sts, load_sts_hub
from opencse.evaluation.sts.result import Aggregates, LengthScore, LengthSplit, Score, StsResult, StsScores, TaskScore
from opencse.evaluation.sts.tables import sts_table
from opencse.evaluation.suite import Options, Suite
from opencse.numerals import number_of
from opencse.statistics.correlation import pearson, spearman

if TYPE_CHECKING:
    from rich.table import Table

SAME_LENGTH = 3
"""Words of difference up to which ESimCSE counts two sentences as of similar length."""


@dataclass(frozen=True)
class Sts(Suite[TaskPairs, TaskScore, StsResult]):
    """Scores every task and subset by Spearman's and Pearson's correlation, x 100.

    The arrays for tests over pairs are ``<task>.cosine`` and ``<task>.gold``, (n,), one subset after another.

    Example:
        >>> from opencse.evaluation import TASKS, EmbeddingModel, ScoredPairs, StsData, TaskPairs
        >>> from opencse.evaluation.models.bag_of_words import BagOfWords
        >>> pairs = ScoredPairs("test", np.array([0.0, 5.0, 3.0]), ["red", "a cat", "a cat"], ["cat", "a cat", "a dog"])
        >>> data = StsData("three pairs", "unknown", {"stsb": TaskPairs(TASKS["stsb"], (pairs,))})
        >>> evaluation = Sts().evaluate(EmbeddingModel("bag of words", BagOfWords().encode), data)
        >>> {name: round(value, 2) for name, value in evaluation.record.values().items()}
        {'sts.stsb': 100.0}
    """

    name = "sts"
    title = "STS"
    folder = "sts"

    @classmethod
    def of(cls, options: Options) -> Self:
        """See ``Suite``; this suite has no options."""
        return cls()

    def load(self, folder: Path, tasks: Sequence[str] | None = None) -> StsData:
        """See ``load_sts``; ``hub`` instead of a folder: ``load_sts_hub``."""
        return load_sts_hub(tasks) if str(folder) == HUB else load_sts(folder, tasks)

    def score_names(self, data: StsData) -> list[str]:
        """See ``Suite``."""
        return [*super().score_names(data), *(["sts.average"] if TASKS.keys() <= data.tasks.keys() else [])]

    def score(self, task: TaskPairs, embedded: Embedded, device: str = "cpu") -> TaskScore:
        """See ``score_task``."""
        return score_task(task, _cosines(task, embedded))

    def arrays(self, name: str, task: TaskPairs, embedded: Embedded) -> dict[str, Floats]:
        """See the class."""
        return {f"{name}.gold": task.gold, f"{name}.cosine": np.concatenate(_cosines(task, embedded))}

    def record(self, scores: dict[str, TaskScore], common: Mapping[str, Any]) -> StsResult:
        """See ``Suite``."""
        return StsResult(**common, sts=StsScores.of(scores))

    def line(self, task: TaskPairs, score: TaskScore) -> str:
        """See ``Suite``."""
        line = f"{task.task.title}: Spearman {score.spearman.all:.2f} over {number_of(score.n, 'pair')}"
        if not score.complete:
            line += f" (published: of {task.task.pairs:,} pairs, so this does not compare with published values)"
        return line

    @classmethod
    def table(cls, results: Mapping[str, StsResult]) -> Table:
        """See ``sts_table``."""
        return sts_table(results)


def _cosines(task: TaskPairs, embedded: Embedded) -> list[Floats]:
    """Returns the cosines of each part's pairs."""
    return [embedded.cosines(part.first, part.second) for part in task.parts]


def score_task(pairs: TaskPairs, cosines: Sequence[Floats]) -> TaskScore:
    r"""Scores one task over its subsets :math:`S_1 \dots S_K`, :math:`|S_k| = n_k` (SimCSE, app. B).

    .. math:: \text{all} = \rho\Big(\bigcup_k S_k\Big), \quad
              \text{mean} = \frac1K \sum_k \rho(S_k), \quad
              \text{wmean} = \frac{\sum_k n_k\, \rho(S_k)}{\sum_k n_k}

    A task of one file has one value for the three; where the source does not separate subsets, the last two are None.
    """
    all_cosines, all_gold = np.concatenate(cosines), pairs.gold
    overall = _score(all_cosines, all_gold)
    parts: dict[str, Score] = {}
    if pairs.has_subsets:
        parts = {part.name: _score(c, part.scores) for part, c in zip(pairs.parts, cosines, strict=True)}
    sizes = [score.n for score in parts.values()]
    return TaskScore(
        spearman=_aggregates(overall.spearman, [score.spearman for score in parts.values()], sizes),
        pearson=_aggregates(overall.pearson, [score.pearson for score in parts.values()], sizes),
        subsets=parts,
        n=overall.n,
        complete=pairs.complete,
        by_length=length_split(
            all_cosines,
            all_gold,
            [text for part in pairs.parts for text in part.first],
            [text for part in pairs.parts for text in part.second],
        ),
    )


def length_split(cosines: Floats, gold: Floats, first: Sequence[str], second: Sequence[str]) -> LengthSplit | None:
    r"""Scores the pairs of similar length and the others, by Spearman (ESimCSE, section 1 and Tables 1, 7).

    .. math:: \rho\big(\{i : d_i \le 3\}\big), \quad \rho\big(\{i : d_i > 3\}\big), \quad
              d_i = \big|\,|x_i| - |y_i|\,\big|

    :math:`|x|` counts words between white space (the paper does not say what it counts). A task's subsets are
    taken together.

    Args:
        cosines: (n,).
        gold: (n,).
        first: n first sentences.
        second: n second sentences.

    Returns:
        Both correlations x 100, or None if one is undefined: fewer than 2 pairs, or equal gold scores.
    """
    lengths = [(len(one.split()), len(two.split())) for one, two in zip(first, second, strict=True)]
    near = np.array([abs(one - two) <= SAME_LENGTH for one, two in lengths], dtype=bool)
    if any(len(np.unique(gold[half])) < 2 for half in (near, ~near)):
        return None
    up_to_3, over_3 = (
        LengthScore(spearman=100 * spearman(cosines[half], gold[half]), n=int(half.sum())) for half in (near, ~near)
    )
    return LengthSplit(up_to_3=up_to_3, over_3=over_3)


def _score(cosines: Floats, gold: Floats) -> Score:
    return Score(spearman=100 * spearman(cosines, gold), pearson=100 * pearson(cosines, gold), n=len(gold))


def _aggregates(overall: float, parts: Sequence[float], sizes: Sequence[int]) -> Aggregates:
    if not parts:
        return Aggregates(all=overall, mean=None, wmean=None)
    if len(parts) == 1:
        return Aggregates(all=overall, mean=overall, wmean=overall)
    weighted = float(np.average(parts, weights=np.asarray(sizes, float)))
    return Aggregates(all=overall, mean=float(np.mean(parts)), wmean=weighted)
