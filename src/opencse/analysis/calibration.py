"""Calibration: what a cosine of 0.7 means for a model on your text, and which threshold separates pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AwareDatetime, Field, FiniteFloat

from opencse.analysis.geometry import require_vectors
from opencse.arrays import Flags, Floats, Integers, Vectors
from opencse.errors import UserError
from opencse.evaluation import ScoredPairs, distinct, embed
from opencse.foreign import checks_trust
from opencse.model_folder.layout import CALIBRATION
from opencse.numerals import number_of
from opencse.records import read_record, save_json
from opencse.settings import Settings
from opencse.statistics.correlation import cosine_of_pairs
from opencse.statistics.difference import ALPHA, Interval

if TYPE_CHECKING:
    from opencse.encoder.text_encoder import TextEncoder

SHOWN = (1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0, 99.9)
"""The percents that are shown."""

PERCENTS = (*(k / 10 for k in range(10)), *map(float, range(1, 99)), *(99 + k / 10 for k in range(10)), 99.99, 100.0)
"""The percents recorded: every whole one, every tenth of one in the tails, and one beyond."""


class RandomPairs(Settings):
    """The cosines of random pairs of texts, as quantiles.

    Attributes:
        texts: vectors the pairs are of.
        pairs: pairs taken.
        exact: whether these are all pairs; else they were drawn, with replacement.
        seed: of the draw.
        percents: rising, from 0 to 100.
        cosines: at each percent, the cosine that this percent of the pairs does not exceed.
    """

    texts: int
    pairs: int
    exact: bool
    seed: int
    percents: list[FiniteFloat]
    cosines: list[FiniteFloat]

    def quantile(self, percent: float) -> float:
        """Returns the cosine that ``percent`` % of the pairs do not exceed, by linear interpolation."""
        return float(np.interp(percent, self.percents, self.cosines))

    def quantiles_by_percent(self) -> dict[float, float]:
        """Returns the quantiles by percent: 1, 5, 25, 50, 75, 95, 99, 99.9."""
        return {percent: self.quantile(percent) for percent in SHOWN}

    def percentile_of(self, cosine: float) -> float:
        """Returns the percent of the random pairs that have a lower cosine; 0 below all of them, 100 above.

        It is interpolated linearly, and good to about 0.1 in the tails.
        """
        after = int(np.searchsorted(self.cosines, cosine, side="left"))
        if after == 0:
            return 0.0
        if after == len(self.cosines):
            return 100.0
        low, high = self.cosines[after - 1], self.cosines[after]
        start, end = self.percents[after - 1], self.percents[after]
        return start + (end - start) * (cosine - low) / (high - low)


def random_pairs(vectors: Vectors, *, pairs: int = 100_000, seed: int = 0) -> RandomPairs:
    """Measures the quantiles of the cosines of random pairs of vectors.

    All n (n - 1) / 2 pairs are taken where they are not more than ``pairs``; else ``pairs`` of them are drawn by a
    separate generator, i uniformly, j uniformly among the others, with replacement. Quantiles are numpy's, interpolated
    linearly. A quantile at p % then has a standard error of sqrt(p (100 - p) / pairs) percents: 0.01 at
    99.9 % and 100,000 pairs, apart from the choice of the texts.

    Args:
        vectors: (n, d), of different texts: a text that occurs twice has cosine 1 with itself.
        pairs: how many to take.
        seed: of the draw.

    Raises:
        UserError: for fewer than 2 vectors, NaN or infinite values.

    Example:
        >>> cosines = random_pairs(np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]))
        >>> cosines.pairs, cosines.exact, cosines.quantile(50), cosines.percentile_of(0.7)
        (3, True, 0.6, 75.0)
    """
    require_vectors(vectors, 2)
    n = len(vectors)
    exact = n * (n - 1) // 2 <= pairs
    first, second = np.triu_indices(n, 1) if exact else _draw(n, pairs, np.random.default_rng(seed))
    cosines = cosine_of_pairs(vectors, first, second)
    quantiles = np.quantile(cosines, np.array(PERCENTS) / 100)
    return RandomPairs(
        texts=n,
        pairs=len(cosines),
        exact=exact,
        seed=seed,
        percents=list(PERCENTS),
        cosines=np.maximum.accumulate(quantiles).tolist(),
    )


def _draw(n: int, pairs: int, generator: np.random.Generator) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Draws two different rows of n, ``pairs`` times."""
    first = generator.integers(0, n, size=pairs, dtype=np.intp)
    other = generator.integers(0, n - 1, size=pairs, dtype=np.intp)
    return first, other + (other >= first)


