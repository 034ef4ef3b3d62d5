"""Explanations of insights, and the estimates in these explanations."""

import pytest

from analytics.insight_models import (
    ExplainedEdge,
    ExplainedFragment,
    ExplainedGroup,
    Explanation,
    RemoteRead,
)
from analytics.plan.feeds import Feed
from analytics.plan.fragments import StreamLocation
from analytics_enabler.catalogue import SeriesIndex, SeriesLocation
from analytics_enabler.explain import explanation_text
from analytics_enabler.explain.explanation import added_by, explain, new_part, plans_with
from analytics_enabler.explain.savings import savings_of
from analytics_enabler.explain.summary import placement_summary
from analytics_enabler.explain.traffic import TrafficEstimates
from analytics_enabler.fragments import MERGE, over_sites, required_version, whole
from analytics_enabler.groups import Group
from analytics_enabler.optimizer import optimize
from analytics_enabler.scheduling.driver.traffic import POINT_BYTES
from analytics_enabler.semantics import Sites, check
from tests.analytics_enabler.semantics.test_documentation import EXAMPLES
from tests.analytics_enabler.support import deployment, plan_of, without_digest

HEADROOM = "cpu_headroom = COMPUTE 100 - AVG(cpu, 10 SECONDS) EVERY 5 SECONDS"
RUNNING = deployment("cpu_now = COMPUTE AVG(cpu, 10 s) EVERY 5 s; m = COMPUTE AVG(mem) EVERY 1 s")


def explained(text: str) -> Explanation:
    checked = check(text)
    added = added_by(checked, Sites())
    return explain(checked, added, plans_with(added, RUNNING.running))


def test_explain_reports_windows_shared_with_running_insights() -> None:
    (shared,) = explained(HEADROOM).shared
    assert shared.id.startswith("w-")
    assert [*map(without_digest, shared.others)] == ["d-1/cpu_now/1"]
    assert shared.text == f"cpu_headroom shares {shared.id} with cpu_now of d-1; computed once"


def test_explain_reports_windows_shared_within_text() -> None:
    first, second = explained(f"{HEADROOM}; other = COMPUTE MAX(cpu, 10 s) EVERY 5 s").shared
    assert first.text.endswith("cpu_now of d-1 and 1 more; computed once")
    own, new = second.others
    assert (without_digest(own), new) == ("d-1/cpu_now/1", "new/cpu_headroom/1")


def test_explain_reports_shared_pane_without_shared_window() -> None:
    (shared,) = explained("slow = COMPUTE AVG(cpu, 1 MINUTE) EVERY 10 s").shared
    assert shared.id.startswith("p-")
    assert shared.text.endswith("cut once")


def test_groups_share_nothing() -> None:
    assert explained(f"{HEADROOM} WITH SCHEDULER=latency").shared == []


def test_other_keys_or_filters_share_nothing() -> None:
    for aggregate in ("AVG(cpu, 10 s) BY node", "AVG(cpu WHEN > 0, 10 s)"):
        assert explained(f"a = COMPUTE {aggregate} EVERY 5 s").shared == []


@pytest.mark.parametrize("text", EXAMPLES)
def test_every_example_can_be_explained(text: str) -> None:
    checked = check(text)
    added = added_by(checked, Sites())
    for running in ((), deployment(text).running):
        plans = plans_with(added, running)
        parts = [new_part(plan) for plan in plans.values()]
        assert sum(len(part.insights) for part in parts) == len(added)
        assert len(explain(checked, added, plans).plan) == len(added)


def test_second_metric_of_function_is_shared() -> None:
    both = "a = COMPUTE CORRELATION(x, y, 1 m) EVERY 5 s; b = COMPUTE MEDIAN(y, 1 m) EVERY 5 s"
    first, second = explained(both).shared
    assert (first.id, first.insight, second.insight) == (second.id, "a", "b")


def test_explanation_has_syntax_tree_and_steps() -> None:
    explanation = explained("a = COMPUTE AVG(cpu, 10 s) * (3 - 2) WHEN > 1 EVERY 5 s")
    assert explanation.ast[0]["expression"]["left"]["function"] == "AVG"
    assert [step.rule for step in explanation.steps] == ["fold_constants", "merge_identical"]


