"""Judgements about other texts than those of an index are refused; titles and shortened texts make no other text."""

from __future__ import annotations

import pytest

from opencse.errors import UserError
from opencse.search.same_texts import require_same_texts

TEXTS = {
    "1": "The kettle boils in the morning.",
    "2": "Snow fell all night on the hills.",
    "3": "The late train leaves at ten.",
}


@pytest.mark.parametrize(
    "rows",
    [
        list(TEXTS.items()),
        [(name, f"A title that is long\n{text}") for name, text in TEXTS.items()],
        [(name, " ".join(text.split()[:2])) for name, text in TEXTS.items()],
        [(name, half) for name, text in TEXTS.items() for half in (text[:12], text[12:])],
        [*list(TEXTS.items())[:2], ("3", "Something else entirely, edited since."), ("4", "Nobody judged this.")],
    ],
    ids=["equal", "with a title", "shortened", "passages", "one edited"],
)
def test_the_same_texts_in_another_form_are_accepted(rows: list[tuple[str, str]]) -> None:
    require_same_texts("index", "data", TEXTS, rows)


def test_other_texts_with_the_same_ids_are_refused() -> None:
    rows = list(zip(TEXTS, [*list(TEXTS.values())[1:], TEXTS["1"]], strict=True))
    with pytest.raises(UserError, match=r"3 of 3 relevant documents .* \('1' is 'The kettle .*' there, here 'Snow"):
        require_same_texts("index", "data", TEXTS, rows)
