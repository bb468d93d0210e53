"""The surroundings of a part, in which it checks whether it can be used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.text.labels import LabelKind


def setting_of_two_passes(objective: Any) -> str | None:  # noqa: ANN401 - an `Objective`, which imports this
    """The setting for which anchors and positives are encoded in two forward passes, or by two encoders; None if none.

    It is named as in recipes: ``objective.dual_encoder``, or a setting of the view.
    """
    if objective.dual_encoder:
        return "objective.dual_encoder"
    return f"objective.view.{objective.view.two_passes}" if objective.view.two_passes else None


@dataclass(frozen=True)
class Context:
    """What a part is combined with, as far as it is known: the objective first, then the encoder, then the data.

    Attributes:
        objective: the `Objective` that the part belongs to.
        encoder: the encoder to be trained.
        model: its name, for messages.
        own_dropout: whether the encoder keeps its original dropout (the user set no rate).
        hard: hard negatives per example of the data.
        source: the name of the data, for messages.
        label: what label its rows have; None without labels.
    """

    objective: Any
    encoder: SentenceEncoder | None = None
    model: str = ""
    own_dropout: bool = True
    hard: int | None = None
    source: str = ""
    label: LabelKind | None = None

    def require_layers(self, need: str) -> None:
        """Refuses an encoder without layers; one that is not known yet passes.

        Args:
            need: what needs them and for what, for the message: "the x term needs a decoder that reads a text".

        Raises:
            UserError: if the encoder has embeddings alone.
        """
        if self.encoder is not None and self.encoder.depth == 0:
            raise UserError(f"{self.model}: has no layers, and {need}; choose another model, or another recipe")

    def require_token_size(self, use: str) -> None:
        """Refuses sentence vectors of another size than a token's state; an encoder that is not known yet passes.

        Args:
            use: what the vectors are for, for the message: "the x term puts the sentence vector in a token's place".

        Raises:
            UserError: if the trained vectors have another size.
        """
        if self.encoder is None:
            return
        hidden, size = int(self.encoder.backbone.config.hidden_size), self.encoder.training_dimension
        if size != hidden:
            raise UserError(f"{use}: {size} dimensions, where tokens have {hidden}; leave encoder.head.size out")
