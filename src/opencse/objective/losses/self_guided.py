"""The loss of vectors that are pulled to a frozen model's vectors of the same text at every layer (SG-OPT)."""

from __future__ import annotations

import torch
from torch import Tensor

from opencse.objective.losses.similarity import at_least_float32


def self_guided(anchor: Tensor, layers: Tensor, *, temperature: float = 0.01, left_out: Tensor | None = None) -> Tensor:
    """SG-OPT: each layer's vector of the own text against all layers' of the other texts.

    Kim, Yoo and Lee 2021, arXiv:2106.07345, eq. 6 and 7. With c_i the trained vector of text i, h_ik that of a frozen
    model at layer k, both after a projection, and ``phi(x, y) = exp(cos(x, y) / temperature)``::

        Z_i  = sum over all layers l and all texts j != i of phi(c_i, h_jl)
        loss = mean over texts i and layers k of -log( phi(c_i, h_ik) / (phi(c_i, h_ik) + Z_i) )

    So the other layers of the own text are no negatives, and neither are the other texts' trained vectors.

    Args:
        anchor: (N, d) trained vectors.
        layers: (L, N, d) the frozen model's.
        temperature: tau, above 0; .01 in the authors' code.
        left_out: (N, N) True where text j is no negative of text i, in addition to j = i; None for nowhere.

    Returns:
        Scalar.

    Example:
        >>> vectors = torch.eye(2)
        >>> self_guided(vectors, torch.stack([vectors, vectors]), temperature=1.0)  # log(1 + 2 / e)
        tensor(0.5514)
        >>> self_guided(vectors, torch.stack([vectors, vectors.flip(0)]), temperature=1.0)
        tensor(1.2067)
    """
    unit, others = (torch.nn.functional.normalize(at_least_float32(x), dim=-1) for x in (anchor, layers))
    logits = torch.einsum("id,ljd->lij", unit, others) / temperature  # (L, N, N)
    excluded = torch.eye(len(anchor), dtype=torch.bool, device=anchor.device)
    if left_out is not None:
        excluded = excluded | left_out
    positive = logits.diagonal(dim1=1, dim2=2)  # (L, N)
    negatives = logits.masked_fill(excluded, -torch.inf).transpose(0, 1).flatten(1).logsumexp(dim=1)  # (N,)
    return (torch.logaddexp(positive, negatives) - positive).mean()
