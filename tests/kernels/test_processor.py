"""Facts about the CPU that choices are made by."""

from __future__ import annotations

import pytest
import torch

from opencse.kernels import processor


@pytest.mark.parametrize(
    ("units", "maker", "fast"),
    [
        ({"amx_bf16": True, "avx512_bf16": True}, processor.INTEL, True),
        ({"avx512_bf16": True}, processor.INTEL, False),
        ({"avx512_bf16": True}, "AuthenticAMD", True),
        ({}, "AuthenticAMD", False),
    ],
)
def test_bf16_is_fast_by_unit_and_maker(
    units: dict[str, bool], maker: str, fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: units)
    monkeypatch.setattr(processor, "maker", lambda: maker)
    assert processor.fast_bf16()[0] is fast
