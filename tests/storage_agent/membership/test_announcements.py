"""Valid and invalid announcements of workers, and valid and invalid heartbeats of agents."""

import contextlib
from collections.abc import Callable
from typing import Any

import httpx
import msgspec
import pytest

from mistbow.client.agent import AgentClient
from mistbow.clock import system_clock
from mistbow.errors import ConflictError
from mistbow.fabric import Worker
from mistbow.failure_detector import Liveness
from mistbow.streams.schemas import METADATA
from storage_agent.membership import peers
from storage_agent.membership.heartbeat import Heartbeat, PeerReport
from storage_agent.membership.peers import Peers
from storage_agent.membership.worker_history import WorkerHistory
from storage_agent.membership.workers import Workers
from tests.storage_agent.membership.test_sites import current_facts, row, worker
from tests.support.conditions import eventually
from tests.support.sites import TOKEN, AgentSite, site_of, wait_until_reached


class ManualSeconds:
    """A monotonic clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_worker_is_listed_until_it_leaves_or_is_lost(places: list[AgentSite]) -> None:
    with places[0].agent() as client:
        client.announce(worker())
        client.announce(worker("w2"))
        assert site_of(client, "a").workers == (worker(), worker("w2"))
        eventually(lambda: {"worker/w1", "worker/w2"} <= current_facts(client, METADATA).keys())
        client.announce(worker(cores_free=1.0))
        eventually(lambda: current_facts(client, METADATA)["worker/w1"]["cores_free"] == 1.0)
        client.leave("w2")
        client.leave("w2")
        assert site_of(client, "a").workers == (worker(cores_free=1.0),)
        eventually(lambda: "worker/w2" not in current_facts(client, METADATA))
    with places[0].agent() as client:
        assert site_of(client, "a").workers == (worker(cores_free=1.0),)
        # The worker sends no announcements any more.
        eventually(lambda: site_of(client, "a").workers == ())
        eventually(lambda: "worker/w1" not in current_facts(client, METADATA))


def new_workers(seconds: ManualSeconds) -> tuple[Workers, WorkerHistory]:
    """Return the workers of the site ``a``, and their history, with the test's clock."""
    history = WorkerHistory(lambda: round(seconds.now * 1000))
    return Workers("a", seconds, history), history


def test_silent_worker_is_suspected_and_later_dead() -> None:
    seconds = ManualSeconds()
    workers, _ = new_workers(seconds)
    workers.restore([worker("w1"), worker("w2")])
    found = {}
    for second in range(1, 9):
        seconds.now += 1.0
        workers.announce(worker("w2"))
        for change in workers.check():
            found[second] = (change.worker.name, change.liveness)
    assert found == {3: ("w1", Liveness.SUSPECTED), 7: ("w1", Liveness.DEAD)}
    assert workers.all() == (worker("w2"),)


def test_suspected_worker_that_announces_itself_again_is_alive() -> None:
    seconds = ManualSeconds()
    workers, history = new_workers(seconds)
    workers.announce(worker())
    for _ in range(4):
        seconds.now += 1.0
        workers.check()
    assert [each.suspected for each in workers.all()] == [True]
    assert workers.announce(msgspec.structs.replace(worker(), suspected=True, reliability=0.0))
    assert workers.all() == (worker(),)
    assert not workers.announce(worker())
    assert history.reliability("w1") == 0.8


def test_reliability_falls_with_failures_and_recovers() -> None:
    seconds = ManualSeconds()
    workers, history = new_workers(seconds)
    assert history.reliability("w1") == 1.0
    workers.announce(started("1"))
    workers.announce(started("2"))
    assert history.reliability("w1") == 0.5
    stored = history.take_changes()
    assert history.take_changes() == {}
    seconds.now += 3600
    assert history.reliability("w1") == 0.67
    restored = WorkerHistory(lambda: round(seconds.now * 1000))
    restored.restore({name: fact for name, fact in stored.items() if fact is not None})
    assert restored.reliability("w1") == 0.67
    workers.remove("w1")
    workers.announce(started("3"))
    assert history.reliability("w1") == 0.67


def test_history_of_workers_is_bounded() -> None:
    history = WorkerHistory(lambda: 0)
    for number in range(1100):
        history.add(f"w{number}", 1.0 + number)
    facts = history.take_changes()
    assert sum(fact is not None for fact in facts.values()) == 1000
    assert facts["w0"] is None


def test_workers_survive_a_pause_of_the_agent() -> None:
    seconds = ManualSeconds()
    workers, _ = new_workers(seconds)
    workers.announce(worker())
    seconds.now += 60
    assert workers.check() == []
    assert workers.all() == (worker(),)


def started(instance: str, port: int = 8100) -> Worker:
    """Return the announcement of one start of the worker ``w1``."""
    return msgspec.structs.replace(worker(), url=f"http://127.0.0.1:{port}", instance=instance)


