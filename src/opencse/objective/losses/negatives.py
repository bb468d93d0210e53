"""How negatives are weighted by their nearness, and mixed of positives."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from opencse.objective.losses.similarity import at_least_float32


def hardness_log_weight(similarity: Tensor, strength: Tensor | float) -> Tensor:
    """What is added to the logits of negatives so that near ones weigh more (Lan et al. 2025, arXiv:2503.04812, eq. 5).

    With h the strength, negative k of anchor i has the weight ``exp(h * sim(a_i, c_k))`` in the denominator::

        Z_i = exp(s_i / tau) + sum_k exp(h * sg(sim_ik)) * exp(sim_ik / tau)        sg: without gradient

    The weights are not normalised, as in sentence-transformers, so a larger h also makes all negatives together
    weigh more. The weight itself has no gradient, so the step is that of a softmax at a higher temperature for the
    negatives, in which each logit still moves by ``1 / tau``.

    Args:
        similarity: (N, K) similarities, not divided by the temperature.
        strength: h, 0 for no weights; a number, or one of each column.

    Returns:
        (N, K), to be added to the logits.

    Example:
        >>> hardness_log_weight(torch.tensor([[0.5, -1.0]], requires_grad=True), 9.0)
        tensor([[ 4.5000, -9.0000]])
    """
    return at_least_float32(similarity.detach()) * strength


def mixed_vectors(vectors: Tensor, shift: Tensor | int, share: float, *, normalised: bool = True) -> Tensor:
    """Mixes each vector with another one, without gradient (MixCSE, Zhang et al. 2022, eq. 6).

    With sg for a value without gradient::

        m_i = sg(share * v_i + (1 - share) * v_j)        j = (i + shift) mod N

    Args:
        vectors: (N, d).
        shift: how far the other vector is; a number, or a tensor of one.
        share: of the vector itself.
        normalised: whether both have length 1 first: the paper. The authors' code mixes them as they are.

    Returns:
        (N, d), not normalised again, in float32 at least.

    Example:
        >>> mixed_vectors(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), 1, 0.2)
        tensor([[0.2000, 0.8000],
                [0.8000, 0.2000]])
    """
    vectors = at_least_float32(vectors.detach())
    if normalised:
        vectors = functional.normalize(vectors, dim=-1)
    others = (torch.arange(len(vectors), device=vectors.device) + shift) % len(vectors)
    return share * vectors + (1.0 - share) * vectors[others]
