from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import norm
from torch import Tensor

from opencse.baselines.flow import Flow, FlowSettings
from opencse.baselines.flow_layers import ActNorm, Coupling, FlowNetwork, Reversal, Rotation
from opencse.errors import UserError

pytestmark = pytest.mark.slow

KINDS: list[dict[str, Any]] = [
    {},
    {"coupling": "affine"},
    {"mixing": "rotation"},
    {"coupling": "affine", "mixing": "rotation", "levels": 1, "depth": 2},
    {"levels": 2, "depth": 1, "coupling": "affine"},
]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def data(n: int = 400, d: int = 9, seed: int = 0) -> NDArray[np.float32]:
    """Correlated, far from the origin, and bent: its last coordinate is the square of the first, with noise."""
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(n, d))
    base[:, -1] = base[:, 0] ** 2 + 0.1 * base[:, -1]
    return np.asarray(base @ rng.normal(size=(d, d)) + 3, dtype=np.float32)


def shaken(kind: dict[str, Any], d: int = 9) -> FlowNetwork:
    """A network in float64 none of whose weights is zero or one."""
    network = Flow(d, FlowSettings(width=6, **kind)).network.double()
    with torch.no_grad():
        for number, parameter in enumerate(network.parameters()):
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=seeded(number), dtype=torch.float64))
    return network


def exact(kind: dict[str, Any]) -> float:
    """What float64 leaves; a rotation is orthogonal to float32."""
    return 1e-5 if kind.get("mixing") == "rotation" else 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_log_determinant_is_that_of_autograds_jacobian(kind: dict[str, Any]) -> None:
    network = shaken(kind)
    x = torch.randn(6, 9, generator=seeded(5), dtype=torch.float64)
    z, found = network(x)
    assert z.shape == x.shape
    assert found.shape == (6,)

    def one(row: Tensor) -> Tensor:
        mapped: Tensor = network(row[None])[0][0]
        return mapped

    for row, value in zip(x, found, strict=True):
        jacobian = torch.autograd.functional.jacobian(one, row)  # type: ignore[no-untyped-call]
        expected = torch.linalg.slogdet(jacobian).logabsdet
        assert abs(float(value.detach() - expected)) < exact(kind)
        off = (jacobian - torch.diag(jacobian.diagonal())).abs().max()
        assert off > 1e-3, "coordinates do act on each other"
    assert found.abs().min() > 0.01
    if kind.get("coupling") == "affine":
        assert found.std() > 1e-4, "it depends on the vector"
    else:
        assert found.std() < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_invertible(kind: dict[str, Any]) -> None:
    network = shaken(kind)
    x = torch.randn(20, 9, generator=seeded(5), dtype=torch.float64)
    z, _ = network(x)
    assert (z - x).abs().max() > 0.5
    assert (network.inverse(z) - x).abs().max() < exact(kind)
    assert (network(network.inverse(x))[0] - x).abs().max() < exact(kind)


def test_log_likelihood_is_the_change_of_variables() -> None:
    network = shaken({"coupling": "affine"})
    x = torch.randn(5, 9, generator=seeded(1), dtype=torch.float64)
    z, log_det = network(x)
    pairs = zip(z.tolist(), log_det.tolist(), strict=True)
    expected = [sum(norm.logpdf(v) for v in row) + change for row, change in pairs]
    np.testing.assert_allclose(network.log_likelihood(x).detach().numpy(), expected, rtol=1e-10)


def test_layers_by_hand() -> None:
    x = torch.tensor([[1.0, 2, 3], [3, 2, 7]])
    norm_layer = ActNorm(3)
    norm_layer.start(x)
    y, log_det = norm_layer(x)
    torch.testing.assert_close(y, torch.tensor([[-1.0, 0, -1], [1, 0, 1]]), atol=1e-5, rtol=0)
    assert log_det.item() == pytest.approx(-math.log(1) - math.log(1e-6) - math.log(2), abs=1e-4)
    torch.testing.assert_close(Reversal()(x), torch.tensor([[3.0, 2, 1], [7, 2, 3]]))
    rotation = Rotation(3, seeded())
    torch.testing.assert_close(rotation.matrix @ rotation.matrix.T, torch.eye(3), atol=1e-6, rtol=0)
    torch.testing.assert_close(rotation(x).norm(dim=1), x.norm(dim=1))
    torch.testing.assert_close(rotation.inverse(rotation(x)), x)
    assert not torch.allclose(rotation(x), x)
    for affine in (False, True):
        coupling = Coupling(3, 4, affine=affine, generator=seeded())
        y, log_det = coupling(x)
        scale = 1 / (1 + math.exp(-2)) if affine else 1.0
        torch.testing.assert_close(y, x * torch.tensor([1, 1, scale]), msg="a new coupling has no shift")
        torch.testing.assert_close(log_det, torch.full((2,), math.log(scale)))


