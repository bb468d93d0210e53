"""Imitates the similarities of frozen teachers within the batch, and their vectors."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.losses.distillation import list_mle, list_net, shuffled_in_groups, turned, vector_distance
from opencse.objective.losses.similarity import pairwise_similarity
from opencse.objective.sides.base import SideText
from opencse.objective.teachers.panel import Panel, without_diagonal
from opencse.objective.teachers.teacher import WeightedTeacherSettings
from opencse.objective.terms.base import Term
from opencse.objective.vectors.step import Representations, Request
from opencse.settings import PartSettings
from opencse.text.sample import TRAIN


class Distill(Term):
    """Lets the cosines within a batch follow those of frozen teachers: their distribution, or their order.

    The student's are ``cos(a_i, a_j)`` with ``of = "anchors"`` (DistillCSE, Xu et al. 2023, arXiv:2310.13499), or
    ``cos(a_i, b_j)`` with ``"views"`` (RankCSE, Liu et al. 2023, arXiv:2305.16726); the teachers' are those of the same
    texts, averaged by their weights. ``loss`` is one of

    - ``list_net``: the cross-entropy of the teachers' softmax with the student's, `losses.list_net`;
    - ``list_mle``: the likelihood of the teachers' order, `losses.list_mle`.

    A text's similarity with itself (j = i) is left out unless ``own`` is set, as RankCSE's code has it for ListMLE.

    ``shuffle`` exchanges texts that the teachers find about equally near, at random, in each step: DistillCSE's
    group-p shuffling, `losses.shuffled_in_groups`. So the student is not made as sure as a single teacher is.

    ``vectors`` adds the distance of the vectors themselves, to the first teacher's, T, turned into the student's space
    without changing their cosines (`losses.turned`, by the sentences of the built-in sample)::

        loss + vectors * mean over both views of 1 - cos(v, R^T t)

    The log has ``teacher_agreement``: the share of pairs of columns that student and teachers put in the same order, in
    the mean over neighbours of the teachers' order.

    Example:
        >>> from dataclasses import replace
        >>> from opencse.objective.teachers.teacher import TaughtVectors
        >>> vectors = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> term = Distill(Distill.Settings(student_temperature=1.0, teacher_temperature=1.0))
        >>> answers = {request: TaughtVectors(vectors, vectors, vectors[:, :0]) for request in term.panel.requests}
        >>> term.loss(replace(Representations.of(vectors, vectors), answers=answers))
        tensor(0.6525)
    """

    class Settings(PartSettings):
        """Settings of `Distill`.

        Attributes:
            weight: of the term.
            teachers: the frozen encoders, and their weights.
            loss: what the student follows.
            of: the student's similarities.
            own: whether a text's similarity with itself counts.
            student_temperature: divides the student's cosines.
            teacher_temperature: divides the teachers'; only their order counts in ``list_mle``.
            shuffle: share of the probability in a group that is shuffled; 0 shuffles nothing.
            vectors: factor of the distance to the first teacher's vectors; 0 compares similarities alone.
        """

        kind: Literal["distill"] = "distill"
        weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
        teachers: tuple[WeightedTeacherSettings, ...] = Field(default=(WeightedTeacherSettings(),), min_length=1)
        loss: Literal["list_net", "list_mle"] = "list_net"
        of: Literal["anchors", "views"] = "anchors"
        own: bool = False
        student_temperature: float = Field(default=0.05, gt=0, allow_inf_nan=False)
        teacher_temperature: float = Field(default=0.05, gt=0, allow_inf_nan=False)
        shuffle: float = Field(default=0.0, ge=0, le=1)
        vectors: float = Field(default=0.0, ge=0, allow_inf_nan=False)

        @model_validator(mode="after")
        def _others_are_compared(self) -> Distill.Settings:
            if self.own and self.of == "anchors":
                raise ValueError('own = true needs of = "views": an anchor has cosine 1 with itself')
            return self

    settings: Settings

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        of = "views" if self.settings.vectors else self.settings.of
        self.panel = Panel(self.settings.teachers, f"{self.kind} term", of)

    @property
    def reads(self) -> Set[Request[Any]]:
        """The vectors of the views, and the teachers'."""
        return {*super().reads, *self.panel.reads}

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Opens the teachers, and turns the first one's vectors."""
        super().begin(encoder, batch_size=batch_size, seed=seed)
        self.panel.begin(encoder)
        if self.settings.vectors:
            texts = TRAIN.read_text(encoding="utf-8").split("\n")
            known = [text for text in texts if text]
            taught, own = (
                torch.from_numpy(one.encode(known)) for one in (self.panel.requests[0].teacher.model, encoder)
            )
            self.register_buffer("turn", turned(taught, own).to(encoder.device))

    def loss(self, reps: Representations) -> Tensor:
        """The loss of the settings.

        Raises:
            UserError: for a batch of fewer than three examples, in which nothing can be compared.
        """
        if len(reps.anchor) < 3:
            raise UserError(f"the {self.kind} term compares examples, at least 3 in a batch; set training.batch_size")
        of_vectors = self._distance(reps) if self.settings.vectors else torch.zeros((), device=reps.keys.device)
        return of_vectors + self._of_similarities(reps)

    def _distance(self, reps: Representations) -> Tensor:
        """The distance of the vectors of both views from the teacher's."""
        taught = reps[self.panel.requests[0]]
        turn = self.get_buffer("turn")
        both = torch.cat([reps.anchor, reps.positive])
        return self.settings.vectors * vector_distance(
            both, torch.cat([taught.anchor, taught.positive]) @ turn, "cosine"
        )

    def _of_similarities(self, reps: Representations) -> Tensor:
        settings = self.settings
        student, teacher = self._cosines(reps)
        if settings.shuffle:
            draws = torch.rand(teacher.shape, generator=self.noise(reps), device=teacher.device)
            student = student.gather(1, shuffled_in_groups(teacher, settings.shuffle, draws))
            teacher = teacher.sort(dim=1, descending=True, stable=True).values
        if settings.loss == "list_mle":
            return list_mle(student, teacher, student_temperature=settings.student_temperature)
        return list_net(
            student,
            teacher,
            student_temperature=settings.student_temperature,
            teacher_temperature=settings.teacher_temperature,
        )

    def diagnose(self, reps: Representations) -> dict[str, Tensor]:
        """``teacher_agreement``."""
        student, teacher = self._cosines(reps)
        ordered = student.gather(1, teacher.sort(dim=1, descending=True, stable=True).indices)
        return {"teacher_agreement": (ordered[:, :-1] > ordered[:, 1:]).float().mean()}

    def _cosines(self, reps: Representations) -> tuple[Tensor, Tensor]:
        """The student's and the teachers'."""
        right: SideText = "anchor" if self.settings.of == "anchors" else "positive"
        others = reps.anchor if right == "anchor" else reps.positive
        student = pairwise_similarity(reps.anchor, others, "cosine")
        teacher = self.panel.cosines(reps, "anchor", right)
        return (student, teacher) if self.settings.own else (without_diagonal(student), without_diagonal(teacher))