def test_second_live_worker_of_a_name_is_refused_until_the_first_is_suspected() -> None:
    seconds = ManualSeconds()
    workers, _ = new_workers(seconds)
    first, second = started("1", 8100), started("2", 8101)
    workers.announce(first)
    for _ in range(4):
        seconds.now += 1.0
        workers.announce(first)
        workers.check()
        with pytest.raises(
            ConflictError, match=r"w1 .* http://127.0.0.1:8100 .* site a"
        ) as refused:
            workers.announce(second)
        assert "MISTBOW_NODE" in (refused.value.hint or "")
    assert workers.all() == (first,)
    for _ in range(3):
        seconds.now += 1.0
        workers.check()
    workers.announce(second)
    assert workers.all() == (second,)


def test_worker_restarted_at_its_address_is_accepted_at_once() -> None:
    workers, _ = new_workers(ManualSeconds())
    for instance in ("1", "2", "3"):
        workers.announce(started(instance))
        assert workers.all() == (started(instance),)


def test_two_live_workers_with_one_address_do_not_take_turns() -> None:
    workers, _ = new_workers(ManualSeconds())
    workers.announce(started("1"))
    workers.announce(started("2"))
    with pytest.raises(ConflictError, match="announce the same address") as refused:
        workers.announce(started("1"))
    assert "MISTBOW_WORKER_URL" in (refused.value.hint or "")
    workers.announce(started("2"))


def test_older_worker_without_an_instance_is_accepted() -> None:
    workers, _ = new_workers(ManualSeconds())
    workers.announce(started("1", 8100))
    workers.announce(started("", 8101))
    assert workers.all() == (started("", 8101),)
    with pytest.raises(ConflictError, match=r"http://127.0.0.1:8101"):
        workers.announce(started("1", 8100))


def test_leaving_worker_does_not_remove_another_of_its_name(place: AgentSite) -> None:
    with contextlib.closing(AgentClient(place.url, TOKEN)) as client:
        client.announce(started("1"))
        client.leave("w1", "2")
        assert site_of(client, "a").workers == (started("1"),)
        client.leave("w1", "1")
        assert site_of(client, "a").workers == ()


def is_refused(client: AgentClient, announced: Worker) -> bool:
    """Announce a worker; return whether the agent refuses the name."""
    try:
        client.announce(announced)
    except ConflictError:
        return True
    return False


def test_worker_with_the_name_of_a_worker_at_another_site_is_refused(
    places: list[AgentSite],
) -> None:
    a, b, _ = places
    first, second = started("1", 8100), started("2", 8101)
    with a.agent(b) as at_a, b.agent(a) as at_b:
        wait_until_reached(at_a, "b")
        at_b.announce(first)
        eventually(lambda: not is_refused(at_b, first) and site_of(at_a, "b").workers == (first,))
        with pytest.raises(ConflictError, match=r"http://127.0.0.1:8100 at the site b"):
            at_a.announce(second)
        at_b.leave("w1", "1")
        eventually(lambda: not is_refused(at_a, second))
        assert site_of(at_a, "a").workers == (second,)


def test_of_two_sites_that_meet_the_first_one_keeps_the_name(places: list[AgentSite]) -> None:
    a, b, _ = places
    first, second = started("1", 8100), started("2", 8101)
    with a.agent() as at_a:
        at_a.announce(first)
        with b.agent(a) as at_b:
            # The worker at b may be accepted before b has the facts of a.
            eventually(lambda: not is_refused(at_a, first) and is_refused(at_b, second))
            eventually(lambda: not is_refused(at_a, first) and site_of(at_b, "b").workers == ())
            # On a busy machine, the worker may have been silent for longer than usual meanwhile.
            [worker] = site_of(at_a, "a").workers
            assert msgspec.structs.replace(worker, reliability=1.0, suspected=False) == first


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"cores": 0}, "cores: the number must be above 0"),
        ({"cores": -1}, "cores: the number must be finite and at least 0 (got -1.0)"),
        ({"cores_free": 3}, "cores_free: the number must be at most cores"),
        ({"memory_free_mb": 1e6}, "memory_free_mb: the number must be at most memory_mb"),
        ({"url": "ftp://x"}, "url: the address is not of the form"),
        ({"url": "http://h:99999"}, "url: the address is not of the form"),
        ({"name": "other"}, "name: the body must name w1"),
        ({"cores": "2"}, "cores: Expected `float`"),
        ({"labels": {"x": 1}}, "Expected `str`"),
        ({"instance": "i" * 65}, "instance: at most 64 characters"),
        ({"memory_mb": None}, "memory_mb: Expected `float`"),
    ],
)
def test_malformed_announcement_is_rejected(
    place: AgentSite, change: dict[str, Any], problem: str
) -> None:
    good = {
        "name": "w1",
        "url": "http://h:1",
        "cores": 2,
        "memory_mb": 100,
        "cores_free": 2,
        "memory_free_mb": 100,
    }
    assert _send("PUT", place, "/workers/w1", {**good, **change}) == (400, problem)


