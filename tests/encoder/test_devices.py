"""Devices are checked before an encoder is moved there."""

from __future__ import annotations

import pytest
import torch

from opencse.encoder.devices import default_device, usable_device
from opencse.errors import UserError


def test_the_cpu_is_usable() -> None:
    assert usable_device("cpu") == usable_device(torch.device("cpu")) == torch.device("cpu")


@pytest.mark.parametrize("device", ["meta", "nonsense", "cuda:99"])
def test_a_device_that_cannot_be_used_is_refused(device: str) -> None:
    with pytest.raises(UserError, match=f"device {device}: cannot be used here"):
        usable_device(device)


def test_a_gpu_is_the_default_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert default_device() == torch.device("mps")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert default_device() == torch.device("cuda")
