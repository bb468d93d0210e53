"""The arithmetic of a forward pass, by request or by what is fast."""

from __future__ import annotations

import pytest
import torch

from opencse.kernels.precision import choose_precision

CPU = torch.device("cpu")


def test_a_request_is_followed() -> None:
    assert choose_precision("bf16", CPU).name == "bf16"
    assert choose_precision("float32", CPU).name == "float32"
    assert choose_precision("float32", CPU).reason == "requested"


@pytest.mark.parametrize("fast", [True, False])
def test_auto_takes_bf16_where_it_is_fast(fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opencse.kernels.processor.fast_bf16", lambda: (fast, "as measured"))
    chosen = choose_precision("auto", CPU)
    assert (chosen.bf16, chosen.reason) == (fast, "auto: as measured")
    with chosen.autocast(CPU):
        assert torch.is_autocast_enabled("cpu") is fast


@pytest.mark.parametrize(("capability", "bf16"), [((7, 5), False), ((8, 0), True), ((9, 0), True)])
def test_auto_on_cuda_goes_by_the_compute_capability(
    capability: tuple[int, int], bf16: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert choose_precision("auto", torch.device("cuda")).bf16 is bf16
    assert not choose_precision("auto", torch.device("mps")).bf16
