import pytest
import torch
from torch import Tensor

from opencse.evaluation.classifiers.optim import Name, StackedOptimizer

L2 = ((0.0, 1e-3), (1e-5, 0.5), (1e-2, 1e-4))
STEPS = 30


def gradients(seed: int) -> list[list[Tensor]]:
    random = torch.Generator().manual_seed(seed)
    shapes = [(3, 2, 4, 5), (3, 2, 1, 7)]
    return [[torch.randn(shape, generator=random, dtype=torch.float64) for shape in shapes] for _ in range(STEPS)]


def ours(name: Name, dtype: torch.dtype, parameters: list[Tensor]) -> StackedOptimizer:
    return StackedOptimizer(name, parameters, torch.tensor(L2, dtype=dtype))


@pytest.mark.parametrize("name", ["adam", "rmsprop"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-14), (torch.float32, 1e-6)])
def test_every_fit_changes_as_with_torch_optim_alone(name: Name, dtype: torch.dtype, tolerance: float) -> None:
    start, *changes = [[g.to(dtype) for g in several] for several in gradients(0)]
    parameters = [p.clone() for p in start]
    together = ours(name, dtype, parameters)
    for several in changes:
        together.step([g.clone() for g in several])
    for group in range(3):
        for fit in range(2):
            alone = [p[group, fit].clone().requires_grad_() for p in start]
            make = torch.optim.Adam if name == "adam" else torch.optim.RMSprop
            torch_optimizer = make(alone, weight_decay=L2[group][fit])  # rates at torch's defaults
            for several in changes:
                for parameter, gradient in zip(alone, several, strict=True):
                    parameter.grad = gradient[group, fit].clone()
                torch_optimizer.step()
            for before, parameter, got in zip(start, alone, parameters, strict=True):
                torch.testing.assert_close(got[group, fit], parameter.detach(), rtol=tolerance, atol=tolerance)
                assert (got[group, fit] - before[group, fit]).abs().max() > 1e-3


@pytest.mark.parametrize("name", ["adam", "rmsprop"])
def test_dropped_groups_leave_the_others_as_they_were(name: Name) -> None:
    start, *changes = gradients(1)
    whole, part = [p.clone() for p in start], [p.clone() for p in start]
    everything, fewer = ours(name, torch.float64, whole), ours(name, torch.float64, part)
    for several in changes[:10]:
        everything.step([g.clone() for g in several])
        fewer.step([g.clone() for g in several])
    left = torch.tensor([0, 2])
    part = [p[left] for p in part]
    fewer.keep(left, part)
    for several in changes[10:]:
        everything.step([g.clone() for g in several])
        fewer.step([g[left] for g in several])
    for one, other in zip(whole, part, strict=True):
        torch.testing.assert_close(one[left], other, rtol=1e-13, atol=1e-13)
