"""Freed memory is kept where the C library allows it, and nothing happens elsewhere."""

from __future__ import annotations

import subprocess
import sys

import pytest

from opencse.training import schedule

PROGRAM = """
import resource, torch
from opencse.training.schedule import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        torch.ones(16_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

torch.set_num_threads(1)
first = faults()
assert keep_freed_memory()
faults()
print(faults() / first)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="a matter of glibc")
def test_large_blocks_are_used_again_with_fewer_page_faults() -> None:
    if not schedule.keep_freed_memory():
        pytest.skip("another C library")
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 0.75
