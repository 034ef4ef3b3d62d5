"""Constraints and cost caps, which every decision of a scheduler must meet."""

import msgspec
import pytest

from analytics_enabler.scheduling.builtin.eligibility import candidate_nodes
from analytics_enabler.scheduling.model.constraints import HOUR_MS, Constraint, CostCap
from analytics_enabler.scheduling.model.jobs import Job, Placement
from analytics_enabler.scheduling.prices import cost_per_hour
from analytics_enabler.scheduling.sandbox.guard import Outcome, decide
from analytics_enabler.scheduling.scheduler_settings import settings_schema
from tests.analytics_enabler.scheduling import build

LIMIT_S = 60.0
NORTH = Constraint(label="zone", value="north")


def fog():
    """Return a fog: two nodes in the zone north, one in south, and an expensive one in no zone."""
    north, south = {"zone": "north"}, {"zone": "south"}
    return build.fog(
        build.node("n1", "edge1", labels={**north, "price_per_hour": "1", "price_per_gb": "100"}),
        build.node("n2", "edge2", labels={**north, "price_per_hour": "2"}),
        build.node("s1", "edge2", labels={**south, "price_per_hour": "0.5"}),
        build.node("c1", "cloud", labels={"price_per_hour": "8"}),
        links={("edge1", "cloud"): 20, ("edge2", "cloud"): 50},
    )


def single(name: str, confined: Constraint | None = None, **more) -> Job:
    return build.job(name, build.task("t"), confined=confined, **more)


def nodes(outcome: Outcome) -> dict[str, str]:
    return {at.job: at.node for at in outcome.decision.placement.assignments}


def reasons(outcome: Outcome) -> set[str]:
    return {refusal.reason for refusal in outcome.decision.refusals}


def test_candidates_have_label_and_maximum_count() -> None:
    jobs = [
        single("all"),
        single("north", NORTH),
        single("one", Constraint(label="zone", value="north", count=1)),
        single("west", Constraint(label="zone", value="west")),
    ]
    found = candidate_nodes(jobs, fog(), build.placed(one_t="n2"))
    assert found["all"] == {"n1", "n2", "s1", "c1"}
    assert found["north"] == {"n1", "n2"}
    assert found["one"] == {"n2"}  # where it runs
    assert found["west"] == frozenset()


def test_candidates_cover_different_sites_with_data() -> None:
    confined = Constraint(label="price_per_hour", value="1", count=2)
    priced = {"price_per_hour": "1"}
    of_city = build.fog(
        *(build.node(name, site, labels=priced) for name, site in (("a", "x"), ("b", "x"))),
        *(build.node(name, site, labels=priced) for name, site in (("c", "y"), ("d", "z"))),
    )
    job = build.over_sites("q", "x", "z", confined=confined)
    assert candidate_nodes([job], of_city, Placement())["q"] == {"a", "d"}


@pytest.mark.usefixtures("processes")
def test_dedicated_nodes_run_no_other_job() -> None:
    mine = Constraint(label="zone", value="north", dedicated=True)
    jobs = [single("mine", mine), single("late", mine), single("other"), single("north", NORTH)]
    found = candidate_nodes(jobs, fog(), build.placed(mine_t="n1", other_t="n1"))
    assert found == {
        "mine": {"n1", "n2"},
        "late": frozenset(),
        "other": {"s1", "c1"},
        "north": frozenset(),
    }
    outcome = decide(jobs, fog(), build.placed(mine_t="n1", other_t="n1"), limit_s=LIMIT_S)
    assert outcome.problems == {}
    placed = nodes(outcome)
    assert placed.keys() == {"mine", "other"}
    assert placed["mine"] == "n1"
    assert placed["other"] in {"s1", "c1"}
    assert reasons(outcome) == {"every node with zone=north is dedicated to another insight"}


def test_job_without_candidate_is_refused() -> None:
    outcome = decide([single("q", Constraint(label="zone", value="west"))], fog(), Placement())
    assert nodes(outcome) == {}
    assert reasons(outcome) == {"no node with zone=west"}


