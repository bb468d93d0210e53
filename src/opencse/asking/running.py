"""Sends the planned requests, several at a time, and keeps each answer as soon as it is there."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress

from opencse.asking.chat_server import AnswerJournal, ChatReply, ChatServer, UnansweredError
from opencse.asking.plan import PlannedRequest, RequestPlan
from opencse.errors import InterruptedRunError, UserError
from opencse.numerals import number_of
from opencse.progress import Progress

FAILURES_IN_A_ROW = 5
"""After so many requests without an answer in between, the command ends."""
_FIRST_FEW = 5
_REPORTED = 3
_TICK = 0.2
_LAST_ANSWERS = 2.0
"""Seconds that a stopped command waits for its requests to end."""
RequestOutcome = tuple[PlannedRequest, ChatReply | Exception]


class SentRequests:
    """Sends requests in a thread of its own, several at the same time; it ends with the process.

    Args:
        server: answers.
        requests: to be sent.
        workers: how many at the same time.
    """

    def __init__(self, server: ChatServer, requests: Sequence[PlannedRequest], workers: int) -> None:
        self._server, self._waiting = server, iter(requests)
        self._done: queue.SimpleQueue[RequestOutcome] = queue.SimpleQueue()
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(self._send_all(min(workers, len(requests))))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def next(self) -> list[RequestOutcome]:
        """The requests that are answered or failed since the last call; at least one."""
        while True:
            try:
                first = self._done.get(timeout=_TICK)  # a wait without end could not be interrupted on Windows
            except queue.Empty:
                continue
            return [first, *self._at_hand()]

    def stop(self) -> list[RequestOutcome]:
        """Ends all that is being sent; returns what was answered or failed since the last call."""
        with suppress(RuntimeError):  # all was sent, and the loop is closed
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(_LAST_ANSWERS)
        return list(self._at_hand())

    def _at_hand(self) -> Iterator[RequestOutcome]:
        while not self._done.empty():
            yield self._done.get()

    def _run(self) -> None:
        with closing(self._loop), suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._task)

    async def _send_all(self, workers: int) -> None:
        async with self._server, asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self._send())

    async def _send(self) -> None:
        for one in self._waiting:
            try:
                self._done.put((one, await self._server.ask(one.prompt)))
            except Exception as error:  # raised again where the outcome is used
                self._done.put((one, error))


def send_requests(
    plan: RequestPlan, server: ChatServer, journal: AnswerJournal, *, workers: int, progress: Progress
) -> int:
    """Sends all requests that are not answered yet; returns the number of those that failed.

    Each answer is on the disk before it is counted, so that a kill loses only what was being sent.

    Raises:
        UserError: if the server cannot be used, or does not answer any more.
        InterruptedRunError: on Ctrl-C.
    """
    remaining = plan.remaining(journal.replies)
    if not remaining:
        return 0
    total = len(plan.remaining({}))
    before = total - len(remaining)
    progress.start("requests", total, before)
    failures, in_a_row, answered, began = 0, 0, 0, time.monotonic()
    is_paced = len(remaining) <= 2 * _FIRST_FEW
    sent = SentRequests(server, remaining, workers)
    try:
        while answered + failures < len(remaining):
            outcomes = sent.next()
            answered += _keep(outcomes, journal)
            for one, outcome in outcomes:
                if isinstance(outcome, ChatReply):
                    in_a_row = 0
                elif isinstance(outcome, UnansweredError):
                    failures, in_a_row = failures + 1, in_a_row + 1
                    if failures <= _REPORTED:
                        progress.say(f"no answer  about {one.passage.where}: {outcome}")
                    if in_a_row == min(FAILURES_IN_A_ROW, len(remaining)):
                        raise UserError(
                            f"{server.name}: {in_a_row} requests in a row failed (the last with {outcome}); "
                            f"{before + answered:,} of {total:,} are answered, and the same command continues"
                        )
                else:
                    raise outcome
            progress.advance(before + answered + failures)
            if answered >= _FIRST_FEW and not is_paced:
                is_paced = True
                _report_pace(plan, journal, answered, time.monotonic() - began, progress)
    except KeyboardInterrupt:
        answered += _keep(sent.stop(), journal)
        raise InterruptedRunError(
            f"stopped; {before + answered:,} of {total:,} requests are answered, and the same command continues"
        ) from None
    finally:
        _keep(sent.stop(), journal)  # whatever ended it: an answer that has come may have cost money
        progress.finish()
    return failures


def _keep(outcomes: Sequence[RequestOutcome], journal: AnswerJournal) -> int:
    """Writes the answers among the outcomes, with one wait for the disk; returns how many there are."""
    replies = {one.key: outcome for one, outcome in outcomes if isinstance(outcome, ChatReply)}
    if replies:
        journal.add(replies)
    return len(replies)


def _report_pace(plan: RequestPlan, journal: AnswerJournal, answered: int, seconds: float, progress: Progress) -> None:
    """Says how long the remaining requests take, and what they cost, as the first answers suggest."""
    remaining = plan.remaining(journal.replies)
    per_second = answered / max(seconds, 1e-9)
    progress.say(
        f"time       about {_duration(len(remaining) / per_second)} for {number_of(len(remaining), 'more request')} "
        f"({per_second:,.2f} per second)"
    )
    if any(reply.tokens_in for reply in journal.replies.values()):
        progress.say(plan.cost_line(remaining, journal.replies))


def _duration(seconds: float) -> str:
    """A duration for people.

    >>> _duration(40), _duration(600), _duration(9000)
    ('40 s', '10 min', '2.5 h')
    """
    return (
        f"{seconds:,.0f} s"
        if seconds < 90
        else f"{seconds / 60:,.0f} min"
        if seconds < 5400
        else f"{seconds / 3600:,.1f} h"
    )
