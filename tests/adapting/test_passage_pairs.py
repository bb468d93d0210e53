"""Pairs of a passage with a sentence of it, and with its rare words."""

from __future__ import annotations

import random

import pytest

from opencse.adapting import passage_pairs
from opencse.adapting.passage_pairs import Passage, rare_words_with_passages, sentences_with_passages
from opencse.text.scripts import search_words


def passages(count: int, sentences: int = 4) -> list[Passage]:
    draw = random.Random(5)

    def words(number: int) -> str:
        return " ".join(["the", *(f"w{draw.randint(0, 300)}" for _ in range(number))])

    return [Passage(words(3), tuple(f"{words(8)}." for _ in range(sentences))) for _ in range(count)]


def test_a_sentence_is_removed_from_its_passage_and_the_title_stays() -> None:
    every = passages(30)
    pairs = sentences_with_passages(every, most=1_000)
    assert len(pairs) == 120
    of_sentence = {sentence: passage for passage in every for sentence in passage.sentences}
    for sentence, rest in pairs:
        passage = of_sentence[sentence]
        assert sentence not in rest
        assert rest.startswith(passage.title)
        assert all(other in rest for other in passage.sentences if other != sentence)


def test_a_passage_of_one_sentence_has_no_rest() -> None:
    assert sentences_with_passages(passages(5, sentences=1), most=10) == []
    short = Passage("", ("A sentence of five words.", "Two words."))
    assert sentences_with_passages([short], most=10) == [], "what remains has too few words, and so has the other one"


def test_short_queries_are_rare_words_of_the_passage_in_their_order() -> None:
    every = passages(100)
    pairs = rare_words_with_passages(every, most=200)
    assert len(pairs) == 200
    commonest = 0
    for query, text in pairs:
        words = query.split()
        assert 2 <= len(words) <= 5
        assert text in {passage.without(-1) for passage in every}
        sentence = next(s for s in text.split(".") if set(words) <= set(search_words(s)))
        order = [search_words(sentence).index(word) for word in words]
        assert order == sorted(order)
        commonest += "the" in words
    assert commonest < 10, "a word that all passages hold is hardly ever asked for"


def test_words_in_only_one_passage_are_not_asked_for() -> None:
    every = [*passages(50), Passage("", ("the mispelt zzyzx w1 w2 w3 w4 w5 w6 w7",))]
    queries = " ".join(query for query, _ in rare_words_with_passages(every, most=1_000)).split()
    assert "w1" in queries
    assert "zzyzx" not in queries


@pytest.mark.parametrize("make", [sentences_with_passages, rare_words_with_passages])
def test_the_same_pairs_are_made_again_and_no_more_than_asked_for(make: type) -> None:
    every = passages(40)
    assert len(make(every, 7)) == 7
    assert make(every, 7) == make(every, 7)
    assert make([], 7) == []


def test_scripts_without_spaces_have_short_queries_too() -> None:
    every = [
        Passage("", (text,))
        for text in ("汽车发动机的温度过高", "汽车的刹车不灵", "发动机的油压太低", "温度传感器坏了")
    ]
    pairs = rare_words_with_passages(every, most=10)
    assert pairs
    assert all(word in text for query, text in pairs for word in query.split())


def test_words_of_a_large_collection_are_counted_in_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    every = passages(60)
    monkeypatch.setattr(passage_pairs, "SEARCHED", 20)
    assert len({text for _, text in rare_words_with_passages(every, most=1_000)}) == 20
