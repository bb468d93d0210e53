"""Words in any script."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencse.text import sample
from opencse.text.scripts import count_words, first_words, folded, joined, pieces_of, search_words

CHINESE = "深度学习 很好用,BERT2也是。"


def test_english_is_counted_as_white_space_and_letters_tell() -> None:
    for line in sample.TRAIN.read_text(encoding="utf-8").splitlines():
        assert [line[a:b] for a, b in pieces_of(line)] == line.split()
        assert count_words(line) == len(line.split())
    assert first_words("one  two\tthree four", 3) == "one two three"
    assert first_words("one  two", 2) == "one  two"


def test_scripts_without_spaces_have_a_word_a_character() -> None:
    assert [CHINESE[a:b] for a, b in pieces_of(CHINESE)] == [*"深度学习很好用", ",BERT2", "也", "是", "。"]
    assert count_words("深度学习") == 4
    assert count_words("สวัสดี") == 4
    assert first_words(CHINESE, 6) == "深度学习 很好"
    assert joined(CHINESE, pieces_of(CHINESE)[::2]) == "深 学 很 用 也 。"
    assert joined(CHINESE, pieces_of(CHINESE)) == CHINESE


def test_search_takes_their_characters_and_pairs_of_them() -> None:
    assert search_words("深度学习 很好") == ["深", "度", "学", "习", "深度", "度学", "学习", "很", "好", "很好"]
    assert search_words("BERT2也是, ok") == ["bert2", "也", "是", "也是", "ok"]
    assert search_words("日 本") == ["日", "本"]
    assert search_words("データ") == ["デ", "ー", "タ", "デー", "ータ"]
    assert search_words("人々") == ["人", "々", "人々"]
    assert search_words("학교에서 read") == ["학", "교", "에", "서", "학교", "교에", "에서", "read"]
    assert search_words("データ", pairs=False) == ["デ", "ー", "タ"]


@pytest.mark.parametrize(
    ("text", "characters"),
    [
        ("น้ำส้ม", ["น้\u0e4d\u0e32", "ส้", "ม"]),  # Thai; its vowel am is two characters in the normal form
        ("เมือง", ["เมื", "อ", "ง"]),
        ("ພາສາລາວ", ["ພາ", "ສາ", "ລາ", "ວ"]),
        ("ភាសាខ្មែរ", ["ភា", "សា", "ខ្មែ", "រ"]),
        ("မြန်မာ", ["မြန်", "မာ"]),
    ],
)
def test_vowels_and_marks_stay_with_their_letter(text: str, characters: list[str]) -> None:
    pairs = [first + second for first, second in pairwise(characters)]
    assert search_words(text) == [*characters, *pairs]
    assert count_words(text) == len(characters)
    assert count_words("\u200b".join(text[a:b] for a, b in pieces_of(text))) == len(characters)


def test_digits_of_all_scripts_are_the_same_and_punctuation_is_no_word() -> None:
    assert search_words("ឆ្នាំ២០២៦។ ปี ๒๕๖๙ ฿") == ["ឆ្នាំ", "2026", "ปี", "2569"]
    assert search_words("၂၀၂၆ ٢٠٢٦ २०२६") == ["2026"] * 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("C, C++17 and C#.", "c c++ 17 and c#"),
        ("In .NET: i++; Notepad++ a.b (.txt)", "in .net i++ notepad++ a b .txt net notepad txt"),
        ("a#b a+++ x.", "a b a x"),
        ("user_name __init__ हिन्दी_भाषा", "user_name __init__ हिन्दी_भाषा user name init हिन्दी भाषा"),
        ("openPort(getURL)", "openport geturl open port get url"),
        (
            "HTTPServer utf8Decode DNAs 3D größeÄndern",
            "httpserver utf8decode dnas 3d grösseändern http server utf8 decode grösse ändern",
        ),
        ("iPhoneを使う", "iphone を 使 う を使 使う i phone"),
        ("1,000 $10'000.50 1_000_000 ١,٠٠٠", "1000 10000 50 1000000 1000 1 000 000"),
        ("1.000 1 000.", "1 000 1 000 1000 1000"),
        ("0,125 1,0000 x1,000 1,00", "0 125 1 0000 x1 000 1 00"),
    ],
)
def test_signs_identifiers_and_numbers_are_words(text: str, words: str) -> None:
    assert search_words(text) == words.split()


def test_marks_belong_to_their_letters() -> None:
    assert search_words("हिन्दी भाषा।") == ["हिन्दी", "भाषा"]
    assert search_words("Cafe\u0301 fine") == ["caf\u00e9", "fine"]


SAME = {
    "case": ("Strasse", "STRASSE"),
    "sharp s": ("Stra\u00dfe", "STRASSE"),
    "capital sharp s": ("STRA\u1e9eE", "strasse"),
    "ligature": ("e\ufb03cient \ufb01nal", "efficient final"),
    "oe": ("\u0152uvre", "oeuvre"),
    "full width": ("\uff21\uff22\uff23\uff11\uff12", "abc12"),
    "half-width katakana": ("\uff83\uff9e\uff70\uff80", "\u30c7\u30fc\u30bf"),
    "soft hyphen": ("trans\u00adfor\u00admer", "transformer"),
    "zero width space": ("trans\u200bformer", "transformer"),
    "joiners": ("trans\u200c\u200d\u2060former\ufeff", "transformer"),
    "direction": ("\u202eabc\u202c\u200f", "abc"),
    "combining": ("re\u0301sume\u0301", "r\u00e9sum\u00e9"),
    "combined Hangul": ("\u1112\u1161\u11ab", "\ud55c"),
    "Arabic presentation forms": ("\ufeb3\ufefc\ufee1", "\u0633\u0644\u0627\u0645"),
    "Arabic vowels": ("\u0643\u0650\u062a\u064e\u0627\u0628", "\u0643\u062a\u0627\u0628"),
    "Arabic drawn longer": ("\u0643\u062a\u0640\u0640\u0627\u0628", "\u0643\u062a\u0627\u0628"),
    "Hebrew points": ("\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd", "\u05e9\u05dc\u05d5\u05dd"),
    "Greek capitals": (
        "\u0391\u0398\u0397\u039d\u0391 \u039b\u039f\u0393\u039f\u03a3",
        "\u0391\u03b8\u03ae\u03bd\u03b1 \u03bb\u03cc\u03b3\u03bf\u03c2",
    ),
    "Russian stress": ("\u0437\u0430\u0301\u043c\u043e\u043a", "\u0437\u0430\u043c\u043e\u043a"),
    "Turkish capital": ("\u0130stanbul", "istanbul"),
    "white space": ("a\u00a0b\u3000c\n d", "a b c d"),
    "superscript": ("m\u00b2", "m2"),
    "trade mark": ("Foo\u2122 bar", "foo bar"),
    "variant": ("\u845b\ufe00\u98fe", "\u845b\u98fe"),
}
DIFFERENT = {
    "accents": ("r\u00e9sum\u00e9", "resume"),
    "umlauts": ("sch\u00f6n", "schon"),
    "short i": ("\u043c\u043e\u0439", "\u043c\u043e\u0438"),
    "letters of Macedonian": ("\u0453", "\u0433"),
    "dotless i": ("s\u0131n\u0131r", "sinir"),
    "vowel signs of Hindi": ("\u0915\u093f", "\u0915\u0940"),
    "voiced kana": ("\u304c", "\u304b"),
    "order": ("a b", "b a"),
}


@pytest.mark.parametrize("name", list(SAME))
def test_one_text_written_in_two_ways_has_one_form(name: str) -> None:
    one, two = SAME[name]
    assert folded(one) == folded(two)
    assert search_words(one) == search_words(two)
    assert one != two


@pytest.mark.parametrize("name", list(DIFFERENT))
def test_what_is_another_word_stays_another(name: str) -> None:
    one, two = DIFFERENT[name]
    assert folded(one) != folded(two)
    assert search_words(one) != search_words(two)


@given(st.text(max_size=40))
def test_the_form_does_not_depend_on_unicode_normalisation_or_repetition(text: str) -> None:
    form = folded(text)
    assert folded(form) == form
    assert form.split() == form.split(" ") or not form
    for way in ("NFC", "NFD", "NFKC", "NFKD"):
        assert folded(unicodedata.normalize(way, form)) == form
