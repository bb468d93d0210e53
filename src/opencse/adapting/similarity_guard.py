"""Guards against forgetting in any language: refuses an encoder whose similarities agree little with its start's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from opencse.adapting.holdout import fraction
from opencse.adapting.text_questions import quick
from opencse.adapting.trained_texts import TrainedTexts
from opencse.arrays import Floats
from opencse.encoder.unknown_tokens import unknown_share
from opencse.evaluation.embedding import embed_for_search
from opencse.io import hash_json
from opencse.statistics.correlation import mean_ranks
from opencse.text.languages import language_of_texts
from opencse.text.scripts import search_words

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder

TEXTS = 400
"""Texts that are compared with each other."""
FEWEST = 50
LEAST = 70.0
"""Smallest agreement that is tolerated of a start that knows the language.

With texts that were not adapted to, an agreement of 86 went with no loss on the seven STS tasks, one of 76 with 1.5
points of Spearman x 100 (opencse-mini, English texts); texts that are adapted to may move a little more."""
_MOST_PIECES, _MOST_UNKNOWN = 1.75, 0.05
"""Tokens per word, and share of unknown tokens, above which a start counts as knowing little of a language.

German prose has 2.0 tokens of opencse-mini, which knows only English, per word, and 1.3 of multilingual-e5-small.
Technical words are split more (2.7 and 1.9): then in doubt nothing is refused."""


@dataclass(frozen=True)
class SimilarityGuard:
    """Texts of the user that are not trained on; an encoder shall find much the same of them similar as its start.

    It needs no labels, so it guards every language. It shows how far similarities moved, not whether they got better or
    worse: to adapt an encoder is to move them. So only a large change is refused (`LEAST`), and none where the start
    knows little of the language (`known_by`): it has little to forget. The agreement is always reported.

    The agreement is the mean, over the texts, of Spearman's correlation x 100 between the text's similarities to all
    other texts with one encoder and with the other.

    Attributes:
        texts: n texts.
        language: of the texts; None if it is not clear.

    Example:
        >>> guard = SimilarityGuard(["Eins.", "Zwei.", "Drei.", "Vier."], "german")
        >>> before = np.array([[1.0, 0.9, 0.5, 0.1], [0.9, 1.0, 0.3, 0.2], [0.5, 0.3, 1.0, 0.4], [0.1, 0.2, 0.4, 1.0]])
        >>> guard.agreement(before, before**2), guard.agreement(before, -before)
        (100.0, -100.0)
    """

    texts: list[str]
    language: str | None = None

    @classmethod
    def of(cls, texts: Iterable[str]) -> SimilarityGuard | None:
        """The guard for a user's texts; None where they are English, which general questions guard, or too few.

        Args:
            texts: texts that are not trained on. Those of lowest hash are compared.
        """
        distinct = sorted(dict.fromkeys(texts), key=lambda text: (fraction(text), text))
        language = language_of_texts(distinct)
        if language == "english" or len(distinct) < FEWEST:
            return None
        return cls(distinct[:TEXTS], language)

    @property
    def name(self) -> str:
        """What is compared, for the user."""
        language = "" if self.language is None else f"{self.language.capitalize()} "
        return f"similarities of {len(self.texts):,} held-out {language}texts"

    def without(self, trained: TrainedTexts) -> SimilarityGuard | None:
        """Drops the texts that are trained on; None where too few remain."""
        remaining = [text for text in self.texts if text not in trained]
        return SimilarityGuard(remaining, self.language) if len(remaining) >= FEWEST else None

    def fingerprint(self) -> str:
        """A hash of the texts."""
        return hash_json(self.texts)

    def values(self, encoder: SentenceEncoder) -> Floats:
        """(n, n) similarities of the texts, read as documents."""
        embedded = embed_for_search(quick(encoder), [(self.texts[:1], self.texts)])
        vectors = embedded.of(self.texts)
        return np.asarray(embedded.similarity.matrix(vectors, vectors), dtype=np.float64)

    def known_by(self, start: SentenceEncoder) -> bool:
        """Whether a start knows the language, by its tokens: few per word, and few unknown ones."""
        tokens = start.tokenizer.encode(self.texts, None)
        words = sum(len(search_words(text, pairs=False)) for text in self.texts)
        pieces = sum(map(len, tokens)) - start.tokenizer.special_count * len(tokens)
        return pieces <= _MOST_PIECES * words and unknown_share(start.tokenizer, tokens) <= _MOST_UNKNOWN

    def agreement(self, before: Floats, after: Floats) -> float:
        """How well the similarities of two encoders agree, from -100 to 100; 100 where nothing moved."""
        count = len(before)
        others = ~np.eye(count, dtype=bool)
        rows = (one[others].reshape(count, count - 1) for one in (before, after))
        ranks = [np.array([mean_ranks(row) for row in one]) for one in rows]
        first, second = (one - one.mean(axis=1, keepdims=True) for one in ranks)
        norms = np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))
        correlations = (first * second).sum(axis=1) / np.where(norms > 0, norms, np.inf)
        return round(100 * float(correlations.mean()), 9)
