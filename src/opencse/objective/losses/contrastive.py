"""The contrastive loss of plain tensors, and of logits."""

from __future__ import annotations

import torch
from torch import Tensor

from opencse.objective.losses.similarity import (
    SimilarityKind,
    at_least_float32,
    pairwise_similarity,
    rowwise_similarity,
)


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


def info_nce_from_logits(positive: Tensor, *negatives: Tensor, label_smoothing: float = 0.0, copies: int = 1) -> Tensor:
    """InfoNCE of each anchor, of logits (SimCSE, eq. 1, 4 and 5).

    With p_i the positive's logit and n_ik the logit of negative k::

        Z_i    = m exp(p_i) + sum_k exp(n_ik)
        loss_i = -(1 - eps) log(exp(p_i) / Z_i) - eps / (K_i + m) * sum over all K_i + m columns c of log(c / Z_i)

    A negative of weight w has log(w) added to its logit. One of logit minus infinity is left out: it counts neither in
    Z_i nor in K_i. ``eps`` is label smoothing (Park's thesis, section on label smoothing). The positive is one column
    (m = 1), but one for each direction in a softmax over several (Li et al. 2023, arXiv:2308.03281, eq. 2).

    Args:
        positive: (N,) logits of the positives, already divided by the temperature.
        negatives: (N, K) logits of each source of negatives.
        label_smoothing: eps in [0, 1).
        copies: m, how often the positive is in its denominator.

    Returns:
        (N,) losses.

    Example:
        >>> info_nce_from_logits(torch.zeros(2), torch.tensor([[0.0], [-torch.inf]]))
        tensor([0.6931, 0.0000])
    """
    positives = at_least_float32(positive).unsqueeze(1).expand(-1, copies)
    logits = torch.cat([positives, *(at_least_float32(n) for n in negatives)], dim=1)
    log_normaliser = torch.logsumexp(logits, dim=1)
    losses = log_normaliser - logits[:, 0]
    if label_smoothing == 0.0:
        return losses
    counted = torch.isfinite(logits)
    uniform = log_normaliser - logits.masked_fill(~counted, 0.0).sum(dim=1) / counted.sum(dim=1)
    return (1.0 - label_smoothing) * losses + label_smoothing * uniform


def binary_from_logits(positive: Tensor, *negatives: Tensor) -> Tensor:
    """The binary cross-entropy of every probability of an anchor's softmax, as the authors of DCLR train it.

    With q the softmax over the positive's logit and those of all K_i negatives that count::

        loss_i = -( log q_i+ + sum_k log(1 - q_ik) ) / (K_i + 1)

    `info_nce_from_logits` is ``-log q_i+`` alone. The paper (Zhou et al. 2022, arXiv:2205.00656) has that loss with
    weights; the binary one is in its code. A logit of minus infinity is left out.

    Args:
        positive: (N,) logits of the positives, already divided by the temperature.
        negatives: (N, K) logits of each source of negatives.

    Returns:
        (N,) losses.

    Example:
        >>> binary_from_logits(torch.zeros(2), torch.tensor([[0.0], [-torch.inf]]))  # q = 1/2, 1/2; q = 1
        tensor([0.6931, -0.0000])
    """
    logits = torch.cat([at_least_float32(positive).unsqueeze(1), *(at_least_float32(n) for n in negatives)], dim=1)
    log_probabilities = torch.log_softmax(logits, dim=1)
    below_one = log_probabilities[:, 1:].clamp(max=-torch.finfo(logits.dtype).tiny)  # log(1 - q) of q = 1 is infinite
    rejected = (-torch.expm1(below_one)).log()  # 0 where q = 0
    return -(log_probabilities[:, 0] + rejected.sum(dim=1)) / torch.isfinite(logits).sum(dim=1)
