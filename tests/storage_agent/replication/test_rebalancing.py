"""Copies that the policy makes for a hot series, a congested link, a fragile site, a full disk."""

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from mistbow.client import AgentClient, Point
from mistbow.clock import system_clock
from tests.storage_agent.replication.test_replicas import ask, points, stored
from tests.support.conditions import eventually
from tests.support.sites import AgentSite, site_of, wait_until_reached
from tests.support.slow_link import SlowLink

FAST: dict[str, Any] = {"replication_every_ms": 100}
RULES = [{"match": {"metric": ["pulse"]}, "stay_in": ["c"]}]
READS = 20
"""A number of reads that causes a copy only if the reads cross a bad link.

Reads across a bad link count more than other reads.
"""


def read(client: AgentClient, metric: str) -> list[tuple[str, list[float]]]:
    """Read a metric of the site a at an agent; return (entity, values) of each series."""
    body = {"nodes": ["a"], "metricID": metric, "latest": False}
    answer = ask(client, "POST", "/get", json=body)
    assert "missing" not in answer, answer
    [node] = answer["monitoring"]
    found = [(each["entityID"], [v["val"] for v in each["values"]]) for each in node["data"]]
    return sorted(found)


def read_often(client: AgentClient, metric: str, times: int) -> list[Any]:
    with ThreadPoolExecutor(8) as readers:
        return list(readers.map(lambda _: read(client, metric), range(times)))


def copies(client: AgentClient) -> set[tuple[str, str, str]]:
    """Return the copies of a site: (target, cause, copied metrics or ``*``) of each copy."""
    found = ask(client, "GET", "/replication")["copies"]
    return {(c["target"], c["cause"], ",".join(c["filter"].get("metric", "*"))) for c in found}


def complete(client: AgentClient) -> list[str]:
    """Return the names of an agent's streams that are complete replicas of the site a."""
    replicas = ask(client, "GET", "/replication")["replicas"]
    return [each["kept_in"] for each in replicas if each["of"] == "a" and each["complete"]]


@contextmanager
def read_all_the_time(client: AgentClient, expected: Any) -> Iterator[None]:
    """Read the points of ``cpu`` of the site a repeatedly during the ``with``.

    Raises ``AssertionError`` at the end if an answer was not as expected.
    """
    over = threading.Event()
    wrong: list[Any] = []

    def look() -> None:
        while not over.wait(0.2):
            try:
                if (found := read(client, "cpu")) != expected:
                    wrong.append(found)
            except AssertionError as error:
                wrong.append(error)

    reader = threading.Thread(target=look)
    reader.start()
    try:
        yield
    finally:
        over.set()
        reader.join()
    assert not wrong, wrong[:3]


def test_data_is_copied_to_insights_and_workers(places: list[AgentSite]) -> None:
    a, b, c = places
    with SlowLink(b.port) as link, c.agent(**FAST) as at_c:
        with b.agent(c, agent_url=link.url, **FAST) as at_b, a.agent(c, **FAST) as at_a:
            wait_until_reached(at_a, "b", "c")
            wait_until_reached(at_b, "a")
            wait_until_reached(at_c, "a")
            ask(at_a, "PUT", "/replication/restrictions", json=RULES)
            at_a.put([*points(0, 70), *points(0, 7, "mem"), *points(0, 7, "pulse")])
            expected = read(at_a, "cpu")
            with read_all_the_time(at_c, expected):
                # A hot series.
                assert read_often(at_c, "cpu", 50) == [expected] * 50
                eventually(lambda: ("c", "reads", "cpu") in copies(at_a))
                # A congested link; and what may not be there is not, however often it is read.
                for metric in ("mem", "pulse"):
                    read_often(at_b, metric, READS)
                link.delay_s = 0.06
                eventually(lambda: ("b", "reads", "mem") in copies(at_a))
                [copy] = [
                    e for e in ask(at_a, "GET", "/replication")["copies"] if e["target"] == "b"
                ]
                assert copy["why"].endswith("times a minute across a bad link")
                eventually(lambda: len(complete(at_b)) == 1)
                eventually(lambda: len(complete(at_c)) == 1)
                assert {row[0] for name in complete(at_b) for row in stored(at_b, name)} == {"mem"}
            link.delay_s = 0.0
        with a.agent(c, labels="battery=true", **FAST) as at_a:
            # A fragile site: all of it goes to where all of it may be.
            wait_until_reached(at_c, "a")
            at_a.put([Point("cpu", "e9", system_clock(), 9.0)])
            eventually(lambda: ("c", "fragility", "*") in copies(at_a))
            eventually(lambda: "replicas/a/raw" in complete(at_c))
            eventually(lambda: len(stored(at_c, "replicas/a/raw")) == 85)
        eventually(lambda: not site_of(at_c, "a").reachable)
        assert read(at_c, "cpu") == [*expected, ("e9", [9.0])]
        assert len(read(at_c, "pulse")) == 7


def test_history_is_offloaded_from_a_full_disk(places: list[AgentSite]) -> None:
    a, b, _ = places
    small = {"max_disk_mb": 1, "when_full": "refuse", "move_after_s": 1}
    chance = random.Random(5)  # noqa: S311 - the same each time, by design
    with b.agent(**FAST), a.agent(b, **FAST, **small) as at_a:
        wait_until_reached(at_a, "b")
        sent = 0
        while not copies(at_a):
            now = system_clock() - 60_000
            # Words that no two points share take the most room.
            words = ({"note": chance.randbytes(50).hex()} for _ in range(300))
            at_a.put([Point("cpu", "e", now + i, 1.0, labels=w) for i, w in enumerate(words)])
            sent += 300
        assert copies(at_a) == {("b", "disk", "*")}
        eventually(lambda: not stored(at_a, "raw"), what="all points have moved")
        assert sum(len(values) for _, values in read(at_a, "cpu")) == sent
