"""A model of an agent in memory, which predicts the agent's answers."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tests.storage_agent.crashes.observation import Observation, ObservedStream, Record, Series

AHEAD_MS = 10_000

T = TypeVar("T", "Point", "Row")


@dataclass(frozen=True, slots=True)
class Point:
    """A point of the model; ``came``: the time (ms) at which the agent received the point."""

    series: Series
    ts: int
    value: float
    came: int

    @property
    def seen(self) -> tuple[Series, int, float]:
        """The point as an agent returns it: series, time (ms), value."""
        return self.series, self.ts, self.value

    @property
    def waited(self) -> bool:
        """Whether the point was a future point, which became a row at a later, unknown time."""
        return self.ts > self.came + AHEAD_MS


@dataclass(frozen=True, slots=True)
class Row:
    """A record, or a row of a stream; ``came``: the time (ms) of arrival.

    A row of a stream has an empty ``key``, and ``ts`` 0.
    """

    key: str
    ts: int
    val: int
    came: int


@dataclass(frozen=True, slots=True)
class Log:
    """The rows that a stream has ever received, and the frontier of the stream.

    ``expired``: the greatest number of rows that were expired at one time.
    """

    rows: tuple[Row, ...] = ()
    frontier: int = 0
    expired: int = 0


@dataclass(frozen=True, slots=True)
class Model:
    """The expected content of an agent.

    ``once`` and ``once_records``: points and records that have expired at some time, and that may
    reappear if the retention becomes longer. ``metadata``: series -> its metadata in the last put.
    ``streams``: name -> log (None: the stream is deleted).
    """

    retention_ms: int | None
    points: tuple[Point, ...] = ()
    once: tuple[Point, ...] = ()
    metadata: Mapping[Series, str] = field(default_factory=dict)
    records: tuple[Row, ...] = ()
    once_records: tuple[Row, ...] = ()
    streams: Mapping[str, Log | None] = field(default_factory=dict)

    def at(self, now: int) -> "Model":
        """Return the model at a time (ms).

        Expired points and records are moved to ``once`` and ``once_records``.
        """
        before = self._before(now)
        gone, points = _split(self.points, lambda each: each.came < before)
        gone_records, records = _split(self.records, lambda each: each.came < before)
        streams = {
            name: log and replace(log, expired=max(log.expired, _older(log, before)))
            for name, log in self.streams.items()
        }
        return replace(
            self,
            points=points,
            once=self.once + gone,
            records=records,
            once_records=self.once_records + gone_records,
            streams=streams,
        )

    def problems(self, seen: Observation, now: int) -> Iterator[str]:
        """Yield a description of each wrong answer of an agent at a time (ms)."""
        if seen.retention_ms != self.retention_ms:
            yield f"the retention is {seen.retention_ms}, not {self.retention_ms}"
        before = self._before(now)
        perhaps = {each for each in self.once if each.waited or each.came >= before}
        yield from _differ("/get", seen.points, _seen(self.points), _seen(perhaps))
        rows = [each for each in self.points if each.ts <= now + AHEAD_MS]
        yield from _differ("raw", seen.raw, _seen(rows), _seen(perhaps))
        yield from self._latest_problems(seen, {each.series for each in perhaps})
        yield from self._record_problems(seen, before)
        for name, log in self.streams.items():
            yield from _stream_problems(name, log, seen.streams[name], before)
        yield from (f"the numbers of {name} have gaps" for name in seen.gaps)

    def _latest_problems(self, seen: Observation, doubtful: set[Series]) -> Iterator[str]:
        series = {each.series for each in self.points} | doubtful
        if seen.latest.keys() - series or series - doubtful - seen.latest.keys():
            yield f"the series are {sorted(seen.latest)}, not {sorted(series)} ({doubtful})"
        for each in seen.latest.keys() & series - doubtful:
            ts, value, metadata = seen.latest[each]
            most = max(point.ts for point in self.points if point.series == each)
            if (each, ts, value) not in _seen(self.points) or ts != most:
                yield f"the latest of {each} is {ts}: {value}, not that of {most}"
            if metadata != self.metadata[each]:
                yield f"{each} has the metadata of {metadata}, not of {self.metadata[each]}"

    def _record_problems(self, seen: Observation, before: int) -> Iterator[str]:
        must = {(row.key, row.ts): row.val for row in self.records}
        may = {(row.key, row.ts): row.val for row in self.once_records if row.came >= before}
        if seen.records.items() - (may | must).items() or must.items() - seen.records.items():
            yield f"the records are {seen.records}, not {must}, perhaps {may}"
        for key in {row.key for row in (*self.records, *self.once_records)} | seen.last.keys():
            found, must_be = seen.last.get(key), _last(self.records, key)
            hidden = _last((*self.once_records, *self.records), key) != must_be
            back = [(row.ts, row.val) for row in self.once_records if row.came >= before]
            if found != must_be and not (hidden and (found is None or found in back)):
                yield f"the latest record of {key} is {found}, not {must_be}"

    def _before(self, now: int) -> int:
        return -(2**63) if self.retention_ms is None else now - self.retention_ms


def _stream_problems(
    name: str, log: Log | None, seen: ObservedStream | None, before: int
) -> Iterator[str]:
    if log is None or seen is None:
        if log is not seen:
            yield f"the stream {name} is {seen}, not {log}"
        return
    values = [row.val for row in log.rows]
    begin = len(values) - len(seen.values)
    if not _older(log, before) <= begin <= log.expired or values[begin:] != seen.values:
        yield f"the rows of {name} are {seen.values}, not {values}, {log.expired} perhaps not"
    if (seen.head, seen.frontier) != (len(values), log.frontier):
        yield f"{name} ends at {seen.head, seen.frontier}, not at {len(values), log.frontier}"


def _older(log: Log, before: int) -> int:
    return sum(row.came < before for row in log.rows)


def _last(rows: tuple[Row, ...], key: str) -> Record | None:
    found = None
    for row in rows:
        if row.key == key and (found is None or found[0] <= row.ts):
            found = row.ts, row.val
    return found


def _differ(
    way: str,
    seen: list[tuple[Series, int, float]],
    must: set[tuple[Series, int, float]],
    may: set[tuple[Series, int, float]],
) -> Iterator[str]:
    found = set(seen)
    if len(found) < len(seen):
        yield f"by {way} some are there twice: {sorted(seen)}"
    if missing := must - found:
        yield f"by {way} these are missing: {sorted(missing)}"
    if unknown := found - must - may:
        yield f"by {way} these should not be there: {sorted(unknown)}"


def _seen(points: "tuple[Point, ...] | list[Point] | set[Point]") -> set[tuple[Series, int, float]]:
    return {each.seen for each in points}


def _split(items: tuple[T, ...], test: Callable[[T], bool]) -> tuple[tuple[T, ...], tuple[T, ...]]:
    return tuple(i for i in items if test(i)), tuple(i for i in items if not test(i))
