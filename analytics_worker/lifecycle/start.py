"""Starts a fragment's query where the previous query ended; the new query replays its streams."""

import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import ParamSpec

import pyarrow as pa

from analytics.plan.feeds import TIME, Feed
from analytics.plan.fragments import Fragment, Merge, Partial, StreamLocation, Whole
from analytics.plan.nodes import fingerprint
from analytics.plan.resumption import resume
from analytics.plan.target_attributes import TargetAttributes
from analytics_worker.merge.decisions import (
    Joined,
    Left,
    Presence,
    SiteDecision,
    checkpoint_of,
    read_presence,
    row_of,
)
from analytics_worker.merge.site_gaps import uncertain_of_new_source
from analytics_worker.query_lease import QueryLease
from analytics_worker.scratch_folder import scratch_folder
from analytics_worker.stateful.accumulators import accumulators_of
from analytics_worker.stateful.state_stream import StateAccess
from analytics_worker.streaming_library import EngineQuery, MergeStart, StreamingLibrary
from mistbow.client.agent import AgentClient
from mistbow.clock import system_clock
from mistbow.errors import NotFoundError, UnavailableError
from mistbow.streams.models import (
    StreamInfo,
)
from mistbow.streams.schemas import EVENTS, PANES, RESULT_ROWS, STATES, states_stream

P = ParamSpec("P")

_CHECK_S = 2.0
"""The time for which a successful check of a fragment's sites is valid."""

_DESCRIBED_S = 0.2
"""The time (s) for which the description of a target is new enough for a start."""


class WriteLeases:
    """The leases under which one runner writes the streams of its fragment.

    The runner claims each stream once.
    """

    def __init__(self, agent: AgentClient) -> None:
        self._agent = agent
        self._epochs: dict[StreamLocation, int] = {}

    def describe_target(self, fragment: Fragment) -> StreamInfo:
        """Return the description of a fragment's target; create the streams that do not exist."""
        streams = _streams_of(fragment)
        with ThreadPoolExecutor(len(streams)) as pool:
            return list(pool.map(self._describe, *zip(*streams, strict=True)))[-1]

    def _describe(self, location: StreamLocation, schema: pa.Schema) -> StreamInfo:
        site = self._agent.at(location.site)
        try:
            return site.info(location.stream)
        except NotFoundError:
            site.create_stream(location.stream, schema)
            return site.info(location.stream)

    def claim(self, fragment: Fragment) -> dict[str, int]:
        """Claim the streams of a fragment that are not claimed yet, the target last.

        The claims fence all other writers. Return a dict: stream -> epoch.
        """
        for location, _ in _streams_of(fragment):
            if location not in self._epochs:
                claimed = self._agent.at(location.site).claim(location.stream)
                self._epochs[location] = claimed.epoch
        return {location.stream: self._epochs[location] for location, _ in _streams_of(fragment)}


class SiteCheck:
    """Checks the sites that must answer before the query of a fragment can start.

    A runner checks them before it takes the start slot, because other runners wait for the slot.
    """

    def __init__(self, agent: AgentClient) -> None:
        self._agent = agent
        self._checked: tuple[str, float] = "", 0.0
        self._target: StreamInfo | None = None

    def check(self, fragment: Fragment, leases: WriteLeases) -> None:
        """Raise ``UnavailableError`` if such a site is unreachable; check every ``_CHECK_S``."""
        version, at = self._checked
        if version == fragment.fingerprint and time.monotonic() < at + _CHECK_S:
            return
        # At the same time, because each request delays the first result.
        with ThreadPoolExecutor(1) as pool:
            source = pool.submit(self._ask_source, fragment)
            target = leases.describe_target(fragment)
        source.result()
        self._checked, self._target = (fragment.fingerprint, time.monotonic()), target

    def _ask_source(self, fragment: Fragment) -> None:
        if not isinstance(fragment, Merge):
            with suppress(NotFoundError):
                self._agent.at(fragment.source.site).info(fragment.source.stream)

    def take_target(self, fragment: Fragment, *, is_orphan: bool) -> StreamInfo | None:
        """Return the description of the fragment's target if the check has just read it, once.

        A later start must read it again. A slightly outdated description only causes more replay.
        ``is_orphan``: whether no other worker writes the target, so that the description remains
        new for as long as the check is valid.
        """
        version, at = self._checked
        target, self._target = self._target, None
        max_age_s = _CHECK_S if is_orphan else _DESCRIBED_S
        is_new = version == fragment.fingerprint and time.monotonic() < at + max_age_s
        return target if is_new else None


