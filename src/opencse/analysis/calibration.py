"""Calibration: what a cosine of 0.7 means for a model on your text, saved in the model's folder."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import AwareDatetime, Field

from opencse.analysis.random_pairs import RandomPairs, random_pairs
from opencse.analysis.thresholds import Threshold, at_precision, best_f1
from opencse.arrays import Flags
from opencse.errors import UserError
from opencse.evaluation import ScoredPairs, distinct, embed
from opencse.foreign import checks_trust
from opencse.model_folder.layout import CALIBRATION
from opencse.records import read_record, save_json
from opencse.settings import Settings

if TYPE_CHECKING:
    from opencse.encoder.text_encoder import TextEncoder


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
            UserError: if there is no such folder, or it cannot be written.
        """
        if not Path(folder).is_dir():
            raise UserError(f"{folder}: no such folder; save the model there first")
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
            precision or cut without labelled pairs, a precision that no threshold reaches, limits too low, or a model
            that gives NaN or infinite values.

    Example:
        >>> import opencse
        >>> texts = ["A cat sleeps.", "A dog barks.", "It rains today.", "The train is late."]
        >>> calibration = calibrate(opencse.load(), texts)
        >>> calibration.random_pairs.pairs, calibration.percentile_of(1.0)
        (6, 100.0)
    """
    if labelled is None and (cut is not None or precision is not None):
        raise UserError("a cut or a precision needs labelled pairs; give them, or leave it out")
    if limit < 2:
        raise UserError(f"limit is the number of texts encoded, at least 2, not {limit}")
    if precision is not None and not 0 < precision <= 1:
        raise UserError(f"precision is above 0 and at most 1, not {precision:g}")
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