def test_malformed_heartbeat_is_rejected(place: AgentSite) -> None:
    good = {"site": "x", "node": "x", "url": "http://127.0.0.1:9", "instance": "i"}
    for change, problem in (
        ({"site": "A B"}, "'A B' is not a valid site name"),
        ({"site": "../x"}, "'../x' is not a valid site name"),
        ({"url": "x"}, "'x' is not an address"),
        ({"knows": [{**good, "reached": True, "site": "_"}]}, "'_' is not a valid site name"),
        ({"knows": 1}, "knows: Expected `array`"),
    ):
        assert _send("POST", place, "/fabric/greet", {**good, **change}) == (400, problem)
    taken = {**good, "site": "a"}
    assert _send("POST", place, "/fabric/greet", taken) == (409, "claims to be the site a")


@pytest.mark.parametrize(
    "path",
    [
        "/workers/w1?instnce=1",
        "/enablers/all?site=b",
        "/fabric/sites/b?force=true",
        "/replication/copies/1?targt=b",
        "/replication/replicas/b/1?dry_run=true",
        "/backups/1?dry_run=true",
    ],
)
def test_unknown_parameter_of_a_deletion_is_rejected(place: AgentSite, path: str) -> None:
    assert _send("DELETE", place, path, None) == (400, "this request has no such parameter")


def _send(method: str, place: AgentSite, path: str, body: Any) -> tuple[int, str]:
    """Send a request; return the status, and the error message as a ``_Message``."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    answer = httpx.request(method, place.url + path, json=body, headers=headers)
    return answer.status_code, _Message(answer.json()["error"]["message"])


class _Message(str):
    """A text that equals each of its parts, so that a test can compare it with a part."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and other in str(self)


@pytest.fixture
def place(places: list[AgentSite]) -> Any:
    with places[0].agent():
        yield places[0]


def test_request_without_the_token_is_rejected(place: AgentSite) -> None:
    for method, path in (
        ("GET", "/fabric"),
        ("POST", "/fabric/greet"),
        ("PUT", "/workers/w"),
        ("DELETE", "/workers/w"),
        ("GET", "/streams?site=b"),
    ):
        assert httpx.request(method, place.url + path).status_code == 401


def test_metadata_stream_rejects_other_writers(places: list[AgentSite]) -> None:
    with places[0].agent() as client:
        attempts: list[Callable[[str], Any]] = [
            client.claim,
            lambda name: client.append(name, row("x")),
            lambda name: client.advance(name, frontier=1),
        ]
        for name in (METADATA, "replicas/b/metadata"):
            for attempt in attempts:
                with pytest.raises(ConflictError, match="only the agent writes to"):
                    attempt(name)
        with pytest.raises(ConflictError, match="only the agent writes to"):
            client.create_stream("replicas/b/metadata", row("x").schema)


def test_second_agent_of_a_site_name_is_rejected(places: list[AgentSite]) -> None:
    a, b, c = places
    impostor = AgentSite("b", c.home, c.ignite_port, c.port)
    with a.agent(b) as at_a:
        with b.agent():
            eventually(lambda: site_of(at_a, "b").reachable)
            with impostor.agent(a) as at_impostor:
                heartbeat = Heartbeat(site="b", node="n", url=impostor.url, instance="other")
                with pytest.raises(AssertionError):
                    eventually(lambda: site_of(at_impostor, "a"), timeout=2.5)
                assert site_of(at_a, "b").url == b.url
                answer = httpx.post(
                    f"{a.url}/fabric/greet",
                    json={"site": "b", "node": "n", "url": heartbeat.url, "instance": "other"},
                    headers={"Authorization": f"Bearer {TOKEN}"},
                )
                assert answer.status_code == 409
                assert b.url in answer.json()["error"]["message"]
        # The first one is silent: now another agent may be that site.
        with impostor.agent(a):
            eventually(lambda: site_of(at_a, "b").url == impostor.url)
            eventually(lambda: site_of(at_a, "b").reachable)


def _peers(*seeds: str) -> Peers:
    own = Heartbeat(site="a", node="a", url="http://a", instance="1")
    return Peers(own, seeds, system_clock)


def _from(site: str, *peers: tuple[str, bool], url: str | None = None) -> Heartbeat:
    return Heartbeat(
        site=site,
        node=site,
        url=url or f"http://{site}",
        instance=site,
        peers=tuple(
            PeerReport(site=name, node=name, url=f"http://{name}", reached=reached)
            for name, reached in peers
        ),
    )


