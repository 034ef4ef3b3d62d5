"""The decisions of the built-in policy for simulated fogs."""

from dataclasses import replace
from typing import Any

import pytest

from mistbow.client.operation_model import Copy, ReadRate, Restriction, SeriesFilter
from mistbow.errors import InvalidRequestError
from storage_agent.replication.filters import EVERYTHING
from storage_agent.replication.policy.fragile_first import FRAGILITY, FragileFirst
from storage_agent.replication.policy.frequent_reads import KEEP, KEEP_LOADED, START, START_LOADED
from storage_agent.replication.policy.rebalancing import DISK, ROOMY, SCARCE, WORKERLESS_MS
from storage_agent.replication.policy.registry import load
from storage_agent.replication.policy.view import (
    MIN_AGE_MS,
    CopyDecision,
    InsightRead,
    SiteView,
    View,
)

NOW = 1_800_000_000_000
CPU = SeriesFilter(metric=("cpu",))
PLENTY = 10 * 2**30


def site(name: str, **more: Any) -> SiteView:
    return SiteView(
        name, **{"latency_ms": 5.0, "usual_latency_ms": 5.0, "free_bytes": PLENTY, **more}
    )


def view(*others: SiteView, **more: Any) -> View:
    return View(**{"now": NOW, "here": site("a"), "others": others, **more})


def copy(target: str, wanted: SeriesFilter = EVERYTHING, **more: Any) -> Copy:
    made = {"id": "1", "target": target, "filter": wanted, "why": "", "since": 0}
    return Copy(**{**made, "cause": FRAGILITY, **more})


def decided(seen: View) -> dict[str, list[SeriesFilter]]:
    found: dict[str, list[SeriesFilter]] = {}
    for decision in FragileFirst().decide(seen):
        found.setdefault(decision.target, []).append(decision.filter)
    return found


def after(seen: View, decisions: tuple[CopyDecision, ...]) -> View:
    """Return the view after the decisions were applied."""
    made = tuple(
        copy(
            each.target,
            each.filter,
            stream=each.stream,
            since=seen.now,
            cause=each.cause,
            offload=each.offload,
        )
        for each in decisions
    )
    return replace(seen, copies=made)


def test_policy_decides_nothing_without_need() -> None:
    assert decided(view(site("b"), site("c"))) == {}


@pytest.mark.parametrize("here", [{"labels": {"battery": "true"}}, {"stability": 0.3}])
def test_fragile_site_is_copied_to_the_best_target(here: dict[str, Any]) -> None:
    near = site("near")
    others = [
        site("far", latency_ms=80.0),
        site("shaky", latency_ms=1.0, stability=0.45),
        site("full", latency_ms=1.0, free_bytes=2**29),
        site("silent", latency_ms=1.0, reachable=False),
        site("unknown", latency_ms=1.0, free_bytes=None),
    ]
    assert decided(view(near, *others, here=site("a", **here))) == {"near": [EVERYTHING]}


def test_target_is_retained_while_it_is_eligible() -> None:
    fragile = site("a", stability=0.3)
    there = (copy("b"),)
    better = site("c", latency_ms=1.0)
    for b in (site("b", latency_ms=90.0), site("b", stability=0.35), site("b", free_bytes=0)):
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


def test_records_of_a_fragile_site_are_copied() -> None:
    b, c = site("b"), site("c", latency_ms=1.0)
    fragile = view(b, c, here=site("a", stability=0.3), record_streams=("records/application",))

    def places(seen: View) -> dict[str, str]:
        return {each.stream: each.target for each in FragileFirst().decide(seen)}

    everything = {"raw": "c", "records/application": "c"}
    assert places(fragile) == everything
    assert places(after(fragile, FragileFirst().decide(fragile))) == everything
    # Where something may not be, records are not at all; another stream's copy is not in the way.
    assert places(replace(fragile, restrictions=(Restriction(match=CPU, stay_in=("b",)),))) == {
        "raw": "c",
        "records/application": "b",
    }
    asked_for = (copy("c", stream="notes", manual=True),)
    assert places(replace(fragile, copies=asked_for)) == everything


def test_fragility_has_hysteresis() -> None:
    recovering = site("a", stability=0.5)
    assert decided(view(site("b"), here=recovering)) == {}
    assert decided(view(site("b"), here=recovering, copies=(copy("b"),))) == {"b": [EVERYTHING]}


def test_frequently_read_series_is_copied_to_its_reader() -> None:
    rarely = ReadRate("c", CPU, START - 1)
    often = ReadRate("b", CPU, START + 1)
    own = ReadRate("a", CPU, 1000.0)
    assert decided(view(site("b"), site("c"), reads=(often, rarely, own))) == {"b": [CPU]}


@pytest.mark.parametrize(
    "link",
    [
        {"latency_ms": 60.0, "usual_latency_ms": 60.0},
        {"latency_ms": 30.0, "usual_latency_ms": 4.0},
        {"losses": 2.0},
        {"latency_ms": None, "usual_latency_ms": None},
    ],
    ids=["slow", "congested", "lossy", "through another"],
)
def test_bad_link_lowers_the_rate_for_a_copy(link: dict[str, Any]) -> None:
    reads = (ReadRate("b", CPU, START / 3),)
    assert decided(view(site("b"), reads=reads)) == {}
    assert decided(view(site("b", **link), reads=reads)) == {"b": [CPU]}


def test_decisions_have_hysteresis() -> None:
    first = view(site("b"), reads=(ReadRate("b", CPU, START + 1),))
    running = after(first, FragileFirst().decide(first))
    old = replace(running, now=NOW + MIN_AGE_MS)
    between = (ReadRate("b", CPU, (START + KEEP) / 2),)
    assert decided(replace(old, reads=between)) == {"b": [CPU]}
    below = (ReadRate("b", CPU, KEEP - 1),)
    assert decided(replace(running, reads=below)) == {"b": [CPU]}
    assert decided(replace(old, reads=below)) == {}


