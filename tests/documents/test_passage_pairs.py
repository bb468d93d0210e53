"""Pairs of a passage with a sentence of it, and with its rare words."""

from __future__ import annotations

import random

from opencse.documents.material import rare_words_with_passages, sentences_with_passages
from opencse.text.documents import Document
from opencse.text.scripts import search_words


def passages(count: int, sentences: int = 4) -> list[Document]:
    draw = random.Random(5)

    def words(number: int) -> str:
        return " ".join(["the", *(f"w{draw.randint(0, 300)}" for _ in range(number))])

    return [Document(words(3), tuple(f"{words(8)}." for _ in range(sentences))) for _ in range(count)]


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


def test_short_queries_are_rare_words_of_the_passage_in_their_order() -> None:
    every = passages(100)
    pairs = rare_words_with_passages(every, most=200)
    assert len(pairs) == 200
    commonest = 0
    for query, text in pairs:
        words = query.split()
        assert 2 <= len(words) <= 5
        assert text in {f"{passage.title} {passage.body}" for passage in every}
        sentence = next(s for s in text.split(".") if set(words) <= set(search_words(s)))
        order = [search_words(sentence).index(word) for word in words]
        assert order == sorted(order)
        commonest += "the" in words
    assert commonest < 10, "a word that all passages hold is hardly ever asked for"
