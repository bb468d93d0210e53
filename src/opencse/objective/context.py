"""The surroundings of a part, in which it checks whether it can be used."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Protocol

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.text.labels import LabelKind


class Named(Protocol):
    """Any part of an objective."""

    @property
    def kind(self) -> str:
        """Its name in recipes."""


class ComposedView(Named, Protocol):
    """The view of an objective, as the other parts see it."""

    @property
    def two_passes(self) -> str:
        """The setting for which anchors and positives go through the encoder apart; empty if they go together."""


class ComposedSides(Named, Protocol):
    """The vectors that the positive's similarity is taken between, as the other parts see them."""

    @property
    def of_positives(self) -> bool:
        """Whether one of them is the positive's own vector, as the view made it."""


class ComposedPositive(Protocol):
    """The positive of an objective, as the other parts see it."""

    @property
    def of(self) -> ComposedSides:
        """Gives the two vectors of the similarity."""


class ComposedSource(Named, Protocol):
    """A negative source of an objective, as the other parts see it."""

    name: str

    @property
    def averaged_with_plain(self) -> bool:
        """Whether the loss is the mean of the losses with and without this source's columns."""

    @property
    def gives_logits(self) -> bool:
        """Whether its columns are similarities, not vectors."""


class Composition(Protocol):
    """The objective as each of its parts sees it when it checks whether they fit together."""

    @property
    def view(self) -> ComposedView:
        """Makes the positive."""

    @property
    def positive(self) -> ComposedPositive:
        """Gives the vectors of the positive's similarity."""

    @property
    def negatives(self) -> Sequence[ComposedSource]:
        """The negative sources; empty without contrast."""

    @property
    def terms(self) -> Sequence[Named]:
        """The extra losses."""

    @property
    def directions(self) -> str:
        """What the softmax is taken over: ``rows``, ``columns`` or ``both``."""

    @property
    def dual_encoder(self) -> bool:
        """Whether a second encoder reads the positives."""

    @property
    def reads_positives(self) -> bool:
        """Whether any part needs the positives' vectors."""

    @property
    def learned_temperature(self) -> object | None:
        """The temperature, if it is trained."""

    @property
    def reads(self) -> Set[object]:
        """The requests of all parts together."""


def setting_of_two_passes(objective: Composition) -> str | None:
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
        objective: the objective that the part belongs to.
        encoder: the encoder to be trained.
        model: its name, for messages.
        own_dropout: whether the encoder keeps its original dropout (the user set no rate).
        hard: hard negatives per example of the data.
        source: the name of the data, for messages.
        label: what label its rows have; None without labels.
    """

    objective: Composition
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
