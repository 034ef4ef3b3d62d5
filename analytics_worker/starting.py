"""Starting a fragment's query where the one before it left off: replay, don't migrate."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa

from analytics_worker.accumulating.accumulators import accumulators_of
from analytics_worker.accumulating.stored import Account
from analytics_worker.merging.decisions import (
    Decided,
    Forgotten,
    Joined,
    Left,
    as_row,
)
from analytics_worker.merging.known import presence
from analytics_worker.scratch import scratch_folder
from analytics_worker.streaming_library import MergeStart, Query, StreamingLibrary
from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import StreamInfo
from mistbow.errors import NotFoundError, UnavailableError
from mistbow.plan.feeds import TIME, Feed
from mistbow.plan.fragments import Fragment, Merge, Partial, Place, Whole
from mistbow.plan.nodes import fingerprint
from mistbow.plan.resumption import resume
from mistbow.streams.schemas import EVENTS, PANES, RESULT_ROWS, STATES, states_stream


class Epochs:
    """The epochs under which one runner writes streams, each claimed once."""

    def __init__(self, agent: AgentClient) -> None:
        self._agent = agent
        self._claimed: dict[Place, int] = {}

    def of(self, place: Place, schema: pa.Schema) -> int:
        """Become the only writer of a stream, which is made if need be."""
        if place not in self._claimed:
            site = self._agent.at(place.site)
            try:
                state = site.claim(place.stream)
            except NotFoundError:
                site.create_stream(place.stream, schema)
                state = site.claim(place.stream)
            self._claimed[place] = state.epoch
        return self._claimed[place]

    def of_target(self, fragment: Fragment) -> int:
        """Become the only writer of what a fragment writes."""
        return self.of(fragment.target, PANES if isinstance(fragment, Partial) else RESULT_ROWS)


def start(
    library: StreamingLibrary,
    agent: AgentClient,
    fragment: Fragment,
    target: StreamInfo,
    epochs: Epochs,
    *,
    alone: bool,
) -> Query:
    """Start the query of a fragment, whose target is as ``target`` tells.

    ``alone``: no other one writes to the target, so it is for this one to decide who is missing.
    """
    epoch = epochs.of_target(fragment)
    match fragment:
        case Whole():
            account = account_of(agent, fragment, epochs)
            return _start_whole(library, agent, fragment, target, epoch, account)
        case Partial():
            return _start_partial(library, agent, fragment, target, epoch)
        case Merge():
            decisions = epochs.of(fragment.decisions, EVENTS)
            if alone:
                notes = {"decides": fragment.fingerprint}
                agent.at(fragment.target.site).advance(
                    fragment.target.stream, epoch, attributes=notes
                )
            account = account_of(agent, fragment, epochs)
            return _start_merge(library, agent, fragment, target, epoch, decisions, account)


def account_of(agent: AgentClient, fragment: Whole | Merge, epochs: Epochs) -> Account | None:
    """Return where the states of a fragment's accumulators are, None where it has none."""
    if not accumulators_of(fragment.plan):
        return None
    place = Place(fragment.target.site, states_stream(fragment.target.stream))
    lock = scratch_folder() / f"states-{fingerprint(place)}.lock"
    return Account(agent.url, place, epochs.of(place, STATES), str(lock))


def _start_whole(
    library: StreamingLibrary,
    agent: AgentClient,
    fragment: Whole,
    target: StreamInfo,
    epoch: int,
    account: Account | None,
) -> Query:
    resumption = resume(fragment.plan, max(target.frontier, 0), _covered(target))
    number = _seek(agent, fragment.source, resumption.needs)
    return library.run_whole(fragment, resumption, number, epoch, _for_a_query(account))


def _start_partial(
    library: StreamingLibrary,
    agent: AgentClient,
    fragment: Partial,
    target: StreamInfo,
    epoch: int,
) -> Query:
    begin = target.attributes.get("begin")
    if begin is None:
        begin = fragment.begin
        notes = {"begin": begin}
        agent.at(fragment.target.site).advance(fragment.target.stream, epoch, attributes=notes)
    # A point of before that came late can still be in a pane that closes after the frontier.
    frontier = max(target.frontier, 0)
    needs = max(begin, frontier - fragment.reach_ms)
    read = target.attributes.get("read", {}).get(fragment.source.stream)
    number = _seek(agent, fragment.source, needs)
    start = number if read is None else min(number, read)
    return library.run_partial(fragment, frontier, start, epoch)


