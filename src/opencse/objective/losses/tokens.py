"""Losses of predictions at the tokens of a text."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from opencse.objective.losses.similarity import at_least_float32


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
        >>> import torch
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
        >>> import torch
        >>> replaced_tokens(torch.tensor([[[3.0, 0.0], [3.0, 0.0]]]), torch.tensor([[0, 1]]))
        tensor([[0.0486, 3.0486]])
    """
    return functional.cross_entropy(at_least_float32(logits).transpose(1, 2), replaced, reduction="none")
