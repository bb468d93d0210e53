"""How long a corpus takes to encode on many workers that differ and fail: simulated, beside what can be calculated.

    python benchmarks/plan.py --sentences 1e8 --rate 685 --workers 64
    python benchmarks/plan.py --sentences 1e8 --rate 685 --workers 64 --failures 1

The text is counted and checked, then pieces are read by one reader and handed to whoever is free. A worker's failures
are a Poisson process; the piece at work is lost and goes back to the queue, and the worker is away until it is replaced
and has loaded the model. Workers differ in speed, and some are slow throughout. One coordinator notes every piece that
is done.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

HOUR = 3600.0


@dataclass(frozen=True)
class Plan:
    """What is to be done, by whom.

    Attributes:
        sentences: of the corpus.
        piece: sentences of a piece, which is one file.
        rate: sentences a second of a worker of usual speed.
        workers: cores or GPUs.
        failures: of a worker in an hour.
        away: seconds until a failed worker is replaced.
        load: seconds until a worker has its model.
        spread: standard deviation of the logarithm of the workers' speeds.
        slow: share of workers that are slow.
        slowness: how many times as long those take.
        check: sentences a second that are counted and checked before the first is encoded.
        reader: sentences a second that the one reader reads and hands out.
        note: seconds in which the coordinator notes a piece.
        seed: of speeds and failures.
    """

    sentences: float = 1e8
    piece: float = 32_768
    rate: float = 685
    workers: int = 64
    failures: float = 0.01
    away: float = 300
    load: float = 30
    spread: float = 0.1
    slow: float = 0.02
    slowness: float = 3
    check: float = 2e5
    reader: float = 1.2e5
    note: float = 0.01
    seed: int = 0

    @property
    def pieces(self) -> int:
        """How many there are."""
        return int(-(-self.sentences // self.piece))

    def seconds(self) -> NDArray[np.float64]:
        """(workers,) in which each does a piece, if it does not fail."""
        random = np.random.default_rng(self.seed)
        usual = np.exp(random.normal(0, self.spread, self.workers)) * self.piece / self.rate
        slow = random.random(self.workers) < self.slow
        return np.asarray(usual * np.where(slow, self.slowness, 1.0))


@dataclass(frozen=True)
class Bound:
    """What can be calculated.

    Attributes:
        check: seconds before the first piece.
        workers: seconds that all workers take, sharing out pieces as if they could be cut.
        reader: seconds of the reader.
        coordinator: seconds of the coordinator.
        last: seconds in which the slowest worker does a piece: what may come at the end.
    """

    check: float
    workers: float
    reader: float
    coordinator: float
    last: float

    @property
    def least(self) -> float:
        """What it takes at least, in the mean over failures: that of whoever is the narrowest."""
        return self.check + max(self.workers, self.reader, self.coordinator)

    @property
    def narrowest(self) -> str:
        """Who that is."""
        return max(("workers", "reader", "coordinator"), key=lambda name: getattr(self, name))


def bound(plan: Plan) -> Bound:
    r"""The completion time of work that flows.

    A worker that needs x seconds for a piece, fails at a rate f and is then away for D seconds, ends

    .. math:: \frac{f e^{-f x}}{(1 - e^{-f x}) (1 + f D)}

    pieces a second (1 / x where it does not fail): an attempt succeeds with probability e^{-fx}, and takes
    (1 - e^{-fx}) (1 / f + D) seconds in the mean.
    """
    x, f = plan.seconds(), plan.failures / HOUR
    away = plan.away + plan.load
    done = 1 / x if f == 0 else f * np.exp(-f * x) / (-np.expm1(-f * x) * (1 + f * away))
    return Bound(
        plan.sentences / plan.check,
        plan.load + plan.pieces / float(done.sum()),
        plan.sentences / plan.reader,
        plan.pieces * plan.note,
        float(x.max()),
    )


@dataclass
class Simulated:
    """What came of it.

    Attributes:
        seconds: until the last piece was noted.
        failures: of all workers.
        lost: seconds of work that was done again.
        done: pieces that were noted.
    """

    seconds: float = 0.0
    failures: int = 0
    lost: float = 0.0
    done: int = 0


def simulate(plan: Plan) -> Simulated:
    """One run of the plan."""
    random = np.random.default_rng([plan.seed, 1])
    world, found = simpy.Environment(), Simulated()
    queue = simpy.Store(world, capacity=2 * plan.workers)
    again: list[int] = []
    coordinator = simpy.Resource(world)
    finished = world.event()
    rate = plan.failures / HOUR

    def read() -> Iterator[Any]:
        yield world.timeout(plan.sentences / plan.check)
        for number in range(plan.pieces):
            yield world.timeout(plan.piece / plan.reader)
            yield queue.put(number)

    def work(seconds: float) -> Iterator[Any]:
        yield world.timeout(plan.sentences / plan.check + plan.load)
        while True:
            number = again.pop() if again else (yield queue.get())
            fails = random.exponential(1 / rate) if rate else np.inf
            if fails < seconds:
                yield world.timeout(fails)
                found.failures += 1
                found.lost += fails
                if queue.get_queue:  # somebody waits
                    yield queue.put(number)
                else:
                    again.append(number)
                yield world.timeout(plan.away + plan.load)
                continue
            yield world.timeout(seconds)
            with coordinator.request() as turn:
                yield turn
                yield world.timeout(plan.note)
            found.done += 1
            if found.done == plan.pieces:
                found.seconds = world.now
                finished.succeed()

    world.process(read())
    for seconds in plan.seconds():
        world.process(work(float(seconds)))
    world.run(until=finished)
    return found


def told(plan: Plan) -> list[str]:
    """The plan, what can be calculated, what was simulated."""
    limit, found = bound(plan), simulate(plan)
    busy, longer = plan.workers * found.seconds / HOUR, found.seconds / limit.least
    return [
        f"{plan.sentences:,.0f} sentences in {plan.pieces:,} pieces, "
        f"{plan.workers:,} workers of {plan.rate:,.0f} a second",
        f"calculated  {limit.least / HOUR:8.2f} h ({limit.narrowest}; check {limit.check / HOUR:.2f} h, "
        f"workers {limit.workers / HOUR:.2f} h, "
        f"reader {limit.reader / HOUR:.2f} h, coordinator {limit.coordinator / HOUR:.2f} h)",
        f"simulated   {found.seconds / HOUR:8.2f} h, {longer:.3f} times as long; "
        f"a piece of the slowest worker takes {limit.last:,.0f} s",
        f"failures    {found.failures:8,}, {found.lost / HOUR:,.2f} hours of work done again, "
        f"of {busy:,.0f} hours of workers",
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for one in fields(Plan):
        kind = int if isinstance(one.default, int) and one.name in ("workers", "seed") else float
        parser.add_argument(f"--{one.name}", type=kind, default=one.default)
    for line in told(Plan(**vars(parser.parse_args(arguments)))):
        print(line)
    print(f"simpy {simpy.__version__}, numpy {np.__version__}")


if __name__ == "__main__":
    main()
