"""Words in any script."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencse.text import sample
from opencse.text.scripts import count_words, first_words, folded, joined, pieces_of, search_words, split_sentences

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


@pytest.mark.parametrize(
    ("text", "characters"),
    [
        ("น้ำส้ม", ["น้\u0e4d\u0e32", "ส้", "ม"]),  # Thai; its vowel am is two characters in the normal form
        ("เมือง", ["เมื", "อ", "ง"]),
        ("မြန်မာ", ["မြန်", "မာ"]),
    ],
)
def test_vowels_and_marks_stay_with_their_letter(text: str, characters: list[str]) -> None:
    pairs = [first + second for first, second in pairwise(characters)]
    assert search_words(text) == [*characters, *pairs]
    assert count_words(text) == len(characters)
    assert count_words("\u200b".join(text[a:b] for a, b in pieces_of(text))) == len(characters)


SAME = {
    "case": ("Strasse", "STRASSE"),
    "sharp s": ("Stra\u00dfe", "STRASSE"),
    "capital sharp s": ("STRA\u1e9eE", "strasse"),
    "ligature": ("e\ufb03cient \ufb01nal", "efficient final"),
    "oe": ("\u0152uvre", "oeuvre"),
    "full width": ("\uff21\uff22\uff23\uff11\uff12", "abc12"),
    "soft hyphen": ("trans\u00adfor\u00admer", "transformer"),
    "joiners": ("trans\u200c\u200d\u2060former\ufeff", "transformer"),
    "direction": ("\u202eabc\u202c\u200f", "abc"),
    "combining": ("re\u0301sume\u0301", "r\u00e9sum\u00e9"),
    "combined Hangul": ("\u1112\u1161\u11ab", "\ud55c"),
    "Arabic presentation forms": ("\ufeb3\ufefc\ufee1", "\u0633\u0644\u0627\u0645"),
    "Arabic vowels": ("\u0643\u0650\u062a\u064e\u0627\u0628", "\u0643\u062a\u0627\u0628"),
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


@pytest.mark.slow
@given(st.text(max_size=40))
def test_the_form_does_not_depend_on_unicode_normalisation_or_repetition(text: str) -> None:
    form = folded(text)
    assert folded(form) == form
    assert form.split() == form.split(" ") or not form
    for way in ("NFC", "NFD", "NFKC", "NFKD"):
        assert folded(unicodedata.normalize(way, form)) == form


def test_texts_written_in_two_ways_have_one_form_and_others_two() -> None:
    for pairs, same in ((SAME, True), (DIFFERENT, False)):
        for name, (one, two) in pairs.items():
            assert (folded(one) == folded(two)) == same, name
            assert (search_words(one) == search_words(two)) == same, name


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("深度学习 很好", "深 度 学 习 深度 度学 学习 很 好 很好"),
        ("BERT2也是, ok", "bert2 也 是 也是 ok"),
        ("데이터 read", "데 이 터 데이 이터 read"),
        ("人々", "人 々 人々"),
        ("ឆ្នាំ២០២៦។ ปี ๒๕๖๙ ฿", "ឆ្នាំ 2026 ปี 2569"),
        ("हिन्दी भाषा। Cafe\u0301", "हिन्दी भाषा caf\u00e9"),
        ("C, C++17 and C#.", "c c++ 17 and c#"),
        ("In .NET: i++; a.b (.txt)", "in .net i++ a b .txt net txt"),
        ("a#b a+++ x.", "a b a x"),
        ("user_name __init__", "user_name __init__ user name init"),
        ("HTTPServer utf8Decode DNAs 3D", "httpserver utf8decode dnas 3d http server utf8 decode"),
        ("iPhoneを使う", "iphone を 使 う を使 使う i phone"),
        ("1,000 $10'000.50 1_000_000", "1000 10000 50 1000000 1 000 000 10000.50"),
        ("v1.10 x1,000 1.000 2024-03-05", "v1 10 x1 000 1 000 2024 03 05 1000 1.10 1,000 1.000 2024-03-05"),
    ],
)
def test_words_of_a_search(text: str, words: str) -> None:
    assert search_words(text) == words.split()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("One came. Two went!  Who stayed?", ["One came.", "Two went!", "Who stayed?"]),
        ('He said "no." Then he left.', ['He said "no."', "Then he left."]),
        ("lower case . as in old files .", ["lower case .", "as in old files ."]),
        ("By J. R. Smith et al. in Fig. 3, e.g. here. Done.", ["By J. R. Smith et al. in Fig. 3, e.g. here.", "Done."]),
        ("It is 3.5 metres. No more.", ["It is 3.5 metres.", "No more."]),
        ("a sine qua non. One.", ["a sine qua non.", "One."]),
        ("No. 5 came. approx. 6 did.", ["No. 5 came.", "approx. 6 did."]),
        ("没有。有！", ["没有。", "有！"]),
        (
            "Das Ventil Nr. 5 ist defekt. Siehe z. B. Abb. 3 bzw. S. 4 usw. im Handbuch. Ende.",
            ["Das Ventil Nr. 5 ist defekt.", "Siehe z. B. Abb. 3 bzw. S. 4 usw. im Handbuch.", "Ende."],
        ),
        ("Voir Mme. Dupont. Puis É. Zola vint.", ["Voir Mme. Dupont.", "Puis É. Zola vint."]),
        ("هل هذا جيد؟ نعم.", ["هل هذا جيد؟", "نعم."]),
        ("ရေ။မြေ။", ["ရေ။", "မြေ။"]),
        ("「行く。」次です。", ["「行く。」", "次です。"]),
        ("1 Use . . . . . 3 2 Index . . 9", ["1 Use . . . . .", "3 2 Index . .", "9"]),
        ("Well . . . who knows? ! Done! 🙂", ["Well . . .", "who knows? !", "Done! 🙂"]),
        (". . . and so on. Yes.", [". . . and so on.", "Yes."]),
        ("好。。。！再见。", ["好。。。！", "再见。"]),
        (". ! ?", [". ! ?"]),
        ("no end", ["no end"]),
        ("", []),
        ("a\nbee.\n\nc.", ["a bee.", "c."]),
    ],
)
def test_sentences(text: str, wanted: list[str]) -> None:
    assert split_sentences(text) == wanted


@given(st.text(alphabet="ab .!?\"')\n", max_size=60))
def test_nothing_is_lost(text: str) -> None:
    found = split_sentences(text)
    assert " ".join(found) == " ".join(text.split())
    assert all(sentence.strip() for sentence in found)
