"""What is made in a thread before it is asked for."""

from __future__ import annotations

from threading import Event

import pytest

from opencse.encoder.encoding import made_ahead


def test_the_next_is_made_while_the_last_is_worked_with() -> None:
    started = [0, 1, 2, 3]
    began = [Event() for _ in started]

    def make(number: int) -> int:
        began[number].set()
        return number * 10

    made = made_ahead(make, started, beside=True)
    assert next(made) == 0
    assert began[1].wait(10), "nobody has asked for it"
    assert not began[2].wait(0.1), "no more than one is held ready"
    assert [*made] == [10, 20, 30]
    assert [*made_ahead(make, started, beside=False)] == [0, 10, 20, 30]
    assert [*made_ahead(make, [], beside=True)] == []


@pytest.mark.parametrize("beside", [True, False])
def test_an_error_ahead_is_raised_where_it_is_asked_for(beside: bool) -> None:
    def make(number: int) -> int:
        return 1 // number

    made = made_ahead(make, [1, 0, 1], beside=beside)
    assert next(made) == 1
    with pytest.raises(ZeroDivisionError):
        next(made)
