"""A gate that stops the application of a segment half-way, until the test opens it."""

import asyncio
import threading
from concurrent.futures import Future

import pytest

from mistbow.runtime.slices import STORED, Slices
from storage_agent.records import kind as kind_module
from storage_agent.timeseries import catalogue as catalogue_module


class Gate:
    """Stops the application of a segment before its slice ``number`` (from 0 on).

    ``reached``: set once an application has stopped.
    """

    def __init__(self, number: int) -> None:
        self.reached = threading.Event()
        self._left = number
        self._opened: Future[None] = Future()

    async def wait_reached(self) -> None:
        assert await asyncio.to_thread(self.reached.wait, 20), "the application has stopped"

    def open(self) -> None:
        self._opened.set_result(None)

    async def pass_slice(self) -> None:
        self._left -= 1
        if self._left < 0 and not self._opened.done():
            self.reached.set()
            await asyncio.wrap_future(self._opened)


def close_gate(monkeypatch: pytest.MonkeyPatch, number: int, points: int = 1) -> Gate:
    """Return a gate in the way of the segments that are applied from now on.

    ``points``: the number of points or records in a slice.
    """
    gate = Gate(number)

    class Gated(Slices):
        async def pause(self) -> None:
            if self._kind == STORED:
                await gate.pass_slice()

    for module in (catalogue_module, kind_module):
        monkeypatch.setattr(module, "Slices", Gated)
        monkeypatch.setattr(module, "_SLICE", points)
    return gate
