"""The records of one kind: all of them in a stream, the latest of each key in memory."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from itertools import pairwise

import msgspec
import numpy as np
import pyarrow as pa

from mistbow.auth.callers import current_caller
from mistbow.errors import InvalidRequestError, TooLargeError
from mistbow.streams.schemas import RECORDS as SCHEMA
from storage_agent import metrics
from storage_agent.monitoring.bodies import check_depth, whole
from storage_agent.records.bodies import Item, KeyValues, Value
from storage_agent.records.latest import Latest, Record
from storage_agent.streams import reading
from storage_agent.streams.columns import Columns, as_list, is_in
from storage_agent.streams.index import Entry
from storage_agent.streams.log import StreamLog
from storage_agent.streams.reading import Selection, Selector
from storage_agent.streams.segments import Segment
from storage_agent.streams.streams import RECORDS, Stream, Streams

_MOST_VALUES = 1_000_000
_MOST_BYTES = 64 * 2**20
"""Of the values of one answer."""


class Kind:
    """Makes its stream when first something is put."""

    def __init__(self, name: str, streams: Streams) -> None:
        self.name = name
        self._latest = Latest()
        self._streams = streams
        self._stream: Stream | None = None
        self._epoch: int | None = None
        self._lock = asyncio.Lock()
        self._looking = asyncio.Lock()
        # Keys whose latest record may be gone from the stream.
        self._doubtful: set[str] = set()

    @property
    def latest(self) -> Latest:
        """The latest records, as far as they have not expired."""
        if self._stream is not None:
            self._latest.hide(self._stream.log.first, self._stream.log.expired_before())
        return self._latest

    async def recover(self) -> None:
        """Read what was put before, piece by piece; to be called once."""
        if RECORDS + self.name in [stream.name for stream in self._streams.all()]:
            self._stream = await self._streams.get(RECORDS + self.name)
            await _replay(self._stream.log, self._latest)
            self._stream.log.listener = self._follow

    async def put(self, items: Sequence[Item], key: str | None, where: str) -> None:
        """Store items, all or none; they are durable once this returns. ``key``: the caller's own.

        Raises ``InvalidRequestError`` for a time or a text that is none, and for too deep nesting.
        """
        rows = _rows(items, where)
        stream = self._stream
        if stream is None or self._epoch is None:
            stream = await self._own()
        own = None if key is None else current_caller().own(key)
        await stream.writer.append(rows, epoch=self._epoch, key=own)
        metrics.RECORDS.labels(self.name).inc(len(items))

    async def delete(self, keys: Collection[str], first: int | None, last: int | None) -> None:
        """Delete the records of keys, of all times or of those in between, inclusive."""
        if self._stream is not None:
            self._doubtful.update(keys)
            await self._stream.writer.delete(("key",), [(key,) for key in keys], first, last)
            self._doubtful.update(keys)
            await self._look_again()

    async def expire(self) -> None:
        """Correct what the latest records are after some are gone; to be called repeatedly."""
        self._doubtful.update(self.latest.hidden())
        await self._look_again()

    def read_latest(
        self, keys: Collection[str], start: str = "", limit: int | None = None
    ) -> list[KeyValues]:
        """Return the latest of keys, or of all from ``start`` on, in the order of keys."""
        if keys:
            chosen = sorted(key for key in keys if key >= start)
            found = ((key, record) for key in chosen if (record := self.latest.get(key)))
        else:
            found = ((key, record) for key, record in self.latest.scan(start, limit))
        answer: list[KeyValues] = []
        room = _Room()
        for key, record in found:
            room.take(len(record.val))
            answer.append(KeyValues(key, [_value(record.ts, record.val)]))
            if len(answer) == limit:
                break
        return answer

    async def read_past(
        self,
        keys: Collection[str],
        first: int,
        last: int,
        start: str = "",
        limit: int | None = None,
    ) -> list[KeyValues]:
        """Return what was put for keys, or all, with a time in between, in the order of keys."""
        matches = {"key": sorted(keys)} if keys else {}
        found: dict[str, dict[int, bytes]] = {}
        room = _Room()
        async for rows in self._read(Selection(matches, min_ts=first, max_ts=last)):
            columns = (as_list(rows[name]) for name in ("key", "ts", "val"))
            for key, ts, val in zip(*columns, strict=True):
                if key >= start:
                    room.take(len(val))
                    # What was put again for a time counts in place of what was before.
                    found.setdefault(key, {})[ts] = val.encode()
        return [
            KeyValues(key, [_value(ts, val) for ts, val in sorted(found[key].items())])
            for key in sorted(found)[:limit]
        ]

    async def _read(self, selection: Selection) -> AsyncIterator[pa.RecordBatch]:
        if self._stream is not None:
            selector = Selector(self._stream, selection)
            async for chunk in reading.read(self._stream.log, selector, 0):
                if chunk.rows.num_rows:
                    yield chunk.rows

    async def _own(self) -> Stream:
        async with self._lock:
            if self._stream is None:
                await self._streams.create(RECORDS + self.name, SCHEMA)
                stream = await self._streams.get(RECORDS + self.name)
                stream.log.listener = self._follow
                self._stream = stream
            if self._epoch is None:
                self._epoch = (await self._stream.writer.claim()).epoch
            return self._stream

    async def _look_again(self) -> None:
        """Find anew what is in doubt; raises ``UnavailableError``, and it stays in doubt."""
        async with self._looking:
            if self._stream is None or not self._doubtful:
                return
            keys, found = sorted(self._doubtful), Latest()
            await _replay(self._stream.log, found, pa.array(keys, pa.string()))
            self._latest.replace(keys, found)
            self._doubtful.difference_update(keys)

    def _follow(self, segment: Segment, _: Entry) -> None:
        self._latest.apply(segment.rows, segment.header.first, segment.header.created)


async def _replay(log: StreamLog, latest: Latest, keys: pa.Array | None = None) -> None:
    """Follow all rows that there are, or those of some keys, up to the head when this returns."""
    position = log.first
    while position < log.head:
        entry = log.index[log.index.at(position)]
        [piece] = await log.pieces([entry])
        rows = piece.between(position, entry.next)
        if keys is not None:
            rows = rows.filter(is_in(rows.batch["key"], keys))
        commits = piece.commits
        of_commit = commits.of(rows.numbers)
        # The rows of a commit stand together, in the order of commits.
        begins = np.flatnonzero(np.diff(of_commit, prepend=-1)).tolist()
        for begin, end in pairwise([*begins, len(of_commit)]):
            of = int(of_commit[begin])
            batch = rows.batch.slice(begin, end - begin)
            latest.apply(batch, int(commits.first[of]), int(commits.created[of]))
        position = entry.next


class _Room:
    """How much more fits in an answer."""

    def __init__(self) -> None:
        self._values, self._bytes = _MOST_VALUES, _MOST_BYTES

    def take(self, size: int) -> None:
        self._values -= 1
        self._bytes -= size
        if self._values < 0 or self._bytes < 0:
            raise TooLargeError(
                f"the answer has more than {_MOST_VALUES} values or {_MOST_BYTES} bytes",
                hint="Ask for fewer keys, for less time, or with start and limit.",
            )


def _value(ts: int, val: bytes) -> Value:
    return Value(ts, msgspec.Raw(val))


def value_of(record: Record) -> Value:
    """Return a record as it is answered."""
    return _value(record.ts, record.val)


def _rows(items: Sequence[Item], where: str) -> Columns:
    times = [
        item.timestamp
        if isinstance(item.timestamp, int)
        else whole(item.timestamp, f"{where}[{number}].timestamp")
        for number, item in enumerate(items)
    ]
    values = []
    for number, item in enumerate(items):
        try:
            val = str(item.val, "utf-8")
        except UnicodeDecodeError as error:
            raise InvalidRequestError(f"{where}[{number}].val: it is not valid UTF-8") from error
        check_depth(val, f"{where}[{number}].val")
        values.append(val)
    keys = [item.key for item in items]
    return Columns(SCHEMA, (keys, times, values, [item.schema for item in items]))
