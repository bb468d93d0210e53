from __future__ import annotations

import pytest

from opencse.text.column_prompts import ColumnPrompts


@pytest.mark.parametrize(("width", "expected"), [(1, ("s",)), (2, ("f", "o")), (3, ("f", "o", "o"))])
def test_a_prompt_for_each_column(width: int, expected: tuple[str, ...]) -> None:
    assert ColumnPrompts("s", "f", "o").of(width) == expected


def test_without_prompts_it_is_false() -> None:
    assert not ColumnPrompts()
    assert ColumnPrompts(others="o")
