"""The language of texts, by their letters or their function words."""

from __future__ import annotations

import pytest

from opencse.errors import UserError
from opencse.search.stems import language_named, language_of, language_of_texts
from opencse.text import sample

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


SCRIPTS = {
    "japanese": ["機械学習のモデルを作る", "BERTで文を比べる方法"],
    "chinese": ["用Python写网络服务器", "如何烧水"],
    "korean": ["기계 학습을 배우는 방법", "API 서버를 만든다"],
    "thai": ["สร้างเว็บเซิร์ฟเวอร์ด้วย Python"],
    "khmer": ["បង្កើតម៉ាស៊ីនមេដោយ Python"],
    "greek": ["Το νερό βράζει στον βραστήρα"],
    "hebrew": ["המים רותחים בקומקום"],
}


def test_a_language_is_detected_by_its_function_words_or_its_letters() -> None:
    for language, text in TEXTS.items():
        assert language_of([text] * 30) == language_of_texts([text] * 30) == language
    for language, texts in SCRIPTS.items():
        assert language_of_texts(texts * 20) == language
    lines = sample.TRAIN.read_text(encoding="utf-8").splitlines()
    assert language_of_texts(lines) == language_of_texts([f"{line} 水" for line in lines]) == "english"
    assert language_of([TEXTS["german"]] * 90 + [TEXTS["english"]] * 10) == "german"
    titles = ["Crash after closing the second window", "Cannot open serial port on restart", "Add a shortcut for zoom"]
    assert language_of(titles * 80) == "english"


@pytest.mark.parametrize(
    "texts",
    [
        [],
        ["", "..."],
        ["M8 x 40 zinc bolt, DIN 933", "USB-C cable 2 m", "LED E27 806 lm"] * 50,
        ["def rows(self): return self._rows", "class Store(Base): pass"] * 50,
        [TEXTS["english"], TEXTS["german"]] * 15,
        ["Kot śpi na dachu, a pies szczeka, bo nikogo nie ma w domu i nie wiadomo, kiedy ktoś wróci."] * 15,
    ],
)
def test_what_is_not_clearly_of_one_language_is_of_none(texts: list[str]) -> None:
    assert language_of(texts) is None
    assert language_of_texts(texts) is None
    assert language_of(["深度学习很好用", "データベース"] * 50) is None
