"""``opencse similarity``."""

from __future__ import annotations

from helpers import Run


def test_the_most_similar_text_comes_first(opencse: Run) -> None:
    code, stdout, err = opencse("similarity", "opencse-mini", "A dog barks.", "It rains.", "A hound bays.")
    assert code == 0, err
    first, second = stdout.splitlines()
    assert first.endswith("A hound bays.")
    assert float(first.split()[0]) > float(second.split()[0])


def test_one_text_is_too_few(opencse: Run) -> None:
    code, _, err = opencse("similarity", "opencse-mini", "A dog barks.")
    assert (code, "at least two texts" in err) == (2, True)
