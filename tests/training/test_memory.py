"""Freed memory is kept where the C library allows it, and nothing happens elsewhere."""

from __future__ import annotations

import subprocess
import sys

import pytest

from opencse.training import schedule

PROGRAM = """
import resource, sys, torch
from opencse.training.schedule import keep_freed_memory
assert not (sys.argv[1] == "keep") or keep_freed_memory()
torch.set_num_threads(1)
for _ in range(5):
    torch.ones(16_000_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    torch.ones(16_000_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(mode: str) -> int:
    done = subprocess.run([sys.executable, "-c", PROGRAM, mode], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="a matter of glibc")
def test_large_blocks_are_used_again_with_fewer_page_faults() -> None:
    if not schedule.keep_freed_memory():
        pytest.skip("another C library")
    assert faults("keep") < 0.75 * faults("leave")
