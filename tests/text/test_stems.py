"""Stems of a language's words, and which language a text is in."""

from __future__ import annotations

import pytest

from opencse.errors import UserError
from opencse.text import sample
from opencse.text.stems import LANGUAGES, language_named, language_of, rules_version, stems_of

TEXTS = {
    "english": "The house that we have seen was not as large as they had said, and it is now for sale by the owner.",
    "german": "Das Haus, das wir gesehen haben, war nicht so groß wie sie gesagt hatten, und es wird jetzt von dem "
    "Besitzer verkauft.",
    "french": "La maison que nous avons vue n'était pas aussi grande que ce qu'ils avaient dit, et elle est à vendre.",
    "spanish": "La casa que hemos visto no era tan grande como ellos habían dicho, y ahora el dueño la vende por poco.",
    "portuguese": "A casa que nós vimos não era tão grande como eles tinham dito e agora ela está à venda.",
    "italian": "La casa che abbiamo visto non era così grande come avevano detto, e adesso è in vendita.",
    "dutch": "Het huis dat we hebben gezien was niet zo groot als ze hadden gezegd, en het wordt nu door de eigenaar "
    "verkocht.",
    "swedish": "Huset som vi har sett var inte så stort som de hade sagt, och det ska nu säljas av den som äger det.",
    "russian": "Дом, который мы видели, был не такой большой, как они сказали, и теперь его уже продаёт хозяин.",
}


@pytest.mark.parametrize("language", list(TEXTS))
def test_a_language_is_detected_by_its_function_words(language: str) -> None:
    assert language_of([TEXTS[language]] * 30) == language


def test_the_sample_is_english() -> None:
    assert language_of(sample.TRAIN.read_text(encoding="utf-8").splitlines()) == "english"


@pytest.mark.parametrize(
    "texts",
    [
        [],
        ["", "..."],
        ["M8 x 40 zinc bolt, DIN 933", "USB-C cable 2 m", "LED E27 806 lm"] * 50,
        ["def rows(self): return self._rows", "class Store(Base): pass"] * 50,
        ["深度学习很好用", "データベース"] * 50,
        ["BERT is a model \u3068\u3044\u3046\u306e\u306f\u6df1\u5c64\u5b66\u7fd2\u306e\u30e2\u30c7\u30eb\u3067\u3059"]
        * 50,
        [TEXTS["english"]] * 15 + [TEXTS["german"]] * 15,
        [TEXTS["english"], TEXTS["german"]] * 15,
        ["Kot śpi na dachu, a pies szczeka, bo nikogo nie ma w domu i nie wiadomo, kiedy ktoś wróci."] * 15,
    ],
    ids=[
        "nothing",
        "no words",
        "parts",
        "code",
        "no spaces",
        "Japanese with English words",
        "halves",
        "alternating",
        "no list",
    ],
)
def test_what_is_not_clearly_of_one_language_is_of_none(texts: list[str]) -> None:
    assert language_of(texts) is None


def test_titles_have_a_language() -> None:
    titles = ["Crash after closing the second window", "Cannot open serial port on restart", "Slow search with filters",
              "Export ignores selected columns", "No error if file is missing", "Add a shortcut for zoom"]  # fmt: skip
    assert language_of(titles * 80) == "english"


def test_some_texts_of_another_language_do_not_matter() -> None:
    assert language_of([TEXTS["german"]] * 90 + [TEXTS["english"]] * 10) == "german"


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("english", ("sing", "sings", "singing")),
        ("german", ("häuser", "hauses", "haus")),
        ("russian", ("книга", "книги", "книгой")),
        ("french", ("chanter", "chantez", "chantait")),
    ],
)
def test_forms_of_a_word_have_one_stem(language: str, words: tuple[str, ...]) -> None:
    assert len(set(stems_of(language)(words))) == 1
    assert stems_of(None)(words) == list(words)


def test_every_language_has_rules() -> None:
    for language in LANGUAGES.values():
        assert len(stems_of(language)(["a", "abc", "深度"])) == 3
    assert rules_version()


def test_a_language_is_named_in_english_or_by_its_code() -> None:
    assert [language_named(name) for name in ("en", "English", " de ", "none")] == [
        "english",
        "english",
        "german",
        None,
    ]
    for name in ("klingon", "porter", "", "ja"):
        with pytest.raises(UserError, match="no stems for the language"):
            language_named(name)
    with pytest.raises(UserError, match="did you mean 'german'"):
        language_named("germann")
