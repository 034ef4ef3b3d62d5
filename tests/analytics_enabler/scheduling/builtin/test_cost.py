"""``cost``: the shortest path that a job can afford, at present prices."""

import msgspec
import pytest

from analytics_enabler.scheduling.builtin.cost import Cost
from analytics_enabler.scheduling.interface import Decision
from analytics_enabler.scheduling.model.constraints import HOUR_MS, CostCap
from analytics_enabler.scheduling.model.jobs import Job, Placement
from analytics_enabler.scheduling.model.snapshot import Fog
from tests.analytics_enabler.scheduling import build


def job(cap: float | None = None) -> Job:
    """Return a job of one data task and a merge; ``cap``: its COST_CAP per day."""
    capped = None if cap is None else CostCap(amount=cap, per_ms=24 * HOUR_MS)
    data, merge = build.task("data", "edge"), build.task("merge")
    return build.job("q", data, merge, streams="data>merge", sink="edge", cap=capped)


def fog(price_near: float = 1.0, price_far: float = 0.1, per_gb: float = 0.0) -> Fog:
    """Return a fog of a full free node ``edge``, and two nodes with these prices per core-hour."""
    return build.fog(
        build.node("edge", cores=1, price_per_core_hour=0.0, price_per_gb=per_gb),
        build.node("near", price_per_core_hour=price_near),
        build.node("far", price_per_core_hour=price_far),
        links={("edge", "near"): 10, ("edge", "far"): 50},
    )


def decide(fog: Fog, job: Job, current: Placement | None = None, **settings: str) -> Decision:
    scheduler = Cost()
    scheduler.prepare(settings)
    return scheduler.schedule((job,), fog, current or Placement())


def merge_of(decision: Decision) -> str:
    return decision.placement.by_task["q", "merge"][0].node


def test_job_takes_the_shortest_path_that_its_cap_allows() -> None:
    assert merge_of(decide(fog(), job())) == "near"
    assert merge_of(decide(fog(), job(cap=24))) == "near"
    assert merge_of(decide(fog(), job(cap=23))) == "far"
    assert merge_of(decide(fog(), job(), per_hour="0.5")) == "far"


def test_job_leaves_a_node_whose_price_rises_above_the_cap() -> None:
    current = build.placed(q_data="edge", q_merge="near")
    assert merge_of(decide(fog(price_near=0.9), job(cap=24), current)) == "near"
    assert merge_of(decide(fog(price_near=1.1), job(cap=24), current)) == "far"


def test_job_that_moved_recently_leaves_a_node_that_is_too_dear() -> None:
    current = build.placed(q_data="edge", q_merge="near")
    stays = msgspec.structs.replace(job(cap=24), stays=True)
    assert merge_of(decide(fog(price_near=0.9), stays, current)) == "near"
    assert merge_of(decide(fog(price_near=1.1), stays, current)) == "far"


def test_job_that_no_placement_can_afford_is_refused() -> None:
    decision = decide(fog(), job(cap=1))
    assert decision.placement.assignments == ()
    reasons = {refusal.reason for refusal in decision.refusals if refusal.node is None}
    assert reasons == {"the job would cost 0.1 per hour, 0.05833 more than its cap of 0.04167"}


def test_traffic_counts() -> None:
    # 1000 bytes/s are 0.0036 GB an hour.
    assert merge_of(decide(fog(price_near=0.1, per_gb=10), job(cap=24 * 0.14))) == "near"
    assert not decide(fog(price_near=0.1, per_gb=10), job(cap=24 * 0.13)).placement.assignments


def test_of_equal_paths_the_cheaper_one_is_taken() -> None:
    equal = build.fog(
        build.node("edge", cores=1),
        build.node("a", price_per_core_hour=0.2),
        build.node("b", price_per_core_hour=0.1),
        links={("edge", "a"): 10, ("edge", "b"): 10},
    )
    assert merge_of(decide(equal, job())) == "b"


@pytest.mark.parametrize("price", ["free", "nan"])
def test_invalid_price_exceeds_any_cap(price: str) -> None:
    odd = build.fog(
        build.node("edge", cores=1),
        build.node("near", labels={"price_per_hour": price}),
        build.node("far", price_per_core_hour=0.1),
        links={("edge", "near"): 10, ("edge", "far"): 50},
    )
    assert merge_of(decide(odd, job(cap=24))) == "far"
