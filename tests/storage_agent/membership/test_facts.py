"""Facts about sites and series."""

import asyncio
import secrets

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from ignite_server.server import IgniteServer
from mistbow.clock import system_clock
from mistbow.domains import Selector
from mistbow.errors import InvalidRequestError, TooLargeError
from mistbow.fabric import Enabler, Worker
from mistbow.runtime.tasks import cancel_and_wait
from mistbow.streams.events import REMOVED
from mistbow.streams.schemas import METADATA
from storage_agent.ignite.client import IgniteClient
from storage_agent.membership.enablers import check_enabler
from storage_agent.membership.facts import (
    SITE,
    Facts,
    encode_fact,
    encode_series,
    read_facts,
)
from storage_agent.membership.journal import FactJournal, fact_batches
from storage_agent.membership.workers import check_worker
from storage_agent.series import series_key
from storage_agent.streams.streams import Streams
from storage_agent.timeseries.selection import describe
from tests.storage_agent.conftest import ManualClock

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
_DESCRIPTIONS = st.fixed_dictionaries(
    {}, optional={"entityType": _TEXTS, "name": _TEXTS, "pod": st.dictionaries(_TEXTS, _TEXTS)}
)


@given(metric=_TEXTS, entity=_TEXTS, description=_DESCRIPTIONS)
def test_facts_of_many_series_are_encoded_like_single_facts(
    metric: str, entity: str, description: dict[str, object]
) -> None:
    text = msgspec.json.encode(description)
    single = series_key((metric, entity)), encode_fact(describe(metric, entity, text))
    assert list(encode_series([(metric, entity, text)])) == [single]


def test_prefix_selects_facts_that_are_not_about_series() -> None:
    facts = Facts()
    link, site = '{"latency_ms": 1}', '{"node": "n", "url": "http://n:1"}'
    series = '{"metricID": "link/", "entityID": "e"}'
    applied = {"link/b": link, "link/a": link, SITE: site, 'series/["link/","e"]': series}
    for key, event in applied.items():
        facts.apply(key, event)
    facts.apply("link/c", REMOVED)
    assert facts.with_prefix("link/") == ["link/a", "link/b"]
    assert [key for key, _ in facts.series_events()] == ['series/["link/","e"]']
    assert sorted(facts) == ["link/a", "link/b", 'series/["link/","e"]', SITE]


def worker(**changed: object) -> str:
    about = {"name": "w", "url": "http://w:1", "cores": 1, "memory_mb": 9}
    return encode_fact({**about, "cores_free": 1, "memory_free_mb": 9, **changed})


@pytest.mark.parametrize(
    ("key", "event"),
    [
        (SITE, "{}"),
        ("forgotten", '{"c": "long ago"}'),
        ("forgotten", "[" * 5000),
        ("worker/w", '{"name": "w"}'),
        ("enabler/all", "7"),
        ("link/b", '{"latency_ms": "far"}'),
        ("instability/w", "[]"),
        ("credential/site", "{}"),
        ('series/["m","e"]', '{"metricID": "m"}'),
        ('series/["m","e"]', '{"metricID": "m", "entityID": "other"}'),
        ("series/m", '{"metricID": "m", "entityID": "e"}'),
        ('series/["m","e"]', '{"metricID": "m", "entityID": "e", "pod": "p"}'),
        ('series/["m","e"]', '{"metricID": "m", "entityID": "e", "pod": null}'),
        ('series/["m","e"]', '{"metricID": "m", "entityID": "e", "container": {"id": 7}}'),
        ('series/["m","e"]', '{"metricID": "m", "entityID": "e", "name": 7}'),
        ('series/["m","e"]', '{"metricID": "m", "entityID": "e", "minVal": "low"}'),
        (SITE, "no JSON"),
        # With these, the fabric, the policy or the plan of another site would fail.
        (SITE, '{"node": "n", "url": "no address"}'),
        ("worker/w", worker(name="other")),
        ("worker/w", worker(cores=-1)),
        ("enabler/all", '{"domain": "north", "url": "http://e:1"}'),
        ("link/b", '{"latency_ms": -5}'),
        ("link/b", '{"latency_ms": 1, "loss": 7}'),
        ("link/b", '{"latency_ms": 1, "bandwidth_mbps": 0}'),
        ("instability/w", '{"instability": -1, "at": 0}'),
        ("instability/w", '{"instability": 1, "at": -1}'),
        ("health", '{"instability": -1, "at": 0, "room": 9}'),
        ("health", "{}"),
        ("copies", '[{"id": 7}]'),
        ("copies", '[{"id": "a", "target": "b", "why": "", "since": 0, "filter": {"x": 1}}]'),
        ("replicas", "{}"),
        ("restrictions", '[{"stay_in": "north"}]'),
    ],
)
def test_malformed_fact_of_a_stolen_site_is_ignored(key: str, event: str) -> None:
    facts = Facts()
    facts.apply(key, event)
    assert dict(facts) == {}


def test_fact_of_a_later_version_is_kept() -> None:
    facts = Facts()
    facts.apply("worker/w", worker(colour="red"))
    assert list(facts) == ["worker/w"]
    facts.apply("worker/w", REMOVED)
    facts.apply("colour/w", '{"hue": 7}')
    facts.apply("link/b", '{"latency_ms": 1.5, "colour": "red"}')
    assert sorted(facts) == ["colour/w", "link/b"]