Rule = Callable[[Floats, Floats], int | None]
"""(hits, accepted), both (G,): similar pairs, and all pairs, at and above each distinct cosine, from the highest on ->
the number of the lowest cosine to accept, or None."""


class Threshold(Settings):
    """A cosine at and above which a pair is called similar, and what that gives on the labelled pairs.

    It was selected on these very pairs, so precision, recall and F1 are somewhat higher than on others.

    Attributes:
        rule: ``best_f1``, or ``precision``: the highest recall at the requested precision.
        wanted: the requested precision; None for ``best_f1``.
        cosine: the threshold.
        interval: of the cosine, 95%, percentiles of the bootstrap over pairs; None where an end has no threshold.
        precision: of the pairs called similar, the part that is.
        recall: of the pairs labelled similar, the part called so.
        f1: harmonic mean of the two.
        pairs: labelled pairs; the next field counts those that are labelled similar.
        resamples: of the bootstrap.
        seed: of its draws.
    """

    rule: Literal["best_f1", "precision"]
    wanted: float | None
    cosine: FiniteFloat
    interval: Interval | None
    precision: float = Field(ge=0, le=1)
    recall: float = Field(ge=0, le=1)
    f1: float = Field(ge=0, le=1)
    pairs: int
    alike: int
    resamples: int
    seed: int


def best_f1(cosines: Vectors, similar: Flags, *, resamples: int = 1000, seed: int = 0) -> Threshold:
    r"""Finds the threshold with the best F1.

    .. math:: P = \frac{|\{i : c_i \ge \theta, y_i = 1\}|}{|\{i : c_i \ge \theta\}|}, \quad
              R = \frac{|\{i : c_i \ge \theta, y_i = 1\}|}{|\{i : y_i = 1\}|}, \quad F_1 = \frac{2 P R}{P + R}

    Of several with one F1 the highest is taken. It is half way between the lowest cosine that it accepts and the next
    lower one. The interval is of the percentiles 2.5 and 97.5 of the threshold over ``resamples`` draws of n of the n
    pairs with replacement, each with its own threshold (Efron and Tibshirani 1993, ch. 13).

    Args:
        cosines: (n,), in [-1, 1].
        similar: (n,), True for pairs that are labelled similar: some, and not all.
        resamples: of the bootstrap, at least 1.
        seed: of a separate generator.

    Example:
        >>> cosines = np.array([0.9, 0.8, 0.6, 0.5, 0.2])
        >>> threshold = best_f1(cosines, np.array([True, True, False, True, False]), resamples=20)
        >>> round(threshold.cosine, 2), threshold.precision, threshold.recall
        (0.35, 0.75, 1.0)
    """
    labelled = _Labelled.of(cosines, similar)
    best = labelled.cut(_by_f1)
    assert best is not None
    return labelled.threshold(best, _by_f1, "best_f1", None, resamples, seed)