def test_steps_are_listed_by_group() -> None:
    query = "{} = COMPUTE SUM(x) BY node{} EVERY 5 s"
    urgent = f"{query.format('a', ' WHEN node == 1')} WITH SALIENCE 5"
    text = "; ".join([urgent, query.format("b", ""), query.format("c", "")])
    explanation = explained(text)
    assert sorted((step.rule, step.did) for step in explanation.steps) == [
        ("merge_identical", "1 aggregate replaced by 1 window"),
        ("merge_identical", "2 aggregates replaced by 1 window"),
        ("push_filters", "1 pane of 1 restricted to the keys that insights need"),
    ]
    groups = {step.group for step in explanation.steps}
    shown = explanation_text(explanation, text)
    assert all(f"After merge_identical in group {group}: " in shown for group in groups)


def test_plan_names_stream_of_feed() -> None:
    text = "w: STREAM FROM stream(name='weather'); a = COMPUTE AVG(t FROM (w), 1 m) EVERY 1 m"
    explanation = explained(text)
    shown = "insight a = AVG(t, 1 MINUTE) EVERY 1 MINUTE FROM stream weather"
    assert explanation.plan == [shown]
    assert explanation.steps[-1].plan[0].endswith(" FROM stream weather")


def flows(rates: dict[StreamLocation, float]) -> TrafficEstimates:
    series = [
        SeriesLocation("edge", metric, entity) for metric in ("cpu", "mem") for entity in "ab"
    ]
    return TrafficEstimates(SeriesIndex(series), rates, lambda _: "edge", lambda _: None)


def test_traffic_of_insight_over_one_site_is_estimated() -> None:
    group = Group(scope="edge", scheduler="fair")
    text = (
        "a = COMPUTE AVG(cpu, 10 s) BY entity EVERY 5 s; p = COMPUTE SUM(cpu, 5 s);"
        "n = COMPUTE MAX(AVG(cpu, 10 s) BY entity) EVERY 5 s"
    )
    plan = optimize(plan_of(text)).plan
    points, results = flows({StreamLocation("edge", "raw"): 40.0}).edges(whole(group, plan, "edge"))
    assert (points.source, points.target) == ("edge/raw", group.id)
    # Half of the series are of another metric.
    assert (points.carries, points.per_s, points.bytes_per_s) == ("points", 20, 20 * POINT_BYTES)
    assert (results.source, results.target) == (group.id, f"edge/{group.results}")
    # Two keys and one in 5 s, and one at each point.
    assert results.per_s == pytest.approx(0.4 + 0.2 + 20)
    assert results.is_local


def test_traffic_between_sites_is_estimated() -> None:
    group = Group(scope=None, scheduler="fair")
    plan = optimize(plan_of("a = COMPUTE AVG(cpu, 10 s) EVERY 5 s")).plan
    tasks = over_sites(group, plan, required_version(plan, 0, ()), ["edge", "cloud"], "cloud", 1000)
    places = {"at-edge": "edge", "at-cloud": "cloud", MERGE: "cloud"}
    rates = {StreamLocation(site, "raw"): 10.0 for site in ("edge", "cloud")}
    series = [SeriesLocation(site, "cpu", "a") for site in ("edge", "cloud")]
    flows = TrafficEstimates(SeriesIndex(series), rates, places.get, lambda _: 9.0)
    edges = flows.edges(tasks)
    assert [edge.carries for edge in edges] == [*["points", "panes"] * 2, "results"]
    (panes,) = (edge for edge in edges if not edge.is_local)
    assert (panes.source, panes.target) == (tasks["at-edge"].id, group.id)
    assert (panes.carries, panes.measured) == ("panes", 9.0)
    (saving,) = savings_of(tasks, edges, flows)
    assert (saving.step, saving.instead_of) == ("pre_aggregate", 10 * POINT_BYTES)
    assert saving.per_s == panes.bytes_per_s
    assert saving.did == "points of 2 sites aggregated to panes, 1 not at the merge"


