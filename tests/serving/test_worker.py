"""Calls on a thread: order, errors, cancelled calls, closing."""

from __future__ import annotations

import asyncio
import threading

import pytest

from opencse.serving.worker import Worker

pytestmark = pytest.mark.anyio


async def test_calls_run_in_order_on_one_thread() -> None:
    worker, threads = Worker("test-worker"), []

    def call(number: int) -> int:
        threads.append(threading.current_thread().name)
        return number

    assert await asyncio.gather(*(worker.call(lambda n=number: call(n)) for number in range(5))) == list(range(5))  # type: ignore[misc]
    assert threads == ["test-worker"] * 5
    worker.close()
    assert not worker.alive


async def test_an_error_is_raised_in_the_caller_and_the_thread_continues() -> None:
    worker = Worker("test-worker")

    def fail() -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        await worker.call(fail)
    assert await worker.call(lambda: 1) == 1
    assert worker.alive
    worker.close()


async def test_a_cancelled_call_is_skipped() -> None:
    worker, go, called = Worker("test-worker"), threading.Event(), []
    first = asyncio.create_task(worker.call(lambda: go.wait(10)))
    await asyncio.sleep(0.05)
    second = asyncio.create_task(worker.call(lambda: called.append(2)))
    await asyncio.sleep(0.05)
    second.cancel()
    await asyncio.sleep(0.05)
    go.set()
    assert await first
    await worker.call(lambda: called.append(3))
    assert called == [3]
    worker.close()
