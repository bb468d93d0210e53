"""How many examples each property is tried on: the same few in `make test`, many random ones in `make fuzz`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

TIMES = int(os.environ.get("OPENCSE_FUZZ", "0"))
"""How many times the usual number of examples `make fuzz` tries; 0 outside it."""


def load_profile() -> None:
    """Makes hypothesis draw the same examples in each run, or with ``OPENCSE_FUZZ`` new ones, and more of them."""
    settings.register_profile("fixed", deadline=None, derandomize=True)
    settings.register_profile(
        "fuzz",
        deadline=None,
        max_examples=100 * max(TIMES, 1),
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    settings.load_profile("fuzz" if TIMES else "fixed")


def examples(count: int) -> settings:
    """For a property that is slow or needs many: ``count`` examples in `make test`, in proportion in `make fuzz`."""
    return settings(max_examples=count * max(TIMES, 1))
