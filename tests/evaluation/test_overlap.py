"""The words two texts share, against a loop that crosses them out one by one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencse.errors import UserError
from opencse.evaluation.overlap import bag_f1, lexical_overlap, plain_words

bags = st.lists(st.sampled_from("abcd"), max_size=8)


def naive(first: list[str], second: list[str]) -> float:
    left, shared = list(second), 0
    for word in first:
        if word in left:
            left.remove(word)
            shared += 1
    precision, recall = shared / len(first) if first else 0.0, shared / len(second) if second else 0.0
    return 2 * precision * recall / (precision + recall) if shared else 0.0


@given(first=bags, second=st.lists(st.sampled_from("abcd"), min_size=1, max_size=8))
def test_f1_is_the_harmonic_mean_of_precision_and_recall(first: list[str], second: list[str]) -> None:
    assert bag_f1(first, second) == pytest.approx(naive(first, second))
    assert bag_f1(second, first) == bag_f1(first, second)
    assert bag_f1(sorted(first), second) == bag_f1(first, second)
    assert bag_f1(second, second) == 1.0


def test_a_word_counts_as_often_as_it_stands_on_both_sides() -> None:
    assert bag_f1("aaab", "aac") == pytest.approx(2 * 2 / 7)
    assert bag_f1(["a"], ["b"]) == 0.0
    with pytest.raises(ValueError, match="two empty bags"):
        bag_f1([], [])


def test_overlap_is_the_mean_over_pairs_in_percent() -> None:
    first, second = ["A cat sleeps", "rain"], ["a dog  sleeps", "sun"]
    assert lexical_overlap(first, second) == pytest.approx(100 * (4 / 6 + 0) / 2)
    assert plain_words(" The CAT.\tsleeps ") == ["the", "cat.", "sleeps"]


def test_words_can_be_told_apart_otherwise() -> None:
    assert lexical_overlap(["ab"], ["bc"]) == 0.0
    assert lexical_overlap(["ab"], ["bc"], words=list) == 50.0


def test_pairs_that_cannot_be_measured() -> None:
    with pytest.raises(UserError, match="no pairs"):
        lexical_overlap([], [])
    with pytest.raises(UserError, match="pair 2: neither text holds a word"):
        lexical_overlap(["a", " "], ["a", ""])
    with pytest.raises(ValueError, match="1 first and 2 second"):
        lexical_overlap(["a"], ["a", "b"])
    assert lexical_overlap(["a"], [""]) == 0.0


def test_entailment_pairs_overlap_as_published(shared_data: Path) -> None:
    lines = (shared_data / "nli" / "entailment_pairs.tsv").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("\t") for line in lines]
    assert lexical_overlap([pair[0] for pair in pairs], [pair[1] for pair in pairs]) == pytest.approx(39, abs=0.5)


def test_captions_of_one_image_share_fewer_words_than_sts_b_pairs(shared_data: Path) -> None:
    captions = [line.split("\t")[1] for line in (shared_data / "flickr30k" / "val.tsv").read_text().splitlines()]
    pairs = [line.split("\t")[1:] for line in (shared_data / "sts" / "stsb" / "test.tsv").read_text().splitlines()]
    of_captions = lexical_overlap(captions[0::5], captions[1::5])
    of_pairs = lexical_overlap([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    assert 20 < of_captions < of_pairs < 70
