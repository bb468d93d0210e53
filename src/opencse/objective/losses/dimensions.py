"""Losses between the dimensions of two sets of vectors: DCL and Barlow Twins."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from opencse.objective.decorrelation import centred, cross_products, rank_of_products, standardised, unit_columns
from opencse.objective.losses.similarity import at_least_float32


def dcl(
    anchor: Tensor,
    positive: Tensor,
    *,
    temperature: float = 5.0,
    scaling: Literal["paper", "reference"] = "paper",
) -> Tensor:
    """Dimension-wise contrast: each dimension of one view should be most like itself in the other (SimCSE++, eq. 5).

    With y^1, y^2 the anchors and positives, each dimension with mean 0 and variance 1 over the batch::

        s_cd = sum_i y^1_ic y^2_id / temperature
        loss = sum_c ( -s_cc + log sum_d exp(s_cd) )

    ``scaling = "reference"`` is the authors' code, which divides s_cd by N too, takes the mean over c, and uses the
    biased variance plus 1e-5. `opencse.objective.terms.dcl.DCL` compares the two.

    Args:
        anchor: (N, D), N at least 2.
        positive: (N, D).
        temperature: tau_DCL, above 0.
        scaling: see above.

    Returns:
        Scalar.

    Example:
        >>> views = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
        >>> dcl(views, views, temperature=2.0)
        tensor(0.4028)
        >>> dcl(views, views.flip(1), temperature=2.0)  # the dimensions are swapped
        tensor(3.4028)
    """
    first, second = _dcl_dimensions(anchor, scaling), _dcl_dimensions(positive, scaling)
    logits = cross_products(first, second) / temperature  # (D, D)
    if scaling == "reference":
        logits = logits / len(anchor)
    losses = torch.logsumexp(logits, dim=1) - logits.diagonal()  # (D,)
    return losses.sum() if scaling == "paper" else losses.mean()


def dcl_rank(anchor: Tensor, positive: Tensor, *, scaling: Literal["paper", "reference"] = "paper") -> Tensor:
    """The rank of the (D, D) matrix s of `dcl`: at most min(N - 1, D), because the mean is subtracted.

    Example:
        >>> views = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
        >>> dcl_rank(views, views)
        tensor(2)
    """
    return rank_of_products(*(_dcl_dimensions(view.to("cpu", torch.float64), scaling) for view in (anchor, positive)))


def _dcl_dimensions(vectors: Tensor, scaling: Literal["paper", "reference"]) -> Tensor:
    """(N, D) -> (N, D), each dimension of mean 0 and variance 1."""
    ddof, eps = (1, 0.0) if scaling == "paper" else (0, 1e-5)
    return standardised(at_least_float32(vectors), ddof=ddof, eps=eps)


def barlow_twins(
    anchor: Tensor,
    positive: Tensor,
    *,
    off_diagonal: float = 0.005,
    centre: bool = False,
    scaling: Literal["unit", "batch_norm"] = "unit",
) -> Tensor:
    """Barlow Twins: the correlation matrix of the two views' dimensions should be the identity (SimCSE++, eq. 4).

    With z^1, z^2 the anchors and positives::

        C_cd = sum_i z^1_ic z^2_id / ( sqrt(sum_i (z^1_ic)^2) sqrt(sum_i (z^2_id)^2) )
        loss = sum_c (1 - C_cc)^2 + off_diagonal * sum_c sum_{d != c} C_cd^2

    Zbontar et al. (2021, arXiv:2103.03230), whose loss it is, subtract the mean of each dimension first: ``centre``.

    Args:
        anchor: (N, D).
        positive: (N, D).
        off_diagonal: lambda_BT.
        centre: whether the mean of each dimension is subtracted first.
        scaling: ``unit`` divides each dimension by its length, as above; ``batch_norm`` (an earlier commit of the code
            of SimCSE++) divides each dimension less its mean by the root of its biased variance plus 1e-5, and C by N.

    Returns:
        Scalar.

    Example:
        >>> views = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
        >>> barlow_twins(views, views)
        tensor(0.)
        >>> barlow_twins(views, views.flip(1))  # C is 0 on the diagonal and 1 elsewhere
        tensor(2.0100)
    """
    first, second = (_barlow_dimensions(view, scaling, centre=centre) for view in (anchor, positive))
    correlation = cross_products(first, second)  # (D, D), C
    diagonal = correlation.diagonal()
    others = correlation - torch.diag(diagonal)
    return (1.0 - diagonal).square().sum() + off_diagonal * others.square().sum()


def barlow_twins_rank(
    anchor: Tensor, positive: Tensor, *, centre: bool = False, scaling: Literal["unit", "batch_norm"] = "unit"
) -> Tensor:
    """The rank of the correlation matrix C of `barlow_twins`: at most min(N, D), or min(N - 1, D) if centred.

    Example:
        >>> views = torch.tensor([[1.0, 1.0, 1.0], [1.0, -1.0, 1.0]])
        >>> barlow_twins_rank(views, views), barlow_twins_rank(views, views, centre=True)
        (tensor(2), tensor(1))
    """
    views = (view.to("cpu", torch.float64) for view in (anchor, positive))
    return rank_of_products(*(_barlow_dimensions(view, scaling, centre=centre) for view in views))


def _barlow_dimensions(vectors: Tensor, scaling: Literal["unit", "batch_norm"], *, centre: bool) -> Tensor:
    """(N, D) -> (N, D), each dimension of length 1."""
    vectors = at_least_float32(vectors)
    if scaling == "batch_norm":
        return standardised(vectors, ddof=0, eps=1e-5) / math.sqrt(len(vectors))
    return unit_columns(centred(vectors) if centre else vectors)
