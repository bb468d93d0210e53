"""What views have in common that change the tokens of a sentence."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from opencse.objective.views.base import ChangesTokens
from opencse.objective.views.sentences import SentenceView
from opencse.settings import PartSettings
from opencse.text.tokenizer import Ids, TokenisedText, WordNumbers

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder


class TokenView(ChangesTokens, SentenceView):
    """Every sentence with itself, the positive's tokens changed anew each step; the anchor stays as it is.

    The special tokens that the tokenizer put around the text are never changed, and no positive is longer than the
    encoder reads. Both views go through dropout as ever; without dropout they still differ.
    """

    def __init__(self, settings: PartSettings | None = None) -> None:
        super().__init__(settings)
        self._longest: int | None = None

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Notes how long a text may become."""
        del batch_size, seed
        self._longest = encoder.max_length

    def positives(self, texts: Sequence[TokenisedText], random: np.random.Generator) -> Sequence[Ids]:
        """The changed ids of each text."""
        return [self.changed(text.ids, word_numbers(text), random) for text in texts]

    @abstractmethod
    def changed(self, ids: Ids, numbers: WordNumbers, random: np.random.Generator) -> Ids:
        """One text's new ids.

        Args:
            ids: (length,) with special tokens.
            numbers: (length,) the word of each id, -1 for the special tokens.
            random: where to draw from.
        """

    def room(self, ids: Ids) -> int:
        """How many ids a text may gain before it is longer than the encoder reads."""
        if self._longest is None:
            raise RuntimeError(f"the {self.kind} view was not begun, so it does not know how long a text may become")
        return max(0, self._longest - len(ids))


def word_numbers(text: TokenisedText) -> WordNumbers:
    """The word numbers of a text that must have them."""
    if text.words is None:
        raise RuntimeError("a view that changes tokens was given texts without the numbers of their words")
    return text.words
