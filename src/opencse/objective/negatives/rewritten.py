"""The batch's texts in another template, or negated, as a source of negatives."""

from __future__ import annotations

import math
from collections.abc import Set
from typing import Any, Literal

from pydantic import Field, field_validator

from opencse.encoder.encoder import SentenceEncoder
from opencse.objective.columns import Own, Scoring, VectorColumns
from opencse.objective.negatives.base import NegativeSource
from opencse.objective.vectors.requests import Sentences
from opencse.objective.vectors.rewritten import Rewriting, Rewritten, add_template
from opencse.objective.vectors.step import Representations, Request
from opencse.objective.views.templates import valid_template
from opencse.settings import PartSettings


class RewrittenTexts(NegativeSource):
    """The texts of the batch after a change, the anchor's own among them (CoT-BERT's negative template).

    Columns of anchor i: ``sim(a_i, c_j) / tau`` for every j, with c_j the vector of text j in ``template`` and, with
    ``change = "negated"``, negated; with ``side = "positive"`` it is ``sim(b_i, c_j) / tau``. CoT-BERT
    (arXiv:2309.11143) has both, 2N columns: list the source twice. The rows are encoded once.

    Example:
        >>> import torch
        >>> source = RewrittenTexts(RewrittenTexts.Settings(template="No {text}"))
        >>> views, changed = torch.eye(2), torch.ones(2, 2)
        >>> reps = Representations(views, views, views[:, None][:, :0], torch.eye(2), {source.request: changed})
        >>> source.columns(reps, Scoring(temperature=1.0)).dense().weighted()
        tensor([[0.7071, 0.7071],
                [0.7071, 0.7071]])
    """

    class Settings(PartSettings):
        """Settings of `RewrittenTexts`.

        Attributes:
            template: that the texts are put into; unset keeps the encoder's.
            change: ``negated`` negates the text by rule.
            side: which view's vector the columns are compared with.
            weight: of each column.
        """

        kind: Literal["rewritten"] = "rewritten"
        template: str | None = None
        change: Rewriting = "none"
        side: Literal["anchor", "positive"] = "anchor"
        weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)

        @field_validator("template")
        @classmethod
        def _has_a_slot(cls, value: str | None) -> str | None:
            return None if value is None else valid_template(value)

    settings: Settings

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self._max_length: int | None = None

    @property
    def request(self) -> Rewritten:
        """The vectors of the changed texts."""
        return Rewritten(self.settings.change, self.settings.template, "rewritten negatives", self._max_length)

    @property
    def reads(self) -> Set[Request[Any]]:
        """The views, and the changed texts."""
        return {Sentences(), self.request}

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Reads the encoder's limit, and registers the template where templates' vectors are subtracted."""
        del batch_size, seed
        self._max_length = encoder.max_length
        add_template(encoder, self.settings.template)

    def count(self, batch_size: int, hard: int) -> int:
        """N."""
        del hard
        return batch_size

    def columns(self, reps: Representations, scoring: Scoring) -> VectorColumns:
        """(N, N) columns; the own text is one of them, and no text is a duplicate."""
        anchors = reps.anchor if self.settings.side == "anchor" else reps.positive
        return VectorColumns(
            anchors, reps[self.request], scoring, log_weight=math.log(self.settings.weight), own=Own(texts=False)
        )
