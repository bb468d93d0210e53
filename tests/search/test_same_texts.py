"""Judgements about other texts than those of an index are refused; titles and shortened texts make no other text."""

from __future__ import annotations

import pytest

from opencse.errors import UserError
from opencse.search.rows import require_same_texts


def test_other_texts_with_the_same_ids_are_refused() -> None:
    texts = {"1": "The kettle boils in the morning.", "2": "Snow fell all night.", "3": "The late train leaves."}
    names = [*texts]
    for rows in (
        [(name, f"A title that is long\n{text}") for name, text in texts.items()],
        [(name, half) for name, text in texts.items() for half in (text[:12], text[12:])],
        [*list(texts.items())[:2], ("3", "Something else entirely, edited since."), ("4", "Nobody judged this.")],
    ):
        require_same_texts("index", "data", texts, rows)
    with pytest.raises(UserError, match=r"3 of 3 relevant documents .* \('1' is 'The kettle .*' there, here 'Snow"):
        require_same_texts(
            "index", "data", texts, list(zip(names, [*list(texts.values())[1:], texts["1"]], strict=True))
        )
