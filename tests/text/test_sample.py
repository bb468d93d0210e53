from pathlib import Path

import pytest

from opencse.text import sample
from opencse.text.corpus import text_key
from opencse.text.readers import Source


def pairs(path: Path) -> list[tuple[float, str, str]]:
    rows = [record.values for record in Source(str(path)).records(("1", "2", "3"))]
    return [(float(str(score)), str(one), str(two)) for score, one, two in rows]


def test_train_is_running_text() -> None:
    texts = Source(str(sample.TRAIN)).read()
    assert len(texts.rows) == 3_421
    assert texts.documents is not None
    assert set(texts.documents) == set(range(270))


@pytest.mark.parametrize("path", [sample.DEV, sample.TEST])
def test_graded_pairs(path: Path) -> None:
    graded = pairs(path)
    assert len(graded) == 150
    scores = [score for score, _, _ in graded]
    assert all(0 <= score <= 5 for score in scores)
    assert min(scores) < 1
    assert max(scores) > 4
    assert all(text_key(one) != text_key(two) for _, one, two in graded)


def test_no_graded_sentence_is_trained_on_or_graded_twice() -> None:
    train = {text_key(row[0]) for row in Source(str(sample.TRAIN)).read().rows}
    dev, test = ({text_key(text) for _, *two in pairs(path) for text in two} for path in (sample.DEV, sample.TEST))
    assert not train & dev
    assert not train & test
    assert not dev & test


@pytest.mark.parametrize("path", [sample.TRAIN, sample.DEV, sample.TEST])
def test_ascii_and_whole_lines(path: Path) -> None:
    content = path.read_bytes()
    assert content.isascii()
    assert b"\r" not in content
    assert content.endswith(b"\n")
