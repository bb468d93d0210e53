"""A classifier of pairs, trained with the encoder and dropped after training."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, Literal

import torch
from pydantic import Field, field_validator
from torch import Tensor, nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.losses.graded import PairFeature, pair_features, pair_softmax
from opencse.objective.terms.base import Term
from opencse.objective.vectors.requests import Sentences
from opencse.objective.vectors.row_labels import Classes
from opencse.objective.vectors.step import Representations, Request
from opencse.settings import PartSettings
from opencse.streams import seed_of


class Softmax(Term):
    """A linear classifier of pairs over (u, v, |u - v|): SBERT's classification objective.

    Its weights begin as those of torch's ``Linear`` do, drawn from the run's seed; they are trained at the run's rate
    and are not part of the saved encoder. The data holds a class in each row, see `opencse.text.labels`; the number of
    classes is that of the data. The log has ``softmax_accuracy``, the share of the batch's pairs that are classified
    correctly.

    `opencse.objective.losses.pair_softmax` is the loss as a function of tensors, with its source.

    Example:
        >>> from dataclasses import replace
        >>> term = Softmax(Softmax.Settings(features=("difference",)))
        >>> term.classifier = nn.Linear(2, 3)
        >>> _ = nn.init.zeros_(term.classifier.weight), nn.init.zeros_(term.classifier.bias)
        >>> reps = replace(Representations.of(torch.eye(2), torch.eye(2)), answers={Classes(): torch.tensor([0, 2])})
        >>> term.loss(reps).detach()  # log(3)
        tensor(1.0986)
    """

    class Settings(PartSettings):
        """Settings of `Softmax`.

        Attributes:
            weight: of the term.
            features: what the classifier reads of a pair: ``vectors`` (u, v), ``difference`` |u - v|, ``product``
                u * v.
        """

        kind: Literal["softmax"] = "softmax"
        weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
        features: tuple[PairFeature, ...] = Field(default=("vectors", "difference"), min_length=1)

        @field_validator("features")
        @classmethod
        def _each_once(cls, features: tuple[PairFeature, ...]) -> tuple[PairFeature, ...]:
            if len(set(features)) < len(features):
                raise ValueError("name each feature once")
            return features

    settings: Settings
    compares_examples = False
    classifier: nn.Linear | None

    def __init__(self, settings: PartSettings | None = None) -> None:
        super().__init__(settings)
        self.classifier = None

    @property
    def reads(self) -> Set[Request[Any]]:
        """The vectors of the pairs, and their classes."""
        return {Sentences(), Classes()}

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Draws the classifier's first weights.

        Raises:
            UserError: for fewer than two classes.
        """
        del batch_size
        if self.classes < 2:
            raise UserError(
                f"the softmax term tells classes of pairs apart, and the data has {self.classes}; give rows of at "
                "least two classes"
            )
        size = encoder.training_dimension * sum({"vectors": 2}.get(feature, 1) for feature in self.settings.features)
        bound = size**-0.5
        generator = torch.Generator().manual_seed(seed_of(seed, "softmax"))
        classifier = nn.Linear(size, self.classes)
        with torch.no_grad():
            for weights in (classifier.weight, classifier.bias):
                weights.copy_(torch.empty_like(weights).uniform_(-bound, bound, generator=generator))
        self.classifier = classifier.to(encoder.device)

    def loss(self, reps: Representations) -> Tensor:
        """`losses.pair_softmax` of the pairs."""
        classifier = self._begun()
        return pair_softmax(self._features(reps), reps[Classes()], classifier.weight, classifier.bias)

    def diagnose(self, reps: Representations) -> dict[str, Tensor]:
        """``softmax_accuracy``: the share of pairs that are classified correctly."""
        guesses = self._begun()(self._features(reps)).argmax(dim=1)
        return {"softmax_accuracy": (guesses == reps[Classes()]).float().mean()}

    def _features(self, reps: Representations) -> Tensor:
        return pair_features(reps.anchor, reps.positive, self.settings.features)

    def _begun(self) -> nn.Linear:
        assert self.classifier is not None
        return self.classifier