def test_overloaded_site_is_copied_to_its_readers() -> None:
    reads = (ReadRate("b", CPU, START_LOADED + 1), ReadRate("c", CPU, START_LOADED - 1))
    calm = view(site("b"), site("c"), reads=reads)
    assert decided(calm) == {}
    busy = replace(calm, busy=0.9)
    [decision] = FragileFirst().decide(busy)
    assert (decision.target, decision.filter) == ("b", CPU)
    assert decision.why == "b reads this data 7 times a minute, and a is overloaded"
    # That it is not overloaded any more is what the copy is for.
    old = replace(after(busy, (decision,)), now=NOW + MIN_AGE_MS, busy=0.1)
    assert decided(replace(old, reads=(ReadRate("b", CPU, KEEP_LOADED),))) == {"b": [CPU]}
    assert decided(replace(old, reads=(ReadRate("b", CPU, KEEP_LOADED - 1),))) == {}


def test_history_is_offloaded_from_a_full_disk() -> None:
    others = site("b"), site("c", latency_ms=1.0)
    roomy = view(*others, max_bytes=1000, used_bytes=int(1000 * (ROOMY + SCARCE) / 2))
    assert decided(roomy) == {}
    short = replace(roomy, used_bytes=900)
    [decision] = FragileFirst().decide(short)
    assert decision == CopyDecision(
        "c", EVERYTHING, "a has filled 90% of its disk", DISK, offload=True
    )
    # Until it is clearly less, and always to one place.
    moving = after(replace(roomy, used_bytes=800), (decision,))
    assert [each.offload for each in FragileFirst().decide(moving)] == [True]
    assert decided(replace(moving, used_bytes=int(1000 * ROOMY) - 1)) == {}
    begun = (copy("b", cause=DISK, offloaded_to=NOW),)
    assert decided(replace(short, copies=begun)) == {"b": [EVERYTHING]}
    # Without ``max_bytes`` the disk is the limit; only a site that may have all series is a target.
    full = replace(short, max_bytes=None, here=site("a", free_bytes=10))
    assert decided(full) == {"c": [EVERYTHING]}
    stay = (Restriction(match=CPU, stay_in=("b",)),)
    assert decided(replace(full, restrictions=stay)) == {"b": [EVERYTHING]}


def test_series_of_insights_are_copied_to_their_workers() -> None:
    insights = (InsightRead("i1", "b", CPU), InsightRead("i2", "a", SeriesFilter(metric=("mem",))))
    seen = view(site("b"), site("c", latency_ms=1.0, workers=1), insights=insights)
    [decision] = FragileFirst().decide(seen)
    assert decision.why == "read by i1; at b"
    assert (decision.target, decision.filter) == ("b", CPU)
    ended = replace(after(seen, (decision,)), insights=())
    assert decided(ended) == {"b": [CPU]}
    assert decided(replace(ended, now=NOW + MIN_AGE_MS)) == {}
    assert decided(replace(seen, restrictions=(Restriction(match=CPU, stay_in=("c",)),))) == {}


def test_site_without_workers_is_copied_to_the_nearest_with_workers() -> None:
    insights = (InsightRead("i1", "a", CPU),)
    others = site("b", workers=2), site("c", workers=1, latency_ms=1.0), site("d", latency_ms=0.1)
    seen = view(*others, insights=insights, workerless_ms=WORKERLESS_MS)
    assert decided(seen) == {}
    gone = replace(seen, workerless_ms=WORKERLESS_MS + 1)
    decisions = FragileFirst().decide(gone)
    assert [each.target for each in decisions] == ["c"]
    # A copy does not move to a site that has come nearer.
    nearer = site("b", workers=2, latency_ms=0.5)
    moved = replace(after(gone, decisions), others=(nearer, *others[1:]), now=NOW + MIN_AGE_MS)
    assert decided(moved) == {"c": [CPU]}
    assert decided(replace(moved, workerless_ms=0)) == {}


def test_many_parts_of_a_metric_are_copied_as_a_whole() -> None:
    reads = tuple(
        ReadRate("b", SeriesFilter(metric=("cpu",), entity=(f"e{i}",)), START / 4) for i in range(9)
    )
    assert decided(view(site("b"), reads=reads)) == {"b": [CPU]}


def test_manual_copy_is_not_decided_again() -> None:
    reads = (ReadRate("b", CPU, START + 1),)
    assert decided(view(site("b"), reads=reads, copies=(copy("b", manual=True),))) == {}


def test_decisions_respect_restrictions() -> None:
    north = site("b", region="north")
    south = site("c", region="south", latency_ms=1.0)
    stay = (Restriction(match=EVERYTHING, stay_in=("north",)),)
    fragile = site("a", stability=0.3)
    assert decided(view(north, south, here=fragile, restrictions=stay)) == {"b": [EVERYTHING]}
    reads = (ReadRate("b", CPU, START + 1), ReadRate("c", CPU, START + 1))
    only_cpu = (Restriction(match=CPU, stay_in=("b",)),)
    assert decided(view(north, south, reads=reads, restrictions=only_cpu)) == {"b": [CPU]}


def test_policy_is_loaded_by_name() -> None:
    assert isinstance(load("fragile-first"), FragileFirst)
    with pytest.raises(
        InvalidRequestError,
        match="MISTBOW_REPLICATION_POLICY: 0 packages provide the replication policy 'nosuch'",
    ) as raised:
        load("nosuch")
    assert "fragile-first" in str(raised.value.hint)
