"""Documents split into passages: nothing lost, nothing too long, the best one returned once."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from helpers import Heard, filled
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.prompts import Prompts
from opencse.modules.similarity import unit_rows
from opencse.search.building import BuildSettings
from opencse.search.index import Index
from opencse.search.passages import PassageSplitter
from opencse.text import sample
from prompted import write_prompted

SENTENCES = filled(sample.TRAIN)[:40]


def test_passages_are_runs_of_whole_sentences(mini: SentenceEncoder) -> None:
    text = " ".join(SENTENCES)
    passages, (short,) = PassageSplitter(mini, 64).split([text, "As it  is."])
    assert short == "As it  is."
    assert " ".join(passages) == text
    assert len(passages) > 5
    assert all(len(ids) <= 64 for ids in mini.tokenizer.encode(passages, None))
    assert all(passage[-1] in ".!?" for passage in passages)
    lengths = [len(ids) for ids in mini.tokenizer.encode(SENTENCES, None)]
    assert len(passages) <= 2 * sum(lengths) / 64


def test_passages_overlap_by_sentences(mini: SentenceEncoder) -> None:
    (passages,) = PassageSplitter(mini, 64, 24).split([" ".join(SENTENCES)])
    shared = 0
    for one, two in itertools.pairwise(passages):
        first = next(sentence for sentence in SENTENCES if two.startswith(sentence))
        shared += one.endswith(first) or f"{first} " in one
    assert shared > len(passages) // 3


@pytest.mark.parametrize(("before", "words"), [("", 30), ("", 58), ("It rains. ", 31), ("It rains. ", 60)])
def test_the_last_words_of_a_long_sentence_are_no_passage(mini: SentenceEncoder, before: str, words: int) -> None:
    text = before + "word " * words + "file."
    (passages,) = PassageSplitter(mini, 32).split([text])
    assert " ".join(passages) == text
    lengths = [len(ids) - 2 for ids in mini.tokenizer.encode(passages, None)]
    assert len(lengths) == -(-sum(lengths) // 30)
    assert max(lengths[-2:]) - min(lengths[-2:]) <= 2


def test_a_document_is_returned_once_with_its_best_passage(tmp_path: Path, mini: SentenceEncoder) -> None:
    long = " ".join(SENTENCES[:20])
    rows = [
        {"text": long, "id": "long", "year": 1},
        {"text": "A short one.", "id": "short", "year": 2},
        {"text": " ".join(SENTENCES[20:40]), "id": "other", "year": 3},
    ]
    index = Index.build(tmp_path / "i", rows, mini, how=BuildSettings(max_length=40))
    info = index.info()
    assert info.documents == 3
    assert info.rows > 8
    hits = index.search([SENTENCES[7]], 3)[0]
    assert sorted(hit.id for hit in hits) == ["long", "other", "short"]
    assert hits[0].id == "long"
    assert SENTENCES[7] in hits[0].text
    assert len(hits[0].text) < len(long)
    assert hits[0].metadata == {"year": 1}
    assert index.search([SENTENCES[7]], 3, where={"year": (">", 1)})[0] == hits[1:]
    assert index.delete(["long"]) == info.rows - len(index)
    assert index.info().documents == 2


def test_the_prompt_for_documents_is_counted(tmp_path: Path) -> None:
    encoder = SentenceEncoder.load(write_prompted(tmp_path / "model", "nomic"), device="cpu")
    (passages,) = PassageSplitter(encoder, 32).split([" ".join(SENTENCES)])
    lengths = [len(ids) for ids in encoder.tokenizer.encode([f"search_document: {text}" for text in passages], None)]
    assert max(lengths) <= 32
    assert max(len(ids) for ids in encoder.tokenizer.encode(passages, None)) <= 32 - 4
    with pytest.raises(UserError, match="the model reads"):
        PassageSplitter(encoder, len(encoder.tokenizer.encode(["search_document: "], None)[0]))


def test_an_index_says_its_prompts_and_refuses_others(tmp_path: Path) -> None:
    folder = write_prompted(tmp_path / "model", "nomic")
    encoder = SentenceEncoder.load(folder, device="cpu")
    heard = Heard()
    how = BuildSettings(cut=False)
    with Index.build(tmp_path / "ix", SENTENCES, encoder, how=how, model=str(folder), progress=heard) as index:
        info = index.info()
        (hits,) = index.search([SENTENCES[3]], 2)
        np.testing.assert_allclose(index.vectors(), unit_rows(encoder.encode_document(SENTENCES)), atol=1e-6)
        expected = unit_rows(encoder.encode_query([SENTENCES[3]])) @ unit_rows(encoder.encode_document(SENTENCES)).T
        assert hits[0].score == pytest.approx(float(expected.max()), abs=1e-5)
    assert (info.query_prompt, info.document_prompt) == ("search_query: ", "search_document: ")
    assert "prompts    queries 'search_query: ', documents 'search_document: '" in heard.said
    encoder.prompts = Prompts({"query": "search_query: "})
    with pytest.raises(UserError, match="was built with the prompts 'search_query: ' for queries and 'search_document"):
        Index.open(tmp_path / "ix", encoder=encoder)
