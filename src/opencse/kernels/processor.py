"""Facts about the CPU; choices made by them are the same in every run on the same machine."""

from __future__ import annotations

import platform
from pathlib import Path

import torch

INTEL = "GenuineIntel"


def maker() -> str:
    """The processor's maker as Linux reports it; elsewhere Intel's name for itself, if the processor's name has it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return INTEL if "intel" in platform.processor().lower() else ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("vendor_id")), "")


def fast_bf16() -> tuple[bool, str]:
    """Whether this CPU computes products faster in bf16 than in float32, and why.

    AMX does, and AVX-512's bf16 instruction on other makers' processors: twice as fast and more. On Intel's without AMX
    (some virtual machines hide it) that instruction takes twice as long as float32's (docs/results/speed.md).
    """
    capabilities = torch.cpu.get_capabilities()
    if capabilities.get("amx_bf16"):
        return True, "this CPU has amx_bf16"
    if not capabilities.get("avx512_bf16"):
        return False, "this CPU has no bf16 unit"
    if maker() == INTEL:
        return False, "this CPU has avx512_bf16 without AMX, which is slower than float32 on Intel's"
    return True, "this CPU has avx512_bf16"
