"""The cutting of plans into fragments."""

import msgspec

from analytics.plan.fragments import Merge, Partial, StreamLocation
from analytics.plan.nodes import Plan
from analytics_enabler.deployments.model import Generation
from analytics_enabler.fragments import (
    data_site,
    over_sites,
    plans_of,
    required_version,
    result_task,
    whole,
)
from analytics_enabler.groups import Group
from tests.analytics_enabler.support import deployment

ALL = Group(scope=None, scheduler="fair")
SHORT = "a = COMPUTE AVG(x, 10 s) EVERY 5 s"
LONG = f"{SHORT}; b = COMPUTE MAX(x, 1 MINUTE) EVERY 5 s"


def planned(text: str, since: int) -> Plan:
    return plans_of(deployment(text, since).running)[ALL]


def test_insights_of_same_scope_and_scheduler_share_plan() -> None:
    text = f"{LONG}; c = COMPUTE AVG(x, 10 s) EVERY 5 s WITH SCHEDULER=latency"
    generations = deployment(text).running
    here = msgspec.structs.replace(generations[0], scope="x", uid="d-1/h/1")
    plans = plans_of([*generations, here])
    assert {group.id: len(plan.insights) for group, plan in plans.items()} == {
        "all.fair": 2,
        "all.latency": 1,
        "site-x.fair": 1,
    }


def test_generation_stored_without_scope_reads_all_sites() -> None:
    (generation,) = deployment(SHORT).live
    stored = msgspec.to_builtins(generation)
    del stored["scope"], stored["definition"]["scheduler"]
    assert msgspec.convert(stored, Generation) == generation
    assert generation.group == ALL


def test_version_begins_before_first_incomplete_window() -> None:
    plan = planned(SHORT, 12_345)
    assert required_version(plan, 0, ()).begin == 15_000 - 10_000
    # Of what stands already nothing is computed again.
    assert required_version(plan, 60_000, [plan.insights[0].uid]).begin == 65_000 - 10_000
    assert required_version(plan, 60_000, ["other"]).begin == 5_000


def test_version_satisfies_requirement_of_same_panes_and_less_reach() -> None:
    short, long = (required_version(planned(text, 100_000), 0, ()) for text in (SHORT, LONG))
    later = required_version(planned(SHORT, 200_000), 0, ())
    assert (short.grain_ms, short.lookback_ms, long.lookback_ms) == (5_000, 10_000, 60_000)
    assert long.satisfies(short)
    assert not short.satisfies(long)
    assert short.satisfies(later)
    assert not later.satisfies(short)
    other = required_version(planned("a = COMPUTE AVG(y, 10 s) EVERY 5 s", 100_000), 0, ())
    assert not short.satisfies(other)
    assert len({one.name for one in (short, long, later, other)}) == 4


def test_group_over_several_sites_has_partials_and_merge() -> None:
    plan = planned(LONG, 0)
    version = required_version(plan, 0, ())
    tasks = over_sites(ALL, plan, version, ("edge 1", "cloud"), "cloud", 5_000)
    one, other, merge = tasks.values()
    assert list(tasks) == ["at-edge 1", "at-cloud", "merge"]
    assert isinstance(one, Partial)
    assert isinstance(other, Partial)
    assert isinstance(merge, Merge)
    assert tasks[result_task(tasks)] is merge
    assert (one.source, other.source) == (
        StreamLocation("edge 1", "raw"),
        StreamLocation("cloud", "raw"),
    )
    assert other.target == StreamLocation("cloud", f"panes/all.fair.{version.name}.cloud")
    assert merge.sources == (one.target, other.target)
    assert merge.target == StreamLocation("cloud", "results/all.fair")
    # Another site more changes nothing for those that run.
    more = over_sites(ALL, plan, version, ("cloud", "x"), "cloud", 5_000)
    assert more["at-cloud"] == other


def test_panes_of_a_site_without_a_worker_are_stored_elsewhere() -> None:
    plan = planned(LONG, 0)
    version = required_version(plan, 0, ())
    tasks = over_sites(ALL, plan, version, ("edge", "cloud"), "cloud", 5_000, {"edge": "cloud"})
    partial, merge = tasks["at-edge"], tasks["merge"]
    assert isinstance(partial, Partial)
    assert isinstance(merge, Merge)
    assert (partial.source, data_site(partial)) == (StreamLocation("edge", "raw"), "edge")
    assert (partial.target.site, partial.target.data_site) == ("cloud", "edge")
    assert [source.data_site for source in merge.sources] == ["edge", "cloud"]
    # Without it, fragments are the same as those of the version before.
    plain = over_sites(ALL, plan, version, ("edge", "cloud"), "cloud", 5_000)
    assert b"origin" not in msgspec.json.encode(plain)
    assert plain["at-cloud"] == tasks["at-cloud"]


def test_group_over_one_site_is_whole() -> None:
    group = Group(scope="x", scheduler="fair")
    (fragment,) = whole(group, planned(SHORT, 0), "x").values()
    assert (fragment.id, fragment.target) == (group.id, StreamLocation("x", "results/site-x.fair"))


def test_stream_names_are_short_for_long_site_names() -> None:
    plan = planned(SHORT, 0)
    group = Group(scope=None, scheduler="Ein sehr langer Name eines Schedulers")
    site = "x" * 40
    version = required_version(plan, 0, ())
    partial = over_sites(group, plan, version, (site, "y"), "y", 0)[f"at-{site}"]
    assert len(partial.target.stream) <= 100
    assert partial.target.stream.replace("/", "").replace(".", "").replace("-", "").isalnum()
    assert partial.target.stream == partial.target.stream.lower()
