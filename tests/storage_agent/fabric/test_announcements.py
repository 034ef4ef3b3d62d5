"""Workers that announce themselves, agents that greet, and what neither can mean."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from mistbow.clock import system_clock
from mistbow.errors import ConflictError
from mistbow.streams.schemas import METADATA
from storage_agent.fabric.greeting import Greeting, Known
from storage_agent.fabric.neighbours import Neighbours
from storage_agent.fabric.workers import Workers
from tests.storage_agent.fabric.test_sites import row, said, worker
from tests.support.sites import TOKEN, Place, site_of
from tests.support.waiting import eventually


class HeldSeconds:
    """A monotonic clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_workers_life_and_death(places: list[Place]) -> None:
    with places[0].agent() as client:
        client.announce(worker())
        client.announce(worker("w2"))
        assert site_of(client, "a").workers == (worker(), worker("w2"))
        eventually(lambda: {"worker/w1", "worker/w2"} <= said(client, METADATA).keys())
        client.announce(worker(cores_free=1.0))
        eventually(lambda: said(client, METADATA)["worker/w1"]["cores_free"] == 1.0)
        client.leave("w2")
        client.leave("w2")
        assert site_of(client, "a").workers == (worker(cores_free=1.0),)
        eventually(lambda: "worker/w2" not in said(client, METADATA))
    with places[0].agent() as client:
        assert site_of(client, "a").workers == (worker(cores_free=1.0),)
        # Nobody hears it any more.
        eventually(lambda: site_of(client, "a").workers == ())
        eventually(lambda: "worker/w1" not in said(client, METADATA))


def test_who_is_not_heard_for_three_seconds_is_dead() -> None:
    seconds = HeldSeconds()
    workers = Workers(seconds)
    workers.recall([worker("w1"), worker("w2")])
    died = []
    for _ in range(4):
        seconds.now += 1.0
        workers.hear(worker("w2"))
        died.append(workers.expire())
    assert died == [[], [], [], ["w1"]]
    assert workers.alive() == (worker("w2"),)


def test_a_process_that_stood_still_gives_workers_time() -> None:
    seconds = HeldSeconds()
    workers = Workers(seconds)
    workers.hear(worker())
    seconds.now += 60
    assert workers.expire() == []
    assert workers.alive() == (worker(),)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"cores": 0}, "cores: a worker has some"),
        ({"cores": -1}, "cores: -1.0 is no amount"),
        ({"cores_free": 3}, "cores_free: more than cores"),
        ({"memory_free_mb": 1e6}, "memory_free_mb: more than memory_mb"),
        ({"url": "ftp://x"}, "url: it is not of the form"),
        ({"url": "http://h:99999"}, "url: it is not of the form"),
        ({"name": "other"}, "name: it is not w1"),
        ({"cores": "2"}, "cores: Expected `float`"),
        ({"labels": {"x": 1}}, "Expected `str`"),
        ({"memory_mb": None}, "memory_mb: Expected `float`"),
    ],
)
def test_bad_announcements(place: Place, change: dict[str, Any], problem: str) -> None:
    good = {
        "name": "w1",
        "url": "http://h:1",
        "cores": 2,
        "memory_mb": 100,
        "cores_free": 2,
        "memory_free_mb": 100,
    }
    assert _send("PUT", place, "/workers/w1", {**good, **change}) == (400, problem)


def test_bad_greetings(place: Place) -> None:
    good = {"site": "x", "node": "x", "url": "http://127.0.0.1:9", "instance": "i"}
    for change, problem in (
        ({"site": "A B"}, "'A B' is no name of a site"),
        ({"site": "../x"}, "'../x' is no name of a site"),
        ({"url": "x"}, "'x' is no address"),
        ({"knows": [{**good, "reached": True, "site": "_"}]}, "'_' is no name"),
        ({"knows": 1}, "knows: Expected `array`"),
    ):
        assert _send("POST", place, "/fabric/greet", {**good, **change}) == (400, problem)
    taken = {**good, "site": "a"}
    assert _send("POST", place, "/fabric/greet", taken) == (409, "claims to be the site a")


def _send(method: str, place: Place, path: str, body: Any) -> tuple[int, str]:
    """Return the status, and what of the expected problem the message holds: see ``_Message``."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    answer = httpx.request(method, place.url + path, json=body, headers=headers)
    return answer.status_code, _Message(answer.json()["error"]["message"])


class _Message(str):
    """Equal to every part of itself."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and other in str(self)