def _streams_of(fragment: Fragment) -> list[tuple[StreamLocation, pa.Schema]]:
    """Return the streams that a fragment writes, with their schemas; the target is the last one."""
    if isinstance(fragment, Partial):
        return [(fragment.target, PANES)]
    streams = [(fragment.target, RESULT_ROWS)]
    if isinstance(fragment, Merge):
        streams.insert(0, (fragment.decisions, EVENTS))
    if accumulators_of(fragment.plan):
        streams.insert(0, (_states_of(fragment), STATES))
    return streams


def _states_of(fragment: Whole | Merge) -> StreamLocation:
    return StreamLocation(fragment.target.site, states_stream(fragment.target.stream))


def start(
    library: StreamingLibrary,
    agent: AgentClient,
    fragment: Fragment,
    target: StreamInfo,
    lease: QueryLease,
) -> EngineQuery:
    """Start and return the query of a fragment.

    ``target``: the present description of the fragment's target. ``lease``: the lease under which
    the query writes.
    """
    match fragment:
        case Whole():
            access = state_access_of(agent, fragment, lease)
            return _start_whole(library, agent, fragment, target, lease, access)
        case Partial():
            return _start_partial(library, agent, fragment, target, lease)
        case Merge():
            access = state_access_of(agent, fragment, lease)
            return _start_merge(library, agent, fragment, target, lease, access)


def state_access_of(
    agent: AgentClient, fragment: Whole | Merge, lease: QueryLease
) -> StateAccess | None:
    """Return the access to the states of a fragment's accumulators.

    None: the fragment has no accumulators.
    """
    if not accumulators_of(fragment.plan):
        return None
    location = _states_of(fragment)
    lock = scratch_folder() / f"states-{fingerprint(location)}.lock"
    return StateAccess(agent.url, location, lease, str(lock))


def _start_whole(
    library: StreamingLibrary,
    agent: AgentClient,
    fragment: Whole,
    target: StreamInfo,
    lease: QueryLease,
    access: StateAccess | None,
) -> EngineQuery:
    covered = TargetAttributes.of(target).insights or ()
    resumption = resume(fragment.plan, max(target.frontier, 0), covered)
    position = _seek(agent, fragment.source, resumption.needs)
    return library.run_whole(fragment, resumption, position, lease, _for_new_query(access))


def _start_partial(
    library: StreamingLibrary,
    agent: AgentClient,
    fragment: Partial,
    target: StreamInfo,
    lease: QueryLease,
) -> EngineQuery:
    stored = TargetAttributes.of(target)
    begin = stored.begin
    if begin is None:
        begin = fragment.begin
        panes = agent.at(fragment.target.site)
        attributes = TargetAttributes(begin=begin).stored()
        lease.append(
            fragment.target,
            lambda epoch: panes.advance(fragment.target.stream, epoch, attributes=attributes),
        )
    # An earlier point that came late can still be in a pane that closes after the frontier.
    frontier = max(target.frontier, 0)
    needs = max(begin, frontier - fragment.lookback_ms)
    read = (stored.read or {}).get(fragment.source.stream)
    position = _seek(agent, fragment.source, needs)
    start = position if read is None else min(position, read)
    return library.run_partial(fragment, frontier, start, lease)


