"""Batches of a budget of tokens: every text once an epoch, hardly any padding, found from the step alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fuzzing import examples
from opencse.text.batches import TokenBatchPlan
from opencse.text.tokenizer import Tokenizer

LENGTHS = np.random.default_rng(0).integers(3, 40, 500)


def epoch(plan: TokenBatchPlan, number: int) -> list[list[int]]:
    steps = range(number * plan.steps_per_epoch, (number + 1) * plan.steps_per_epoch)
    return [plan.batch(step).tolist() for step in steps]


def padded(lengths: NDArray[np.int64], batch: list[int]) -> int:
    return len(batch) * int(lengths[batch].max())


@examples(80)
@given(
    lengths=st.lists(st.integers(1, 50), min_size=1, max_size=80),
    spare=st.integers(0, 300),
    seed=st.integers(0, 2**32),
    number=st.integers(0, 5),
)
def test_every_text_once_an_epoch_within_the_budget(lengths: list[int], spare: int, seed: int, number: int) -> None:
    array = np.array(lengths, dtype=np.int64)
    budget = max(lengths) + spare
    plan = TokenBatchPlan(array, budget, seed)
    batches = epoch(plan, number)
    assert sorted(example for batch in batches for example in batch) == list(range(len(lengths)))
    assert all(batches), "no batch is empty"
    assert max(padded(array, batch) for batch in batches) <= budget
    assert plan.batch_size == max(map(len, batches))
    assert sum(map(len, epoch(plan, number + 1))) == len(lengths)
    # Each batch is full: the shortest text of the next longer batch would not have fitted in.
    batches.sort(key=lambda batch: (array[batch].min(), array[batch].max(), -len(batch)))
    ordered = np.sort(array)
    end = 0
    for size in map(len, batches[:-1]):
        start, end = end, end + size
        assert (size + 1) * int(ordered[end]) > budget, (start, end)


def test_hardly_any_padding_on_real_text(tiny_folder: Path, sentences: list[str]) -> None:
    lengths = np.array([len(ids) for ids in Tokenizer.load(tiny_folder).encode(sentences, 64)])
    assert lengths.std() / lengths.mean() > 0.2, "the texts differ in length"
    plan = TokenBatchPlan(lengths, 1_024, seed=0)
    batches = epoch(plan, 0)
    computed = [padded(lengths, batch) for batch in batches]
    assert lengths.sum() / sum(computed) > 0.98
    # And the budget is used: full batches but for the last and what does not divide.
    assert np.median(computed) > 0.95 * 1_024
    assert len(batches) < 1.1 * lengths.sum() / 1_024


def test_the_number_of_steps_and_the_sizes_are_those_of_every_epoch() -> None:
    plan = TokenBatchPlan(LENGTHS, 200, seed=0)
    first = sorted((len(batch), padded(LENGTHS, batch)) for batch in epoch(plan, 0))
    assert len({size for size, _ in first}) > 5
    for number in (1, 2, 7):
        assert sorted((len(batch), padded(LENGTHS, batch)) for batch in epoch(plan, number)) == first


def test_order_and_grouping_are_new_each_epoch_and_seed() -> None:
    seen = {(seed, number): epoch(TokenBatchPlan(LENGTHS, 200, seed), number) for seed in (0, 1) for number in (0, 1)}
    groups = {at: {frozenset(batch) for batch in batches} for at, batches in seen.items()}
    orders = {at: tuple(int(LENGTHS[batch].max()) for batch in batches) for at, batches in seen.items()}
    assert len(set(orders.values())) == 4
    for one in groups:
        for other in groups:
            if one < other:
                assert len(groups[one] & groups[other]) < 0.1 * len(groups[one])
    for order in orders.values():
        assert abs(float(np.corrcoef(np.arange(len(order)), order)[0, 1])) < 0.5, "short and long texts alternate"


def test_the_order_of_batches_is_new_even_where_each_holds_one_text() -> None:
    plan = TokenBatchPlan(np.arange(30, 40), 40, seed=0)
    assert plan.steps_per_epoch == 10
    assert len({tuple(map(tuple, epoch(plan, number))) for number in range(5)}) == 5


def test_a_batch_depends_on_its_step_alone() -> None:
    plan = TokenBatchPlan(LENGTHS, 300, seed=3)
    steps = list(range(3 * plan.steps_per_epoch))
    forward = {step: plan.batch(step).tolist() for step in steps}
    mixed = np.random.default_rng(0).permutation(steps).tolist()
    assert {step: plan.batch(step).tolist() for step in mixed} == forward
    other = TokenBatchPlan(LENGTHS.copy(), 300, seed=3)
    for step in mixed[:20]:
        assert other.batch(step).tolist() == forward[step]


@pytest.mark.parametrize(("lengths", "budget"), [([5, 9, 7], 8), ([5], 0), ([], 10)])
def test_a_budget_below_the_longest_text_is_refused(lengths: list[int], budget: int) -> None:
    with pytest.raises(ValueError, match="a batch must hold the longest text"):
        TokenBatchPlan(np.array(lengths, dtype=np.int64), budget, seed=0)


def test_a_budget_of_the_longest_text_is_enough() -> None:
    assert [len(batch) for batch in epoch(TokenBatchPlan(np.array([9, 9, 9]), 9, seed=0), 0)] == [1, 1, 1]
    assert TokenBatchPlan(np.array([9]), 9, seed=0).batch(5).tolist() == [0]