@pytest.mark.usefixtures("third_party")
def test_placement_outside_candidates_is_rejected_and_last_one_stays() -> None:
    job = single("q", NORTH, scheduler="roomiest")
    settings = {"roomiest": {"prefer": "c1"}}
    outcome = decide([job], fog(), build.placed(q_t="n2"), settings, LIMIT_S)
    assert nodes(outcome) == {"q": "n2"}
    assert "q/t on c1: there is no such node" in outcome.problems["roomiest for q"]
    # A current node that is no candidate is not retained.
    assert nodes(decide([job], fog(), build.placed(q_t="c1"), settings, LIMIT_S)) == {}


def test_cost_includes_nodes_and_traffic() -> None:
    job = build.over_sites("q", "edge1", "edge2")  # a core of 4 and 512 MB of 4096 for each task
    job = build.job(
        "q", build.task("a", "edge1"), build.task("b", "edge2"), build.task("m"), streams="a>m b>m"
    )
    apart = build.placed(q_a="n1", q_b="s1", q_m="c1")
    gb_an_hour = 1000 * 3600 / 1e9
    assert cost_per_hour(job, apart, fog()) == pytest.approx((1 + 0.5 + 8) / 4 + 100 * gb_an_hour)
    near = build.placed(q_a="n1", q_b="s1", q_m="n1")
    assert cost_per_hour(job, near, fog()) == pytest.approx((1 + 0.5 + 1) / 4)


def test_declared_prices_replace_labels() -> None:
    labels = {"price_per_hour": "100", "price_per_gb": "100"}
    dear = build.node(
        "a", "edge1", labels=labels, price_per_core_hour=0.5, price_per_gb=10, cores=4
    )
    data = build.task("a", "edge1", points_per_s=1000, check_core_s=0.001)
    job = build.job("q", data, build.task("m"), streams="a>m")
    fog = build.fog(dear, build.node("b", "edge2"))
    placement = build.placed(q_a="a", q_m="b")
    gb_an_hour = 1000 * 3600 / 1e9
    assert cost_per_hour(job, placement, fog) == pytest.approx(0.5 + 10 * gb_an_hour)
    # Checking half of the points needs half a core more.
    checked = [
        msgspec.structs.replace(at, checked=0.5 if at.task == "a" else 0.0)
        for at in placement.assignments
    ]
    assert cost_per_hour(job, Placement(tuple(checked)), fog) == pytest.approx(
        0.75 + 10 * gb_an_hour
    )


@pytest.mark.usefixtures("processes")
def test_placement_above_cost_cap_is_refused() -> None:
    def asked(amount: float) -> Outcome:
        job = single("q", cap=CostCap(amount=amount, per_ms=24 * HOUR_MS))
        return decide([job], fog(), build.placed(q_t="c1"), limit_s=LIMIT_S)

    # A running job stays on an expensive node while its cost is below the cap.
    assert nodes(asked(48)) == {"q": "c1"}
    assert asked(48).costs == {"q": 2.0}
    # Above the cap, it is placed on the cheapest nodes.
    assert nodes(asked(12)) == {"q": "s1"}
    outcome = asked(1.2)
    assert nodes(outcome) == {}
    (reason,) = reasons(outcome)
    assert reason.endswith("more than its COST_CAP of 0.05")


@pytest.mark.usefixtures("processes")
def test_settings_of_query_replace_those_of_enabler() -> None:
    jobs = [
        single("q", scheduler="latency", settings={"margin": 0.5}),
        single("p", scheduler="latency"),
    ]
    outcome = decide(jobs, fog(), Placement(), {"latency": {"margin": "wide"}}, LIMIT_S)
    assert outcome.problems == {
        "latency": "mistbow.errors.InvalidRequestError: "
        "margin: Expected `float`, got `str` (got 'wide')"
    }
    assert nodes(outcome).keys() == {"q"}


@pytest.mark.usefixtures("third_party")
def test_third_party_scheduler_declares_settings() -> None:
    known = settings_schema("roomiest")
    assert list(known.schemas) == ["prefer"]
    assert known.violation("prefer", "edge1") is None
    assert known.violation("prefer", 2.0) == '2.0 is not of type "string"'
    assert settings_schema("raising").schemas == {}
