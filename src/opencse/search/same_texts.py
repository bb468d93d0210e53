"""Compares the texts of an index with those that judgements are about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from opencse.errors import UserError, shortened
from opencse.text.scripts import normalised

_SAME = 0.5


def require_same_texts(
    folder: str | Path, data: str, judged: Mapping[str, str], rows: Iterable[tuple[str, str]]
) -> None:
    """Refuses judgements whose ids are those of other texts in the index, as row numbers of another file are.

    Two texts are the same if the shorter one shares half of its words with the other: a title in one of them alone, or
    an index that keeps the beginning of a text, changes nothing.

    Args:
        folder: of the index, for messages.
        data: name of the data set, for messages.
        judged: the relevant documents by id, as the data set has them.
        rows: id and text of rows of the index; a document may have several, and ids may be missing in ``judged``.

    Example:
        >>> require_same_texts("notes", "labels", {"1": "Snow fell."}, [("1", "Weather"), ("1", "Snow fell.")])
        >>> try:
        ...     require_same_texts("notes", "labels", {"1": "Snow fell."}, [("1", "The kettle boils.")])
        ... except UserError as error:
        ...     print(f"{str(error)[:100]} ...")
        notes: 1 of 1 relevant documents of labels are other texts in this index ('1' is 'Snow fell.' there, ...

    Raises:
        UserError: where more than half of the relevant documents are other texts in the index.
    """
    texts: dict[str, str] = {}
    for name, text in rows:
        if judged.get(name):
            texts[name] = f"{texts.get(name, '')} {text}"
    others = [name for name, text in texts.items() if _shared_words(judged[name], text) < _SAME]
    if len(others) > len(texts) / 2:
        name = others[0]
        raise UserError(
            f"{folder}: {len(others):,} of {len(texts):,} relevant documents of {data} are other texts in this index "
            f"({name[:40]!r} is {shortened(judged[name])!r} there, here {shortened(texts[name].strip())!r}); build the "
            "index from the data's corpus.jsonl, or from documents with the ids of the judgements (opencse index build "
            "--id)"
        )


def _shared_words(text: str, other: str) -> float:
    """Share of the different words of the text with fewer of them that are in the other one too."""
    one, two = set(normalised(text).split()), set(normalised(other).split())
    return len(one & two) / max(1, min(len(one), len(two)))
