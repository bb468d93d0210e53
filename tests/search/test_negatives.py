"""Hard negatives: each rule by itself against a plain loop, and a training run on the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import opencse
from helpers import rows_in
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.search.index import Index
from opencse.search.negatives import Mining
from search_texts import LINES

pytestmark = pytest.mark.slow
TEXTS = LINES[:120]
PAIRS = [(TEXTS[number].replace(" the ", " a ").rstrip("."), TEXTS[number]) for number in range(0, 40, 2)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, mini: SentenceEncoder) -> Path:
    folder = tmp_path_factory.mktemp("negatives") / "index"
    Index.build(folder, [*TEXTS, TEXTS[0].upper()], mini, model="opencse-mini").close()
    return folder


def mined(folder: Path, out: Path, **how: object) -> tuple[opencse.search.negatives.Mined, list[dict[str, str]]]:  # type: ignore[name-defined]
    found = opencse.index_negatives(folder, PAIRS, out, how=Mining.model_validate(how))
    return found, rows_in(out)


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"count": 3, "ranks": (3, 20)},
        {"count": 2, "ceiling": 0.5, "same": None},
        {"count": 4, "floor": 0.1, "same": 0.3},
    ],
)
def test_negatives_follow_the_rules(
    folder: Path, tmp_path: Path, mini: SentenceEncoder, how: dict[str, object]
) -> None:
    found, rows = mined(folder, tmp_path / "out.jsonl", **how)
    settings = Mining.model_validate(how)
    corpus = [*TEXTS, TEXTS[0].upper()]
    unit = mini.encode(corpus, normalize_embeddings=True).astype(np.float64)
    expected = []
    for query, positive in PAIRS:
        q, p = mini.encode([query, positive], normalize_embeddings=True).astype(np.float64)
        order = sorted(range(len(corpus)), key=lambda place: (-float(unit[place] @ q), place))
        taken: list[str] = []
        for place in order[settings.ranks[0] - 1 : settings.ranks[1]]:
            score = float(unit[place] @ q)
            allowed = (
                corpus[place].casefold() not in (query.casefold(), positive.casefold())
                and score < settings.ceiling * float(q @ p)
                and (settings.floor is None or score >= settings.floor)
                and (settings.same is None or float(unit[place] @ p) < settings.same)
            )
            if allowed and len(taken) < settings.count:
                taken.append(corpus[place])
        expected += [{"anchor": query, "positive": positive, "negative": negative} for negative in taken]
    assert rows == expected
    assert found.triples == len(rows) > 10
    assert found.pairs == len(PAIRS)
    assert found.refused.get("same text", 0) > 0 or settings.ranks[0] > 1


def test_no_answer_of_a_query_is_its_negative(folder: Path, tmp_path: Path) -> None:
    pairs = [("cat", text) for text in TEXTS]
    with pytest.raises(UserError, match="no negative could be taken for any of 120 pairs"):
        opencse.index_negatives(folder, pairs, tmp_path / "o.jsonl", how=Mining(ranks=(1, 121), ceiling=9))
    assert not (tmp_path / "o.jsonl").exists()