def test_next_hops_prefer_the_direct_link() -> None:
    known = _peers("http://seed")
    assert known.begin_round() == {"http://seed"}
    known.record_answer("http://seed", _from("b", ("c", True), ("d", False)), 4.0)
    # b answers at the seed; c and d are only heard of.
    assert known.begin_round() == {"http://seed", "http://c", "http://d"}
    assert [each.site for each in known.next_hops("c")] == ["b"]
    assert not known.reachable("d")
    known.record_answer("http://c", _from("c"), 8.0)
    assert [each.site for each in known.next_hops("c")] == ["c", "b"]
    known.record_failure("http://seed")
    assert [each.site for each in known.next_hops("c")] == ["c"]
    assert known.begin_round() == {"http://seed", "http://b", "http://c", "http://d"}


def test_number_of_reported_sites_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "MAX_SITES", 3)
    known = _peers("http://seed")
    known.record_answer("http://seed", _from("b", *((f"c{n}", True) for n in range(9))), 4.0)
    assert [each.site for each in known] == ["b", "c0", "c1"]
    # Other sites than those that are only reported are always added.
    known.record_answer("http://d", _from("d"), 4.0)
    assert known.reachable("d")


def test_latency_is_the_median_of_half_round_trips() -> None:
    known = _peers()
    for trip_ms in (None, 10.0, 400.0, 12.0):
        known.record_answer("http://b", _from("b"), trip_ms)
    assert [each.latency_ms for each in known] == [6.0]
    known.record_failure("http://b")
    assert [each.latency_ms for each in known] == [None]


def test_address_of_this_agent_or_of_another_site_is_recognized() -> None:
    known = _peers("http://me")
    known.record_answer(
        "http://me", Heartbeat(site="a", node="a", url="http://a", instance="1"), 1.0
    )
    assert known.begin_round() == set()
    known.record_answer("http://b", _from("b"), 1.0)
    known.record_answer("http://b", _from("c", url="http://b"), 1.0)
    assert not known.reachable("b")
    assert known.reachable("c")


def _peers_with_b(seconds: ManualSeconds) -> Peers:
    """Return peers with the time ``seconds``; b has answered, and a new round has begun."""
    own = Heartbeat(site="a", node="a", url="http://a", instance="1")
    known = Peers(own, (), system_clock, seconds)
    known.record_answer("http://b", _from("b"), 1.0)
    known.begin_round()
    return known


def test_late_answer_does_not_make_a_peer_unreachable() -> None:
    seconds = ManualSeconds()
    known = _peers_with_b(seconds)
    for _ in range(8):
        seconds.now += 0.25
        known.check_silence()
    known.record_failure("http://b", is_timeout=True)
    assert known.reachable("b")
    assert not known.check_silence()
    known.record_answer("http://b", _from("b"), 2000.0)
    assert known.answers("http://b")


def test_silent_peer_is_suspected_and_later_dead() -> None:
    seconds = ManualSeconds()
    known = _peers_with_b(seconds)
    found = {}
    for quarter in range(1, 40):
        seconds.now += 0.25
        if known.check_silence():
            peer = known.get("b")
            assert peer is not None
            found[quarter / 4] = (known.reachable("b"), peer.suspected)
    assert found == {2.75: (False, True), 6.75: (False, False)}
    known.record_answer("http://b", _from("b"), 1.0)
    assert known.reachable("b")


def test_peer_that_refuses_a_heartbeat_is_unreachable_at_once() -> None:
    known = _peers()
    known.record_answer("http://b", _from("b"), 1.0)
    known.record_failure("http://b")
    peer = known.get("b")
    assert peer is not None
    assert (known.reachable("b"), peer.suspected) == (False, True)


def test_heartbeat_of_anybody_adds_no_address() -> None:
    known = _peers("http://seed")
    stranger = _from("x", ("y", True))
    assert not known.receive_heartbeat(stranger, is_authenticated=False)
    assert known.begin_round() == {"http://seed"}
    # The seed is contacted at once; what it reports counts only in its own answers.
    seed = _from("b", ("y", True), url="http://seed")
    assert known.receive_heartbeat(seed, is_authenticated=False)
    assert known.begin_round() == {"http://seed"}
    known.record_answer("http://seed", seed, 1.0)
    assert known.begin_round() == {"http://seed", "http://y"}
    assert not known.receive_heartbeat(seed, is_authenticated=False)
    known.record_failure("http://seed")
    assert known.receive_heartbeat(seed, is_authenticated=False)
    moved = _from("y", url="http://elsewhere")
    assert not known.receive_heartbeat(moved, is_authenticated=False)
    assert known.receive_heartbeat(moved, is_authenticated=True)
    # The address that b reported is contacted, too, until y answers.
    assert known.begin_round() == {"http://seed", "http://elsewhere", "http://y"}
