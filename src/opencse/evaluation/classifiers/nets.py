"""The classifiers' forward pass and gradient in closed form, for many fits at once.

A group is a training set, and its fits differ in l2 alone: they share their batches. A batch is (groups, batch, d + 1),
its last column 1 (the bias); parameters are (groups, fits, rows, columns).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from opencse.evaluation.classifiers.settings import ClassifierSettings


class SoftmaxRegression:
    r"""Softmax regression: one linear layer and softmax cross-entropy, mean over the batch of B sentences.

    .. math:: L = -\frac1B \sum_b \log p_{b, y_b}, \quad p_b = \mathrm{softmax}(W x_b), \quad
              \nabla_W L = \frac1B \sum_b (p_b - e_{y_b})\, x_b^\top
    """

    def __init__(self, weights: Tensor) -> None:
        """``weights``: (groups, fits, classes, d + 1)."""
        self.parameters = [weights]

    def gradients(self, batch: Tensor, targets: Tensor) -> list[Tensor]:
        """Returns gradients of mean cross-entropy; ``batch`` (groups, batch, d + 1), ``targets`` (groups, batch)."""
        (weights,) = self.parameters
        delta = _delta(_times(weights, batch), targets)
        return [_times(delta, batch.transpose(1, 2)).view_as(weights)]


class HiddenLayer:
    r"""One hidden layer: linear, dropout, sigmoid, linear, softmax cross-entropy (SentEval's order of the layers).

    .. math:: a_b = \sigma(m_b \odot W_1 x_b), \quad p_b = \mathrm{softmax}(W_2 a_b + \beta), \quad
              m_{bj} \in \{0, 1 / (1 - r)\}

    The dropout mask is drawn once per step for all fits, from the generator that drew the weights: each fit gets
    the mask it would get alone, since all have one seed. It is drawn on the CPU, so it is the same on every device.
    """

    def __init__(self, first: Tensor, second: Tensor, dropout: float, generator: torch.Generator) -> None:
        """``first``: (groups, fits, hidden, d + 1); ``second``: (groups, fits, classes, hidden + 1)."""
        self.parameters = [first, second]
        self.dropout = dropout
        self.generator = generator

    def gradients(self, batch: Tensor, targets: Tensor) -> list[Tensor]:
        """See ``SoftmaxRegression``."""
        first, second = self.parameters
        width = first.shape[2]
        before = _times(first, batch)
        mask = self._mask(batch.shape[1], width, before.dtype).to(before.device)
        active = torch.sigmoid(before * mask)
        delta = _delta(second[..., :width] @ active + second[..., width:], targets)
        bias = delta.sum(dim=-1, keepdim=True)
        of_second = torch.cat([delta @ active.transpose(-1, -2), bias], dim=-1)
        back = (second[..., :width].transpose(-1, -2) @ delta) * active * (1 - active) * mask
        return [_times(back, batch.transpose(1, 2)).view_as(first), of_second]

    def _mask(self, batch: int, width: int, dtype: torch.dtype) -> Tensor:
        if self.dropout == 0:
            return torch.ones(width, batch, dtype=dtype)
        mask = torch.empty(batch, width, dtype=dtype).bernoulli_(1 - self.dropout, generator=self.generator)
        return mask.div_(1 - self.dropout).T


def logits(parameters: Sequence[Tensor], rows: Tensor) -> Tensor:
    """Returns (fits, classes, n) without dropout, from one group's parameters (fits, ., .) and ``rows`` (n, d + 1)."""
    first, *rest = parameters
    scores = (first.flatten(0, 1) @ rows.T).view(*first.shape[:2], len(rows))
    for second in rest:
        active = torch.sigmoid(scores)
        scores = second[..., :-1] @ active + second[..., -1:]
    return scores


def new_net(
    settings: ClassifierSettings, sizes: torch.Size, classes: int, width: int, like: Tensor
) -> SoftmaxRegression | HiddenLayer:
    """Makes a net whose fits all start from ``nn.Linear``'s weights under ``torch.manual_seed(settings.seed)``.

    Args:
        settings: see there.
        sizes: groups, and fits per group.
        classes: number of classes.
        width: d, without the column of ones.
        like: a tensor with the device and type to use; the weights are drawn in float32 and then cast.
    """
    generator = torch.Generator().manual_seed(settings.seed)

    def layer(out: int, width: int) -> Tensor:
        return _linear(out, width, generator).to(like).expand(*sizes, -1, -1).contiguous()

    if settings.hidden == 0:
        return SoftmaxRegression(layer(classes, width))
    first = layer(settings.hidden, width)
    return HiddenLayer(first, layer(classes, settings.hidden), settings.dropout, generator)


def _linear(out: int, width: int, generator: torch.Generator) -> Tensor:
    """(out, width + 1): weights and, last, bias as ``nn.Linear`` draws them."""
    weight = nn.init.kaiming_uniform_(torch.empty(out, width), a=math.sqrt(5), generator=generator)
    bound = 1 / math.sqrt(width)
    bias = torch.empty(out).uniform_(-bound, bound, generator=generator)
    return torch.cat([weight, bias[:, None]], dim=1)


def _times(rows: Tensor, batch: Tensor) -> Tensor:
    """(groups, fits, r, k) for ``rows`` (groups, fits, r, m) and ``batch`` (groups, k, m), shared by a group's fits."""
    groups, fits, r, _ = rows.shape
    return torch.bmm(rows.flatten(1, 2), batch.transpose(1, 2)).view(groups, fits, r, batch.shape[1])


def _delta(scores: Tensor, targets: Tensor) -> Tensor:
    """(groups, fits, classes, batch): the loss's gradient with respect to ``scores``, of that shape."""
    classes = torch.arange(scores.shape[2], device=scores.device)
    hits = targets[:, None, None, :] == classes[:, None]
    return torch.softmax(scores, dim=2).sub_(hits.to(scores.dtype)).div_(scores.shape[3])
