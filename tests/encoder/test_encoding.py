"""Making the next item in a thread while the last is used."""

from __future__ import annotations

from threading import Event

import pytest

from opencse.encoder.encoding import prefetched


def test_the_next_is_made_while_the_last_is_used() -> None:
    started = [0, 1, 2, 3]
    began = [Event() for _ in started]

    def make(number: int) -> int:
        began[number].set()
        return number * 10

    results = prefetched(make, started, in_thread=True)
    assert next(results) == 0
    assert began[1].wait(10), "nobody has requested it"
    assert not began[2].wait(0.1), "no more than one is held ready"
    assert [*results] == [10, 20, 30]
    assert [*prefetched(make, started, in_thread=False)] == [0, 10, 20, 30]
    assert [*prefetched(make, [], in_thread=True)] == []


@pytest.mark.parametrize("in_thread", [True, False])
def test_an_error_in_the_thread_is_raised_with_its_item(in_thread: bool) -> None:
    def make(number: int) -> int:
        return 1 // number

    results = prefetched(make, [1, 0, 1], in_thread=in_thread)
    assert next(results) == 1
    with pytest.raises(ZeroDivisionError):
        next(results)
