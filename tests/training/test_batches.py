from collections.abc import Callable
from functools import partial
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fuzzing import examples
from opencse.training.batches import BatchPlan, TokenBatchPlan


def epoch(plan: BatchPlan | TokenBatchPlan, number: int) -> list[list[int]]:
    steps = range(number * plan.steps_per_epoch, (number + 1) * plan.steps_per_epoch)
    return [plan.batch(step).tolist() for step in steps]


@examples(60)
@given(
    examples=st.integers(2, 60),
    batch_size=st.integers(2, 70),
    seed=st.integers(0, 2**32),
    number=st.integers(0, 5),
)
def test_every_example_once_an_epoch(examples: int, batch_size: int, seed: int, number: int) -> None:
    plan = BatchPlan(examples, batch_size, seed)
    batches = epoch(plan, number)
    seen = [example for batch in batches for example in batch]
    assert len(set(seen)) == len(seen)
    left_out = set(range(examples)) - set(seen)
    assert len(left_out) == (1 if examples > batch_size and examples % batch_size == 1 else 0)
    assert set(seen) <= set(range(examples))
    assert {len(batch) for batch in batches[:-1]} <= {plan.batch_size}
    assert 2 <= len(batches[-1]) <= plan.batch_size


LENGTHS = np.random.default_rng(0).integers(3, 40, 500)


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


@pytest.mark.parametrize("make", [partial(BatchPlan, 100, 4), partial(TokenBatchPlan, LENGTHS, 300)])
def test_epochs_and_seeds_differ_and_a_batch_depends_on_its_step_alone(
    make: Callable[[int], BatchPlan | TokenBatchPlan],
) -> None:
    plan = make(3)
    orders = [[set(batch) for batch in epoch(make(seed), number)] for seed in (3, 4) for number in (0, 1)]
    for one, other in combinations(orders, 2):
        assert sum(batch in other for batch in one) < 0.1 * len(one)
    steps = list(range(3 * plan.steps_per_epoch))
    forward = [plan.batch(step).tolist() for step in steps]
    again = make(3)
    for step in np.random.default_rng(0).permutation(steps).tolist():
        assert plan.batch(step).tolist() == again.batch(step).tolist() == forward[step]
