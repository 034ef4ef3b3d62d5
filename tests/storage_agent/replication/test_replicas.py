"""Replicas of real agents: restarts, kills, restrictions, and reads in place of the source."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pyarrow as pa
import pytest

from mistbow.client import AgentClient, Point
from mistbow.client.record_model import Record
from mistbow.clock import system_clock
from mistbow.errors import NotFoundError
from tests.support.conditions import eventually
from tests.support.services import Service
from tests.support.sites import TOKEN, AgentSite, site_of, wait_until_reached

HEADERS = {"Authorization": f"Bearer {TOKEN}"}
RAW = "replicas/a/raw"
CPU = {"metric": ["cpu"]}
FAST: dict[str, Any] = {"replication_every_ms": 100}
COLUMNS = ["metric", "entity", "attributes", "ts", "value"]


def ask(client: AgentClient, method: str, path: str, **more: Any) -> Any:
    """Send a request that must succeed; return the decoded JSON, or None for an empty answer."""
    answer = httpx.request(method, client.url + path, headers=HEADERS, timeout=30, **more)
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


def points(first: int, count: int, metric: str = "cpu", **more: Any) -> list[Point]:
    now = system_clock() - 100_000
    return [
        Point(metric, f"e{i % 7}", now + i, float(i), **more) for i in range(first, first + count)
    ]


def stored(client: AgentClient, stream: str) -> list[tuple[Any, ...]]:
    assert stream in {each.name for each in client.streams()}
    table = client.read(stream).table
    # Those of one commit change places in a merge.
    return sorted(zip(*(table[name].to_pylist() for name in COLUMNS), strict=True))


def copied(client: AgentClient, target: str, **more: Any) -> str:
    copy = ask(client, "PUT", "/replication", json={"target": target, **more})
    return str(copy["id"])


def declared(client: AgentClient) -> Any:
    return ask(client, "GET", "/replication/restrictions")["declared"]


def replica(client: AgentClient, of: str = "a") -> dict[str, Any]:
    """Return the only replica of a site at an agent.

    Raises ``AssertionError`` until the replica is complete.
    """
    found = [each for each in ask(client, "GET", "/replication")["replicas"] if each["of"] == of]
    assert [each["complete"] for each in found] == [True], found
    return dict(found[0])


def held_at(client: AgentClient, site: str) -> bool:
    """Return whether an agent has the fact that ``site`` stores a complete replica."""
    replicas = ask(client, "GET", "/replication")["elsewhere"].get(site, [])
    return any(each.get("complete") for each in replicas)


def same(at_a: AgentClient, at_b: AgentClient) -> bool:
    return stored(at_b, RAW) == stored(at_a, "raw")


def test_replica_continues_after_restarts_of_both_ends(places: list[AgentSite]) -> None:
    a, b, _ = places
    with ExitStack() as stack:
        at_a = stack.enter_context(a.agent())
        with b.agent(a) as at_b:
            wait_until_reached(at_a, "b")
            at_a.put(points(0, 500, units="percent"))
            copied(at_a, "b")
            eventually(lambda: same(at_a, at_b), what="all rows are copied")
        at_a.put(points(500, 500))
        with b.agent(a) as at_b:
            eventually(lambda: same(at_a, at_b), what="what came meanwhile is copied")
            stack.close()
            with a.agent(b) as at_a:
                at_a.put(points(1000, 500))
                eventually(lambda: same(at_a, at_b), what="the source was restarted")
                assert len(stored(at_b, RAW)) == 1500
                copy_id = replica(at_b)["id"]
                assert replica(at_b)["stale_ms"] < 10_000
                ask(at_a, "DELETE", f"/replication/copies/{copy_id}")
                eventually(lambda: not ask(at_b, "GET", "/replication")["replicas"])


def test_killed_target_stores_each_row_once(places: list[AgentSite]) -> None:
    a, b, _ = places
    target = Service("storage_agent", b.port, {**b.settings(a), "agent_port": b.port})
    with a.agent() as at_a:
        at_a.put(points(0, 100))
        target.start(ready=False)
        eventually(lambda: site_of(at_a, "b").reachable)
        copied(at_a, "b")
        try:
            at_b = AgentClient(b.url, TOKEN)
            for kill in range(2):
                before = 100 + kill * 2000
                for begin in range(before, before + 2000, 100):
                    at_a.put(points(begin, 100))
                eventually(lambda: len(stored(at_b, RAW)) > before)  # noqa: B023
                rules = [{"match": {"group": [f"g{kill}"]}, "stay_in": ["b"]}]
                ask(at_b, "PUT", "/replication/restrictions", json=rules)
                target.kill()
                target.start(ready=False)
                eventually(lambda: declared(at_b) == rules, what="what is answered is stored")  # noqa: B023
            eventually(lambda: same(at_a, at_b), what="all rows are copied")
        finally:
            target.kill()


@pytest.fixture
def three(places: list[AgentSite]) -> Iterator[tuple[ExitStack, list[AgentClient]]]:
    """Start the sites a, b and c; yield an exit stack that stops a, and a client of each site."""
    a, b, c = places
    with b.agent() as at_b, c.agent(b) as at_c, ExitStack() as stack:
        at_a = stack.enter_context(a.agent(b))
        for client in (at_a, at_b, at_c):
            wait_until_reached(client, *({"a", "b", "c"} - {client.fabric().site}))
        yield stack, [at_a, at_b, at_c]


def test_reads_of_an_unreachable_site_fail_over(three: tuple[ExitStack, list[AgentClient]]) -> None:
    stack, (at_a, at_b, at_c) = three
    at_a.put(points(0, 700, group="load"))
    at_a.put([Point("mem", "e0", system_clock(), 1.0)])
    copied(at_a, "b", filter=CPU)
    eventually(lambda: replica(at_b)["rows"] == 700)
    eventually(lambda: held_at(at_c, "b"), what="c has that fact")
    whole = {"metricID": ["cpu"], "nodes": ["a"], "latest": False}
    [straight] = ask(at_c, "POST", "/get", json=whole)["monitoring"]
    assert "stale_ms" not in straight
    eventually(lambda: "mem" in str(at_c.read("replicas/a/metadata").table["key"].to_pylist()))
    stack.close()
    eventually(lambda: not site_of(at_c, "a").reachable)
    for client in (at_b, at_c):
        answer = ask(client, "POST", "/get", json=whole)
        [instead] = answer["monitoring"]
        assert instead["data"] == straight["data"]
        assert (instead["node"], instead["from"]) == ("node-a", "b")
        assert 0 < instead["stale_ms"] < 60_000
        assert "missing" not in answer
    latest = ask(at_c, "POST", "/get", json={"nodes": ["a", "b"], "groupName": "load"})
    of_a = next(each for each in latest["monitoring"] if each["node"] == "node-a")
    values = {item["entityID"]: item["values"] for item in of_a["data"]}
    assert {entity: len(found) for entity, found in values.items()} == {
        f"e{i}": 1 for i in range(7)
    }
    assert values["e6"][0]["val"] == 699 - (699 - 6) % 7
    values = [value["val"] for item in straight["data"] for value in item["values"]]
    for agg, value in (("sum", sum(values)), ("avg", sum(values) / 700), ("max", 699.0)):
        for client in (at_b, at_c):
            answer = ask(client, "POST", "/query", json={**whole, "agg": agg})
            [source] = answer.pop("replicas")
            assert (source["node"], source["from"]) == ("node-a", "b")
            assert 0 < source["stale_ms"] < 60_000
            assert answer == {"value": pytest.approx(value)}
    listed = ask(at_c, "POST", "/list", json={"nodes": ["a"], "fields": ["group"]})
    assert len(listed["metric"]) == 8
    [source] = listed["replicas"]
    assert (source["node"], source["from"]) == ("node-a", "c")
    assert 0 <= source["stale_ms"] < 60_000
    everything = ask(at_c, "POST", "/get", json={"nodes": ["a"]})
    assert len(everything["monitoring"][0]["data"]) == 7
    [missing] = everything["missing"]
    nothing = ask(at_c, "POST", "/get", json={"nodes": ["a"], "metricID": "mem"})
    assert nothing == {"monitoring": [], "missing": [missing]}
    query = {"nodes": ["a"], "metricID": "mem", "agg": "max"}
    assert ask(at_c, "POST", "/query", json=query) == {"value": None, "missing": [missing]}
    assert "the site a has not answered since" in missing["reason"]
    assert "no replica at a reachable site has mem of e0" in missing["reason"]


def test_promql_of_an_unreachable_site_fails_over(
    three: tuple[ExitStack, list[AgentClient]],
) -> None:
    stack, (at_a, at_b, at_c) = three
    at_a.put([*points(0, 700, labels={"line": "7"}), Point("mem", "e0", system_clock(), 1.0)])
    copied(at_a, "b", filter=CPU)
    eventually(lambda: replica(at_b)["rows"] == 700)
    eventually(lambda: held_at(at_c, "b"), what="c has that fact")
    eventually(lambda: "mem" in str(at_c.read("replicas/a/metadata").table["key"].to_pylist()))

    def answer(client: AgentClient, query: str, path: str = "query", **more: str) -> Any:
        asked = {"query": query, "time": str(time), **more}
        return ask(client, "POST", f"/api/v1/{path}?site=a", data=asked)

    time = system_clock() / 1000
    query = "sum by (line, node) (sum_over_time(cpu[1h]))"
    there = answer(at_c, query)
    assert there["data"]["result"][0]["metric"] == {"line": "7", "node": "node-a"}
    assert "warnings" not in there
    stack.close()
    eventually(lambda: not site_of(at_c, "a").reachable)
    for client in (at_b, at_c):
        instead = answer(client, query)
        assert instead["data"] == there["data"]
        [late] = instead.get("warnings", [""])
        assert not late or "points of cpu of e" in late
    lacking = answer(at_c, '{__name__=~"cpu|mem"}')
    assert len(lacking["data"]["result"]) == 7
    warnings = " ".join(lacking["warnings"])
    assert "the site a has not answered since" in warnings
    assert "no replica at a reachable site has mem of e0" in warnings
    assert "the results of its insights are missing" in warnings
    series = answer(at_c, "", "series", **{"match[]": "mem"})
    assert [(each["entityID"], each["node"]) for each in series["data"]] == [("e0", "node-a")]
    assert series["warnings"]


def test_nearby_replica_answers_for_the_past(
    three: tuple[ExitStack, list[AgentClient]],
) -> None:
    _, (at_a, at_b, _) = three
    at_a.put(points(0, 70))
    copied(at_a, "b")
    eventually(lambda: replica(at_b)["rows"] == 70)
    end = system_clock() - 90_000
    past = {"nodes": ["a"], "from": 0, "to": end}
    [answer] = eventually(
        lambda: [
            each
            for each in ask(at_b, "POST", "/get", json=past)["monitoring"]
            if each.get("from") == "b"
        ]
    )
    assert sum(len(item["values"]) for item in answer["data"]) == 70
    [latest] = ask(at_b, "POST", "/get", json={"nodes": ["a"]})["monitoring"]
    assert "from" not in latest
    [latest] = ask(at_b, "POST", "/get", json={"nodes": ["a"], "max_stale_ms": 60_000})[
        "monitoring"
    ]
    assert latest["from"] == "b"


def test_deletion_is_applied_to_replicas(
    three: tuple[ExitStack, list[AgentClient]],
) -> None:
    _, (at_a, at_b, _) = three
    at_a.put(points(0, 70))
    copied(at_a, "b")
    eventually(lambda: replica(at_b)["rows"] == 70)
    at_a.delete(entity="e1")
    again = points(1, 1)
    at_a.put(again)
    eventually(lambda: same(at_a, at_b), what="what was put after the deletion stays")
    assert len(stored(at_b, RAW)) == 61

    def is_received() -> bool:
        [fact] = ask(at_a, "GET", "/replication")["elsewhere"]["b"]
        return bool(fact.get("deleted") == 1)

    eventually(is_received, what="a need not remember the deletion for b")


def test_recreated_stream_has_a_replica_of_its_own(
    three: tuple[ExitStack, list[AgentClient]],
) -> None:
    _, (at_a, at_b, _) = three
    fields = [("metric", pa.string()), ("ts", pa.int64())]
    for rows in ([["old", 1], ["old", 2], ["old", 3]], [["new", 4]]):
        at_a.create_stream("notes", pa.schema(fields))
        columns = [list(column) for column in zip(*rows, strict=True)]
        at_a.append("notes", pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)))
        if rows[0][0] == "old":
            copied(at_a, "b", stream="notes")

        def is_there(rows: list[list[Any]] = rows) -> bool:
            try:
                table = at_b.read(replica(at_b)["kept_in"]).table
            except NotFoundError:  # the one of the old stream was dropped between these two
                return False
            return [list(row.values()) for row in table.to_pylist()] == rows

        eventually(is_there, what="the rows of this one, and no others, are there")
        ask(at_a, "DELETE", "/streams/notes")


def test_source_enforces_restrictions(
    three: tuple[ExitStack, list[AgentClient]],
) -> None:
    _, (at_a, at_b, _) = three
    secret = Point("pulse", "bed-1", system_clock(), 60.0, group="patients")
    at_a.put([secret, *points(0, 10), *points(10, 5, labels={"ward": "7"})])
    # The group was declared once only; points without it belong to it too.
    at_a.put([Point("pulse", "bed-1", system_clock(), 61.0)])
    rules = [
        {"match": {"group": ["patients"]}, "stay_in": ["elsewhere"]},
        {"match": {"labels": {"ward": ["7"]}}, "stay_in": ["elsewhere", "c"]},
    ]
    ask(at_a, "PUT", "/replication/restrictions", json=rules)
    refused = httpx.put(
        at_a.url + "/replication",
        json={"target": "b", "filter": {"group": ["patients"]}},
        headers=HEADERS,
    )
    assert refused.status_code == 409
    assert "patients" in refused.json()["error"]["message"]
    copy_id = copied(at_a, "b")
    eventually(lambda: replica(at_b)["rows"] == 10)
    assert replica(at_b)["kept_in"] == f"{RAW}/{copy_id}"
    assert {value for *_, value in stored(at_b, f"{RAW}/{copy_id}")} == set(map(float, range(10)))
    # Who may not have it does not get it by asking either.
    feed = {"target": "b", "id": "0123456789ab", "from": 0}
    answer = httpx.get(at_a.url + "/replication/feed", params=feed, headers=HEADERS)
    assert answer.status_code == 409
    ask(at_a, "PUT", "/replication/restrictions", json=rules[:1])
    eventually(lambda: replica(at_b)["rows"] == 15, what="what may go now is copied")
    ask(at_a, "PUT", "/replication/restrictions", json=[])
    eventually(lambda: same(at_a, at_b), what="now all of it is")


def test_frequently_read_series_is_copied_and_read_there(places: list[AgentSite]) -> None:
    a, b, _ = places
    with a.agent(**FAST) as at_a, b.agent(a, **FAST) as at_b:
        wait_until_reached(at_b, "a")
        at_a.put(points(0, 7))
        at_a.put([Point("mem", "e0", system_clock(), 1.0)])
        for _ in range(60):
            ask(at_b, "POST", "/get", json={"nodes": ["a"], "metricID": ["cpu"]})
        assert eventually(lambda: replica(at_b)["rows"]) == 7
        [copy] = ask(at_a, "GET", "/replication")["copies"]
        assert copy["filter"] == CPU
        assert "b reads this" in copy["why"]


def test_fragile_site_is_copied_to_another_target_when_the_first_is_gone(
    places: list[AgentSite],
) -> None:
    a, b, c = places
    with a.agent(labels="battery=true", **FAST) as at_a, c.agent(a, **FAST) as at_c:
        wait_until_reached(at_a, "c")
        with b.agent(a, **FAST):
            at_a.put(points(0, 10))
            first = eventually(lambda: ask(at_a, "GET", "/replication")["copies"])
            assert [copy["why"] for copy in first] == ["a is fragile"]
        if first[0]["target"] == "b":
            eventually(lambda: len(ask(at_a, "GET", "/replication")["copies"]) == 2)
        eventually(lambda: same(at_a, at_c))
        at_a.records.put("application", [Record("door", "open", system_clock())])
        name = "records/application"
        replica_name = f"replicas/a/{name}"
        eventually(lambda: replica_name in {each.name for each in at_c.streams()})
        there = at_a.read(name).table.to_pylist()
        eventually(lambda: at_c.read(replica_name).table.to_pylist() == there)


REFUSED: list[tuple[str, Any, str]] = [
    ("", {"target": "nowhere"}, "target: nowhere is not another site"),
    ("", {"target": "a"}, "target: a is not another site"),
    ("", {"target": "b", "stream": "metadata"}, "stream: copies of metadata cannot"),
    (
        "",
        {"target": "a", "stream": "metadata"},
        "target: a is not another site; stream: copies of metadata cannot",
    ),
    ("", {"target": "b", "filter": {"metrics": ["x"]}}, "unknown field `metrics`"),
    ("", {"target": "b", "filter": {"metric": "x"}}, "filter.metric: Expected `array`"),
    ("/restrictions", [{"match": {}}], "missing required field `stay_in`"),
    ("/restrictions", {}, "restrictions: Expected `array`"),
]


def test_impossible_copy_is_rejected(three: tuple[ExitStack, list[AgentClient]]) -> None:
    at_a = three[1][0]
    for path, body, message in REFUSED:
        answer = httpx.put(f"{at_a.url}/replication{path}", json=body, headers=HEADERS)
        assert answer.status_code == 400
        assert message in answer.json()["error"]["message"]
        assert answer.json()["error"]["hint"]
