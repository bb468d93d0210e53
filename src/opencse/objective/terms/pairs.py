"""Terms of single pairs: contrastive tension, repulsion of the two views, and negations between two margins (SNCSE)."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor
from torch.nn import functional

from opencse.objective.part import ReadsRewritten
from opencse.objective.similarity import at_least_float32, rowwise_similarity
from opencse.objective.terms.base import Term
from opencse.objective.vectors.rewritten import OtherTemplate
from opencse.objective.vectors.step import Representations
from opencse.settings import AboveZero


def contrastive_tension(first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
    """Contrastive tension: whether two vectors are of one sentence (Carlsson et al. 2021, eq. 2).

    With f the vectors of one encoder, g of the other, and y = 1 for two vectors of one sentence, else 0::

        loss = mean over pairs of -( y log s(f . g) + (1 - y) log(1 - s(f . g)) ),     s(x) = 1 / (1 + exp(-x))

    The dot product has no scale and is not normalised.

    Args:
        first: (P, d).
        second: (P, d).
        labels: (P,) 1 or 0.

    Returns:
        Scalar, of float32 at least.

    Example:
        >>> vectors = torch.tensor([[2.0, 0.0], [0.0, 2.0]])
        >>> contrastive_tension(vectors, vectors, torch.tensor([1, 0]))  # (0.0181 + 4.0181) / 2
        tensor(2.0181)
    """
    # Dot products of whole vectors are large, and bf16 would round them to 8 bits.
    with torch.autocast(first.device.type, enabled=False):
        logits = (at_least_float32(first) * at_least_float32(second)).sum(dim=1)
        return functional.binary_cross_entropy_with_logits(logits, labels.to(logits))


class ContrastiveTension(Term):
    """Decides for pairs of vectors whether they are of one sentence (Carlsson et al. 2021).

    The pairs are the N pairs ``(a_i, b_i)``, and ``negatives`` times as many ``(a_i, b_j)`` with i and j drawn from the
    batch, i != j, again at each step; a sentence may be drawn more than once. With ``objective.dual_encoder`` a and b
    are the vectors of the two encoders, as in the paper. `opencse.objective.losses.contrastive_tension` is the loss.

    The authors' code puts 2 sentences with themselves and 14 pairs of others into a batch, drawn from the corpus. Here
    all pairs are of the batch's sentences, so each vector is used several times.

    Example:
        >>> reps = Representations.of(3 * torch.eye(2), 3 * torch.eye(2))
        >>> ContrastiveTension(ContrastiveTension.Settings(negatives=1)).loss(reps).round(decimals=4)
        tensor(0.3466)
    """

    class Settings(Term.Settings):
        """Settings of `ContrastiveTension`.

        Attributes:
            negatives: pairs of two sentences for each pair of one.
        """

        kind: Literal["contrastive_tension"] = "contrastive_tension"
        negatives: int = Field(default=7, ge=1, le=65_536)

    settings: Settings

    def pairs(self, reps: Representations) -> tuple[Tensor, Tensor]:
        """(P,), (P,): the numbers of the anchors and the positives of each pair; the first N are one sentence each."""
        n, device = len(reps.anchor), reps.anchor.device
        count, noise = n * self.settings.negatives, self.noise(reps)
        first = torch.randint(n, (count,), generator=noise, device=device)
        # A shift from 1 to n - 1: never the sentence itself.
        second = (first + 1 + torch.randint(n - 1, (count,), generator=noise, device=device)) % n
        same = torch.arange(n, device=device)
        return torch.cat([same, first]), torch.cat([same, second])

    def loss(self, reps: Representations) -> Tensor:
        """Mean binary cross-entropy over all pairs."""
        first, second = self.pairs(reps)
        labels = torch.arange(len(first), device=first.device) < len(reps.anchor)
        return contrastive_tension(reps.anchor[first], reps.positive[second], labels)


class Repulsion(Term):
    """The mean similarity of a text's two views, which is made smaller (Klein and Nabi 2022, SCD).

    ::

        loss = mean over i of cos(a_i, b_i) / tau

    It alone would ruin the vectors; SCD adds Barlow Twins after a projector, which holds the views together.

    Example:
        >>> import torch
        >>> reps = Representations.of(torch.eye(2), torch.tensor([[2.0, 0.0], [1.0, 0.0]]))
        >>> Repulsion(Repulsion.Settings(temperature=0.5)).loss(reps)  # cosines 1 and 0
        tensor(1.)
    """

    class Settings(Term.Settings):
        """Settings of `Repulsion`.

        Attributes:
            temperature: tau.
        """

        kind: Literal["repulsion"] = "repulsion"
        temperature: AboveZero = 0.05

    settings: Settings
    compares_examples = False

    def loss(self, reps: Representations) -> Tensor:
        """Mean cosine of the pairs, divided by the temperature."""
        return rowwise_similarity(reps.anchor, reps.positive, "cosine").mean() / self.settings.temperature


def bidirectional_margin(
    anchor: Tensor, positive: Tensor, negative: Tensor, *, alpha: float = 0.1, beta: float = 0.3
) -> Tensor:
    """SNCSE's loss of soft negatives (Wang and Dou 2022, arXiv:2201.05979, section 3.3).

    ``d_i = cos(a_i, n_i) - cos(a_i, p_i)``, and the loss is the mean of ``max(d_i + alpha, 0) + max(-d_i - beta, 0)``.
    It is 0 while the negation is less similar than the positive by ``alpha`` to ``beta``. The authors' code computes
    the same.

    Args:
        anchor: (N, d).
        positive: (N, d).
        negative: (N, d) the soft negative of each anchor.
        alpha: smallest difference that costs nothing.
        beta: largest difference that costs nothing.

    Returns:
        Scalar.

    Example:
        >>> import torch
        >>> a, same, other = torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 1.0]])
        >>> bidirectional_margin(a, same, other), bidirectional_margin(a, same, same)  # too far away, and too near
        (tensor(0.7000), tensor(0.1000))
    """
    a, p, n = (at_least_float32(vectors) for vectors in (anchor, positive, negative))
    difference = rowwise_similarity(a, n, "cosine") - rowwise_similarity(a, p, "cosine")
    return ((difference + alpha).relu() + (-difference - beta).relu()).mean()


class BidirectionalMargin(ReadsRewritten, Term):
    """`losses.bidirectional_margin` of the views and of the anchors' negations (SNCSE).

    The negation is made by rule of the anchor's text as the encoder reads it, so a text that is truncated is negated
    after that, as the tokenizer spells it; see `opencse.objective.vectors.negation` for the rules and where they differ
    from SNCSE.

    Example:
        >>> import torch
        >>> term = BidirectionalMargin()
        >>> views, negations = torch.eye(2), torch.eye(2).flip(0)
        >>> term.loss(Representations(views, views, views[:, None][:, :0], views, {term.request: negations}))
        tensor(0.7000)
    """

    compares_examples = False

    class Settings(Term.Settings):
        """Settings of `BidirectionalMargin`.

        Attributes:
            weight: lambda; SNCSE's code has 1e-3 for BERT, 5e-4 for RoBERTa.
            alpha: smallest difference of similarities that costs nothing.
            beta: largest difference that costs nothing.
            template: that negations are put into; unset keeps the encoder's.
        """

        kind: Literal["bidirectional_margin"] = "bidirectional_margin"
        weight: AboveZero = 1e-3
        alpha: float = Field(default=0.1, ge=0, le=2)
        beta: float = Field(default=0.3, ge=0, le=2)
        template: OtherTemplate = None

        @model_validator(mode="after")
        def _margins_are_in_order(self) -> BidirectionalMargin.Settings:
            if self.alpha > self.beta:
                raise ValueError("alpha is the smaller margin, beta the larger one")
            return self

    settings: Settings

    def loss(self, reps: Representations) -> Tensor:
        """The unweighted term."""
        settings = self.settings
        return bidirectional_margin(
            reps.anchor, reps.positive, reps[self.request], alpha=settings.alpha, beta=settings.beta
        )