def _start_merge(
    library: StreamingLibrary,
    agent: AgentClient,
    fragment: Merge,
    target: StreamInfo,
    epoch: int,
    decisions_epoch: int,
    account: Account | None,
) -> Query:
    covered = _covered(target)
    since = max(target.frontier, 0)
    resumption = resume(fragment.plan, since, covered)
    place, decisions = fragment.decisions, agent.at(fragment.decisions.site)
    sites = {place.site for place in fragment.sources}
    gaps = presence(agent, place).open_gaps()
    decided = [Decided(since, gap.site, Forgotten()) for gap in gaps if gap.site not in sites]
    if covered:
        # What stands does without a site that was not among the sources.
        known = target.attributes.get("sites", ())
        decided += [Decided(0, site, Left()) for site in sorted(sites - set(known))]
    for one in decided:
        decisions.append(place.stream, as_row(one), epoch=decisions_epoch)
    decided_to = decisions.info(place.stream).head
    read = target.attributes.get("read", {})
    with ThreadPoolExecutor(len(fragment.sources)) as pool:
        numbers = pool.map(lambda place: _sought(agent, place, resumption.needs), fragment.sources)
        sought = dict(zip(fragment.sources, numbers, strict=True))
    start = MergeStart(
        starts={
            place.site: _merge_start(number, read.get(place.stream))
            for place, number in sought.items()
        },
        unsought=tuple(place.site for place, number in sought.items() if number is None),
        since=since if covered else 0,
        epoch=decisions_epoch,
        decided=decided_to,
    )
    return library.run_merge(fragment, resumption, start, epoch, _for_a_query(account))


def tell_joined(agent: AgentClient, former: Fragment, merge: Merge, until: int, epoch: int) -> None:
    """Note which sites the results up to ``until`` (ms) may lack: those the former did not read.

    Both wrote results while the one took over from the other, and of equal ones the first counts.
    """
    sources = former.sources if isinstance(former, Merge) else (former.source,)
    new = {place.site for place in merge.sources} - {place.site for place in sources}
    if not new:
        return
    place = merge.decisions
    decisions = agent.at(place.site)
    gaps = presence(agent, place).gaps
    for site in sorted(new):
        gap = next((gap for gap in reversed(gaps) if gap.site == site), None)
        if gap is not None and gap.until is not None and gap.until < until:
            for decided in (Decided(gap.until, site, Left()), Decided(until, site, Joined())):
                decisions.append(place.stream, as_row(decided), epoch=epoch)


def _sought(agent: AgentClient, place: Place, needs: int) -> int | None:
    """Return from which number on a site has what is needed; None while that cannot be asked."""
    try:
        return _seek(agent, place, needs)
    except (NotFoundError, UnavailableError):
        return None  # nothing is computed there yet, or it is away


def _merge_start(sought: int | None, read: int | None) -> int:
    """Return where to begin: ``read`` is up to where the query before this one was, if any."""
    if sought is not None:
        return sought if read is None else min(sought, read)
    # As there is a row to read for certain, the source asks by then from where on it needs them.
    return max(0, (read or 0) - 1)


def _for_a_query(account: Account | None) -> Account | None:
    return None if account is None else replace(account, query=uuid.uuid4().hex)


def _covered(target: StreamInfo) -> set[str]:
    return set(target.attributes.get("outputs", ()))


def _seek(agent: AgentClient, place: Place, time_ms: int) -> int:
    site = agent.at(place.site)
    if isinstance(place.feed, Feed) and not _has_times(site.info(place.stream), place.feed):
        return 0
    return site.seek(place.stream, time_ms)


def _has_times(stream: StreamInfo, feed: Feed) -> bool:
    # Agents know the times of no other column.
    return any((field.name, field.type) == (feed.time, "int64") for field in stream.fields) and (
        feed.time == TIME
    )
