"""Contrast of vectors whose shuffled groups of dimensions are whitened, as a loss (WhitenedCSE)."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.dense import Dense
from opencse.objective.columns import same_text
from opencse.objective.context import Context
from opencse.objective.losses.contrastive import info_nce_from_logits
from opencse.objective.losses.similarity import at_least_float32, pairwise_similarity
from opencse.objective.losses.whitening import group_whitening
from opencse.objective.terms.base import Term
from opencse.objective.vectors.requests import Draws, Sentences
from opencse.objective.vectors.step import Representations, Request
from opencse.settings import PartSettings
from opencse.streams import seed_of


class WhitenedContrast(Term):
    """Contrast of several whitened copies of each sentence (WhitenedCSE, section 3).

    The copies of a sentence are its anchor, its positive, and further dropout draws of the anchor. The N vectors of
    each copy are whitened by `opencse.objective.losses.group_whitening`, in groups of dimensions that are drawn again
    for each copy and step, and go through a layer of the term (linear, tanh), which is dropped after training. With
    z_c the result of copy c, the loss is that of SimCSE between the first copy and each other one::

        loss = sum over c = 2 ... copies of InfoNCE(z_1, z_c)

    It takes the place of the contrast, so ``objective.negatives`` may be empty, and the encoder's own head is ``none``.

    The authors' code does not run as it is published (a positional argument after a named one); where it is clear, it
    differs from the paper: it whitens the first, second and last third of the rows of all copies, sentence by sentence
    (``rows = "thirds"``), and the whitening matrices take no gradient (``detached``).

    Example:
        >>> from dataclasses import replace
        >>> vectors = torch.tensor([[1.0, 0.5], [-1.0, 0.5], [0.0, -1.0]])
        >>> reps = replace(Representations.of(vectors, vectors), answers={Draws(1): vectors.unsqueeze(0)})
        >>> WhitenedContrast(WhitenedContrast.Settings(group_size=2, temperature=1.0)).loss(reps)
        tensor(0.7380)
    """

    class Settings(PartSettings):
        """Settings of `WhitenedContrast`.

        Attributes:
            weight: of the term.
            temperature: tau.
            copies: copies of each sentence, at least 2: the anchor, the positive, and further draws of the anchor.
            group_size: dimensions of a group; 6 makes 128 groups of BERT-base's 768 dimensions.
            rows: which rows are whitened together: those of a ``copy``, or ``thirds`` (parts of as many rows) of all
                copies of the first sentence, then of the second, and so on.
            detached: whether the whitening matrices take no gradient.
            epsilon: added to each variance.
            mask_duplicates: whether equal texts are not each other's negatives.
        """

        kind: Literal["whitened"] = "whitened"
        weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
        temperature: float = Field(default=0.05, gt=0, allow_inf_nan=False)
        copies: int = Field(default=3, ge=2, le=1_024)
        group_size: int = Field(default=6, ge=1, le=1_048_576)
        rows: Literal["copy", "thirds"] = "copy"
        detached: bool = False
        epsilon: float = Field(default=1e-5, gt=0, allow_inf_nan=False)
        mask_duplicates: bool = True

    settings: Settings

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self.layer: torch.nn.Module = torch.nn.Identity()

    @property
    def reads(self) -> Set[Request[Any]]:
        """Both views, and the further draws."""
        return {Sentences(), *self._draws}

    @property
    def _draws(self) -> list[Draws]:
        return [Draws(self.settings.copies - 2)] if self.settings.copies > 2 else []

    def check(self, context: Context) -> None:
        """Refuses a head that is only for training, in whose place the term has its own layer."""
        encoder = context.encoder
        if encoder is not None and encoder.projection is not None:
            raise UserError(
                f"the {self.kind} term has a layer of its own after the whitening; set it with --set "
                "encoder.head.kind=none"
            )

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Makes the layer after the whitening, with BERT's initialisation."""
        del batch_size
        size = encoder.training_dimension
        layer = Dense(size, size)
        generator = torch.Generator().manual_seed(seed_of(seed, self.name))
        with torch.no_grad():
            layer.linear.weight.normal_(0.0, 0.02, generator=generator)
            layer.linear.bias.zero_()
        self.layer = layer.to(encoder.device)

    def whitened(self, reps: Representations) -> Tensor:
        """(copies, N, d): the whitened vectors, before the layer."""
        settings = self.settings
        further = [reps[draws] for draws in self._draws]
        copies = torch.cat([torch.stack([reps.anchor, reps.positive]), *further])  # (copies, N, d)
        count, n, d = copies.shape
        if settings.rows == "thirds":
            copies = copies.transpose(0, 1).reshape(count, n, d)
        noise = self.noise(reps)
        orders = [torch.rand(d, generator=noise, device=copies.device).argsort() for _ in range(count)]
        white = torch.stack(
            [
                group_whitening(
                    copy, order, size=settings.group_size, epsilon=settings.epsilon, detached=settings.detached
                )
                for copy, order in zip(copies, orders, strict=True)
            ]
        )
        return white.reshape(n, count, d).transpose(0, 1) if settings.rows == "thirds" else white

    def loss(self, reps: Representations) -> Tensor:
        """The sum of the contrasts of the first copy with each other one."""
        first, *others = self.layer(self.whitened(reps))
        keys = reps.keys[:, :2]
        excluded = torch.eye(len(first), dtype=torch.bool, device=first.device)
        if self.settings.mask_duplicates:
            excluded = excluded | same_text(keys, keys)
        losses = []
        for other in others:
            logits = pairwise_similarity(at_least_float32(first), at_least_float32(other), "cosine")
            logits = logits / self.settings.temperature
            losses.append(info_nce_from_logits(logits.diagonal(), logits.masked_fill(excluded, -torch.inf)).mean())
        return torch.stack(losses).sum()
