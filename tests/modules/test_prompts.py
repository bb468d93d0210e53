"""Prompts: read, used and written as sentence-transformers does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import fingerprint
from opencse.errors import UserError
from opencse.modules.prompts import Prompts, Role
from prompted import BGE, LAYOUTS, prompts_in, write_prompted

TEXTS = ["A dog runs over the grass.", "What is the valve for?", "a", "", "two words " * 40]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder of each layout, and one whose pooling leaves out the prompt."""
    there = tmp_path_factory.mktemp("prompted")
    made = {layout: write_prompted(there / layout, layout) for layout in LAYOUTS}
    return made | {"without": write_prompted(there / "without", "instruction-default", include_prompt=False)}


def both(folder: Path) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Vectors of plain texts, queries, documents and texts with a prompt of one's own: ours, and the oracle's."""
    from sentence_transformers import SentenceTransformer

    ours, theirs = SentenceEncoder.load(folder, device="cpu"), SentenceTransformer(str(folder), device="cpu")
    own: Any = {"prompt": "own words: "}
    pairs = [
        ("plain", ours.encode(TEXTS), theirs.encode(TEXTS)),
        ("query", ours.encode_query(TEXTS), theirs.encode_query(TEXTS)),
        ("document", ours.encode_document(TEXTS), theirs.encode_document(TEXTS)),
        ("own", ours.encode(TEXTS, **own), theirs.encode(TEXTS, **own)),
        ("own document", ours.encode_document(TEXTS, **own), theirs.encode_document(TEXTS, **own)),
        ("no prompt", ours.encode(TEXTS, prompt=""), theirs.encode(TEXTS, prompt="")),
    ]
    for name in prompts_in(folder)["prompts"]:
        pairs.append((name, ours.encode(TEXTS, name), theirs.encode(TEXTS, name)))
    return [(kind, given, np.asarray(expected)) for kind, given, expected in pairs]


@pytest.mark.slow
@pytest.mark.parametrize("layout", [*LAYOUTS, "without"])
def test_vectors_equal_those_of_sentence_transformers_before_and_after_a_save(
    layout: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    before = both(folders[layout])
    for kind, given, expected in before:
        assert np.abs(given - expected).max() < 1e-5, kind
    encoder = SentenceEncoder.load(folders[layout], device="cpu")
    encoder.save(tmp_path)
    for (kind, given, _), (_, again, expected) in zip(before, both(tmp_path), strict=True):
        assert np.abs(given - again).max() < 1e-5, kind
        assert np.abs(again - expected).max() < 1e-5, kind
    assert fingerprint(SentenceEncoder.load(tmp_path, device="cpu")) == fingerprint(encoder)


def test_a_wrong_choice_of_prompt_is_refused(folders: dict[str, Path]) -> None:
    encoder = SentenceEncoder.load(folders["nomic"], device="cpu")
    with pytest.raises(UserError, match=r"no prompt 'clusters' \(did you mean 'clustering'\?\); it has query, docum"):
        encoder.encode("a", prompt_name="clusters")
    with pytest.raises(UserError, match="a prompt or a prompt_name, not both"):
        encoder.encode_query("a", prompt_name="query", prompt="b")


def test_what_a_model_reads_before_each_kind_of_text() -> None:
    for layout, single, pair in (
        ("none", "", ("", "")),
        ("e5", "passage: ", ("query: ", "passage: ")),
        ("e5-default-query", "passage: ", ("query: ", "passage: ")),
        ("bge-default", BGE, (BGE, "")),
        ("default-alone", "text: ", ("text: ", "text: ")),
    ):
        config = LAYOUTS[layout]
        prompts = Prompts(config["prompts"], config["default_prompt_name"])
        assert prompts.columns.of(1) == (single,)
        assert prompts.columns.of(2) == pair
        assert prompts.columns.of(3) == (*pair, pair[1])
        assert bool(prompts) == (layout != "none")
    passage = Prompts(LAYOUTS["e5-passage"]["prompts"])
    assert "'passage' is only used by name" in passage.note
    assert Prompts(LAYOUTS["e5"]["prompts"]).note == ""
    assert passage.line(Role.QUERY) == "queries 'query: '"


def test_prompts_that_give_other_vectors_have_another_identity() -> None:
    alone = Prompts({"default": "x"}, "default")
    assert Prompts().identity == Prompts({"clustering": "c"}).identity == ""
    assert len({Prompts().identity, alone.identity, Prompts({"query": "x"}).identity}) == 3
