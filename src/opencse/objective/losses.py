"""The losses as pure functions of tensors: each one's formula, code and example in one place.

They know no model and no settings: the parts of an objective call them, and so can you. All compute in float32 at
least, autocast or not. `opencse.objective.tiled` makes `info_nce` of large batches in constant memory.
"""

from __future__ import annotations

import importlib
import math
import warnings
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor
from torch.nn import functional

from opencse.objective.decorrelation import centred, cross_products, rank_of_products, standardised, unit_columns

SimilarityKind = Literal["cosine", "dot"]


def info_nce(
    anchor: Tensor,
    positive: Tensor,
    negatives: Tensor | None = None,
    *,
    temperature: float = 0.05,
    similarity: SimilarityKind = "cosine",
    label_smoothing: float = 0.0,
) -> Tensor:
    """InfoNCE with in-batch negatives, the loss of SimCSE (Gao et al. 2021, arXiv:2104.08821, eq. 1 and 4).

    With anchors a_i, positives b_i, further negatives c_k, and ``s(x, y) = sim(x, y) / temperature``::

        Z_i  = sum_j exp(s(a_i, b_j)) + sum_k exp(s(a_i, c_k))
        loss = mean over i of -log(exp(s(a_i, b_i)) / Z_i)

    In eq. 5, for pairs with hard negatives, c_k are the hard negatives of all examples. An objective composes the
    denominator of any sources, with weights and without duplicates; `info_nce_from_logits` is the loss it takes.

    Args:
        anchor: (N, d).
        positive: (N, d); row i belongs to anchor i.
        negatives: (K, d) that all anchors share, if any.
        temperature: tau, above 0; .05 in the paper.
        similarity: ``cosine`` (the paper) or ``dot``.
        label_smoothing: eps in [0, 1): see `info_nce_from_logits`.

    Returns:
        Scalar, the mean over the anchors.

    Example:
        >>> anchor = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> info_nce(anchor, anchor, temperature=0.5)
        tensor(0.1269)
        >>> info_nce(anchor, anchor.flip(0), temperature=0.5)  # each positive is further than the other one
        tensor(2.1269)
        >>> info_nce(anchor, anchor, negatives=torch.tensor([[1.0, 1.0]]), temperature=0.5)
        tensor(0.5259)
    """
    positives = rowwise_similarity(anchor, positive, similarity) / temperature  # (N,)
    others = pairwise_similarity(anchor, positive, similarity) / temperature  # (N, N)
    columns = [others.masked_fill(torch.eye(len(anchor), dtype=torch.bool, device=anchor.device), -torch.inf)]
    if negatives is not None:
        columns.append(pairwise_similarity(anchor, negatives, similarity) / temperature)  # (N, K)
    return info_nce_from_logits(positives, *columns, label_smoothing=label_smoothing).mean()


