"""Words in any script."""

from __future__ import annotations

import re

from opencse.text import sample
from opencse.text.scripts import count_words, first_words, joined, pieces_of, search_words

CHINESE = "深度学习 很好用,BERT2也是。"


def test_english_is_counted_as_white_space_and_letters_tell() -> None:
    for line in sample.TRAIN.read_text(encoding="utf-8").splitlines():
        assert [line[a:b] for a, b in pieces_of(line)] == line.split()
        assert count_words(line) == len(line.split())
        assert search_words(line) == re.findall(r"(?u)\b\w+\b", line.lower())
    assert first_words("one  two\tthree four", 3) == "one two three"
    assert first_words("one  two", 2) == "one  two"


def test_scripts_without_spaces_have_a_word_a_character() -> None:
    assert [CHINESE[a:b] for a, b in pieces_of(CHINESE)] == [*"深度学习很好用", ",BERT2", "也", "是", "。"]
    assert count_words("深度学习") == 4
    assert count_words("สวัสดี") == 6
    assert first_words(CHINESE, 6) == "深度学习 很好"
    assert joined(CHINESE, pieces_of(CHINESE)[::2]) == "深 学 很 用 也 。"
    assert joined(CHINESE, pieces_of(CHINESE)) == CHINESE


def test_search_takes_pairs_of_their_characters() -> None:
    assert search_words(CHINESE) == ["深度", "度学", "学习", "很好", "好用", "bert2", "也是"]
    assert search_words("日 本") == ["日", "本"]
    assert search_words("データベース") == ["デー", "ータ", "タベ", "ベー", "ース"]


def test_marks_belong_to_their_letters() -> None:
    assert search_words("हिन्दी भाषा।") == ["हिन्दी", "भाषा"]
    assert search_words("Cafe\u0301 fine") == ["cafe\u0301", "fine"]
