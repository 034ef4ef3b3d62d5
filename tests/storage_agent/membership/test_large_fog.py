"""The agents of a large fog: heartbeats stay few and small, and all agents agree on who is lost.

The agents are real ``Peers``; the network between them is simulated.
"""

from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_agent.membership.heartbeat import Heartbeat, PeerReport
from storage_agent.membership.heartbeat_targets import (
    MAX_TARGETS,
    NEIGHBOURS,
    neighbours_of,
    select_links,
    select_targets,
)
from storage_agent.membership.peer_reports import MAX_CHANGES, PeerReports
from tests.support.simulated_fog import SimulatedFog

_SITES = 60


@pytest.fixture(scope="module")
def fog() -> SimulatedFog:
    fog = SimulatedFog([f"site-{number}" for number in range(_SITES)])
    fog.run_until(lambda: all(fog.reached_by(site) == set(fog.sites) for site in fog.sites))
    return fog


def test_every_site_finds_all_others_from_one_seed(fog: SimulatedFog) -> None:
    assert {len(list(fog.peers_of(site))) for site in fog.sites} == {_SITES - 1}


def test_heartbeats_of_a_quiet_fog_are_few_and_small(fog: SimulatedFog) -> None:
    fog.run(40)
    traffic = [fog.run(1) for _ in range(10)]
    assert max(each.messages for each in traffic) <= _SITES * MAX_TARGETS * 2
    heartbeat = Heartbeat(site="site-1", node="site-1", url="http://site-1", instance="1")
    assert max(each.largest for each in traffic) < 2 * len(msgspec.json.encode(heartbeat))


def test_only_few_peers_send_all_reports_while_a_fog_grows() -> None:
    fog = SimulatedFog([f"site-{number}" for number in range(_SITES)])
    fog.run(3)
    growing = fog.run(3)
    report = PeerReport(site="site-10", node="site-10", url="http://site-10", reached=True)
    everything = _SITES * len(msgspec.json.encode(report))
    assert growing.size / growing.messages < everything / 5


def test_peer_that_does_not_want_all_reports_gets_the_newest() -> None:
    reports, number = PeerReports(), 2 * MAX_CHANGES
    for count in range(number):
        site = f"s{count}"
        reports.set(PeerReport(site=site, node=site, url=f"http://{site}", reached=True))
    version = reports.version
    assert reports.after(0, wants_all=False) == (version, ())
    since, newest = reports.after(1, wants_all=False)
    assert (since, [each.site for each in newest]) == (
        version,
        [f"s{count}" for count in reversed(range(number - MAX_CHANGES, number))],
    )
    since, few = reports.after(version - 2, wants_all=False)
    assert (since, len(few)) == (version - 2, 2)
    assert len(reports.after(1, wants_all=True)[1]) == number - 1
    reports.remove("s1")
    assert reports.after(version, wants_all=True)[0] == 0


def test_all_peers_are_linked_again_after_a_fog_has_shrunk() -> None:
    fog = SimulatedFog([f"site-{number:02}" for number in range(MAX_TARGETS + 2)])
    everything = set(fog.sites)
    fog.run_until(lambda: all(fog.reached_by(site) == everything for site in everything))
    fog.run(10)
    lost = fog.sites[-1]
    fog.cut(lost)
    remaining = everything - {lost}
    fog.run_until(lambda: all(fog.reached_by(site) == remaining for site in remaining))
    fog.run(5)
    for site in remaining:
        fog.peers_of(site).forget({lost: 1})
    fog.run(5)
    for site in remaining:
        for peer in fog.peers_of(site):
            assert peer.linked_sites == remaining - {peer.site}


def test_peers_learn_that_a_forgotten_site_is_not_reached_any_more() -> None:
    fog = SimulatedFog(["a", "b", "c"])
    fog.run_until(lambda: all(fog.reached_by(site) == {"a", "b", "c"} for site in "abc"))
    fog.run(3)
    fog.cut("c")
    fog.peers_of("b").record_failure("http://c")
    fog.run(1)
    # So b has not heard this yet when the site is forgotten.
    fog.peers_of("a").record_failure("http://c")
    for site in "ab":
        fog.peers_of(site).forget({"c": 1})
    assert [peer.site for peer in fog.peers_of("a")] == ["b"]
    fog.run(3)
    peer = fog.peers_of("b").get("a")
    assert peer is not None
    assert peer.linked_sites == {"b"}


def test_lost_site_is_lost_everywhere_soon_and_comes_back(fog: SimulatedFog) -> None:
    lost = "site-7"
    others = set(fog.sites) - {lost}
    fog.cut(lost)
    rounds = fog.run_until(lambda: not any(lost in fog.reached_by(site) for site in others))
    assert rounds <= 10
    fog.heal(lost)
    everything = set(fog.sites)
    rounds = fog.run_until(lambda: all(fog.reached_by(site) == everything for site in fog.sites))
    assert rounds <= 40


def test_sites_are_reachable_exactly_if_they_have_a_next_hop(fog: SimulatedFog) -> None:
    everything = set(fog.sites)
    for change in (lambda: fog.cut("site-3"), lambda: fog.heal("site-3")):
        change()
        for _ in range(15):
            fog.run(1)
            for site in fog.sites[:5]:
                known = fog.peers_of(site)
                others = everything - {site}
                assert {one for one in others if known.reachable(one)} == {
                    one for one in others if known.next_hops(one)
                }


def test_restarted_site_gets_all_reports_again(fog: SimulatedFog) -> None:
    fog.restart("site-9")
    everything = set(fog.sites)
    rounds = fog.run_until(lambda: fog.reached_by("site-9") == everything)
    assert rounds <= 40


@given(st.sets(st.text("abcdef", min_size=1), max_size=40), st.sampled_from(["me", "a", "zz"]))
def test_every_site_has_as_many_watchers_as_neighbours(sites: set[str], own: str) -> None:
    everything = sites | {own}
    watchers = [one for one in everything if own in _neighbours(one, everything)]
    assert len(watchers) == min(NEIGHBOURS, len(everything) - 1)


def _neighbours(site: str, everything: Iterable[str]) -> list[str]:
    return neighbours_of(site, [each for each in everything if each != site])


@given(st.sets(st.integers(0, 999), max_size=100), st.data())
def test_all_peers_are_contacted_in_turn(numbers: set[int], data: st.DataObject) -> None:
    contacted = dict.fromkeys((f"s{number}" for number in numbers), 0)
    suspects = data.draw(st.sets(st.sampled_from(sorted(contacted)))) if contacted else set()
    for number in range(1, 2 + len(contacted) // (MAX_TARGETS - NEIGHBOURS - 4)):
        chosen = select_targets("own", contacted, suspects)
        assert len(chosen) == min(MAX_TARGETS, len(contacted))
        suspects -= chosen
        contacted.update(dict.fromkeys(chosen, number))
    assert all(contacted.values())


@given(
    st.dictionaries(
        st.integers(0, 999).map(str), st.none() | st.floats(0, 100), min_size=MAX_TARGETS + 1
    )
)
def test_published_links_are_few_and_change_little(latencies: dict[str, float | None]) -> None:
    first = select_links("own", latencies, ())
    assert set(neighbours_of("own", latencies)) <= first
    assert len(first) <= MAX_TARGETS
    nearest = sorted(latency for latency in latencies.values() if latency is not None)
    slower = {site: latency and latency * 1.01 for site, latency in latencies.items()}
    assert select_links("own", slower, first) >= first - set(neighbours_of("own", latencies))
    fastest = {site for site, latency in latencies.items() if latency in nearest[:1]}
    assert fastest & first or not nearest
