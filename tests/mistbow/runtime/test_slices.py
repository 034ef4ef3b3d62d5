"""Slices of long work on the event loop, and the pause of the garbage collector."""

import asyncio

from mistbow.runtime.slices import Slices, take_turn


class StepClock:
    """A clock (s) that moves by a millisecond whenever it is read."""

    def __init__(self) -> None:
        self._now = 0

    def __call__(self) -> float:
        self._now += 1
        return self._now / 1000


async def test_slices_let_other_tasks_run_after_their_time() -> None:
    seen: list[int] = []
    done = 0

    async def work() -> None:
        nonlocal done
        async for _ in Slices(StepClock(), slice_s=0.005).over(range(1000), steps=10):
            done += 1

    task = asyncio.create_task(work())
    while not task.done():
        await asyncio.sleep(0)
        seen.append(done)
    assert done == 1000
    # Five looks at the clock, each after ten items.
    assert max(b - a for a, b in zip([0, *seen], seen, strict=False)) <= 60
    assert len(set(seen)) >= 1000 / 60


async def test_slices_of_many_tasks_take_turns() -> None:
    working: set[int] = set()
    most = 0

    async def work(number: int) -> None:
        slices = Slices(StepClock(), slice_s=0.005)
        await take_turn()
        async for _ in slices.over(range(200), steps=10):
            working.add(number)

    tasks = [asyncio.create_task(work(number)) for number in range(50)]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        most = max(most, len(working))
        working.clear()
    assert most == 1


async def test_pause_within_slice_does_not_wait() -> None:
    slices = Slices(lambda: 1.0)
    other = asyncio.create_task(asyncio.sleep(0))
    await slices.pause()
    assert not other.done()
    await other