def info_nce_from_logits(positive: Tensor, *negatives: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """InfoNCE of each anchor, of logits (SimCSE, eq. 1, 4 and 5).

    With p_i the positive's logit and n_ik the logit of negative k::

        Z_i    = exp(p_i) + sum_k exp(n_ik)
        loss_i = -(1 - eps) log(exp(p_i) / Z_i) - eps / (K_i + 1) * sum over all K_i + 1 columns c of log(c / Z_i)

    A negative of weight w has log(w) added to its logit. One of logit minus infinity is left out: it counts neither in
    Z_i nor in K_i. ``eps`` is label smoothing (Park's thesis, section on label smoothing).

    Args:
        positive: (N,) logits of the positives, already divided by the temperature.
        negatives: (N, K) logits of each source of negatives.
        label_smoothing: eps in [0, 1).

    Returns:
        (N,) losses.

    Example:
        >>> info_nce_from_logits(torch.zeros(2), torch.tensor([[0.0], [-torch.inf]]))
        tensor([0.6931, 0.0000])
    """
    logits = torch.cat([at_least_float32(positive).unsqueeze(1), *(at_least_float32(n) for n in negatives)], dim=1)
    log_normaliser = torch.logsumexp(logits, dim=1)
    losses = log_normaliser - logits[:, 0]
    if label_smoothing == 0.0:
        return losses
    counted = torch.isfinite(logits)
    uniform = log_normaliser - logits.masked_fill(~counted, 0.0).sum(dim=1) / counted.sum(dim=1)
    return (1.0 - label_smoothing) * losses + label_smoothing * uniform


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


def masked_lm(logits: Tensor, labels: Tensor) -> Tensor:
    """Masked language modelling: the cross-entropy at each hidden position (Devlin et al. 2019; SimCSE, section 4).

    With z_m the logits at position m and y_m the token that is hidden there::

        loss_m = -log(exp(z_m[y_m]) / sum_v exp(z_m[v]))

    Args:
        logits: (M, vocabulary); M may be 0.
        labels: (M,) ids of the hidden tokens.

    Returns:
        (M,) losses.

    Example:
        >>> masked_lm(torch.tensor([[0.0, 0.0], [0.0, 4.0]]), torch.tensor([0, 1]))
        tensor([0.6931, 0.0181])
    """
    return functional.cross_entropy(at_least_float32(logits), labels, reduction="none")


def replaced_tokens(logits: Tensor, replaced: Tensor) -> Tensor:
    """Replaced token detection: the cross-entropy at each token (ELECTRA; DiffCSE, section 3).

    With z_t the two logits of token t ("original", "replaced") and r_t whether it was replaced::

        loss_t = -log(exp(z_t[r_t]) / (exp(z_t[0]) + exp(z_t[1])))

    Args:
        logits: (rows, length, 2).
        replaced: (rows, length) integers: 1 for tokens that were replaced, else 0.

    Returns:
        (rows, length) losses.

    Example:
        >>> replaced_tokens(torch.tensor([[[3.0, 0.0], [3.0, 0.0]]]), torch.tensor([[0, 1]]))
        tensor([[0.0486, 3.0486]])
    """
    return functional.cross_entropy(at_least_float32(logits).transpose(1, 2), replaced, reduction="none")


def pairwise_similarity(a: Tensor, b: Tensor, kind: SimilarityKind) -> Tensor:
    """(N, d), (M, d) -> (N, M): the cosine or dot product of every a with every b.

    Example:
        >>> pairwise_similarity(torch.tensor([[2.0, 0.0]]), torch.tensor([[3.0, 0.0], [0.0, 1.0]]), "cosine")
        tensor([[1., 0.]])
    """
    a, b = at_least_float32(a), at_least_float32(b)
    if kind == "cosine":
        a, b = functional.normalize(a, dim=-1), functional.normalize(b, dim=-1)
    with torch.autocast(a.device.type, enabled=False):
        return a @ b.T


def rowwise_similarity(a: Tensor, b: Tensor, kind: SimilarityKind) -> Tensor:
    """(N, d), (N, d) -> (N,): the cosine or dot product of each a with the b of its row.

    Example:
        >>> rowwise_similarity(torch.tensor([[2.0, 0.0]]), torch.tensor([[3.0, 0.0]]), "dot")
        tensor([6.])
    """
    a, b = at_least_float32(a), at_least_float32(b)
    if kind == "cosine":
        a, b = functional.normalize(a, dim=-1), functional.normalize(b, dim=-1)
    return (a * b).sum(dim=-1)


def at_least_float32(values: Tensor) -> Tensor:
    """Half precision as float32; float32 and float64 as they are.

    Example:
        >>> at_least_float32(torch.zeros(1, dtype=torch.bfloat16)).dtype
        torch.float32
    """
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values


if not TYPE_CHECKING:  # a type checker reports the old name instead

    def __getattr__(name: str) -> object:
        """Finds ``Columns``, which is now `opencse.objective.columns.LogitColumns`; older parts import it here."""
        if name != "Columns":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        message = "opencse.objective.losses.Columns is now opencse.objective.columns.LogitColumns"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return importlib.import_module("opencse.objective.columns").LogitColumns
