"""Records of one kind, stored in a stream, with the latest record of each key in memory."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice, pairwise
from operator import attrgetter
from typing import TypeVar

import msgspec
import numpy as np
import pyarrow as pa

from mistbow.auth.callers import current_caller
from mistbow.client.record_model import RecordValue
from mistbow.errors import InvalidRequestError, TooLargeError
from mistbow.runtime.slices import LONG, STORED, Slices
from mistbow.streams.schemas import RECORDS as SCHEMA
from storage_agent import metrics
from storage_agent.http.decode import (
    check_depth,
    check_keys,
    check_range,
    decode_beside,
    to_integer,
)
from storage_agent.records.bodies import KeyValues, RecordItem
from storage_agent.records.latest import LatestRecords, StoredRecord
from storage_agent.request_key import RequestKey
from storage_agent.streams import subscription
from storage_agent.streams.columns import Columns, as_list, is_in
from storage_agent.streams.consumer import SegmentConsumer
from storage_agent.streams.extents import Extent, PositionedRows
from storage_agent.streams.index import IndexEntry
from storage_agent.streams.log import StreamLog
from storage_agent.streams.runs import Int64s
from storage_agent.streams.segments import Segment
from storage_agent.streams.streams import RECORD_PREFIX, Stream, Streams
from storage_agent.streams.subscription import RowSelection, RowSelector
from storage_agent.work_threads import in_own_thread_if_many, in_thread_if_many

T = TypeVar("T")

_MAX_ANSWER_VALUES = 1_000_000
_MAX_ANSWER_BYTES = 64 * 2**20

_SLICE = 100
"""The number of records that are applied, and of keys that a recheck corrects, before other tasks
may run.
"""

_MAX_SHARED = 3
"""The number of passes of a recheck during which records may be applied; then, appends wait.

