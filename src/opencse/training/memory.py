"""Makes the C library keep freed memory between training steps."""

from __future__ import annotations

import ctypes
import sys

# Parameters of glibc's mallopt (malloc.h).
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4


def keep_freed_memory() -> bool:
    """Keeps freed memory in the process instead of returning it to the kernel at every step.

    A training step on the CPU frees and allocates the same large blocks again and again. By default glibc maps each of
    them again, and the kernel clears every page of it; memory that stays is reused at once (a step of 2 x 1,024
    sentences on a layerless encoder: 1.6 times as fast). The process keeps the largest memory it ever needed.

    Returns:
        Whether it worked: on Linux with glibc only.
    """
    if sys.platform != "linux":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # another C library
        return False
    return bool(mallopt(_MMAP_MAX, 0)) and bool(mallopt(_TRIM_THRESHOLD, 2**31 - 1))
