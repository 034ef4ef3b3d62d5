"""Starting a fragment's query where the one before it left off: replay, don't migrate."""

import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession

from analytics_worker.accumulating.accumulators import accumulators_of
from analytics_worker.accumulating.stored import Account
from analytics_worker.merging.decisions import (
    Decided,
    Joined,
    Left,
    as_row,
)
from analytics_worker.merging.known import presence
from analytics_worker.spark.lowering import lower, lower_merge, lower_partial
from analytics_worker.spark.query import (
    FragmentQuery,
    panes_options,
    points_options,
)
from analytics_worker.spark.session import scratch_folder
from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import StreamInfo
from mistbow.errors import NotFoundError, UnavailableError
from mistbow.plan.fragments import Fragment, Merge, Partial, Place, Whole
from mistbow.plan.nodes import fingerprint
from mistbow.plan.resumption import resume
from mistbow.streams.schemas import EVENTS, PANES, RESULT_ROWS, STATES, states_stream

_SAFE_ROWS = 400_000


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
    spark: SparkSession,
    agent: AgentClient,
    fragment: Fragment,
    target: StreamInfo,
    epochs: Epochs,
    *,
    alone: bool,
) -> FragmentQuery:
    """Start the query of a fragment, whose target is as ``target`` tells.

    ``alone``: no other one writes to the target, so it is for this one to decide who is missing.
    """
    epoch = epochs.of_target(fragment)
    match fragment:
        case Whole():
            account = account_of(agent, fragment, epochs)
            return _start_whole(spark, agent, fragment, target, epoch, account)
        case Partial():
            return _start_partial(spark, agent, fragment, target, epoch)
        case Merge():
            decisions = epochs.of(fragment.decisions, EVENTS)
            if alone:
                notes = {"decides": fragment.fingerprint}
                agent.at(fragment.target.site).advance(
                    fragment.target.stream, epoch, attributes=notes
                )
            account = account_of(agent, fragment, epochs)
            return _start_merge(spark, agent, fragment, target, epoch, decisions, account)


def account_of(agent: AgentClient, fragment: Whole | Merge, epochs: Epochs) -> Account | None:
    """Return where the states of a fragment's accumulators are, None where it has none."""
    if not accumulators_of(fragment.plan):
        return None
    place = Place(fragment.target.site, states_stream(fragment.target.stream))
    lock = scratch_folder() / f"states-{fingerprint(place)}.lock"
    return Account(agent.url, place, epochs.of(place, STATES), str(lock))


def _start_whole(
    spark: SparkSession,
    agent: AgentClient,
    fragment: Whole,
    target: StreamInfo,
    epoch: int,
    account: Account | None,
) -> FragmentQuery:
    resumption = resume(fragment.plan, max(target.frontier, 0), _covered(target))
    plan = resumption.plan
    points = (
        spark.readStream.format("mistbow")
        .options(**points_options(agent.url, fragment.source, plan.panes, plan.grain_ms))
        .options(start=_seek(agent, fragment.source, resumption.needs), max_rows=_SAFE_ROWS)
        .load()
    )
    results = lower(points, plan, resumption.after, 0, _for_a_query(account))
    return FragmentQuery(fragment, results, _sink(agent, fragment.target, epoch))


def _start_partial(
    spark: SparkSession, agent: AgentClient, fragment: Partial, target: StreamInfo, epoch: int
) -> FragmentQuery:
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
    points = (
        spark.readStream.format("mistbow")
        .options(**points_options(agent.url, fragment.source, fragment.panes, fragment.grain_ms))
        .options(start=number if read is None else min(number, read), max_rows=_SAFE_ROWS)
        .load()
    )
    panes = lower_partial(points, fragment.panes, after=frontier)
    return FragmentQuery(fragment, panes, {**_sink(agent, fragment.target, epoch), "kind": "panes"})


def _start_merge(
    spark: SparkSession,
    agent: AgentClient,
    fragment: Merge,
    target: StreamInfo,
    epoch: int,
    decisions_epoch: int,
    account: Account | None,
) -> FragmentQuery:
    covered = _covered(target)
    since = max(target.frontier, 0)
    resumption = resume(fragment.plan, since, covered)
    if covered:
        # What stands does without a site that was not among the sources.
        known = target.attributes.get("sites", ())
        for site in sorted({place.site for place in fragment.sources} - set(known)):
            decided = as_row(Decided(0, site, Left()))
            decisions = fragment.decisions
            agent.at(decisions.site).append(decisions.stream, decided, epoch=decisions_epoch)
    decided_to = agent.at(fragment.decisions.site).info(fragment.decisions.stream).head
    read = target.attributes.get("read", {})
    with ThreadPoolExecutor(len(fragment.sources)) as pool:
        numbers = pool.map(
            lambda place: _merge_start(agent, place, resumption.needs, read), fragment.sources
        )
        starts = {
            place.site: number for place, number in zip(fragment.sources, numbers, strict=True)
        }
    plan = resumption.plan
    panes = (
        spark.readStream.format("mistbow-panes")
        .options(**panes_options(agent.url, fragment.sources, plan))
        .options(
            decisions=_json(fragment.decisions),
            target=_json(fragment.target),
            fingerprint=fragment.fingerprint,
            starts=_json(starts),
            patience=fragment.patience_ms,
            since=since if covered else 0,
            epoch=decisions_epoch,
        )
        .load()
    )
    results = lower_merge(panes, plan, resumption.after, 0, _for_a_query(account))
    sink = {**_sink(agent, fragment.target, epoch), "decisions": _json(fragment.decisions)}
    return FragmentQuery(fragment, results, sink, decided_to)


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


def _merge_start(agent: AgentClient, place: Place, needs: int, read: Mapping[str, int]) -> int:
    try:
        number = _seek(agent, place, needs)
    except (NotFoundError, UnavailableError):
        # Nothing is computed there yet, or it is away: what it has by then is read from where the
        # query before this one was.
        return read.get(place.stream, 0)
    return min(number, read.get(place.stream, number))


def _for_a_query(account: Account | None) -> Account | None:
    return None if account is None else replace(account, query=uuid.uuid4().hex)


def _covered(target: StreamInfo) -> set[str]:
    return set(target.attributes.get("outputs", ()))


def _seek(agent: AgentClient, place: Place, time_ms: int) -> int:
    return agent.at(place.site).seek(place.stream, time_ms)


def _sink(agent: AgentClient, target: Place, epoch: int) -> dict[str, Any]:
    return {"url": agent.url, "site": target.site, "stream": target.stream, "epoch": epoch}


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