def test_saving_by_sampling_is_estimated() -> None:
    group = Group(scope="edge", scheduler="fair")
    text = "a = COMPUTE AVG(cpu, 10 s) EVERY 5 s WITH SAMPLE 0.2; b = COMPUTE AVG(cpu) EVERY 5 s"
    tasks = whole(group, optimize(plan_of(text)).plan, "edge")
    known = flows({StreamLocation("edge", "raw"): 40.0})
    (saving,) = savings_of(tasks, known.edges(tasks), known)
    assert saving.step == "push_sampling"
    assert saving.did == "1 pane of 2 sampled where points are read"
    assert (saving.per_s, saving.instead_of) == (pytest.approx(4), 20)
    unknown = flows({})
    (saving,) = savings_of(tasks, unknown.edges(tasks), unknown)
    assert (saving.per_s, saving.instead_of) == (None, None)


def test_traffic_of_feed_is_estimated_from_rate_of_its_stream() -> None:
    feed = Feed(stream="weather", site="edge")
    group = Group(scope="edge", scheduler="fair", feed=feed)
    plan = optimize(plan_of("a = COMPUTE AVG(t, 5 s) + AVG(wind, 5 s) EVERY 5 s")).plan
    tasks = whole(group, plan, "edge")
    place = StreamLocation("edge", "weather", feed)
    assert [edge.per_s for edge in flows({place: 3.0}).edges(tasks)] == [6, 0.2]
    assert [edge.per_s for edge in flows({}).edges(tasks)] == [None, 0.2]
    keyed = optimize(plan_of("a = COMPUTE AVG(t, 5 s) BY town EVERY 5 s")).plan
    assert [edge.per_s for edge in flows({}).edges(whole(group, keyed, "edge"))] == [None, None]


def test_explanation_of_invalid_text_has_errors_only() -> None:
    explanation = explained("a = COMPUTE AVG(cpu)")
    assert len(explanation.problems) == 1
    assert explanation.plan == []


def test_explanation_begins_with_a_summary() -> None:
    text = f"{HEADROOM}; ratio = COMPUTE (SUM(mem, 1 MINUTE) / COUNT(mem, 1 MINUTE)) BY node"
    explanation = explained(text)
    assert explanation.summary == [
        "2 insights, 3 aggregates, 2 windows, 2 panes; metrics read: cpu, mem",
        "AVG of cpu: 10 seconds, every 5 seconds, from panes of 5 seconds",
        "COUNT, SUM of mem: 1 minute for each node, at each point, in steps of 200 milliseconds, "
        "from panes of 200 milliseconds",
        "shared: 1 window or pane, used by cpu_headroom and by other insights",
    ]
    assert explanation_text(explanation, text).startswith("Summary\n  2 insights")
    assert explained("a = COMPUTE AVG(cpu)").summary == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            "FORECAST[3](AVG(delay WHEN > 0, 1 HOURS)) BY stop EVERY 5 MINUTES",
            [
                "1 insight, 1 aggregate, 60 windows, 1 pane; metrics read: delay",
                "AVG of delay WHEN value > 0: 60 windows of 1 hour from now to 295 minutes ago "
                "for each stop, every 5 minutes, from panes of 5 minutes",
            ],
        ),
        (
            "PERCENTILE[99](ms FROM (web), 5 m) EVERY 30 s WITH SAMPLE 0.2",
            [
                "1 insight, 1 aggregate, 1 window, 1 pane; metrics read: ms",
                "PERCENTILE[99] of ms FROM (web) (a share of 0.2): 5 minutes, every 30 seconds, "
                "from panes of 30 seconds",
            ],
        ),
        (
            "AVG(x, 10 m) - AVG(x, 10 m, 1 d) EVERY 1 m",
            [
                "1 insight, 1 aggregate, 2 windows, 1 pane; metrics read: x",
                "AVG of x: 2 windows of 10 minutes from now to 1 day ago, every 1 minute, "
                "from panes of 1 minute",
            ],
        ),
        (
            'SUM(x, 1 DAY) EVERY 1 DAYS AT 23:59 "Europe/Berlin"',
            [
                "1 insight, 1 aggregate, 1 window, 1 pane; metrics read: x",
                "SUM of x: 1 day, every 1 day at 23:59 Europe/Berlin, from panes of 1 minute",
            ],
        ),
        (
            "SUM(x) EVERY 100 POINTS",
            [
                "1 insight, 2 aggregates, 2 windows, 1 pane; metrics read: x",
                "SUM of x: the last 100 points, every 100 points, from panes of 200 milliseconds",
                "RUNNING_COUNT of x: all points since the deployment, at each point, in steps of "
                "200 milliseconds, from panes of 200 milliseconds",
            ],
        ),
    ],
)
def test_summary_names_functions_points_and_windows(text: str, lines: list[str]) -> None:
    checked = check(f"a = COMPUTE {text}")
    added = added_by(checked, Sites())
    assert explain(checked, added, plans_with(added, ())).summary == lines


