"""The squared error of cosine and score, as a loss of graded pairs."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, Literal

from pydantic import Field
from torch import Tensor

from opencse.objective.losses.graded import cosine_regression
from opencse.objective.terms.base import Term
from opencse.objective.vectors.requests import Sentences
from opencse.objective.vectors.row_labels import Scores
from opencse.objective.vectors.step import Representations, Request
from opencse.settings import PartSettings


class CosineRegression(Term):
    """The mean squared error of a graded pair's cosine and its score from 0 to 1 (SBERT's regression objective).

    `opencse.objective.losses.cosine_regression` is the loss as a function of tensors, with its source.

    Example:
        >>> import torch
        >>> from dataclasses import replace
        >>> reps = replace(Representations.of(torch.eye(2), torch.eye(2)), answers={Scores(): torch.tensor([1.0, 0.5])})
        >>> CosineRegression().loss(reps)
        tensor(0.1250)
    """

    class Settings(PartSettings):
        """Settings of `CosineRegression`; ``weight`` is that of the term."""

        kind: Literal["cosine_regression"] = "cosine_regression"
        weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)

    settings: Settings
    compares_examples = False

    @property
    def reads(self) -> Set[Request[Any]]:
        """The vectors of the pairs, and their scores."""
        return {Sentences(), Scores()}

    def loss(self, reps: Representations) -> Tensor:
        """`losses.cosine_regression` of the pairs."""
        return cosine_regression(reps.anchor, reps.positive, reps[Scores()])
