"""A table of the folders of real models: every vector is sentence-transformers', or the folder is refused by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from layout_folders import write
from layouts import READ, REFUSED, page
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError

TEXTS = [
    "The kettle boils.",
    "Snow fell on the ROOF",
    "a",
    ("dog barks at night " * 30).strip(),
    "The train is late again, 漢!",
]
TOLERANCE = 1e-5
Vectors = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("layouts")
    return {name: write(layout, root / f"m{number}") for number, (name, layout) in enumerate(READ.items())}


def theirs(folder: Path) -> Vectors:
    """sentence-transformers' vectors of texts as plain ones, queries and documents."""
    model = SentenceTransformer(str(folder), device="cpu")
    made = (model.encode(TEXTS), model.encode_query(TEXTS), model.encode_document(TEXTS))
    return tuple(np.asarray(rows) for rows in made)  # type: ignore[return-value]


def ours(folder: Path | SentenceEncoder) -> Vectors:
    encoder = folder if isinstance(folder, SentenceEncoder) else SentenceEncoder.load(folder, device="cpu")
    return encoder.encode(TEXTS), encoder.encode_query(TEXTS), encoder.encode_document(TEXTS)


def difference(one: Vectors, other: Vectors) -> float:
    return max(float(np.abs(a - b).max()) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("name", READ)
def test_the_vectors_are_those_of_sentence_transformers_before_and_after_a_save(
    folders: dict[str, Path], name: str, tmp_path: Path
) -> None:
    expected = theirs(folders[name])
    encoder = SentenceEncoder.load(folders[name], device="cpu")
    assert difference(ours(encoder), expected) < TOLERANCE
    assert np.ptp(expected[0], axis=0).max() > 0.05, "the texts have different vectors"
    plain, query, document = expected
    prompts = READ[name].prompts
    if prompts.get("query"):
        assert np.abs(query - document).max() > 1e-3, "the prompt of queries is read"
    if prompts.get("document") or READ[name].default:
        assert np.abs(document - plain).max() > 1e-3
    encoder.save(tmp_path / "saved")
    assert difference(ours(tmp_path / "saved"), expected) < TOLERANCE
    assert difference(theirs(tmp_path / "saved"), expected) < TOLERANCE


@pytest.mark.parametrize("name", REFUSED)
def test_other_layouts_are_refused_by_name(name: str, tmp_path: Path) -> None:
    layout, message = REFUSED[name]
    folder = write(layout, tmp_path / "model")
    with pytest.raises(UserError, match=message) as caught:
        SentenceEncoder.load(folder, device="cpu")
    assert "\n" not in str(caught.value)


def test_the_page_lists_them() -> None:
    guide = Path(__file__).parents[2] / "docs" / "guides" / "sentence-transformers.md"
    assert page() in guide.read_text(encoding="utf-8"), "write the table of layouts.page() into the guide"
