"""Imitates a teacher's similarity of ranks over many texts (RankEncoder)."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.objective.losses.distillation import bounded_mse, rank_correlations
from opencse.objective.losses.similarity import pairwise_similarity
from opencse.objective.negatives.vector_queue import VectorQueue
from opencse.objective.teachers.teacher import Teacher, TeacherSettings, TeacherVectors
from opencse.objective.terms.base import Term
from opencse.objective.vectors.step import Representations, Request, StepInputs
from opencse.settings import PartSettings


class RankVectors(Term):
    """Draws the cosines of similar texts towards a frozen teacher's similarity of ranks (RankEncoder).

    The teacher's cosines of text i with the texts of a corpus, as ranks, are its rank vector r_i; rho_ij is Spearman's
    correlation of r_i and r_j. Where rho is from ``low`` to ``high`` (Seonwoo et al. 2022, arXiv:2209.04333)::

        loss = mean over these pairs of ( cos(a_i, b_j) - rho_ij )^2

    The corpus is the last ``corpus`` anchors that were trained on: the teacher is frozen, so their vectors stay right.
    In the first steps it is smaller; as long as it has fewer than ``least`` texts, the loss is 0. The authors take
    10,000 to 100,000 texts before training starts.

    What RankEncoder does at test time is not built: there the similarity itself is a mean of the cosine and of rho over
    the corpus, which no saved folder of sentence vectors can give.

    Example:
        >>> RankVectors.Settings(low=0.4).corpus
        10000
    """

    class Settings(PartSettings):
        """Settings of `RankVectors`.

        Attributes:
            weight: of the term.
            teacher: the frozen encoder.
            corpus: the most texts that rank vectors are over.
            least: texts from which on the term counts.
            low: the least rho of a pair that counts.
            high: the most.
        """

        kind: Literal["rank_vectors"] = "rank_vectors"
        weight: float = Field(default=0.05, gt=0, allow_inf_nan=False)
        teacher: TeacherSettings = TeacherSettings()
        corpus: int = Field(default=10_000, ge=2, le=1_000_000)
        least: int = Field(default=1_000, ge=2, le=1_000_000)
        low: float = Field(default=0.5, ge=-1, le=1)
        high: float = Field(default=0.9999, ge=-1, le=1)

        @model_validator(mode="after")
        def _in_order(self) -> RankVectors.Settings:
            if self.low > self.high:
                raise ValueError(f"low ({self.low}) is above high ({self.high})")
            if self.least > self.corpus:
                raise ValueError(f"least ({self.least}) is above corpus ({self.corpus})")
            return self

    settings: Settings

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self.teacher = Teacher(self.settings.teacher, f"{self.kind} term")
        self.request = TeacherVectors(self.settings.teacher, "views", self.teacher)
        self.queue: VectorQueue | None = None

    @property
    def reads(self) -> Set[Request[Any]]:
        """The vectors of the views, and the teacher's."""
        return {*super().reads, self.request}

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Opens the teacher, and makes the empty corpus."""
        super().begin(encoder, batch_size=batch_size, seed=seed)
        self.teacher.begin(encoder)
        model = self.teacher.model
        self.queue = VectorQueue(
            self.settings.corpus, model.dimension, device=encoder.device, dtype=model.backbone.dtype
        )

    def loss(self, reps: Representations) -> Tensor:
        """`losses.bounded_mse` of the cosines and rho; 0 while the corpus is too small."""
        student = pairwise_similarity(reps.anchor, reps.positive, "cosine")
        correlations = self._correlations(reps)
        if correlations is None:
            return student.sum() * 0.0
        return bounded_mse(student, correlations, self.settings.low, self.settings.high)

    def after_backward(
        self, encoder: SentenceEncoder, inputs: Sequence[StepInputs], reps: Sequence[Representations]
    ) -> None:
        """Adds the teacher's vectors of this step's anchors to the corpus."""
        super().after_backward(encoder, inputs, reps)
        for batch in reps:
            self._begun().push(batch[self.request].anchor, batch.keys[:, 0])

    def diagnose(self, reps: Representations) -> dict[str, Tensor]:
        """``rank_pairs``: how many pairs count per anchor."""
        correlations = self._correlations(reps)
        if correlations is None:
            return {"rank_pairs": torch.zeros((), device=reps.anchor.device)}
        counts = (correlations >= self.settings.low) & (correlations <= self.settings.high)
        return {"rank_pairs": counts.sum() / len(counts)}

    def _correlations(self, reps: Representations) -> Tensor | None:
        """(N, N): rho of each two anchors; None while the corpus is too small."""
        queue = self._begun()
        if len(queue) < self.settings.least:
            return None
        taught = reps[self.request].anchor
        return rank_correlations(pairwise_similarity(taught, queue.vectors, "cosine"))

    def _begun(self) -> VectorQueue:
        assert self.queue is not None
        return self.queue