def test_levels_halve_what_is_left() -> None:
    network = Flow(9, FlowSettings(levels=3, depth=1)).network
    assert network.sizes == [9, 5, 3]
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=seeded(1)))
    x = torch.randn(1, 9, generator=seeded(2))
    levels = network._levels()
    first = levels[0][1][0](x)[0]
    second = levels[1][1][0](first[:, :5])[0]
    third = levels[2][1][0](second[:, :3])[0]
    torch.testing.assert_close(network(x)[0], torch.cat([third, second[:, 3:], first[:, 5:]], dim=1))


def test_the_start_makes_every_coordinate_standard() -> None:
    network = Flow(8, FlowSettings()).network
    x = torch.from_numpy(data(d=8))
    network.start(x)
    z, _ = network(x)
    torch.testing.assert_close(z.mean(dim=0), torch.zeros(8), atol=1e-4, rtol=0)
    torch.testing.assert_close(z.std(dim=0, correction=0), torch.ones(8), atol=1e-3, rtol=0)


@pytest.mark.parametrize("kind", KINDS[1:4])
def test_training_raises_the_likelihood_of_vectors_it_has_not_seen(kind: dict[str, Any]) -> None:
    seen, held_out = np.split(data(600), [400])
    settings = FlowSettings(epochs=5, batch_size=50, learning_rate=1e-2, **kind)
    started = Flow(9, settings)
    started.network.start(torch.from_numpy(seen))
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
    settings = FlowSettings(batch_size=100, mixing="rotation")
    one = Flow.fit(data(), settings).apply(data())
    assert torch.equal(state, torch.get_rng_state())
    torch.manual_seed(2)
    np.testing.assert_array_equal(Flow.fit(data(), settings).apply(data()), one)
    other = Flow.fit(data(), FlowSettings(batch_size=100, mixing="rotation", seed=7)).apply(data())
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


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_loaded(kind: dict[str, Any], tmp_path: Path) -> None:
    flow = Flow.fit(data(90), FlowSettings(**kind))
    path = tmp_path / "flow.safetensors"
    flow.save(path)
    again = Flow.load(path)
    assert (again.settings, again.dimension) == (flow.settings, 9)
    np.testing.assert_array_equal(again.apply(data()), flow.apply(data()))


def test_faults_of_files(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    broken, foreign, cut = tmp_path / "broken", tmp_path / "foreign", tmp_path / "cut"
    broken.write_bytes(b"nothing of the kind")
    save_file({"a": torch.zeros(1)}, foreign)
    facts = {"dimension": "9", "settings": FlowSettings().model_dump_json()}
    save_file({"a": torch.zeros(1)}, cut, metadata=facts)
    for path, part in ((broken, "cannot be read"), (foreign, "holds no flow"), (cut, "holds no flow")):
        with pytest.raises(UserError) as caught:
            Flow.load(path)
        assert str(caught.value).startswith(f"{path}: {part}")
        assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match="cannot be read"):
        Flow.load(tmp_path / "none")
    with pytest.raises(UserError, match="cannot be written"):
        Flow.fit(data(9)).save(tmp_path / "no" / "folder")


def test_refusals() -> None:
    bad = data()
    bad[3, 3] = np.inf
    with pytest.raises(UserError, match="NaN or infinite"):
        Flow.fit(bad)
    with pytest.raises(UserError, match="at least 2 vectors, not 1"):
        Flow.fit(data(1))
    with pytest.raises(UserError, match="vectors of 7 numbers are too short for a flow of 3 levels"):
        Flow.fit(data(d=7))
    with pytest.raises(ValueError, match=r"\(9,\)"):
        Flow.fit(data()[0])
    with pytest.raises(UserError, match=r"diverged at batch .* lower its learning rate"):
        Flow.fit(data(), FlowSettings(learning_rate=1e6, coupling="affine", epochs=9))