@pytest.fixture
def place(places: list[Place]) -> Any:
    with places[0].agent():
        yield places[0]


def test_nothing_answers_without_the_token(place: Place) -> None:
    for method, path in (
        ("GET", "/fabric"),
        ("POST", "/fabric/greet"),
        ("PUT", "/workers/w"),
        ("DELETE", "/workers/w"),
        ("GET", "/streams?site=b"),
    ):
        assert httpx.request(method, place.url + path).status_code == 401


def test_what_the_agent_tells_nobody_else_writes(places: list[Place]) -> None:
    with places[0].agent() as client:
        attempts: list[Callable[[str], Any]] = [
            client.claim,
            lambda name: client.append(name, row("x")),
            lambda name: client.advance(name, frontier=1),
        ]
        for name in (METADATA, "replicas/b/metadata"):
            for attempt in attempts:
                with pytest.raises(ConflictError, match="belongs to this agent"):
                    attempt(name)
        with pytest.raises(ConflictError, match="belongs to this agent"):
            client.create_stream("replicas/b/metadata", row("x").schema)


def test_two_agents_of_one_name(places: list[Place]) -> None:
    a, b, c = places
    impostor = Place("b", c.home, c.ignite_port, c.port)
    with a.agent(b) as at_a:
        with b.agent():
            eventually(lambda: site_of(at_a, "b").reachable)
            with impostor.agent(a) as at_impostor:
                greeting = Greeting(site="b", node="n", url=impostor.url, instance="other")
                with pytest.raises(AssertionError):
                    eventually(lambda: site_of(at_impostor, "a"), timeout=2.5)
                assert site_of(at_a, "b").url == b.url
                answer = httpx.post(
                    f"{a.url}/fabric/greet",
                    json={"site": "b", "node": "n", "url": greeting.url, "instance": "other"},
                    headers={"Authorization": f"Bearer {TOKEN}"},
                )
                assert answer.status_code == 409
                assert b.url in answer.json()["error"]["message"]
        # The first one is silent: now another agent may be that site.
        with impostor.agent(a):
            eventually(lambda: site_of(at_a, "b").url == impostor.url)
            eventually(lambda: site_of(at_a, "b").reachable)


def _neighbours(*seeds: str) -> Neighbours:
    own = Greeting(site="a", node="a", url="http://a", instance="1")
    return Neighbours(own, seeds, system_clock)


def _from(site: str, *knows: tuple[str, bool], url: str | None = None) -> Greeting:
    return Greeting(
        site=site,
        node=site,
        url=url or f"http://{site}",
        instance=site,
        knows=tuple(
            Known(site=name, node=name, url=f"http://{name}", reached=reached)
            for name, reached in knows
        ),
    )


def test_the_way_to_a_site() -> None:
    known = _neighbours("http://seed")
    assert known.addresses() == {"http://seed"}
    known.answered("http://seed", _from("b", ("c", True), ("d", False)), 4.0)
    # b answers at the seed; c and d are only heard of.
    assert known.addresses() == {"http://seed", "http://c", "http://d"}
    assert [each.site for each in known.ways("c")] == ["b"]
    assert not known.reachable("d")
    known.answered("http://c", _from("c"), 8.0)
    assert [each.site for each in known.ways("c")] == ["c", "b"]
    known.failed("http://seed")
    assert [each.site for each in known.ways("c")] == ["c"]
    assert known.addresses() == {"http://seed", "http://b", "http://c", "http://d"}


def test_latency_is_the_median_of_half_round_trips() -> None:
    known = _neighbours()
    for trip_ms in (None, 10.0, 400.0, 12.0):
        known.answered("http://b", _from("b"), trip_ms)
    assert [each.latency_ms for each in known] == [6.0]
    known.failed("http://b")
    assert [each.latency_ms for each in known] == [None]


def test_an_address_that_is_this_agent_or_another_one_now() -> None:
    known = _neighbours("http://me")
    known.answered("http://me", Greeting(site="a", node="a", url="http://a", instance="1"), 1.0)
    assert known.addresses() == set()
    known.answered("http://b", _from("b"), 1.0)
    known.answered("http://b", _from("c", url="http://b"), 1.0)
    assert not known.reachable("b")
    assert known.reachable("c")
