"""Options that take one value are typed once."""

from __future__ import annotations

import pytest

from helpers import Run


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("adapt", "text.txt", "--out", "a", "--pairs", "p.csv", "--pairs=q.csv"), "--pairs"),
        (("compare", "text.txt", "-r", "simcse", "--recipes", "esimcse"), "--recipes"),
        (("index", "query", "i", "cat", "-k", "3", "-k", "4"), "-k"),
    ],
)
def test_a_value_that_would_not_count_is_refused(opencse: Run, arguments: tuple[str, ...], option: str) -> None:
    code, _, err = opencse(*arguments)
    message = f"opencse: {option} is there twice, and takes one value; commas separate the parts of a list\n"
    assert (code, err) == (2, message)


def test_what_may_be_repeated_and_flags_are_taken(opencse: Run) -> None:
    code, _, err = opencse("index", "query", "i", "x", "--where", "a=1", "--where", "b=2", "--hybrid", "--hybrid")
    assert code == 2
    assert "twice" not in err
