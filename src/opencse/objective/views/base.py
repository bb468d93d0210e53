"""What every view is, and what it may do besides: a view does what it implements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence, Set
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from opencse.errors import UserError
from opencse.objective.context import Context
from opencse.objective.part import Part
from opencse.objective.vectors.requests import Means
from opencse.objective.vectors.step import Request
from opencse.text.corpus import Corpus
from opencse.text.tokenizer import Ids, TokenisedText

Places = NDArray[np.int64]


class View(Part, ABC):
    """How the positive of an anchor is made.

    A view first says where an example's texts are in the corpus. Then it may implement one of `ChangesTokens`,
    `ChangesInputs`, `ClimbsInputs`, `DerivesPositives` and `ClimbsOutputs`; one that implements none leaves the
    positive's text as it is.
    """

    @property
    def shared_mask(self) -> bool:
        """Whether both views go through the encoder under the very same dropout masks."""
        return False

    @property
    def reads(self) -> Set[Request[Any]]:
        """Nothing of the step's vectors."""
        return frozenset()

    @abstractmethod
    def examples(self, corpus: Corpus, random: np.random.Generator) -> Places:
        """The examples a corpus yields.

        Args:
            corpus: the text.
            random: for views that draw which texts make an example; used once, when a run starts.

        Returns:
            (M, 2 + H, 2): for anchor, positive and each hard negative the (row, column) of its text.

        Raises:
            UserError: if the corpus is not of the kind this view needs.
        """

    def check(self, context: Context) -> None:
        """A gradient needs a loss of the positives; a second encoder rows of its own, and unchanged inputs."""
        objective = context.objective
        changes = isinstance(self, ChangesInputs | ClimbsInputs)
        if changes and any(isinstance(request, Means) for request in objective.reads):
            raise UserError(
                f"means over dropout draws are of the texts as they are, and the view {self.kind} changes the "
                "positives' input embeddings; choose another view, or another kind than mean for the vectors of the "
                "similarity"
            )
        if isinstance(self, ClimbsInputs | ClimbsOutputs):
            if not objective.negatives:
                raise UserError(
                    f"the view {self.kind} follows the gradient of a contrast, and there are no negatives; choose "
                    "another view"
                )
            if not objective.positive.of.of_positives:
                raise UserError(
                    f"the view {self.kind} follows the gradient of the positives' vectors, and objective.positive.of = "
                    f"{objective.positive.of.kind} compares others; choose another view, or other vectors"
                )
        if not objective.dual_encoder:
            return
        if isinstance(self, DerivesPositives):
            raise UserError(
                f"a second encoder would have nothing to read: the view {self.kind} makes the positives "
                "of the anchors' vectors; set objective.dual_encoder to false, or choose another view"
            )
        if changes:
            raise UserError(
                f"the view {self.kind} changes the input embeddings of one encoder; set "
                "objective.dual_encoder to false, or choose another view"
            )


@runtime_checkable
class ChangesTokens(Protocol):
    """A view that changes the positives' tokens."""

    def positives(self, texts: Sequence[TokenisedText], random: np.random.Generator) -> Sequence[Ids]:
        """The positives' ids, drawn anew each step; the texts have the numbers of their words."""


@runtime_checkable
class ChangesInputs(Protocol):
    """A view that changes the positives' input embeddings."""

    def disturb(self, embeddings: Tensor, noise: torch.Generator) -> Tensor:
        """(N, length, hidden) -> the same."""


@runtime_checkable
class ClimbsInputs(Protocol):
    """A view that moves the positives' input embeddings along the contrastive loss's gradient."""

    def climb_inputs(self, embeddings: Tensor, gradient: Tensor) -> Tensor:
        """(N, length, hidden), and the gradient of that shape -> the same."""


@runtime_checkable
class DerivesPositives(Protocol):
    """A view that makes the positives' vectors of the anchors' own; only the anchors go through the encoder."""

    def derive(self, anchors: Tensor, noise: torch.Generator) -> Tensor:
        """(N, d) -> (N, d)."""


@runtime_checkable
class ClimbsOutputs(Protocol):
    """A view that moves the positives' vectors along the contrastive loss's gradient."""

    def climb_outputs(self, positives: Tensor, gradient: Tensor) -> Tensor:
        """(N, d), and the gradient of that shape -> (N, d)."""


def places(rows: NDArray[np.int64], columns: Sequence[int]) -> Places:
    """(M, len(columns), 2): the given columns of the given rows."""
    grid = np.empty((len(rows), len(columns), 2), dtype=np.int64)
    grid[:, :, 0] = rows[:, None]
    grid[:, :, 1] = np.asarray(columns)
    return grid
