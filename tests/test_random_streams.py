"""The streams of random numbers: distinct, and the same as ever, so that a seed means the same run."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from opencse.streams import Stream, seed_of

NUMBERS = {
    "ORDER": 1,
    "AUGMENT": 2,
    "MASK": 3,
    "EXAMPLES": 4,
    "BATCH": 6,
    "NOISE": 7,
    "REPEAT": 8,
    "VAE_WEIGHTS": 9,
    "GMM_MEANS": 10,
    "MOMENTUM_WEIGHTS": 11,
}


def test_no_stream_is_anothers_and_none_has_moved() -> None:
    members = Stream.__members__  # a second name for one number would be here too
    assert len({int(stream) for stream in members.values()}) == len(members)
    assert {name: int(members[name]) for name in NUMBERS} == NUMBERS


def test_the_seed_of_a_part_has_not_moved() -> None:
    assert seed_of(0, "view") == 5_667_666_482_284_793_861
    assert seed_of(2**63 - 1, "negatives.in_batch#2") == 8_082_569_778_078_858_817


@given(st.integers(0, 2**63 - 1), st.text(max_size=20), st.integers(0, 2**63 - 1), st.text(max_size=20))
def test_seeds_are_of_number_and_name_together(number: int, name: str, other: int, another: str) -> None:
    seed = seed_of(number, name)
    assert 0 <= seed < 2**63
    assert seed == seed_of(number, name)
    if (number, name) != (other, another):
        assert seed != seed_of(other, another)
