"""Keeping the catalogue true to the points: what is deleted or expires is not the latest."""

from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from mistbow.errors import MistbowError
from mistbow.telemetry import get_logger
from storage_agent.monitoring.catalogue import Catalogue, LatestValue, Series
from storage_agent.monitoring.history import Elsewhere
from storage_agent.streams.columns import Keys, as_list
from storage_agent.streams.index import EARLIEST, Entry
from storage_agent.streams.log import StreamLog
from storage_agent.streams.manifest import Deletion
from storage_agent.streams.pieces import Piece
from storage_agent.streams.streams import Stream

log = get_logger(__name__)

_COLUMNS = ("metric", "entity", "ts", "value")


Latest = Callable[[Collection[Series]], Awaitable[dict[Series, tuple[int, float]]]]


class Keeping:
    """Deletes points, and corrects the catalogue when some are gone.

    ``elsewhere`` has the points that have moved.
    """

    def __init__(self, raw: Stream, catalogue: Catalogue, elsewhere: Elsewhere) -> None:
        self._raw = raw
        self._catalogue = catalogue
        self._elsewhere = elsewhere
        self._unsure: set[Series] = set()

    async def delete(
        self, series: Collection[Series], start: int | None, end: int | None
    ) -> list[Series]:
        """Delete the points of series, from ``start`` to ``end`` (ms, inclusive), or all.

        Returns the series that have no points any more.
        """
        if not series:
            return []
        head = self._raw.log.head
        await self._raw.writer.delete(("metric", "entity"), series, start, end)
        if start is None and end is None:
            return await self._recheck(series, head)
        return [*await self._recheck_here(series), *await self._look_elsewhere()]

    async def expire(self) -> list[Series]:
        """Look again at series whose latest value is not so any more; returns those that are gone.

        That may be as it has expired, or as it could not be asked for where it has moved to.
        """
        expired = self._catalogue.expired()
        gone = await self._recheck(expired, 0) if expired else []
        return [*gone, *await self._look_elsewhere()]

    async def settle(self) -> None:
        """Do what a crash kept from being done after deletions."""
        # The latest value of a series stays known where it is not here any more.
        done = (d for d in self._raw.log.manifest.current.deletions if not d.forgotten)
        deletions = [(d, frozenset(d.keys)) for d in done]
        hit = [
            series
            for series, _ in self._catalogue.all()
            if (latest := self._catalogue.latest(series)) is not None
            and any(_hits(each, keys, series, latest) for each, keys in deletions)
        ]
        if hit:
            await self._recheck_here(hit)

    async def _recheck_here(self, series: Collection[Series]) -> list[Series]:
        """Do it for those all of whose points are here; of the others all may have moved."""
        moved = {each for away in self._elsewhere.among(series) for each in away.series}
        self._unsure |= moved
        return await self._recheck([each for each in series if each not in moved], 0)

    async def _look_elsewhere(self) -> list[Series]:
        """Do it for the others; of whom nobody can be asked now is asked again later."""
        gone = []
        for each in list(self._unsure):
            try:
                gone += await self._recheck([each], 0, self._elsewhere.latest)
            except MistbowError as error:
                log.info("latest value not known yet", series=each, reason=error.message)
                break
            self._unsure.discard(each)
        return gone

    async def _recheck(
        self, series: Collection[Series], since: int, elsewhere: Latest | None = None
    ) -> list[Series]:
        """Find the latest values of series anew, among numbers from ``since`` on."""
        gone = []
        left = list(series)
        while left:
            before = {each: self._catalogue.stored(each) for each in left}
            latest = await _latest(self._raw.log, left, since)
            if elsewhere is not None:
                for each, (ts, value) in (await elsewhere(left)).items():
                    seen = known.seen if (known := before[each]) is not None else 0
                    if each not in latest or latest[each].ts < ts:
                        latest[each] = LatestValue(ts, value, seen, seen)
            # Of those of which more came meanwhile, this is not the last word.
            same = [each for each in left if self._catalogue.stored(each) is before[each]]
            for each in same:
                self._catalogue.correct(each, latest.get(each))
            gone += [each for each in same if each not in latest]
            done = set(same)
            left = [each for each in left if each not in done]
        return gone


async def _latest(
    log: StreamLog, series: Collection[Series], since: int
) -> dict[Series, LatestValue]:
    """Return the latest values of those of the series that have any, newest entries first."""
    found: dict[Series, LatestValue] = {}
    keys = Keys(series)
    before = log.expired_before()
    released = log.ahead.released
    least = EARLIEST
    for entry, top in log.index.backwards():
        if entry.next <= since or entry.created < before:
            break
        # What waits has times beyond those of the rows up to here.
        if max(top, entry.ahead_max_ts) < least:
            continue
        [piece] = await log.pieces([entry])
        for each, latest in _values(piece, entry, keys, released):
            known = found.get(each)
            # Of equal times the later number counts, and that was met before.
            if known is None or known.ts < latest.ts:
                found[each] = replace(latest, seen=max(latest.seen, known.seen if known else 0))
        if len(found) == len(series):
            least = min(latest.ts for latest in found.values())
    return found


def _values(
    piece: Piece, entry: Entry, keys: Keys, released: int
) -> Iterator[tuple[Series, LatestValue]]:
    """Yield the latest values in a piece by series, the greatest time first."""
    rows = piece.between(entry.first, entry.next)
    parts = [
        (rows.batch, piece.commits.created[piece.commits.of(rows.numbers)]),
        (waiting := piece.waiting(released), np.full(waiting.num_rows, entry.created)),
    ]
    for batch, created in parts:
        chosen = keys.among([batch["metric"], batch["entity"]]).to_numpy(zero_copy_only=False)
        some, came = batch.filter(pa.array(chosen)), created[chosen].tolist()
        metrics, entities, times, values = (as_list(some[name]) for name in _COLUMNS)
        # Of equal times the later number counts; backwards it is the first.
        order = np.argsort(times, kind="stable")[::-1].tolist() if times else []
        for at in order:
            yield (
                (metrics[at], entities[at]),
                LatestValue(times[at], values[at], came[at], came[at]),
            )


def _hits(
    deletion: Deletion, keys: Collection[Sequence[str]], series: Series, latest: LatestValue
) -> bool:
    return (
        latest.created <= deletion.created
        and (not keys or series in keys)
        and (deletion.min_ts is None or latest.ts >= deletion.min_ts)
        and (deletion.max_ts is None or latest.ts <= deletion.max_ts)
    )