def at_precision(
    cosines: Vectors,
    similar: Flags,
    precision: float,
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> Threshold:
    """Finds the threshold with the highest recall among those that reach a precision; see ``best_f1``.

    In a resample that reaches the precision nowhere, the threshold counts as above all cosines.

    Args:
        cosines: (n,), in [-1, 1].
        similar: (n,), True for pairs that are labelled similar: some, and not all.
        precision: at least, above 0 and at most 1.
        resamples: of the bootstrap, at least 1.
        seed: of a separate generator.

    Raises:
        UserError: if no threshold reaches that precision; the message has the highest one.

    Example:
        >>> cosines = np.array([0.9, 0.8, 0.6, 0.5, 0.2])
        >>> threshold = at_precision(cosines, np.array([True, True, False, True, False]), 1.0, resamples=20)
        >>> round(threshold.cosine, 2), round(threshold.recall, 2)
        (0.7, 0.67)
    """
    labelled, choose = _Labelled.of(cosines, similar), _by_precision(precision)
    best = labelled.cut(choose)
    if best is None:
        hits, accepted, _ = labelled.counts()
        raise UserError(
            f"no threshold reaches precision {precision:g} on these {number_of(len(labelled.group), 'pair')} (the "
            f"highest is {(hits / accepted).max():.3f}); give a lower precision, or label more pairs"
        )
    return labelled.threshold(best, choose, "precision", precision, resamples, seed)


def _by_f1(hits: Floats, accepted: Floats) -> int | None:
    # F1 = 2 hits / (accepted + positives), the last of hits being all positives. argmax takes the highest cosine.
    return int(np.argmax(2 * hits / (accepted + hits[-1]))) if hits[-1] > 0 else None


def _by_precision(precision: float) -> Rule:
    def choose(hits: Floats, accepted: Floats) -> int | None:
        enough = np.flatnonzero((hits > 0) & (hits / accepted >= precision))
        return int(enough[np.argmax(hits[enough])]) if len(enough) else None

    return choose


@dataclass(frozen=True)
class _Labelled:
    """Labelled pairs in groups of equal cosines.

    Attributes:
        values: the distinct cosines, falling, (G,).
        group: of each pair, (n,).
        positive: labels, (n,).
    """

    values: Floats
    group: Integers
    positive: Flags

    @classmethod
    def of(cls, cosines: Vectors, similar: Flags) -> _Labelled:
        rising, group = np.unique(np.asarray(cosines, dtype=np.float64), return_inverse=True)
        return cls(rising[::-1], len(rising) - 1 - group, similar)

    def counts(self, rows: Integers | slice = slice(None)) -> tuple[Floats, Floats, Floats]:
        """Counts positives and pairs at and above each distinct cosine of the ``rows``; also returns these cosines."""
        group = self.group[rows]
        accepted = np.bincount(group, minlength=len(self.values))
        hits = np.bincount(group[self.positive[rows]], minlength=len(self.values))
        occurs = accepted > 0
        return (
            hits[occurs].cumsum().astype(np.float64),
            accepted[occurs].cumsum().astype(np.float64),
            self.values[occurs],
        )

    def cut(self, choose: Rule, rows: Integers | slice = slice(None)) -> tuple[float, int, int] | None:
        """Returns the threshold that ``choose`` selects on the ``rows``, and the positives and pairs it accepts."""
        hits, accepted, values = self.counts(rows)
        last = choose(hits, accepted)
        if last is None:
            return None
        cosine = values[last]
        if last + 1 < len(values):
            middle = (cosine + values[last + 1]) / 2
            cosine = middle if middle > values[last + 1] else cosine  # neighbours in float64 have no middle
        return float(cosine), int(hits[last]), int(accepted[last])

    def threshold(
        self,
        best: tuple[float, int, int],
        choose: Rule,
        rule: Literal["best_f1", "precision"],
        precision: float | None,
        resamples: int,
        seed: int,
    ) -> Threshold:
        """Makes the record of ``best``, the cut that ``choose`` selects, with its interval."""
        n, generator = len(self.group), np.random.default_rng(seed)
        cuts = [self.cut(choose, generator.integers(0, n, size=n)) for _ in range(resamples)]
        thresholds = [math.inf if cut is None else cut[0] for cut in cuts]
        # Order statistics, not the mean of two: one of them may be infinite.
        lower = float(np.quantile(thresholds, ALPHA / 2, method="lower"))
        upper = float(np.quantile(thresholds, 1 - ALPHA / 2, method="higher"))
        (cosine, hits, accepted), similar = best, int(self.positive.sum())
        return Threshold(
            rule=rule,
            wanted=precision,
            cosine=cosine,
            interval=(lower, upper) if math.isfinite(upper) else None,
            precision=hits / accepted,
            recall=hits / similar,
            f1=2 * hits / (accepted + similar),
            pairs=n,
            alike=similar,
            resamples=resamples,
            seed=seed,
        )


class Calibration(Settings):
    """The cosines of one model on one corpus: of random pairs, and thresholds from labelled pairs.

    Attributes:
        schema_version: changes when a key changes its meaning.
        model: hash of the model it was made for (``opencse.encoder.fingerprint``).
        corpus: what the text is called, or None.
        created: when, UTC.
        random_pairs: cosines of random pairs of the corpus.
        best_f1: the threshold with the best F1, if labelled pairs were given.
        at_precision: the threshold for the requested precision, if one was given.
    """

    schema_version: Literal[1] = 1
    model: str
    corpus: str | None = None
    created: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))
    random_pairs: RandomPairs
    best_f1: Threshold | None = None
    at_precision: Threshold | None = None

    def percentile_of(self, cosine: float) -> float:
        """Returns the percent of random pairs of the corpus with a lower cosine; see ``RandomPairs.percentile_of``."""
        return self.random_pairs.percentile_of(cosine)

    def save(self, folder: str | Path) -> None:
        """Writes ``calibration.json`` into a model's folder, atomically.

        Raises:
            UserError: if it cannot be written.
        """
        save_json(Path(folder) / CALIBRATION, self.model_dump(mode="json"))

    @classmethod
    @checks_trust
    def load(
        cls, folder: str | Path, encoder: TextEncoder | None = None, *, trust_remote_code: bool = False
    ) -> Calibration | None:
        """Reads the calibration in a model's folder, after a check that it was made for this very model.

        Args:
            folder: of the model.
            encoder: the model as it will be used; by default it is loaded from the folder, to be hashed.
            trust_remote_code: see `SentenceEncoder.load`, where it is loaded here.

        Returns:
            None where the folder has none.

        Raises:
            UserError: for a file that is not a calibration, or one made for other weights, pooling or settings.
        """
        path = Path(folder) / CALIBRATION
        if not path.is_file():
            return None
        calibration = read_record(cls, path)
        from opencse.encoder.opening import load

        if encoder is None:
            encoder = load(folder, device="cpu", trust_remote_code=trust_remote_code)
        model = encoder.fingerprint()
        if calibration.model != model:
            raise UserError(
                f"{path}: was made for a model of other weights or settings (hash {calibration.model}, this one's is "
                f"{model}); calibrate again, or delete the file"
            )
        return calibration


