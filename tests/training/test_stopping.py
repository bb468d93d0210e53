"""A block that ends cleanly on Ctrl-C or SIGTERM."""

from __future__ import annotations

import signal

import pytest

from opencse.training.stopping import stop_requests


def test_a_signal_sets_the_event_and_the_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with stop_requests(once=True) as stop:
        assert not stop.is_set()
        signal.raise_signal(signal.SIGTERM)
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    with stop_requests(once=False) as stop:
        for _ in range(2):
            signal.raise_signal(signal.SIGTERM)
        assert stop.is_set()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
