"""``energy``: latency times power, batteries, and the cost of migrations."""

import itertools

import pytest

from analytics_enabler.scheduling.builtin.energy import Energy, limit_by_batteries, watts_per_core
from analytics_enabler.scheduling.interface import Decision
from analytics_enabler.scheduling.model.jobs import Job, Placement
from analytics_enabler.scheduling.model.snapshot import Battery, Fog
from mistbow.errors import InvalidRequestError
from mistbow.fabric import Power
from tests.analytics_enabler.scheduling import build

JOB = build.job(
    "q", build.task("data", "edge"), build.task("merge"), streams="data>merge", sink="edge"
)


def decide(fog: Fog, *jobs: Job, current: Placement | None = None, **settings: str) -> Decision:
    scheduler = Energy()
    scheduler.prepare(settings)
    return scheduler.schedule(jobs, fog, current or Placement())


def merge_of(decision: Decision) -> str:
    return decision.placement.by_task["q", "merge"][0].node


def fog(watts_a: float, watts_b: float, *, to_b: float = 10, battery: Battery | None = None) -> Fog:
    """Return a fog of a full node ``edge``, and two nodes a and b with this power at full load.

    ``battery``: of a. The latency from ``edge`` to a is 10 ms.
    """
    return build.fog(
        build.node("edge", cores=1, power=Power(idle_w=0, full_w=10)),
        build.node("a", power=Power(idle_w=2, full_w=2 + watts_a), battery=battery),
        build.node("b", power=Power(idle_w=2, full_w=2 + watts_b)),
        links={("edge", "a"): 10, ("edge", "b"): to_b},
    )


def test_merge_runs_where_the_product_of_latency_and_power_is_least() -> None:
    assert merge_of(decide(fog(40, 20), JOB)) == "b"
    # 20 ms and 20 W are worth more than 60 ms and 15 W.
    assert merge_of(decide(fog(40, 20, to_b=30), JOB)) == "a"


def test_unknown_power_is_the_average_of_the_known() -> None:
    some = build.fog(
        build.node("a", cores=2, power=Power(idle_w=1, full_w=5)), build.node("b"), build.node("c")
    )
    assert watts_per_core(some) == {"a": 2.0, "b": 2.0, "c": 2.0}
    nothing = build.fog(build.node("edge", cores=1), build.node("a"), links={("edge", "a"): 5})
    assert merge_of(decide(nothing, JOB)) == "a"


@pytest.mark.parametrize(
    ("charge_wh", "next_charge_s", "cores"),
    [
        (100, 3600, 4.0),
        # 20 Wh above the reserve are 20 W for an hour: 2 W idle, and 18 W for 1.8 cores.
        (40, 3600, 1.8),
        (40, 7200, 0.8),
        (20, 3600, 0.0),
        (10, None, 0.0),
    ],
)
def test_battery_limits_the_cores_until_its_next_charge(
    charge_wh: float, next_charge_s: float | None, cores: float
) -> None:
    battery = Battery(capacity_wh=100, charge_wh=charge_wh, next_charge_s=next_charge_s)
    limited = limit_by_batteries(fog(40, 40, battery=battery), 0.2)
    assert limited.by_name["a"].cores_free == pytest.approx(cores)
    assert limited.by_name["b"].cores_free == 4


def test_node_whose_battery_is_at_its_reserve_is_left() -> None:
    charged = Battery(capacity_wh=100, charge_wh=90, next_charge_s=3600)
    current = build.placed(q_data="edge", q_merge="a")
    assert merge_of(decide(fog(20, 40, battery=charged), JOB, current=current)) == "a"
    empty = Battery(capacity_wh=100, charge_wh=15, next_charge_s=3600)
    left = decide(fog(20, 40, battery=empty), JOB, current=current)
    assert merge_of(left) == "b"
    reasons = {refusal.node: refusal.reason for refusal in left.refusals if refusal.task == "merge"}
    assert reasons["a"] == "the battery is at its reserve"
    # Without a reserve, the node may be used.
    assert merge_of(decide(fog(20, 40, battery=empty), JOB, current=current, reserve="0")) == "a"


def test_migration_must_pay_for_itself_within_the_horizon() -> None:
    current = build.placed(q_data="edge", q_merge="a")
    # The merge on b saves a sixth of the power; a move costs 60 of 600 s.
    assert merge_of(decide(fog(40, 30), JOB, current=current)) == "b"
    assert merge_of(decide(fog(40, 30), JOB, current=current, horizon_s="300")) == "a"
    assert merge_of(decide(fog(40, 39), JOB, current=current)) == "a"


def test_gap_of_a_small_job_is_0_and_that_of_a_large_one_is_stated() -> None:
    assert decide(fog(40, 20), JOB).gaps == {"q": 0.0}
    names = [f"n{number:02}" for number in range(40)]
    nodes = [build.node(name, cores=1) for name in names]
    links = dict.fromkeys(itertools.pairwise(names), 10.0)
    many = [build.task(f"t{number}") for number in range(6)]
    streams = " ".join(f"t{number}>t{number + 1}" for number in range(5))
    large = build.job(
        "q", build.task("data", "n00"), *many, streams=f"data>t0 {streams}", sink="n06"
    )
    decision = decide(build.fog(*nodes, links=links), large)
    assert len(decision.placement.by_task) == 7
    assert 0 <= decision.gaps["q"] < 1


def test_setting_out_of_range_is_rejected() -> None:
    with pytest.raises(InvalidRequestError, match=r"reserve: .* \(got '1'\)"):
        Energy().prepare({"reserve": "1"})
