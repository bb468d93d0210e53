"""The auxiliary masked-language-model loss."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import Tensor

from opencse.objective.losses import masked_lm
from opencse.objective.representations import Needs, Representations
from opencse.objective.terms.base import Term
from opencse.settings import PartSettings


class MaskedLM(Term):
    """Masked-language-model loss beside contrast (SimCSE, section 4 and Table D.2): ``loss + weight * mlm``.

    ``rate`` of the real tokens (never special ones) are chosen in a copy of the anchors and positives; of those
    80% become [MASK], 10% a random ordinary id, 10% stay. The contrastive input itself is never masked (an early
    version of the authors' code did that). The backbone's own head predicts, over the chosen positions only.
    The authors' code also masks the hard negatives, its random ids may be special ones, and its decoder is a copy of
    the word embeddings that is trained for itself (``tied = false``).
    """

    class Settings(PartSettings):
        """Settings of `MaskedLM`.

        Attributes:
            weight: of the term.
            rate: share of the tokens that are chosen.
            tied: the head's decoder shares the word embeddings, where the model's configuration says so; false gives
                it a copy of its own.
        """

        kind: Literal["mlm"] = "mlm"
        weight: float = Field(default=0.1, gt=0, allow_inf_nan=False)
        rate: float = Field(default=0.15, gt=0, lt=1)
        tied: bool = True

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.weight = settings.weight
        self.needs = Needs(masked_rate=settings.rate, untied_decoder=not settings.tied)

    def loss(self, reps: Representations) -> Tensor:
        """Mean cross-entropy over the chosen positions."""
        if reps.masked_logits is None or reps.masked_labels is None:
            raise RuntimeError("the MLM term was given no masked copy")
        return masked_lm(reps.masked_logits, reps.masked_labels)
