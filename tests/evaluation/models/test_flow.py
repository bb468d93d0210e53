from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import norm
from torch import Tensor

from opencse.errors import UserError
from opencse.evaluation.models.flow import ActNorm, Flow, FlowSettings, FlowStep


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def data(n: int = 400, d: int = 9, seed: int = 0) -> NDArray[np.float32]:
    """Correlated, far from the origin, and bent: its last coordinate is the square of the first, with noise."""
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(n, d))
    base[:, -1] = base[:, 0] ** 2 + 0.1 * base[:, -1]
    return np.asarray(base @ rng.normal(size=(d, d)) + 3, dtype=np.float32)


def shaken(d: int = 9, settings: FlowSettings | None = None) -> Flow:
    """A flow in float64 none of whose weights is zero or one."""
    flow = Flow(d, settings or FlowSettings(width=6))
    flow.steps.double()
    with torch.no_grad():
        for number, parameter in enumerate(flow.steps.parameters()):
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=seeded(number), dtype=torch.float64))
    return flow


@pytest.mark.parametrize("settings", [FlowSettings(width=6), FlowSettings(width=6, levels=1)])
def test_log_determinant_is_that_of_autograds_jacobian(settings: FlowSettings) -> None:
    flow = shaken(settings=settings)
    x = torch.randn(6, 9, generator=seeded(5), dtype=torch.float64)
    z, found = flow.forward(x)
    assert z.shape == x.shape
    assert (z - x).abs().max() > 0.5

    def one(row: Tensor) -> Tensor:
        return flow.forward(row[None])[0][0]

    for row in x:
        jacobian = torch.autograd.functional.jacobian(one, row)  # type: ignore[no-untyped-call]
        expected = torch.linalg.slogdet(jacobian).logabsdet
        assert abs(float(found.detach() - expected)) < 1e-9
        off = (jacobian - torch.diag(jacobian.diagonal())).abs().max()
        assert off > 1e-3, "coordinates do act on each other"
    assert found.abs() > 0.01


def test_log_likelihood_is_the_change_of_variables() -> None:
    flow = Flow.fit(data(), FlowSettings(width=6, batch_size=100))
    x = data(5, seed=1)
    with torch.no_grad():
        z, log_det = flow.forward(torch.from_numpy(x))
    expected = [sum(norm.logpdf(v) for v in row) + float(log_det) for row in z.tolist()]
    np.testing.assert_allclose(flow.log_likelihood(x), expected, rtol=1e-5)


def test_layers_by_hand() -> None:
    x = torch.tensor([[1.0, 2, 3], [3, 2, 7]])
    norm_layer = ActNorm(3)
    norm_layer.start(x)
    torch.testing.assert_close(norm_layer(x), torch.tensor([[-1.0, 0, -1], [1, 0, 1]]), atol=1e-5, rtol=0)
    assert norm_layer.log_scale.sum().item() == pytest.approx(-math.log(1) - math.log(1e-6) - math.log(2), abs=1e-4)
    step = FlowStep(3, 4, seeded())
    torch.testing.assert_close(step(x), torch.tensor([[3.0, 2, 1], [7, 2, 3]]), msg="a new step moves nothing")
    with torch.no_grad():
        step.shift.get_parameter("4.bias").fill_(5)
    torch.testing.assert_close(step(x), torch.tensor([[3.0, 2, 6], [7, 2, 8]]))


def test_levels_halve_what_is_left() -> None:
    flow = shaken(settings=FlowSettings(levels=3, depth=1))
    x = torch.randn(1, 9, generator=seeded(2), dtype=torch.float64)
    one, two, three = flow._steps()
    assert [step.size for step in (one, two, three)] == [9, 5, 3]
    first = one(x)
    second = two(first[:, :5])
    third = three(second[:, :3])
    torch.testing.assert_close(flow.forward(x)[0], torch.cat([third, second[:, 3:], first[:, 5:]], dim=1))


def test_the_start_makes_every_coordinate_standard() -> None:
    flow = Flow(8, FlowSettings())
    x = torch.from_numpy(data(d=8))
    flow.start(x)
    z, _ = flow.forward(x)
    torch.testing.assert_close(z.mean(dim=0), torch.zeros(8), atol=1e-4, rtol=0)
    torch.testing.assert_close(z.std(dim=0, correction=0), torch.ones(8), atol=1e-3, rtol=0)


def test_training_raises_the_likelihood_of_vectors_it_has_not_seen() -> None:
    seen, held_out = np.split(data(600), [400])
    settings = FlowSettings(epochs=5, batch_size=50, learning_rate=1e-2)
    started = Flow(9, settings)
    started.start(torch.from_numpy(seen))
    flow = Flow.fit(seen, settings)
    gain = flow.log_likelihood(held_out).mean() - started.log_likelihood(held_out).mean()
    assert gain > 0.5, "nats"
    z = flow.apply(held_out)
    assert z.dtype == np.float32
    assert z.shape == held_out.shape
    before = np.abs(np.corrcoef(held_out.T) - np.eye(9)).mean()
    assert np.abs(np.corrcoef(z.T) - np.eye(9)).mean() < before


def test_the_same_seed_gives_the_same_flow_and_the_global_generator_is_left_alone() -> None:
    torch.manual_seed(1)
    state = torch.get_rng_state()
    settings = FlowSettings(batch_size=100)
    one = Flow.fit(data(), settings).apply(data())
    assert torch.equal(state, torch.get_rng_state())
    torch.manual_seed(2)
    np.testing.assert_array_equal(Flow.fit(data(), settings).apply(data()), one)
    other = Flow.fit(data(), FlowSettings(batch_size=100, seed=7)).apply(data())
    assert np.abs(other - one).max() > 0.1


def test_progress_counts_batches() -> None:
    told: list[tuple[int, int]] = []
    Flow.fit(data(101), FlowSettings(epochs=2, batch_size=50), progress=lambda done, total: told.append((done, total)))
    assert told == [(i, 6) for i in range(1, 7)]


def test_the_vectors_are_not_changed() -> None:
    x = data()
    kept = x.copy()
    Flow.fit(x).apply(x)
    np.testing.assert_array_equal(x, kept)


def test_double_precision_and_read_only_vectors() -> None:
    wide = data().astype(np.float64)
    wide.setflags(write=False)
    flow = Flow.fit(wide)
    np.testing.assert_array_equal(flow.apply(wide), flow.apply(data()))
    assert flow.apply(data()[:0]).shape == (0, 9)


def test_a_dimension_that_never_varies() -> None:
    x = data(90)
    x[:, 2] = 5
    z = Flow.fit(x, FlowSettings(epochs=3)).apply(x)
    assert np.isfinite(z).all()


def test_refusals() -> None:
    bad = data()
    bad[3, 3] = np.inf
    with pytest.raises(UserError, match="NaN or infinite"):
        Flow.fit(bad)
    with pytest.raises(UserError, match="at least 2 vectors, not 1"):
        Flow.fit(data(1))
    with pytest.raises(UserError, match="vectors of 7 dimensions are too short for a flow of 3 levels"):
        Flow.fit(data(d=7))
    with pytest.raises(ValueError, match=r"\(9,\)"):
        Flow.fit(data()[0])
    with pytest.raises(UserError, match=r"diverged at batch .* lower its learning rate"):
        Flow.fit(data(), FlowSettings(learning_rate=1e6, epochs=9))
