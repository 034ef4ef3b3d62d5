"""Events of rows: encoded by the event loop if they are small, and by one thread otherwise."""

import asyncio
import threading
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mistbow.streams.wire import Position
from storage_agent.api import rows as rows_api
from storage_agent.api.rows import EventEncoder
from storage_agent.streams.json_values import objects
from storage_agent.streams.subscription import SelectedRows


class Encoders:
    """The threads that encode rows, and the maximum number of them at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.threads: set[int] = set()
        self.most = 0
        self._running = 0
        self._lock = threading.Lock()
        monkeypatch.setattr(rows_api, "objects", self._encode)

    def _encode(self, rows: pa.RecordBatch) -> list[dict[str, Any]]:
        with self._lock:
            self._running += 1
            self.most = max(self.most, self._running)
        self.threads.add(threading.get_ident())
        time.sleep(0.05)
        with self._lock:
            self._running -= 1
        return objects(rows)


def found(codes: list[int], words: list[str]) -> SelectedRows:
    column = pa.DictionaryArray.from_arrays(codes, words)
    batch = pa.RecordBatch.from_arrays([column], names=["word"])
    return SelectedRows(batch, np.arange(len(codes)), Position(len(codes), 0))


async def test_small_rows_beside_large_words_are_encoded_by_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoders = Encoders(monkeypatch)
    small = found([0] * 100, ["a", "x" * 2**20])
    events = await EventEncoder().encode(small, 98, 500)
    assert events.split(b"\r\n\r\n") == [
        b'id: 99\r\nevent: row\r\ndata: {"word":"a"}',
        b'id: 100\r\nevent: row\r\ndata: {"word":"a"}',
        b"",
    ]
    assert encoders.threads == {threading.get_ident()}


async def test_large_rows_of_several_readers_are_encoded_by_one_thread_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoders, encoder = Encoders(monkeypatch), EventEncoder()
    large = found([0], ["x" * 2**20])
    await asyncio.gather(*(encoder.encode(large, 0, 500) for _ in range(4)))
    assert encoders.most == 1
    assert threading.get_ident() not in encoders.threads
