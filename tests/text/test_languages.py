"""The language of texts, by their letters or their function words."""

from __future__ import annotations

import pytest

from opencse.text import sample
from opencse.text.languages import language_of_texts


@pytest.mark.parametrize(
    ("language", "texts"),
    [
        ("japanese", ["機械学習のモデルを作る", "BERTで文を比べる方法"]),
        ("chinese", ["用Python写网络服务器", "如何烧水"]),
        ("korean", ["기계 학습을 배우는 방법", "API 서버를 만든다"]),
        ("thai", ["สร้างเว็บเซิร์ฟเวอร์ด้วย Python"]),
        ("lao", ["ການຮຽນຮູ້ຂອງເຄື່ອງ"]),
        ("khmer", ["បង្កើតម៉ាស៊ីនមេដោយ Python"]),
        ("burmese", ["စက်သင်ယူမှု"]),
        ("greek", ["Το νερό βράζει στον βραστήρα"]),
        ("hebrew", ["המים רותחים בקומקום"]),
        ("german", ["Das ist der Kessel, und er ist mit dem Wasser auf dem Herd."]),
        (
            "russian",
            ["Дом, который мы видели, был не такой большой, как они сказали, и его уже продаёт хозяин."],
        ),
    ],
)
def test_a_language_is_detected(language: str, texts: list[str]) -> None:
    assert language_of_texts(texts * 20) == language


def test_the_sample_is_english_also_with_some_words_of_another_script() -> None:
    lines = sample.TRAIN.read_text(encoding="utf-8").splitlines()
    assert language_of_texts(lines) == "english"
    assert language_of_texts([f"{line} 水" for line in lines]) == "english"


@pytest.mark.parametrize("texts", [[], [""], ["M8 x 40 zinc bolt", "LED E27 806 lm"]])
def test_what_is_not_clear_has_no_language(texts: list[str]) -> None:
    assert language_of_texts(texts) is None