def _start_merge(
    library: StreamingLibrary,
    agent: AgentClient,
    fragment: Merge,
    target: StreamInfo,
    lease: QueryLease,
    access: StateAccess | None,
) -> EngineQuery:
    stored = TargetAttributes.of(target)
    covered = stored.insights or ()
    since = max(target.frontier, 0)
    resumption = resume(fragment.plan, since, covered)
    location, decisions = fragment.decisions, agent.at(fragment.decisions.site)
    if covered:
        # The stored results lack the sites that were not among the sources then. The results up to
        # the removal of a site that is a source again include the site. Gaps since the removal are
        # those of queries that began with the site, but have not taken over.
        new = fragment.sites.difference(stored.sites or ())
        presence = read_presence(agent, location) if new else Presence()
        for site in sorted(new):
            if opening := gap_of_new_site(presence, site, since, system_clock()):
                rows = pa.Table.from_batches([row_of(each) for each in opening])
                lease.append(location, partial(_append, decisions, location.stream, rows))
    read = stored.read or {}
    # The late panes of an earlier position also affect the insights that are new in the plan.
    has_former_plan = stored.insights == tuple(one.uid for one in fragment.plan.insights)
    resumed = [source for source in fragment.sources if source.stream in read]
    # All at once, because each request delays the first result.
    with ThreadPoolExecutor(2 * len(fragment.sources) + 1) as pool:
        info = pool.submit(decisions.info, location.stream)
        positions = {
            source: pool.submit(_if_reachable, _seek, agent, source, resumption.needs)
            for source in fragment.sources
        }
        heads = {
            source: pool.submit(_if_reachable, _head_of, agent, source)
            for source in (resumed if has_former_plan else ())
        }
    needed = {source: position.result() for source, position in positions.items()}
    start = MergeStart(
        starts={
            source.data_site: _merge_start(position, read.get(source.stream))
            for source, position in needed.items()
        },
        unreachable=tuple(source.data_site for source, each in needed.items() if each is None),
        resumed=tuple(source.data_site for source in resumed),
        # A site that has lost its store begins its stream anew.
        recorded={
            source.data_site: read[source.stream]
            for source, head in heads.items()
            if needed[source] is not None and read[source.stream] <= (head.result() or 0)
        },
        since=since if covered else 0,
        decided=info.result().head,
        checkpoint=checkpoint_of(info.result().attributes),
    )
    return library.run_merge(fragment, resumption, start, lease, _for_new_query(access))


def gap_of_new_site(presence: Presence, site: str, since: int, now: int) -> list[SiteDecision]:
    """Return the decisions after which the open gap of a new site begins at its removal.

    ``since``: the time (ms) after which results name the site as missing. ``now``: the time (ms) of
    the clock of this worker.
    """
    gap, removed_after = presence.open_gap(site), presence.removed_after(site)
    if gap is not None and gap.after <= removed_after:
        return []
    uncertain = uncertain_of_new_source(presence.gaps_of(site), max(now, since))
    left = SiteDecision(removed_after, site, Left(since, uncertain))
    # The site may have joined and left again in a query that has not taken over.
    return [left] if gap is None else [SiteDecision(gap.after, site, Joined()), left]


def _append(site: AgentClient, stream: str, rows: pa.Table, epoch: int) -> None:
    site.append(stream, rows, epoch=epoch)


def _if_reachable(request: Callable[P, int], *args: P.args, **kwargs: P.kwargs) -> int | None:
    """Return the answer to a request; None: the site is unreachable, or its stream does not exist
    yet.
    """
    try:
        return request(*args, **kwargs)
    except (NotFoundError, UnavailableError):
        return None


def _head_of(agent: AgentClient, location: StreamLocation) -> int:
    return agent.at(location.site).info(location.stream).head


def _merge_start(needed: int | None, read: int | None) -> int:
    """Return the position from which a merge reads a site.

    ``needed``: the position of the first row that the merge needs; None: the site did not answer.
    ``read``: the stored position of the previous query; None: unknown.
    """
    if needed is not None:
        return needed if read is None else min(needed, read)
    # One row is read for certain: by then the source can seek the position itself.
    return max(0, (read or 0) - 1)


def _for_new_query(access: StateAccess | None) -> StateAccess | None:
    return None if access is None else replace(access, query=uuid.uuid4().hex)


def _seek(agent: AgentClient, location: StreamLocation, time_ms: int) -> int:
    site = agent.at(location.site)
    if isinstance(location.feed, Feed) and not _has_event_time(
        site.info(location.stream), location.feed
    ):
        return 0
    return site.seek(location.stream, time_ms)


def _has_event_time(stream: StreamInfo, feed: Feed) -> bool:
    # Agents index a stream by this column alone.
    return any((field.name, field.type) == (feed.time, "int64") for field in stream.fields) and (
        feed.time == TIME
    )
