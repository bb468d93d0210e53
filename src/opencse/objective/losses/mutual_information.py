"""Mutual information between the parts of a text and its vector."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from opencse.objective.losses.similarity import at_least_float32


def mutual_information(local: Tensor, real: Tensor, texts: Tensor) -> Tensor:
    """Jensen-Shannon estimate of the mutual information of local vectors and texts, negated (IS-BERT, eqs. 3 and 4).

    With l_it the local vectors of text i, g_j the vector of text j, T the real tokens of all N texts and
    sp(x) = log(1 + exp(x))::

        loss = E_neg - E_pos
        E_pos = 1/T       sum_it           log 2 - sp(-l_it . g_i)
        E_neg = 1/(T(N-1)) sum_it sum_{j != i}  sp(l_it . g_j) - log 2

    Args:
        local: (N, length, d) vectors of the tokens, N at least 2.
        real: (N, length) 1 at tokens, 0 at padding.
        texts: (N, d) vectors of the texts.

    Returns:
        The scalar loss.

    Example:
        >>> local = torch.tensor([[[2.0, -2.0]], [[-2.0, 2.0]]])  # two texts of one token
        >>> mutual_information(local, torch.ones(2, 1), local[:, 0])
        tensor(-1.3856)
    """
    local, texts = at_least_float32(local), at_least_float32(texts)
    scores = torch.einsum("itd,jd->itj", local, texts)
    n, tokens = len(texts), real.to(scores.dtype)
    total = tokens.sum()
    is_pair = torch.eye(n, dtype=torch.bool, device=scores.device).unsqueeze(1)
    positive = math.log(2) - functional.softplus(-scores)
    negative = functional.softplus(scores) - math.log(2)
    mask = tokens.unsqueeze(2)
    e_pos = (positive * mask * is_pair).sum() / total
    e_neg = (negative * mask * ~is_pair).sum() / (total * (n - 1))
    return e_neg - e_pos
