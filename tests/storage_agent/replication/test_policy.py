"""What the built-in policy decides, from made-up fogs."""

from dataclasses import replace
from typing import Any

import pytest

from mistbow.errors import InvalidRequestError
from storage_agent.replication.filters import EVERYTHING, SeriesFilter
from storage_agent.replication.fragile_first import KEEP, LEAST_AGE_MS, START, FragileFirst
from storage_agent.replication.policy import load
from storage_agent.replication.told import Copy, Rule
from storage_agent.replication.view import Decision, Read, SiteView, View

NOW = 1_800_000_000_000
CPU = SeriesFilter(metric=("cpu",))
PLENTY = 10 * 2**30


def site(name: str, **more: Any) -> SiteView:
    return SiteView(name, **{"latency_ms": 5.0, "usual_ms": 5.0, "room": PLENTY, **more})


def view(*others: SiteView, **more: Any) -> View:
    return View(**{"now": NOW, "here": site("a"), "others": others, **more})


def copy(target: str, wanted: SeriesFilter = EVERYTHING, **more: Any) -> Copy:
    return Copy(**{"id": "1", "target": target, "filter": wanted, "why": "", "since": 0, **more})


def decided(seen: View) -> dict[str, list[SeriesFilter]]:
    found: dict[str, list[SeriesFilter]] = {}
    for decision in FragileFirst().decide(seen):
        found.setdefault(decision.target, []).append(decision.filter)
    return found


def after(seen: View, decisions: tuple[Decision, ...]) -> View:
    """Return the view once what was decided is done."""
    made = tuple(copy(each.target, each.filter, since=seen.now) for each in decisions)
    return replace(seen, copies=made)


def test_a_calm_fog_is_left_alone() -> None:
    assert decided(view(site("b"), site("c"))) == {}


@pytest.mark.parametrize("here", [{"labels": {"battery": "true"}}, {"stability": 0.3}])
def test_a_fragile_site_is_copied_to_the_best_place(here: dict[str, Any]) -> None:
    near = site("near")
    others = [
        site("far", latency_ms=80.0),
        site("shaky", latency_ms=1.0, stability=0.45),
        site("full", latency_ms=1.0, room=2**29),
        site("silent", latency_ms=1.0, reachable=False),
        site("unknown", latency_ms=1.0, room=None),
    ]
    assert decided(view(near, *others, here=site("a", **here))) == {"near": [EVERYTHING]}


def test_a_place_is_kept_until_it_is_bad() -> None:
    fragile = site("a", stability=0.3)
    there = (copy("b"),)
    better = site("c", latency_ms=1.0)
    for b in (site("b", latency_ms=90.0), site("b", stability=0.35), site("b", room=0)):
        assert decided(view(b, better, here=fragile, copies=there)) == {"b": [EVERYTHING]}
    gone_bad = site("b", stability=0.2)
    assert decided(view(gone_bad, better, here=fragile, copies=there)) == {"c": [EVERYTHING]}
    silent = site("b", reachable=False)
    both = {"b": [EVERYTHING], "c": [EVERYTHING]}
    assert decided(view(silent, better, here=fragile, copies=there)) == both
    # Once the first is back, the second has done its work.
    two = (copy("b", since=1), copy("c", since=2))
    back = decided(view(site("b"), better, here=fragile, copies=two))
    assert back == {"b": [EVERYTHING]}


def test_what_is_fragile_stays_so_for_a_while() -> None:
    recovering = site("a", stability=0.5)
    assert decided(view(site("b"), here=recovering)) == {}
    assert decided(view(site("b"), here=recovering, copies=(copy("b"),))) == {"b": [EVERYTHING]}


def test_a_hot_series_is_copied_to_who_reads_it() -> None:
    rarely = Read("c", CPU, START - 1)
    often = Read("b", CPU, START + 1)
    own = Read("a", CPU, 1000.0)
    assert decided(view(site("b"), site("c"), reads=(often, rarely, own))) == {"b": [CPU]}


@pytest.mark.parametrize(
    "link",
    [
        {"latency_ms": 60.0, "usual_ms": 60.0},
        {"latency_ms": 30.0, "usual_ms": 4.0},
        {"losses": 2.0},
        {"latency_ms": None, "usual_ms": None},
    ],
    ids=["slow", "congested", "lossy", "through another"],
)
def test_a_bad_link_makes_rarer_reads_worth_a_copy(link: dict[str, Any]) -> None:
    reads = (Read("b", CPU, START / 3),)
    assert decided(view(site("b"), reads=reads)) == {}
    assert decided(view(site("b", **link), reads=reads)) == {"b": [CPU]}


def test_decisions_do_not_flap() -> None:
    first = view(site("b"), reads=(Read("b", CPU, START + 1),))
    running = after(first, FragileFirst().decide(first))
    old = replace(running, now=NOW + LEAST_AGE_MS)
    between = (Read("b", CPU, (START + KEEP) / 2),)
    assert decided(replace(old, reads=between)) == {"b": [CPU]}
    below = (Read("b", CPU, KEEP - 1),)
    assert decided(replace(running, reads=below)) == {"b": [CPU]}
    assert decided(replace(old, reads=below)) == {}


def test_many_parts_of_a_metric_are_copied_as_one() -> None:
    reads = tuple(
        Read("b", SeriesFilter(metric=("cpu",), entity=(f"e{i}",)), START / 4) for i in range(9)
    )
    assert decided(view(site("b"), reads=reads)) == {"b": [CPU]}


def test_what_was_asked_for_is_not_decided_again() -> None:
    reads = (Read("b", CPU, START + 1),)
    assert decided(view(site("b"), reads=reads, copies=(copy("b", manual=True),))) == {}


def test_restrictions_hold() -> None:
    north = site("b", region="north")
    south = site("c", region="south", latency_ms=1.0)
    stay = (Rule(match=EVERYTHING, stay_in=("north",)),)
    fragile = site("a", stability=0.3)
    assert decided(view(north, south, here=fragile, rules=stay)) == {"b": [EVERYTHING]}
    reads = (Read("b", CPU, START + 1), Read("c", CPU, START + 1))
    only_cpu = (Rule(match=CPU, stay_in=("b",)),)
    assert decided(view(north, south, reads=reads, rules=only_cpu)) == {"b": [CPU]}


def test_a_policy_is_found_by_its_name() -> None:
    assert isinstance(load("fragile-first"), FragileFirst)
    with pytest.raises(InvalidRequestError, match="0 replication policies 'nosuch'") as raised:
        load("nosuch")
    assert "fragile-first" in str(raised.value.hint)
