"""Semantic textual similarity: does the cosine of two sentences rank as people rank their likeness?

Protocol of SimCSE (Gao et al. 2021, appendix B), which the family shares: no truncation by evaluation, cosine
of the sentence vectors, Spearman's correlation with the gold scores; for the years 2012 to 2016 over the
concatenation of the subsets (``all``), beside ``mean`` and ``wmean``; the average is over seven tasks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from opencse.environment import Environment
from opencse.evaluation.correlation import Floats, pearson, spearman
from opencse.evaluation.embedding import Encode, Progress, distinct, embed, silent
from opencse.evaluation.pairs import ScoredPairs
from opencse.evaluation.record import DataRecord
from opencse.evaluation.sts.data import StsData, TaskPairs
from opencse.evaluation.sts.result import Aggregates, LengthScore, LengthSplit, Score, StsResult, StsScores, TaskScore

Keep = Callable[[str, Floats], None]
SAME_LENGTH = 3  # words of difference up to which ESimCSE counts two sentences as of similar length


def evaluate_pairs(encode: Encode, pairs: ScoredPairs) -> Score:
    """Spearman and Pearson, x 100, of the cosines of one set of pairs; for instance STS-B dev in training.

    Args:
        encode: texts -> (n, d); called once, on the distinct sentences.
        pairs: the sentences and their gold scores.

    Raises:
        UserError: if a vector holds NaN or infinite values.
        ValueError: if ``encode`` does not return an (n, d) array.
    """
    embedded = embed(encode, distinct([pairs.first, pairs.second]))
    return _score(embedded.cosines(pairs.first, pairs.second), pairs.scores)


def evaluate_sts(
    encode: Encode,
    data: StsData,
    *,
    model: str | None = None,
    pooling: str | None = None,
    device: str | None = None,
    progress: Progress | None = None,
    keep: Keep | None = None,
) -> StsResult:
    """Judges an encoder on STS tasks.

    Args:
        encode: texts -> (n, d); called once, on the distinct sentences of all the tasks.
        data: the tasks, from ``load_sts`` or ``load_sts_hub``.
        model: recorded in the result; so are ``pooling`` and ``device``.
        pooling: see ``model``.
        device: see ``model``.
        progress: called with one line at each step.
        keep: called with each task's key and its (n,) cosines, subsets one after another, for tests over pairs.

    Returns:
        Spearman and Pearson, x 100, of every task and subset.

    Raises:
        UserError: if a vector holds NaN or infinite values.
        ValueError: if ``encode`` does not return an (n, d) array.
    """
    tell = progress or silent
    started = time.perf_counter()
    texts = distinct(
        side for pairs in data.tasks.values() for part in pairs.parts for side in (part.first, part.second)
    )
    total = sum(pairs.n for pairs in data.tasks.values())
    tell(f"STS: {len(data.tasks)} tasks, {total:,} pairs, {len(texts):,} distinct sentences, text {data.text}")
    embedded = embed(encode, texts)
    tell(f"STS: encoded in {time.perf_counter() - started:.1f} s")
    scores: dict[str, TaskScore] = {}
    for key, pairs in data.tasks.items():
        cosines = [embedded.cosines(part.first, part.second) for part in pairs.parts]
        scores[key] = score_task(pairs, cosines)
        if keep is not None:
            keep(key, np.concatenate(cosines))
        tell(_line(pairs, scores[key]))
    return StsResult(
        model=model,
        pooling=pooling,
        data=DataRecord(
            source=data.source,
            text=data.text,
            sha256={key: pairs.sha256() for key, pairs in data.tasks.items()},
        ),
        environment=Environment.here(device),
        seconds=time.perf_counter() - started,
        sts=StsScores.of(scores),
    )


def score_task(pairs: TaskPairs, cosines: Sequence[Floats]) -> TaskScore:
    r"""The scores of one task over its subsets :math:`S_1 \dots S_K`, :math:`|S_k| = n_k` (SimCSE, app. B).

    .. math:: \text{all} = \rho\Big(\bigcup_k S_k\Big), \quad
              \text{mean} = \frac1K \sum_k \rho(S_k), \quad
              \text{wmean} = \frac{\sum_k n_k\, \rho(S_k)}{\sum_k n_k}

    A task of one file has one value for the three; where the source knows no subsets, the last two are None.
    """
    all_cosines, all_gold = np.concatenate(cosines), pairs.gold
    whole = _score(all_cosines, all_gold)
    parts: dict[str, Score] = {}
    if pairs.has_subsets:
        parts = {part.name: _score(c, part.scores) for part, c in zip(pairs.parts, cosines, strict=True)}
    sizes = [score.n for score in parts.values()]
    return TaskScore(
        spearman=_aggregates(whole.spearman, [score.spearman for score in parts.values()], sizes),
        pearson=_aggregates(whole.pearson, [score.pearson for score in parts.values()], sizes),
        subsets=parts,
        n=whole.n,
        complete=pairs.complete,
        by_length=length_split(
            all_cosines,
            all_gold,
            [text for part in pairs.parts for text in part.first],
            [text for part in pairs.parts for text in part.second],
        ),
    )


def length_split(cosines: Floats, gold: Floats, first: Sequence[str], second: Sequence[str]) -> LengthSplit | None:
    r"""Spearman of the pairs of similar length and of the others (ESimCSE, section 1 and Tables 1, 7).

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


def _aggregates(whole: float, parts: Sequence[float], sizes: Sequence[int]) -> Aggregates:
    if not parts:
        return Aggregates(all=whole, mean=None, wmean=None)
    if len(parts) == 1:
        return Aggregates(all=whole, mean=whole, wmean=whole)
    return Aggregates(
        all=whole,
        mean=float(np.mean(parts)),
        wmean=float(np.average(parts, weights=np.asarray(sizes, float))),
    )


def _line(pairs: TaskPairs, score: TaskScore) -> str:
    line = f"{pairs.task.title}: Spearman {score.spearman.all:.2f} over {score.n:,} pairs"
    if not score.complete:
        line += f" (published: {pairs.task.pairs:,} pairs, so this does not compare with published values)"
    return line
