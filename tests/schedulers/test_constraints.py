"""What users ask of nodes and of costs holds whatever a scheduler says."""

import pytest

from mistbow.fog.constraints import HOUR_MS, Cap, Confinement
from mistbow.fog.costs import cost_per_hour
from mistbow.fog.jobs import Job, Placement
from mistbow.schedulers.confining import nodes_for
from mistbow.schedulers.guard import Outcome, decide
from mistbow.schedulers.settings import declared
from tests.schedulers import build

LIMIT_S = 60.0
NORTH = Confinement(label="zone", value="north")


def fog():
    """Return two nodes in the north, one in the south, and a dear one without a zone."""
    north, south = {"zone": "north"}, {"zone": "south"}
    return build.fog(
        build.node("n1", "edge1", labels={**north, "price_per_hour": "1", "price_per_gb": "100"}),
        build.node("n2", "edge2", labels={**north, "price_per_hour": "2"}),
        build.node("s1", "edge2", labels={**south, "price_per_hour": "0.5"}),
        build.node("c1", "cloud", labels={"price_per_hour": "8"}),
        links={("edge1", "cloud"): 20, ("edge2", "cloud"): 50},
    )


def single(name: str, confined: Confinement | None = None, **more) -> Job:
    return build.job(name, build.task("t"), confined=confined, **more)


def nodes(outcome: Outcome) -> dict[str, str]:
    return {at.job: at.node for at in outcome.decision.placement.assignments}


def reasons(outcome: Outcome) -> set[str]:
    return {refusal.reason for refusal in outcome.decision.refusals}


def test_a_job_has_nodes_with_its_label_and_so_many() -> None:
    jobs = [
        single("all"),
        single("north", NORTH),
        single("one", Confinement(label="zone", value="north", count=1)),
        single("west", Confinement(label="zone", value="west")),
    ]
    found = nodes_for(jobs, fog(), build.placed(one_t="n2"))
    assert found["all"] == {"n1", "n2", "s1", "c1"}
    assert found["north"] == {"n1", "n2"}
    assert found["one"] == {"n2"}  # where it runs
    assert found["west"] == frozenset()


def test_of_more_nodes_those_at_different_sites_with_its_data_are_chosen() -> None:
    confined = Confinement(label="price_per_hour", value="1", count=2)
    priced = {"price_per_hour": "1"}
    of_city = build.fog(
        *(build.node(name, site, labels=priced) for name, site in (("a", "x"), ("b", "x"))),
        *(build.node(name, site, labels=priced) for name, site in (("c", "y"), ("d", "z"))),
    )
    job = build.over_sites("q", "x", "z", confined=confined)
    assert nodes_for([job], of_city, Placement())["q"] == {"a", "d"}


def test_dedicated_nodes_are_nobody_elses() -> None:
    mine = Confinement(label="zone", value="north", dedicated=True)
    jobs = [single("mine", mine), single("late", mine), single("other"), single("north", NORTH)]
    found = nodes_for(jobs, fog(), build.placed(mine_t="n1", other_t="n1"))
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


def test_a_job_waits_for_its_node() -> None:
    outcome = decide([single("q", Confinement(label="zone", value="west"))], fog(), Placement())
    assert nodes(outcome) == {}
    assert reasons(outcome) == {"no node with zone=west"}


@pytest.mark.usefixtures("third_party")
def test_a_scheduler_that_places_elsewhere_is_refused_and_the_last_placement_stays() -> None:
    job = single("q", NORTH, scheduler="roomiest")
    settings = {"roomiest": {"prefer": "c1"}}
    outcome = decide([job], fog(), build.placed(q_t="n2"), settings, LIMIT_S)
    assert nodes(outcome) == {"q": "n2"}
    assert "q/t on c1: there is no such node" in outcome.problems["roomiest for q"]
    # But not where it may not be.
    assert nodes(decide([job], fog(), build.placed(q_t="c1"), settings, LIMIT_S)) == {}


def test_what_a_job_costs() -> None:
    job = build.over_sites("q", "edge1", "edge2")  # a core of 4 and 512 MB of 4096 for each task
    job = build.job(
        "q", build.task("a", "edge1"), build.task("b", "edge2"), build.task("m"), streams="a>m b>m"
    )
    apart = build.placed(q_a="n1", q_b="s1", q_m="c1")
    gb_an_hour = 1000 * 3600 / 1e9
    assert cost_per_hour(job, apart, fog()) == pytest.approx((1 + 0.5 + 8) / 4 + 100 * gb_an_hour)
    near = build.placed(q_a="n1", q_b="s1", q_m="n1")
    assert cost_per_hour(job, near, fog()) == pytest.approx((1 + 0.5 + 1) / 4)


def test_a_placement_over_the_cap_is_not_made() -> None:
    def asked(amount: float) -> Outcome:
        job = single("q", cap=Cap(amount=amount, per_ms=24 * HOUR_MS))
        return decide([job], fog(), build.placed(q_t="c1"), limit_s=LIMIT_S)

    # What runs stays where it is, however dear, while it is not too dear.
    assert nodes(asked(48)) == {"q": "c1"}
    assert asked(48).costs == {"q": 2.0}
    # Then the scheduler is asked for a place on the cheapest nodes.
    assert nodes(asked(12)) == {"q": "s1"}
    outcome = asked(1.2)
    assert nodes(outcome) == {}
    (reason,) = reasons(outcome)
    assert reason.endswith("more than its COST_CAP of 0.05")


def test_settings_of_a_query_go_before_the_enablers() -> None:
    jobs = [
        single("q", scheduler="latency", settings={"margin": 0.5}),
        single("p", scheduler="latency"),
    ]
    outcome = decide(jobs, fog(), Placement(), {"latency": {"margin": "wide"}}, LIMIT_S)
    assert outcome.problems == {
        "latency": "mistbow.errors.InvalidRequestError: margin must be from 0 to 1, not 'wide'"
    }
    assert nodes(outcome).keys() == {"q"}


@pytest.mark.usefixtures("third_party")
def test_another_package_tells_which_settings_it_takes() -> None:
    known = declared("roomiest")
    assert list(known.schemas) == ["prefer"]
    assert known.problem("prefer", "edge1") is None
    assert known.problem("prefer", 2.0) == '2.0 is not of type "string"'
    assert declared("raising").schemas == {}
