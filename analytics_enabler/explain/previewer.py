"""The preview of a text: the results that its deployment would have had, computed once."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from analytics.editor_models import Preview, PreviewRequest
from analytics.insight_models import Result, WindowCoverage
from analytics.plan.feeds import Feed
from analytics.plan.fragments import StreamLocation
from analytics.plan.preview import PreviewOrder
from analytics_enabler.catalogue import DataCatalogue
from analytics_enabler.deployments.model import Generation
from analytics_enabler.execution.worker_reconcilers import Connect
from analytics_enabler.explain.coverage import CoverageReader
from analytics_enabler.explain.silence import RELAXATIONS, no_points, range_of, values_by_insight
from analytics_enabler.fabric_view import FabricView
from analytics_enabler.fragments import plans_of
from analytics_enabler.groups import Group
from analytics_enabler.scheduling.driver.snapshot import available_workers
from analytics_enabler.semantics import Checked, Definition, scope_of, sites_of
from analytics_enabler.units import unit_of
from mistbow.auth.callers import Caller, current_caller
from mistbow.client.agent import AsyncAgentClient
from mistbow.errors import (
    CapacityError,
    MistbowError,
    NotFoundError,
    TooManyRequestsError,
    UnavailableError,
)
from mistbow.fabric import Fabric, Worker
from mistbow.streams.results import result_fields
from mistbow.streams.schemas import RAW
from mistbow.streams.signatures import signature_of

TIMEOUT_S = 40.0
SITE_PATIENCE_S = 2.0
MAX_TICKS = 10_000
"""The maximum number of ticks of an insight with EVERY in a preview; a longer span is shortened."""

MAX_POSITIONS = 1_000_000
"""The maximum number of points, of all metrics, among which a preview finds its points."""

MAX_PREVIEWS_OF_TOKEN = 2
MAX_WORKERS_TRIED = 2
_UID = "preview"


@dataclass(frozen=True, slots=True)
class _Span:
    """The span ``(after, until]`` (ms) of a preview, and the streams with all its points."""

    after: int
    until: int
    locations: tuple[StreamLocation, ...]


@dataclass(slots=True)
class _Spans:
    """The spans of a preview: site (None: all) and feed -> span, or None if no site is reachable.

    ``missing``: the sites that are not reachable.
    """

    found: dict[tuple[str | None, Feed | None], _Span | None] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)


class Previewer:
    """Computes previews at workers, by the plans that deployments would have."""

    def __init__(
        self,
        fabric_view: FabricView,
        agent: AsyncAgentClient,
        connect: Connect,
        catalogue: DataCatalogue,
        coverage: CoverageReader,
    ) -> None:
        self._catalogue = catalogue
        self._coverage = coverage
        self._fabric_view = fabric_view
        self._agent = agent
        self._connect = connect
        self._running: Counter[str] = Counter()

    async def preview(self, checked: Checked, request: PreviewRequest) -> Preview:
        """Return the results of a checked text in the last minutes of a request.

        Raises ``ForbiddenError`` if the caller may not read the results, ``TooManyRequestsError``
        if the caller has too many previews, and ``UnavailableError`` if no worker computes it.
        """
        problems = list(checked.problems)
        if not checked.ok:
            return Preview(ok=False, problems=problems)
        definitions = _chosen(checked.definitions, request.insight)
        _check_signatures(definitions, current_caller())
        fabric = self._fabric_view.fabric
        if fabric is None:
            raise UnavailableError("the enabler has not read the fabric yet", hint="Try again.")
        began, spans = time.monotonic(), _Spans()
        async with self._slot(current_caller().name):
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    computed = await self._compute(definitions, request, fabric, spans)
            except TimeoutError:
                raise UnavailableError(
                    f"the preview takes longer than {TIMEOUT_S:g} s",
                    hint="Shorten the span or the windows.",
                ) from None
            windows = await self._windows(definitions, computed)
            silent: dict[str, str] = {}
            # The values are a valid answer, also if the search for reasons fails.
            with suppress(MistbowError, TimeoutError):
                async with asyncio.timeout(TIMEOUT_S - (time.monotonic() - began)):
                    silent = await self._silent(definitions, computed, request, fabric, spans)
        took = round((time.monotonic() - began) * 1000)
        units = self._catalogue.known_units
        return computed.model_copy(
            update={
                "problems": problems,
                "took_ms": took,
                "silent": silent,
                "windows": windows,
                "units": {each.name: unit_of(each.expression, units) for each in definitions},
            }
        )

    async def _windows(
        self, definitions: Sequence[Definition], computed: Preview
    ) -> dict[str, WindowCoverage]:
        """Return insight -> the window of its latest value that its points do not cover."""
        latest = {each.insight: each.ts for each in computed.results}
        shown = [each for each in definitions if each.name in latest]
        found = await asyncio.gather(
            *(self._coverage.coverage(each, latest[each.name]) for each in shown)
        )
        pairs = zip(shown, found, strict=True)
        return {each.name: window for each, window in pairs if window is not None}

    async def _silent(
        self,
        definitions: Sequence[Definition],
        computed: Preview,
        request: PreviewRequest,
        fabric: Fabric,
        spans: _Spans,
    ) -> dict[str, str]:
        """Return insight -> why it has no value, for the insights without results."""
        if computed.worker is None or computed.truncated:
            return {}
        found = values_by_insight(computed.results)
        reasons: dict[str, str] = {}
        for relaxed, reason in RELAXATIONS:
            pending = (each for each in definitions if each.name not in {*found, *reasons})
            tried = [form for each in pending if (form := relaxed(each)) is not None]
            if tried:
                found_again = await self._compute(tried, request, fabric, spans)
                values = values_by_insight(found_again.results)
                reasons |= {
                    name: reason.format(values=range_of(each)) for name, each in values.items()
                }
        for each in definitions:
            if each.name not in found:
                reasons.setdefault(each.name, no_points(each))
        return reasons

    @asynccontextmanager
    async def _slot(self, token: str) -> AsyncIterator[None]:
        if self._running[token] >= MAX_PREVIEWS_OF_TOKEN:
            raise TooManyRequestsError(
                f"{self._running[token]} previews with the same token are already running",
                hint="Wait until one of them has ended.",
            )
        self._running[token] += 1
        try:
            yield
        finally:
            self._running[token] -= 1
            if not self._running[token]:
                del self._running[token]

    async def _compute(
        self,
        definitions: Sequence[Definition],
        request: PreviewRequest,
        fabric: Fabric,
        spans: _Spans,
    ) -> Preview:
        """Return the results of insights; ``spans``: the spans read before, or no span."""
        sites = sites_of(self._fabric_view.whole or fabric)
        generations = []
        # An insight without EVERY has results at points only, however short its steps are.
        longest = [each.every_ms * MAX_TICKS for each in definitions if not each.each_point]
        span_ms = min([round(request.minutes * 60_000), *longest])
        for definition in definitions:
            scope, feed = scope_of(definition, sites), definition.feed
            if (scope, feed) not in spans.found:
                spans.found[scope, feed] = await self._span(
                    scope, feed, span_ms, fabric, spans.missing
                )
            span = spans.found[scope, feed]
            if span is not None:
                uid = f"{_UID}/{definition.name}/1"
                generations.append(
                    Generation(uid=uid, definition=definition, since=span.after, scope=scope)
                )
        rows: list[dict[str, Any]] = []
        starts, ends, workers, is_cut = [], [], set(), False
        for group, plan in (await asyncio.to_thread(plans_of, generations)).items():
            span = spans.found[group.scope, group.feed]
            assert span is not None  # noqa: S101 - it has a generation
            order = PreviewOrder(
                plan=plan,
                locations=span.locations,
                after=span.after,
                until=span.until,
                max_rows=request.limit,
                max_positions=MAX_POSITIONS,
            )
            worker, table = await self._send(order, group, fabric)
            workers.add(worker)
            is_cut |= table.num_rows > request.limit
            starts.append(int((table.schema.metadata or {})[b"after"]))
            ends.append(span.until)
            rows += (row for row in table.to_pylist() if span.after < row["ts"] <= span.until)
        shown = sorted(map(_shown, rows), key=lambda row: (row["ts"], row["insight"]))
        return Preview(
            ok=True,
            problems=[],
            start=min(starts, default=None),
            end=max(ends, default=None),
            insights=[each.name for each in definitions],
            results=[Result.model_validate(row) for row in shown[-request.limit :]],
            truncated=is_cut or len(shown) > request.limit,
            missing_sites=sorted(spans.missing),
            worker=", ".join(sorted(workers)) or None,
        )

    async def _span(
        self,
        scope: str | None,
        feed: Feed | None,
        span_ms: int,
        fabric: Fabric,
        missing: set[str],
    ) -> _Span | None:
        """Return the span up to which the points of all reachable sites are complete.

        None: no site is reachable. Unreachable sites are added to ``missing``.
        """
        names = [each.name for each in fabric.sites] if scope is None else [scope]
        stream = RAW if feed is None else feed.stream
        frontiers = await asyncio.gather(*(self._frontier(name, stream) for name in names))
        found = {n: each for n, each in zip(names, frontiers, strict=True) if each is not None}
        missing.update(set(names) - found.keys())
        if not found:
            return None
        until = min(found.values())
        locations = (
            StreamLocation(name, stream) if feed is None else StreamLocation(name, stream, feed)
            for name in found
        )
        return _Span(max(until - span_ms, 0), until, tuple(locations))

    async def _frontier(self, site: str, stream: str) -> int | None:
        try:
            async with asyncio.timeout(SITE_PATIENCE_S):
                return (await self._agent.at(site).info(stream)).frontier
        except (MistbowError, TimeoutError):
            return None

    async def _send(
        self, order: PreviewOrder, group: Group, fabric: Fabric
    ) -> tuple[str, pa.Table]:
        """Return (worker, results) of the first worker that computes an order."""
        reasons = []
        for site, worker in _workers(fabric, group.scope)[:MAX_WORKERS_TRIED]:
            client = self._connect(worker.url, site)
            try:
                return worker.name, await client.preview(order)
            except (CapacityError, NotFoundError, UnavailableError) as error:
                reasons.append(f"{worker.name}: {error.message}")
            finally:
                await client.close()
        raise UnavailableError(
            f"no worker computes the preview: {'; '.join(reasons) or 'there is no worker'}",
            hint="Try again later.",
        )


def _chosen(definitions: Sequence[Definition], insight: str | None) -> Sequence[Definition]:
    chosen = [each for each in definitions if insight in (None, each.name)]
    if not chosen:
        names = ", ".join(each.name for each in definitions)
        raise NotFoundError(f"the text has no insight {insight}", hint=f"Its insights: {names}.")
    return chosen


def _check_signatures(definitions: Collection[Definition], caller: Caller) -> None:
    """Raise ``ForbiddenError`` for results that the caller could not read after a deployment."""
    for each in definitions:
        caller.check_signature(f"the insight {each.name}", each.options.signature)
        if each.feed is not None:
            stream = each.feed.stream
            caller.check_signature(f"the stream {stream}", signature_of(stream))


def _workers(fabric: Fabric, scope: str | None) -> list[tuple[str, Worker]]:
    """Return the workers with their sites, the most suitable first: near the points, alive, with
    free memory.
    """
    near = fabric.site if scope is None else scope
    found = sorted(
        available_workers(fabric),
        key=lambda pair: (
            pair[1].suspected,
            pair[0].name != near,
            -pair[1].memory_free_mb,
            pair[1].name,
        ),
    )
    return [(site.name, worker) for site, worker in found]


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return result_fields(row) | {"insight": row["insight"].split("/")[1]}
