from __future__ import annotations

import torch

from opencse.text.moving import moved


def test_on_the_same_device_the_values_stay() -> None:
    tensor = torch.arange(3)
    assert torch.equal(moved(tensor, torch.device("cpu")), tensor)
    assert moved(tensor, torch.device("meta")).device.type == "meta"