def test_summary_of_a_placement_names_traffic_and_workers() -> None:
    points = {"carries": "points", "is_local": True, "per_s": 50.0, "bytes_per_s": 2000.0}
    results = {"carries": "results", "is_local": False, "per_s": 2.0, "bytes_per_s": 80.0}
    group = ExplainedGroup(
        id="all.fair",
        scheduler="fair",
        insights=1,
        fragments=[
            ExplainedFragment(
                id="all.fair", kind="whole", sources=["n1/raw"], target="n1/results/all.fair",
                worker="w1", site="n1", running=False, plan=[],
            )
        ],
        edges=[
            ExplainedEdge.model_validate({"source": "n1/raw", "target": "all.fair", **points}),
            ExplainedEdge.model_validate({"source": "all.fair", "target": "n1/results", **results}),
        ],
        refusals=[],
        problem=None,
    )  # fmt: skip
    assert placement_summary([group]) == [
        "reads at most 50 points/s (2.0 kB/s) of n1/raw; writes at most 2 results/s (80 B/s)",
        "sends 80 B/s from site to site",
        "computation: would run on the worker w1 at n1",
    ]


def test_explanation_text_has_heading_for_each_part() -> None:
    text = explanation_text(explained(HEADROOM), HEADROOM)
    for heading in (
        "Syntax",
        "Plan",
        "After merge_identical: 1 aggregate replaced by 1 window",
        "Shared",
    ):
        assert f"{heading}" in text
    assert "function=AVG window=10 SECONDS" in text
    wrong = "a = COMPUTE AVG(cpu)"
    assert "^" in explanation_text(explained(wrong), wrong)


def test_traffic_of_points_read_elsewhere_is_estimated() -> None:
    group = Group(scope=None, scheduler="fair")
    plan = optimize(plan_of("a = COMPUTE AVG(cpu, 10 s) EVERY 5 s")).plan
    version = required_version(plan, 0, ())
    tasks = over_sites(group, plan, version, ["edge", "cloud"], "cloud", 1000, {"edge": "cloud"})
    rates = {StreamLocation(site, "raw"): 10.0 for site in ("edge", "cloud")}
    series = [SeriesLocation(site, "cpu", "a") for site in ("edge", "cloud")]
    edges = TrafficEstimates(SeriesIndex(series), rates, lambda _: "cloud", lambda _: None).edges(
        tasks
    )
    (points,) = (edge for edge in edges if not edge.is_local)
    assert (points.source, points.target) == ("edge/raw", tasks["at-edge"].id)
    assert points.bytes_per_s == 10 * POINT_BYTES


def test_explanation_text_names_where_points_are_read() -> None:
    reads = [
        RemoteRead(site=site, reason=reason, worker="w1", worker_site="cloud", latency_ms=ms)
        for site, reason, ms in (
            ("edge", "the site has no worker", 12.4),
            ("tram", "the site is unreachable", None),
        )
    ]
    fragment = ExplainedFragment(
        id="all.fair.1f.edge", kind="partial", sources=["edge/raw"], target="cloud/panes/x",
        worker="w1", site="cloud", running=False, plan=["pane p"],
    )  # fmt: skip
    group = ExplainedGroup(
        id="all.fair", scheduler="fair", insights=1, fragments=[fragment], edges=[], refusals=[],
        problem=None, remote_reads=reads,
    )  # fmt: skip
    text = explanation_text(Explanation(problems=[], groups=[group]), "")
    assert text == (
        "Group all.fair: 1 insight in all, placed by fair\n"
        "  partial all.fair.1f.edge: would run on w1, site cloud\n"
        "    edge/raw -> cloud/panes/x\n"
        "    pane p\n"
        "  the site edge has no worker; the worker w1 at cloud reads its points"
        " (12 ms away)\n"
        "  the site tram is unreachable; the worker w1 at cloud reads its points\n"
    )