Otherwise, tasks that put records of the same keys repeatedly would prevent its end.
"""

_VAL = attrgetter("val")
_ITEM_BYTES = 64
"""The number of bytes that take as long to encode as a record besides its value."""


class RecordKind:
    """Stores and reads the records of one kind; the first ``put`` creates their stream."""

    def __init__(self, name: str, streams: Streams) -> None:
        self.name = name
        self._latest = LatestRecords()
        self._streams = streams
        self._stream: Stream | None = None
        self._epoch: int | None = None
        self._lock = asyncio.Lock()
        self._rechecking = asyncio.Lock()
        # Keys whose latest record may have been deleted or expired.
        self._unresolved: set[str] = set()
        # Keys of records that are or were applied during the present pass of a recheck.
        self._touched: set[str] = set()
        # The segment that is being applied: the stream's log does not contain it yet.
        self._unapplied: Segment | None = None

    @property
    def latest(self) -> LatestRecords:
        """The latest record of each key, without expired records."""
        if self._stream is not None:
            self._latest.hide(self._stream.log.first, self._stream.log.expired_before())
        return self._latest

    async def recover(self) -> None:
        """Read the latest records from the stream; call this once, before the other methods."""
        if RECORD_PREFIX + self.name in [stream.name for stream in self._streams.all()]:
            self._stream = await self._streams.get(RECORD_PREFIX + self.name)
            await _replay(self._stream.log, self._latest)
            self._stream.log.attach(SegmentConsumer(self._follow))

    async def put(self, items: Sequence[RecordItem], key: RequestKey | None, where: str) -> None:
        """Store all items durably, or none of them.

        Until this method returns, readers may find some of the items only. ``key``: the caller's
        idempotency key, or None. ``where``: the name of the list of items, for messages. Raises
        ``InvalidRequestError`` for an invalid time, for text that is not UTF-8, for a value that is
        nested too deeply, and for a number beyond the range of floats.
        """
        size = sum(map(len, map(_VAL, items))) + _ITEM_BYTES * len(items)
        rows = await decode_beside(size, lambda: _encode_rows(items, where))
        stream = self._stream
        if stream is None or self._epoch is None:
            stream = await self._claim()
        caller_key = None if key is None else key.of(current_caller())
        await stream.writer.append(rows, epoch=self._epoch, key=caller_key)
        metrics.RECORDS.labels(self.name).inc(len(items))

    async def delete(self, keys: Collection[str], first: int | None, last: int | None) -> None:
        """Delete the records of ``keys`` with times from ``first`` to ``last``.

        ``first``, ``last``: ms, inclusive; None if unbounded.
        """
        if self._stream is not None:
            self._unresolved.update(keys)
            await self._stream.writer.delete(("key",), [(key,) for key in keys], first, last)
            self._unresolved.update(keys)
            await self._recheck()

    async def expire(self) -> None:
        """For each key whose record in memory has expired, read the latest record from the stream.

        This method must be called periodically.
        """
        self._unresolved.update(await self.latest.hidden_keys())
        await self._recheck()

    async def read_latest(
        self,
        encode: Callable[[list[KeyValues]], T],
        keys: Collection[str],
        start: str = "",
        limit: int | None = None,
    ) -> T:
        """Encode the latest records of ``keys``, sorted by key; begin at the key ``start``.

        ``encode``: called in the thread that selects the records. ``keys``: empty for all keys.
        ``limit``: the maximum number of records; None if unlimited.
        """
        if not keys:
            await self._latest.sort()
        count = len(keys) or min(len(self._latest), limit or len(self._latest))
        async with self._latest.turn(count):
            return await self.latest.read(
                count,
                lambda latest: encode(_select_latest(keys, start, limit, latest)),
                keys or None,
                ordered=not keys,
            )

    async def read_past(
        self,
        encode: Callable[[list[KeyValues]], T],
        keys: Collection[str],
        first: int,
        last: int,
        start: str = "",
        limit: int | None = None,
    ) -> T:
        """Encode the records of ``keys`` with times from ``first`` to ``last``, sorted by key.

        ``encode``: called in the thread that sorts the records. ``keys``: empty for all keys.
        ``first``, ``last``: ms, inclusive. ``start``: the key at which the result begins.
        ``limit``: the maximum number of keys; None if unlimited.
        """
        matches = {"key": sorted(keys)} if keys else {}
        found: dict[str, dict[int, bytes]] = {}
        limits = _AnswerLimit()
        async for rows in self._read(RowSelection(matches, min_ts=first, max_ts=last)):
            await in_thread_if_many(rows.num_rows, partial(_add_past, found, limits, rows, start))
        return await in_thread_if_many(limits.values, lambda: encode(_sort_past(found, limit)))

    async def _read(self, selection: RowSelection) -> AsyncIterator[pa.RecordBatch]:
        if self._stream is not None:
            selector = RowSelector(self._stream, selection)
            async for chunk in subscription.read(self._stream.log, selector, 0):
                if chunk.rows.num_rows:
                    yield chunk.rows

    async def _claim(self) -> Stream:
        async with self._lock:
            if self._stream is None:
                await self._streams.create(RECORD_PREFIX + self.name, SCHEMA)
                stream = await self._streams.get(RECORD_PREFIX + self.name)
                stream.log.attach(SegmentConsumer(self._follow))
                self._stream = stream
            if self._epoch is None:
                self._epoch = (await self._stream.writer.claim()).epoch
            return self._stream

    async def _recheck(self) -> None:
        """Read the latest records of the keys in ``_unresolved`` from the stream again.

        Raises ``UnavailableError`` if the stream cannot be read.
        """
        async with self._rechecking:
            if self._stream is None:
                return
            # Keys that are added meanwhile may need rows that this call has read already.
            keys, self._unresolved = self._unresolved, set()
            try:
                number = 0
                while keys:
                    keys = await self._resolve(self._stream.log, keys, alone=number >= _MAX_SHARED)
                    number += 1
            except BaseException:
                self._unresolved |= keys
                raise

    async def _resolve(self, log: StreamLog, keys: set[str], *, alone: bool) -> set[str]:
        """Read the latest records of keys from the stream; return the keys to read again.

        Records of these keys were put before the keys were corrected. Such a record may be earlier
        than the record in memory, and so was not applied. ``alone``: no record is applied while the
        keys are corrected, so that no key is returned.
        """
        found, selected = LatestRecords(), pa.array(list(keys), pa.string())
        position = await _replay(log, found, selected)
        if alone:
            async with log.applying:
                # Appends wait meanwhile, so the last pass must not wait for long reads.
                await _replay(log, found, selected, position, STORED)
                return await self._replace(keys, found, STORED)
        return await self._replace(keys, found, LONG)

    async def _replace(self, keys: set[str], found: LatestRecords, kind: str) -> set[str]:
        """Replace the latest records of keys, except keys of records that are applied meanwhile.

        ``found``: contains all records of the keys that are in the log now. ``kind``: the kind of
        work, for the slices. Returns the excepted keys.
        """
        self._touched = set() if self._unapplied is None else _keys_of(self._unapplied)
        slices = Slices(kind=kind)
        for some in _parts(keys, _SLICE):
            self._latest.replace([key for key in some if key not in self._touched], found)
            await slices.pause()
        return keys & self._touched

    async def _follow(self, segment: Segment, _: IndexEntry) -> None:
        self._unapplied = segment
        if self._rechecking.locked():
            self._touched |= _keys_of(segment)
        header, slices = segment.header, Slices(kind=STORED)
        try:
            for begin in range(0, segment.rows.num_rows, _SLICE):
                await slices.pause()
                self._latest.apply(segment.rows.slice(begin, _SLICE), header.first, header.created)
        finally:
            self._unapplied = None


def _keys_of(segment: Segment) -> set[str]:
    return set(as_list(segment.rows["key"]))


def _parts(keys: Iterable[str], size: int) -> Iterator[list[str]]:
    rest = iter(keys)
    while part := list(islice(rest, size)):
        yield part


def _select_rows(
    extent: Extent, start: int, end: int, keys: pa.Array | None
) -> tuple[PositionedRows, Int64s]:
    """Return the visible rows from ``start`` to ``end`` (exclusive), and the number of the segment
    of each row.
    """
    rows = extent.select(start, end)
    if keys is not None:
        rows = rows.filter(is_in(rows.batch["key"], keys))
    return rows, extent.segments.find_all(rows.positions)


async def _replay(
    log: StreamLog,
    latest: LatestRecords,
    keys: pa.Array | None = None,
    position: int = 0,
    kind: str = LONG,
) -> int:
    """Apply the rows of a stream to ``latest``, including rows that are appended during the call.

    ``keys``: the keys whose rows are applied; None: all rows are applied. ``position``: the
    position of the first row to apply. ``kind``: the kind of work, for the slices; work that is
    not LONG waits for no long read. Returns the position after the last row.
    """
    slices = Slices(kind=kind)
    beside = in_thread_if_many if kind == LONG else in_own_thread_if_many
    position = max(position, log.first)
    while position < log.head:
        entry = log.index[log.index.find(position)]
        [extent] = await log.extents([entry])
        select = partial(_select_rows, extent, position, entry.next, keys)
        rows, indices = await beside(entry.rows, select)
        segments = extent.segments
        # The rows of a segment are adjacent, in the order of segments.
        begins = np.flatnonzero(np.diff(indices, prepend=-1)).tolist()
        for begin, end in pairwise([*begins, len(indices)]):
            index = int(indices[begin])
            first, created = int(segments.first[index]), int(segments.created[index])
            for at in range(begin, end, _SLICE):
                latest.apply(rows.batch.slice(at, min(_SLICE, end - at)), first, created)
                await slices.pause()
        position = entry.next
    return position


class _AnswerLimit:
    """Counts the values and bytes of an answer; raises ``TooLargeError`` if they exceed a limit."""

    def __init__(self) -> None:
        self.values, self._bytes = 0, 0

    def add(self, size: int) -> None:
        self.values += 1
        self._bytes += size
        if self.values > _MAX_ANSWER_VALUES or self._bytes > _MAX_ANSWER_BYTES:
            raise TooLargeError(
                f"the answer has more than {_MAX_ANSWER_VALUES} values or "
                f"{_MAX_ANSWER_BYTES} bytes",
                hint="Select fewer keys or a shorter time, or read pages by start and limit.",
            )


def _select_latest(
    keys: Collection[str], start: str, limit: int | None, latest: LatestRecords
) -> list[KeyValues]:
    """Return the records of ``RecordKind.read_latest``."""
    if keys:
        selected = sorted(key for key in keys if key >= start)
        found = ((key, record) for key in selected if (record := latest.get(key)))
    else:
        found = ((key, record) for key, record in latest.scan(start, limit))
    answer: list[KeyValues] = []
    limits = _AnswerLimit()
    for key, record in found:
        limits.add(len(record.val))
        answer.append(KeyValues(key, [_value(record.ts, record.val)]))
        if len(answer) == limit:
            break
    return answer


def _add_past(
    found: dict[str, dict[int, bytes]], limits: _AnswerLimit, rows: pa.RecordBatch, start: str
) -> None:
    """Add rows to ``found`` (key -> time in ms -> value) from the key ``start`` on."""
    columns = (as_list(rows[name]) for name in ("key", "ts", "val"))
    for key, ts, val in zip(*columns, strict=True):
        if key >= start:
            limits.add(len(val))
            # A later record of the same key and time replaces the earlier.
            found.setdefault(key, {})[ts] = val.encode()


def _sort_past(found: dict[str, dict[int, bytes]], limit: int | None) -> list[KeyValues]:
    """Return the records of the first ``limit`` keys, sorted by key and time.

    They are removed from ``found``, so that the event loop does not free all of them at once.
    """
    return [
        KeyValues(key, [_value(ts, val) for ts, val in sorted(found.pop(key).items())])
        for key in sorted(found)[:limit]
    ]


def _value(ts: int, val: bytes) -> RecordValue[msgspec.Raw]:
    return RecordValue(ts, msgspec.Raw(val))


def to_record_value(record: StoredRecord) -> RecordValue[msgspec.Raw]:
    """Convert a stored record to a value of a response."""
    return _value(record.ts, record.val)


def _encode_rows(items: Sequence[RecordItem], where: str) -> Columns:
    times = [
        item.timestamp
        if isinstance(item.timestamp, int)
        else to_integer(item.timestamp, f"{where}[{number}].timestamp")
        for number, item in enumerate(items)
    ]
    values = []
    for number, item in enumerate(items):
        try:
            val = str(item.val, "utf-8")
        except UnicodeDecodeError as error:
            raise InvalidRequestError(
                f"{where}[{number}].val: the text is not valid UTF-8"
            ) from error
        check_depth(val, f"{where}[{number}].val")
        check_range(val, f"{where}[{number}].val")
        check_keys(val, f"{where}[{number}].val")
        values.append(val)
    keys = [item.key for item in items]
    return Columns(SCHEMA, (keys, times, values, [item.schema for item in items]))