def test_number_and_size_of_the_facts_of_a_site_are_limited() -> None:
    facts = Facts()
    with capture_logs() as events:
        facts.apply("worker/large", worker(name="large", labels={"k": "a" * 2**20}))
        for number in range(1001):
            facts.apply(f"worker/w{number}", worker(name=f"w{number}"))
        for number in range(1001):
            facts.apply(f"later-{number}/x", "7")
        facts.apply("later", f'"{"a" * 2**16}"')
    assert facts.with_prefix("worker/") == sorted(f"worker/w{number}" for number in range(1000))
    assert len(facts.with_prefix("later")) == 1000
    assert [each["key"] for each in events if each["event"] == "fact_ignored"] == ["worker/large"]
    # A fact in the place of another one, present or removed, is not one more.
    facts.apply("worker/w1", worker(name="w1", cores_free=0))
    facts.apply("worker/w2", REMOVED)
    facts.apply("worker/w1000", worker(name="w1000"))
    assert '"cores_free":0' in facts["worker/w1"]
    assert "worker/w2" not in facts
    assert "worker/w1000" in facts
    assert not facts.accepts("worker/w2", worker(name="w2"))


def test_total_size_of_the_facts_of_a_site_is_limited() -> None:
    facts = Facts()
    labels = {"k": "a" * 60_000}
    for number in range(200):
        name = f"w{number}"
        facts.apply(f"worker/{name}", worker(name=name, labels=labels))
    assert 8 * 2**20 - 2**16 < sum(map(len, facts.values())) <= 8 * 2**20
    number = len(facts)
    facts.apply("worker/w0", worker(name="w0"))
    facts.apply("worker/w199", worker(name="w199", labels=labels))
    assert len(facts) == number + 1


def test_facts_of_a_large_honest_site_are_accepted() -> None:
    facts = Facts()
    labels = {f"label-{number}": "v" * 40 for number in range(64)}
    operators = [f"operator-{number} 1.0.{number}" for number in range(1000)]
    facts.apply("worker/w", worker(labels=labels, operators=operators))
    facts.apply("forgotten", encode_fact({f"a-removed-site-{n}": 2**41 for n in range(5000)}))
    restriction = {"match": {"entity": [f"entity-{n}" for n in range(1000)]}, "stay_in": ["a"]}
    facts.apply("restrictions", encode_fact([restriction] * 100))
    assert sorted(facts) == ["forgotten", "restrictions", "worker/w"]


def test_announcement_that_is_too_large_for_a_fact_is_refused() -> None:
    labels = {"k": "a" * 2**20}
    large = msgspec.json.decode(worker(labels=labels), type=Worker)
    with pytest.raises(InvalidRequestError, match=r"at most 65536 bytes are allowed: .* labels"):
        check_worker("w", large, on_loopback=False)
    enabler = Enabler(domain="all", url="http://e:1", sites=Selector(labels=labels))
    with pytest.raises(InvalidRequestError, match=r"at most 65536 bytes are allowed: .* labels"):
        check_enabler("all", enabler, on_loopback=False)


async def test_journal_rejects_a_fact_beyond_the_limit_once() -> None:
    journal = FactJournal(system_clock)
    for number in range(1000):
        journal.facts.apply(f"worker/w{number}", worker(name=f"w{number}"))
    with capture_logs() as events:
        journal.publish_event("worker/w1000", worker(name="w1000"))
        journal.publish_event("worker/w7", worker(name="w7", cores_free=0))
        changes = await journal._take_changes()
    assert changes.keys() == {"worker/w7"}
    assert [(each["event"], each["key"]) for each in events] == [("fact_rejected", "worker/w1000")]
    assert journal._published.keys() == {"worker/w7"}


def large_facts(count: int) -> dict[str, str]:
    """Return facts about series whose texts cannot be compressed, with 10 KB each."""
    found = {}
    for number in range(count):
        text = secrets.token_hex(2048)
        series = {"metricID": f"m{number}", "entityID": "e", "name": text, "desc": text[::-1]}
        found[series_key((f"m{number}", "e"))] = encode_fact(series)
    return found


def test_batches_of_facts_have_a_limited_size_and_number() -> None:
    large = large_facts(300)
    batches = list(fact_batches(large.items()))
    assert {key: event for batch in batches for key, event in batch.items()} == large
    assert max(sum(map(len, batch.values())) for batch in batches) <= 2**20
    assert [len(batch) for batch in fact_batches([("k", "x" * 2**21), ("l", "7")])] == [1, 1]
    small = ((str(number), "7") for number in range(2001))
    assert [len(batch) for batch in fact_batches(small)] == [1000, 1000, 1]


async def test_journal_stores_many_large_facts_and_rejects_one_that_is_too_large(
    ignite: IgniteServer, clock: ManualClock
) -> None:
    client = IgniteClient([("127.0.0.1", ignite.port)])
    client.start()
    assert await client.wait_connected(20)
    streams = Streams(client, clock, 0)
    journal = FactJournal(clock)
    await journal.open(streams)
    writing = asyncio.create_task(journal.run())
    try:
        large = large_facts(1000)
        for key, event in large.items():
            journal.publish_event(key, event)
        journal.publish_event("worker/w", worker())
        await journal.flush()
        entities = [[secrets.token_hex(250) for _ in range(1000)] for _ in range(16)]
        journal.publish("restrictions", [{"match": {"entity": e}, "stay_in": []} for e in entities])
        journal.publish_event("worker/v", worker(name="v"))
        with pytest.raises(TooLargeError), capture_logs() as events:
            await journal.flush()
        rejected = [each["key"] for each in events if each["event"] == "fact_rejected"]
        assert rejected == ["restrictions"]
        await journal.flush()
        stored = await read_facts(await streams.get(METADATA))
        assert dict(stored) == {**large, "worker/w": worker(), "worker/v": worker(name="v")}
    finally:
        await cancel_and_wait([writing])
        await streams.close()
        await client.close()
