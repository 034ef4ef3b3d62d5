"""The replicas that answer in place of an unreachable site."""

import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from mistbow.client.operation_model import Copy
from mistbow.fabric import Site
from mistbow.streams.events import event_rows
from mistbow.streams.schemas import EVENTS, POINTS
from mistbow.streams.wire import Chunk, Position
from storage_agent.http.points import GetBody, QueryBody
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.membership.facts import REPLICAS, SITE, Facts, SiteFact, encode_fact
from storage_agent.replication.failover import failover, replica_answers
from storage_agent.replication.failover.failover import FailoverReader
from storage_agent.replication.follower.follower import Follower
from storage_agent.replication.follower.replica import Replica
from storage_agent.replication.follower.replica_server import ReplicaServer
from storage_agent.series import series_key
from storage_agent.settings import AgentSettings
from storage_agent.streams.streams import Streams
from storage_agent.timeseries import history
from tests.storage_agent.conftest import ManualClock

SILENT = Site(name="a", node="node-a", url="http://a:1")


@asynccontextmanager
async def failover_of(
    entities: Sequence[str], streams: Streams, settings: AgentSettings, clock: ManualClock
) -> AsyncIterator[FailoverReader]:
    """Return a reader of a complete replica of the silent site ``a``, with a point per entity."""
    site_facts = {SITE: encode_fact(SiteFact(node="node-a", url="http://a:1"))}
    for each in entities:
        fact = encode_fact({"metricID": "cpu", "entityID": each})
        site_facts[series_key(("cpu", each))] = fact
    await streams.create("replicas/a/metadata", EVENTS)
    stream = await streams.get("replicas/a/metadata")
    await stream.writer.append(event_rows(clock(), site_facts))
    await streams.create("replicas/a/raw", POINTS)
    copy = Copy(id="4f", target=settings.site, why="asked for", since=0)
    replica = Replica("a", copy, await streams.get("replicas/a/raw"), clock)
    await replica.register()
    await replica.begin("store", 0, 1)
    count = len(entities)
    texts = [f'{{"entityID":"{each}"}}' for each in entities]
    points = [["cpu"] * count, entities, texts, [clock() - 1000] * count, [7.0] * count]
    columns = [pa.array(values, field.type) for values, field in zip(points, POINTS, strict=True)]
    rows = pa.RecordBatch.from_arrays(columns, schema=POINTS)
    await replica.add(Chunk(rows, Position(count, clock())))
    membership = FabricMembership(settings, clock)
    await membership.open(streams, (), lambda _: False)
    follower = Follower(membership, settings.home, 0, clock)
    follower.open(streams)
    yield FailoverReader(membership, follower, ReplicaServer(follower, durable=True))
    assert REPLICAS not in membership.facts_of(settings.site)
    await membership.close()


async def test_failover_reads_a_replica_before_its_fact_is_published(
    streams: Streams, settings: AgentSettings, clock: ManualClock
) -> None:
    async with failover_of(["x"], streams, settings, clock) as reader:
        stood = await reader.answer_instead(SILENT, GetBody(start=0), "a is silent")
    assert stood.missing == ()
    assert b'"val":7.0' in stood.items[0]


@pytest.mark.parametrize(
    ("module", "name", "body"),
    [
        (failover, "matches_all_points", GetBody()),
        (replica_answers, "series_item", GetBody()),
        (replica_answers, "merge", QueryBody(agg="sum")),
        (history, "is_stale", GetBody()),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
async def test_threads_select_and_encode_many_series_of_a_silent_site(
    streams: Streams,
    settings: AgentSettings,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    module: ModuleType,
    name: str,
    body: GetBody,
) -> None:
    function, threads = getattr(module, name), set()

    def observed(*arguments: Any) -> Any:
        threads.add(threading.current_thread())
        return function(*arguments)

    monkeypatch.setattr(module, name, observed)
    entities = [f"e{n}" for n in range(2000)]
    async with failover_of(entities, streams, settings, clock) as reader:
        stood = await reader.answer_instead(SILENT, body, "a is silent")
    assert stood.missing == ()
    assert threads
    assert threading.current_thread() not in threads


async def test_series_are_not_selected_for_replicas_that_are_not_recent(
    streams: Streams, settings: AgentSettings, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    selected = []

    def observed(facts: Facts) -> Any:
        selected.append(facts)
        return published_series(facts)

    published_series = failover.published_series
    monkeypatch.setattr(failover, "published_series", observed)
    async with failover_of(["x"], streams, settings, clock) as reader:
        assert await reader.answer_nearby(SILENT, GetBody()) is None
        assert not selected
        assert await reader.answer_nearby(SILENT, GetBody(max_stale_ms=60_000)) is not None
        assert selected
