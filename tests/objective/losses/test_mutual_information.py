"""The estimate of mutual information, and its gradients, against loops."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from opencse.objective.losses.mutual_information import mutual_information


def naive(local: Tensor, real: Tensor, texts: Tensor) -> Tensor:
    positive, negative = [], []
    for i in range(len(local)):
        for t in range(local.shape[1]):
            if not real[i, t]:
                continue
            for j in range(len(texts)):
                score = sum((a * b for a, b in zip(local[i, t], texts[j], strict=True)), torch.zeros(()))
                if i == j:
                    positive.append(math.log(2) - torch.log(1 + torch.exp(-score)))
                else:
                    negative.append(torch.log(1 + torch.exp(score)) - math.log(2))
    return sum(negative, torch.zeros(())) / len(negative) - sum(positive, torch.zeros(())) / len(positive)


def test_the_loss_and_its_gradients_are_those_of_loops() -> None:
    random = torch.Generator().manual_seed(3)
    local = torch.randn(3, 4, 5, generator=random, dtype=torch.float64).requires_grad_()
    texts = torch.randn(3, 5, generator=random, dtype=torch.float64).requires_grad_()
    real = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]])
    results = []
    for function in (mutual_information, naive):
        loss = function(local, real, texts)
        results.append([loss, *torch.autograd.grad(loss, [local, texts])])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=1e-10)
    assert not results[0][1][real == 0].any()
