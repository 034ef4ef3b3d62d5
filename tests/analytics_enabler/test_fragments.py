"""Cutting plans into fragments, as pure data."""

import msgspec

from analytics_enabler.deployments.model import Generation
from analytics_enabler.fragments import over_sites, plans_of, result_of, version_for, whole
from analytics_enabler.groups import Group
from mistbow.plan.fragments import Merge, Partial, Place
from mistbow.plan.nodes import Plan
from tests.analytics_enabler.support import deployment

ALL = Group(scope=None, scheduler="fair")
SHORT = "a = COMPUTE AVG(x, 10 s) EVERY 5 s"
LONG = f"{SHORT}; b = COMPUTE MAX(x, 1 MINUTE) EVERY 5 s"


def planned(text: str, since: int) -> Plan:
    return plans_of(deployment(text, since).running)[ALL]


def test_insights_of_a_scope_and_a_scheduler_are_one_plan() -> None:
    text = f"{LONG}; c = COMPUTE AVG(x, 10 s) EVERY 5 s WITH SCHEDULER=latency"
    generations = deployment(text).running
    here = msgspec.structs.replace(generations[0], scope="x", uid="d-1/h/1")
    plans = plans_of([*generations, here])
    assert {group.id: len(plan.insights) for group, plan in plans.items()} == {
        "all.fair": 2,
        "all.latency": 1,
        "site-x.fair": 1,
    }


def test_what_was_stored_before_there_were_groups_is_over_all_sites() -> None:
    (generation,) = deployment(SHORT).live
    stored = msgspec.to_builtins(generation)
    del stored["scope"], stored["definition"]["scheduler"]
    assert msgspec.convert(stored, Generation) == generation
    assert generation.group == ALL


def test_a_version_begins_before_the_first_window_that_is_not_complete() -> None:
    plan = planned(SHORT, 12_345)
    assert version_for(plan, 0, ()).begin == 15_000 - 10_000
    # Of what stands already nothing is computed again.
    assert version_for(plan, 60_000, ["d-1/a/1"]).begin == 65_000 - 10_000
    assert version_for(plan, 60_000, ["other"]).begin == 5_000


def test_a_version_goes_on_while_it_yields_what_is_needed() -> None:
    short, long = (version_for(planned(text, 100_000), 0, ()) for text in (SHORT, LONG))
    later = version_for(planned(SHORT, 200_000), 0, ())
    assert (short.grain_ms, short.reach_ms, long.reach_ms) == (5_000, 10_000, 60_000)
    assert long.serves(short)
    assert not short.serves(long)
    assert short.serves(later)
    assert not later.serves(short)
    other = version_for(planned("a = COMPUTE AVG(y, 10 s) EVERY 5 s", 100_000), 0, ())
    assert not short.serves(other)
    assert len({one.name for one in (short, long, later, other)}) == 4


def test_over_several_sites_only_panes_are_merged() -> None:
    plan = planned(LONG, 0)
    version = version_for(plan, 0, ())
    tasks = over_sites(ALL, plan, version, ("edge 1", "cloud"), "cloud", 5_000)
    one, other, merge = tasks.values()
    assert list(tasks) == ["at-edge 1", "at-cloud", "merge"]
    assert isinstance(one, Partial)
    assert isinstance(other, Partial)
    assert isinstance(merge, Merge)
    assert result_of(tasks) is merge
    assert (one.source, other.source) == (Place("edge 1", "raw"), Place("cloud", "raw"))
    assert other.target == Place("cloud", f"panes/all.fair.{version.name}.cloud")
    assert merge.sources == (one.target, other.target)
    assert merge.target == Place("cloud", "results/all.fair")
    # Another site more changes nothing for those that run.
    more = over_sites(ALL, plan, version, ("cloud", "x"), "cloud", 5_000)
    assert more["at-cloud"] == other


def test_over_one_site_it_stays_whole() -> None:
    group = Group(scope="x", scheduler="fair")
    (fragment,) = whole(group, planned(SHORT, 0), "x").values()
    assert (fragment.id, fragment.target) == (group.id, Place("x", "results/site-x.fair"))


def test_names_of_streams_are_short_whatever_sites_are_called() -> None:
    plan = planned(SHORT, 0)
    group = Group(scope=None, scheduler="Ein sehr langer Name eines Schedulers")
    site = "x" * 40
    version = version_for(plan, 0, ())
    partial = over_sites(group, plan, version, (site, "y"), "y", 0)[f"at-{site}"]
    assert len(partial.target.stream) <= 100
    assert partial.target.stream.replace("/", "").replace(".", "").replace("-", "").isalnum()
    assert partial.target.stream == partial.target.stream.lower()