def calibrate(
    encoder: TextEncoder,
    texts: Sequence[str],
    *,
    labelled: ScoredPairs | None = None,
    cut: float | None = None,
    precision: float | None = None,
    corpus: str | None = None,
    limit: int = 20_000,
    pairs: int = 100_000,
    resamples: int = 1000,
    seed: int = 0,
) -> Calibration:
    """Measures the cosines of random pairs of a corpus and, from labelled pairs, thresholds.

    See ``random_pairs`` and ``best_f1``.

    Args:
        encoder: the model.
        texts: your texts; each different one counts once.
        labelled: pairs labelled 0 and 1, or with gold scores and a ``cut``.
        cut: the gold score from which on a pair is similar.
        precision: adds the threshold with this precision.
        corpus: what the text is called, for the record.
        limit: texts encoded; where there are more, this many are drawn without replacement by a separate generator.
        pairs: random pairs taken.
        resamples: of the thresholds' bootstrap.
        seed: of all draws.

    Raises:
        UserError: for fewer than 2 different texts, labels other than 0 and 1 without a cut, labels of one kind, a
            precision that no threshold reaches, or a model that gives NaN or infinite values.

    Example:
        >>> import opencse
        >>> texts = ["A cat sleeps.", "A dog barks.", "It rains today.", "The train is late."]
        >>> calibration = calibrate(opencse.load(), texts)
        >>> calibration.random_pairs.pairs, calibration.percentile_of(1.0)
        (6, 100.0)
    """
    similar = None if labelled is None else labels(labelled, cut)  # refused before any text is encoded
    distinct_texts = distinct([texts])
    if len(distinct_texts) < 2:
        raise UserError(f"{len(distinct_texts)} different text(s); random pairs need at least 2")
    if len(distinct_texts) > limit:
        rows = np.random.default_rng(seed).choice(len(distinct_texts), size=limit, replace=False)
        distinct_texts = [distinct_texts[row] for row in np.sort(rows).tolist()]
    from opencse.encoder.fingerprint import fingerprint

    by_chance = random_pairs(embed(encoder.encode, distinct_texts).vectors, pairs=pairs, seed=seed)
    best = precise = None
    if labelled is not None and similar is not None:
        embedded = embed(encoder.encode, distinct([labelled.first, labelled.second]))
        cosines = embedded.cosines(labelled.first, labelled.second)
        best = best_f1(cosines, similar, resamples=resamples, seed=seed)
        if precision is not None:
            precise = at_precision(cosines, similar, precision, resamples=resamples, seed=seed)
    return Calibration(
        model=fingerprint(encoder), corpus=corpus, random_pairs=by_chance, best_f1=best, at_precision=precise
    )


def labels(pairs: ScoredPairs, cut: float | None = None) -> Flags:
    """Labels the pairs with a gold score of at least ``cut`` as similar; without a cut the scores must be 0 and 1.

    Raises:
        UserError: for scores other than 0 and 1 without a cut, or a cut that leaves one kind of pairs.

    Example:
        >>> pairs = ScoredPairs("graded", np.array([4.5, 1.0]), ["a", "b"], ["c", "d"])
        >>> labels(pairs, cut=4).tolist()
        [True, False]
    """
    if cut is None:
        other = ~np.isin(pairs.scores, (0.0, 1.0))
        if other.any():
            raise UserError(
                f"{pairs.name}, pair {int(other.argmax()) + 1}: its score is {pairs.scores[other.argmax()]:g}, not a "
                "label 0 or 1; give the cut from which on a score means similar"
            )
        cut = 1.0
    similar: Flags = pairs.scores >= cut
    if not similar.any() or similar.all():
        raise UserError(
            f"{pairs.name}: a cut of {cut:g} leaves pairs of one kind (scores are {pairs.scores.min():g} to "
            f"{pairs.scores.max():g}); choose one in between"
        )
    return similar
