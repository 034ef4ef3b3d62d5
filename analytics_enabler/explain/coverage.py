"""The coverage of windows by points: which windows began before the first points of a metric."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from cachetools import TTLCache

from analytics.insight_models import WindowCoverage
from analytics.plan.expressions import Aggregate
from analytics.plan.functions import ACCUMULATED
from analytics.plan.nodes import expressions_of
from analytics.plan.ticks import DAY_MS, Ticks
from analytics_enabler.catalogue import DataCatalogue
from analytics_enabler.semantics import Definition
from mistbow.client.agent import AsyncAgentClient
from mistbow.clock import Clock
from mistbow.errors import MistbowError

PATIENCE_S = 1.0
"""How long (s) an answer waits for a search; the search of a running insight goes on after it."""

SEARCH_S = 10.0
"""The time (s) after which a site counts as one that does not answer."""

SITES_AT_A_TIME = 10
"""The number of sites whose first points of a metric a search reads at a time."""

MAX_METRICS = 5
MAX_SEARCHES = 8
"""The maximum number of searches at a time: a deployment may have hundreds of insights."""

SHORT_MS = 300_000
"""The time (ms) before a window that is searched first: most metrics have points in it."""

LONG_MS = DAY_MS
"""The time (ms) before a window in which a point shows that the window is covered."""

TOLERANCE = 20
"""A window is covered if its points begin within its first 1/20th."""

CACHE_S = 60.0
MAX_CACHED = 10_000
_FIRST = "SELECT min(ts) FROM historical WHERE metric = ? AND ts > ? AND ts <= ?"
_ANY = (
    "SELECT min(ts) FROM "
    "(SELECT ts FROM historical WHERE metric = ? AND ts > ? AND ts <= ? LIMIT 1)"
)


@dataclass(frozen=True, slots=True)
class _Window:
    """The window of a metric that reaches back the furthest; ``offset_ms``: its shift."""

    metric: str
    size_ms: int
    offset_ms: int

    @property
    def reach_ms(self) -> int:
        return self.size_ms + self.offset_ms


class CoverageReader:
    """Reads the first points of the metrics of insights, to find windows that are not full yet."""

    def __init__(self, agent: AsyncAgentClient, catalogue: DataCatalogue, clock: Clock) -> None:
        self._agent = agent
        self._catalogue = catalogue
        self._clock = clock
        self._known: TTLCache[tuple[int, _Window], int] = TTLCache(MAX_CACHED, CACHE_S)
        """(interval, window) -> the time (ms) of its first points; 0: it is covered, or unknown."""
        self._limit = asyncio.Semaphore(MAX_SEARCHES)
        self._searches: dict[tuple[int, _Window], asyncio.Task[int | None]] = {}

    async def at_latest_tick(self, definition: Definition) -> WindowCoverage | None:
        """Return the window of a running insight that has the least points; None: all are covered.

        The window ends at the latest tick. The first points are remembered for ``CACHE_S``, for all
        insights with the same window and the same ticks.
        """
        end = Ticks(definition.every_ms, definition.at).last(self._clock())
        return await self.coverage(definition, end, definition.every_ms)

    async def coverage(
        self, definition: Definition, end: int, every_ms: int | None = None
    ) -> WindowCoverage | None:
        """Return the window that ends at ``end`` and has the least points; None: all are covered.

        ``every_ms``: the interval of the ticks, whose latest is ``end``; None: ``end`` is any time,
        and the first points are not remembered. A window is omitted if a site does not
        answer, which may have earlier points.
        """
        windows = [] if definition.feed is not None else [*_windows(definition)][:MAX_METRICS]
        firsts = await asyncio.gather(*(self._first(each, end, every_ms) for each in windows))
        found = [
            WindowCoverage(
                metric=window.metric,
                begins_at=end - window.reach_ms,
                points_from=min(first, end - window.offset_ms),
                ends_at=end - window.offset_ms,
            )
            for window, first in zip(windows, firsts, strict=True)
            if first > end - window.reach_ms + window.size_ms // TOLERANCE
        ]
        return min(found, key=lambda each: each.share, default=None)

    async def _first(self, window: _Window, end: int, every_ms: int | None) -> int:
        """Return the time (ms) of the first points of a window; 0: it is covered, or unknown."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                if every_ms is None:
                    return await self._search(window, end) or 0
                return await self._shared((every_ms, window), end) or 0
        return 0

    async def _shared(self, key: tuple[int, _Window], end: int) -> int | None:
        if key in self._known:
            return self._known[key]
        # Many clients may show the same insight, and many insights may have the same window.
        search = self._searches.get(key)
        if search is None:
            search = asyncio.create_task(self._remember(key, end))
            self._searches[key] = search
            search.add_done_callback(lambda _: self._searches.pop(key))
        return await asyncio.shield(search)

    async def _remember(self, key: tuple[int, _Window], end: int) -> int | None:
        first = await self._search(key[1], end)
        if first is not None:
            self._known[key] = first
        return first

    async def _search(self, window: _Window, end: int) -> int | None:
        """Return the time (ms) of the first points of a window, or 0; None: no site has points."""
        async with self._limit:
            series = self._catalogue.known_series or await self._catalogue.series()
            stored = () if series is None else series.count(window.metric)
            sites = sorted(site for site, _ in stored)
            if not sites:
                return None
            start = end - window.reach_ms
            soon = start + window.size_ms // TOLERANCE
            earliest = partial(self._earliest, sites, window, soon)
            if await earliest(start - SHORT_MS, soon) is not None:
                return 0
            # The metric may have points at long intervals, or had none for a while.
            if await earliest(start - LONG_MS, start, _ANY) is not None:
                return 0
            # The window is not full, so only its existing points are read.
            return await earliest(soon, end) or 0

    async def _earliest(
        self,
        sites: Sequence[str],
        window: _Window,
        soon: int,
        after: int,
        until: int,
        query: str = _FIRST,
    ) -> int | None:
        """Return the time (ms) of the first point at the sites in ``(after, until]``, or None.

        A time up to ``soon`` shows that the window is covered, so no further sites are read.
        """
        first = None
        for at in range(0, len(sites), SITES_AT_A_TIME):
            some = sites[at : at + SITES_AT_A_TIME]
            reads = (self._read(site, query, [window.metric, after, until]) for site in some)
            found = [each for each in await asyncio.gather(*reads) if each is not None]
            first = min(found if first is None else [first, *found], default=None)
            if first is not None and first <= soon:
                break
        return first

    async def _read(self, site: str, query: str, parameters: Sequence[str | int]) -> int | None:
        try:
            async with asyncio.timeout(SEARCH_S):
                table = await self._agent.at(site).sql(query, parameters)
        except (MistbowError, TimeoutError):
            # The site may have earlier points. With the time 0, the window counts as covered.
            return 0
        first: int | None = table.column(0)[0].as_py()
        return first


def _windows(definition: Definition) -> Iterator[_Window]:
    """Yield the window of each metric that reaches back the furthest.

    Functions whose window is not a time of the text are omitted: accumulated functions, the latest
    values, and functions of a number of points.
    """
    furthest: dict[str, _Window] = {}
    for node in expressions_of(definition):
        if not isinstance(node, Aggregate) or node.function in (*ACCUMULATED, "LATEST"):
            continue
        if isinstance(node.points, int):
            continue
        for source in node.sources:
            window = _Window(source.metric, node.size_ms, node.offset_ms)
            known = furthest.setdefault(source.metric, window)
            if window.reach_ms > known.reach_ms:
                furthest[source.metric] = window
    yield from furthest.values()
