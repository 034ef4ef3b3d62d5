"""A cell and its store, over random writes that are not answered, and that may happen late."""

import asyncio
from contextlib import suppress

import hypothesis.strategies as st
import pytest
from hypothesis import given

from mistbow.errors import UnavailableError
from storage_agent.ignite.errors import NotSentError
from storage_agent.ignite.text_cell import TextCell

_FATES = ("answered", "stored", "late", "not sent")
"""What happens to a write: only after ``answered`` does the cell get an answer."""

_STEPS = st.lists(
    st.tuples(st.sampled_from(["change", "settle", "undo", "arrive"]), st.integers(0, 2)),
    max_size=12,
)


class LateStore:
    """The text of one key; ``late``: the writes on their way, as pairs (expected, new)."""

    def __init__(self, fates: list[str]) -> None:
        self.text: str | None = None
        self.late: list[tuple[str | None, str]] = []
        self._fates = fates

    async def get(self, _cache: str, _key: str) -> str | None:
        return self.text

    async def put_if_absent(self, _cache: str, _key: str, value: str) -> bool:
        return self._write(None, value)

    async def replace(self, _cache: str, _key: str, old: str, new: str) -> bool:
        return self._write(old, new)

    def arrive(self) -> None:
        for expected, new in self.late:
            self._swap(expected, new)

    def _write(self, expected: str | None, new: str) -> bool:
        fate = self._fates.pop() if self._fates else "answered"
        if fate == "not sent":
            raise NotSentError("Ignite is unavailable")
        if fate == "late":
            self.late.append((expected, new))
            raise UnavailableError("Ignite has not answered")
        swapped = self._swap(expected, new)
        if fate == "stored":
            raise UnavailableError("Ignite has not answered")
        return swapped

    def _swap(self, expected: str | None, new: str) -> bool:
        if self.text != expected:
            return False
        self.text = new
        return True


def text_of(number: int) -> str:
    return f'{{"n":{number}}}'


async def change(cell: TextCell, new: str) -> None:
    await cell.settle()
    while not await cell.swap(new):
        await cell.load()


@given(_STEPS, st.lists(st.sampled_from(_FATES), max_size=12))
def test_settled_cell_equals_the_store_whatever_arrives_late(
    steps: list[tuple[str, int]], fates: list[str]
) -> None:
    store = LateStore(fates)
    cell = TextCell(store, "k")

    async def run() -> None:
        for step, number in steps:
            with suppress(UnavailableError):
                if step == "change":
                    await change(cell, text_of(number))
                elif step == "arrive":
                    store.arrive()
                else:
                    await cell.settle(text_of(number) if step == "undo" else None)
            if not cell.is_uncertain:
                store.arrive()
                assert cell.text == store.text
        fates.clear()
        await cell.settle()
        store.arrive()
        assert not cell.is_uncertain
        assert cell.text == store.text

    asyncio.run(run())


@pytest.mark.parametrize("fate", ["stored", "late"])
@pytest.mark.parametrize("undo", ["not sent", "stored", "late", "answered"])
async def test_undone_write_never_takes_effect(fate: str, undo: str) -> None:
    store = LateStore([undo, fate, "answered"])
    cell = TextCell(store, "k")
    await change(cell, text_of(1))
    with suppress(UnavailableError):
        await change(cell, text_of(2))
    for _ in range(2):
        with suppress(UnavailableError):
            await cell.settle(undo=text_of(1))
    store.arrive()
    assert not cell.is_uncertain
    assert cell.text == store.text
    assert (store.text or "").rstrip() == text_of(1)
