import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.plan.expressions import Source
from analytics.plan.fragments import Partial, StreamLocation, Whole
from analytics.plan.nodes import Pane
from analytics_enabler.catalogue import SeriesLocation
from analytics_enabler.optimizer import optimize
from analytics_enabler.scheduling.cost_model.coefficients import (
    INITIAL_BYTES,
    INITIAL_CPU_S,
    Sample,
    fit,
    total,
)
from analytics_enabler.scheduling.cost_model.model import (
    MAX_OBSERVATIONS,
    CostModel,
    Observation,
)
from analytics_enabler.scheduling.cost_model.work import Work, work_of
from tests.analytics_enabler.support import plan_of

SERIES = [SeriesLocation("edge", "load", f"bus{number}") for number in range(10)]
TRUE_FACTOR = {"batch": 2.0, "routed": 0.5, "pane": 3.0}


def partial(width_ms: int = 1000, by: tuple[str, ...] = ("entityID",)) -> Partial:
    pane = Pane(id="p", source=Source("load"), by=by, width_ms=width_ms)
    return Partial(
        id=f"f{width_ms}{len(by)}",
        source=StreamLocation("edge", "raw"),
        target=StreamLocation("edge", "panes/f"),
        panes=(pane,),
        grain_ms=width_ms,
        lookback_ms=width_ms,
        begin=0,
    )


def true_cores(work: Work) -> float:
    coefficients = {kind: each * TRUE_FACTOR.get(kind, 1.0) for kind, each in INITIAL_CPU_S.items()}
    return total(work.cpu, coefficients)


def teach(model: CostModel, worker: str, speed: float, slowness: float = 1.0) -> None:
    """Let a worker report fragments of several widths and rates."""
    for width_ms in (1000, 2000, 4000, 10_000):
        for rate in (1.0, 50.0, 1000.0):
            fragment = partial(width_ms)
            work = work_of(fragment, SERIES, {("edge", "load"): rate})
            observation = Observation(
                worker=worker,
                speed=speed,
                work=work,
                cores=true_cores(work) / speed * slowness,
                bytes_per_s=500 * work.written["append"] + 80 * work.written["pane"],
            )
            model.observe(f"{worker}-{width_ms}-{rate}", observation)
    for _ in range(30):
        model.learn(now_s=0.0)


def test_work_grows_with_rate_and_keys() -> None:
    slow, fast = (work_of(partial(), SERIES, {("edge", "load"): rate}) for rate in (1.0, 20.0))
    assert (slow.points_per_s, fast.points_per_s) == (10.0, 200.0)
    assert fast.cpu["pane"] == 10.0
    assert work_of(partial(by=()), SERIES, {("edge", "load"): 20.0}).cpu["pane"] == 1.0
    measured = slow.as_measured(200.0, 0.5)
    assert measured.cpu["routed"] == fast.cpu["routed"]
    assert (measured.cpu["batch"], measured.written["append"]) == (0.5, 0.5)


@pytest.mark.parametrize(
    ("query", "kind", "values_per_s"),
    [
        ("MEDIAN(load, 30 s) BY entityID EVERY 5 s", "measure", 2.0),
        ("MEDIAN(load, 30 s) EVERY 5 s", "measure", 0.2),
        ("AVG(load, 30 s) BY entityID EVERY 5 s", "measure", 0.0),
        ("FORECAST[3](load, 30 s) BY entityID EVERY 5 s", "forecast", 2.0),
        ("FORECAST[3](AVG(load, 10 s), 1 MINUTE) BY entityID EVERY 5 s", "forecast", 2.0),
        ("FORECAST[3](AVG(load, 10 s), 1 MINUTE) EVERY 5 s", "forecast", 0.2),
        ("MEDIAN(load, 30 s) BY entityID", "measure", 50.0),
        ("FORECAST[3](load, 30 s) BY entityID", "forecast", 50.0),
    ],
)
def test_work_counts_values_of_functions_by_their_kind(
    query: str, kind: str, values_per_s: float
) -> None:
    fragment = Whole(
        id="f",
        source=StreamLocation("edge", "raw"),
        target=StreamLocation("edge", "results"),
        plan=optimize(plan_of(f"q = COMPUTE {query}")).plan,
    )
    work = work_of(fragment, SERIES, {("edge", "load"): 5.0})
    kinds = {"measure", "forecast", "operator"} & {name for name, n in work.cpu.items() if n}
    assert kinds == ({kind} if values_per_s else set())
    assert work.cpu[kind] == pytest.approx(values_per_s)


def test_work_has_at_most_three_micro_batches_per_second() -> None:
    short, long, longest = (
        work_of(partial(width_ms), SERIES, {}) for width_ms in (200, 1000, 10_000)
    )
    assert (short.cpu["batch"], short.written["append"]) == (3.0, 3.0)
    assert (long.cpu["batch"], long.written["append"]) == (1.0, 1.0)
    assert (longest.cpu["batch"], longest.written["append"]) == (0.2, 0.1)


def test_model_predicts_a_fragment_that_never_ran() -> None:
    model = CostModel()
    model.set_speeds({"w": 1.0})
    fragment = partial(3000)
    work = work_of(fragment, SERIES, {("edge", "load"): 300.0})
    assert model.estimate(fragment, work).cores != pytest.approx(true_cores(work), rel=0.1)
    teach(model, "w", speed=1.0)
    found = model.estimate(fragment, work)
    assert found.cores == pytest.approx(true_cores(work), rel=0.1)
    assert found.bytes_per_s == pytest.approx(500 / 3 + 80 * work.written["pane"], rel=0.1)
    assert found.points_per_s == pytest.approx(3000.0)


def test_estimate_depends_on_the_speed_of_the_worker() -> None:
    model = CostModel()
    model.set_speeds({"slow": 0.5, "fast": 2.0})
    fragment = partial()
    work = work_of(fragment, SERIES, {})
    slow, fast, mean = (model.estimate(fragment, work, w).cores for w in ("slow", "fast", None))
    assert slow is not None
    assert fast is not None
    assert slow == pytest.approx(4 * fast)
    assert mean == pytest.approx(statistics.mean([slow, fast]))


def test_model_learns_that_a_calibration_is_wrong() -> None:
    model = CostModel()
    model.set_speeds({"right": 1.0, "wrong": 1.0})
    teach(model, "right", speed=1.0)
    teach(model, "wrong", speed=1.0, slowness=2.0)
    fragment = partial(3000)
    work = work_of(fragment, SERIES, {("edge", "load"): 300.0})
    right, wrong = (model.estimate(fragment, work, name).cores for name in ("right", "wrong"))
    assert right == pytest.approx(true_cores(work), rel=0.25)
    assert wrong == pytest.approx(2 * true_cores(work), rel=0.25)


def test_model_smooths_a_change() -> None:
    model = CostModel()
    model.set_speeds({"w": 1.0})
    teach(model, "w", speed=1.0)
    before = model.coefficients["batch"]
    for width_ms in (1000, 2000, 4000, 10_000):
        for rate in (1.0, 50.0, 1000.0):
            work = work_of(partial(width_ms), SERIES, {("edge", "load"): rate})
            observation = Observation(
                worker="w", speed=1.0, work=work, cores=10 * true_cores(work), bytes_per_s=1.0
            )
            model.observe(f"w-{width_ms}-{rate}", observation)
    model.learn(now_s=0.0)
    assert before < model.coefficients["batch"] < 5 * before


@pytest.mark.parametrize("factor", [0.01, 0.1, 10.0])
def test_model_ignores_fragments_that_are_stuck(factor: float) -> None:
    model = CostModel()
    model.set_speeds({"w": 1.0})
    for width_ms in (1000, 5000):
        work = work_of(partial(width_ms), SERIES, {("edge", "load"): 10.0})
        stuck = Observation(
            worker="w",
            speed=1.0,
            work=work,
            cores=factor * true_cores(work),
            bytes_per_s=factor * 500 * work.written["append"],
        )
        model.observe(f"stuck-{width_ms}", stuck)
    teach(model, "w", speed=1.0)
    fragment = partial(3000)
    work = work_of(fragment, SERIES, {("edge", "load"): 300.0})
    found = model.estimate(fragment, work)
    assert found.cores == pytest.approx(true_cores(work), rel=0.2)
    assert found.bytes_per_s == pytest.approx(500 / 3 + 80 * work.written["pane"], rel=0.2)


def test_model_remembers_a_limited_number_of_fragments() -> None:
    model = CostModel()
    work = work_of(partial(), SERIES, {})
    observation = Observation(worker="w", speed=1.0, work=work, cores=0.1, bytes_per_s=1.0)
    for number in range(MAX_OBSERVATIONS + 50):
        model.observe(f"f{number}", observation)
    assert len(model._observations) == MAX_OBSERVATIONS


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from(sorted(INITIAL_BYTES)), st.floats(0, 1e4)),
            st.floats(1.0, 1e6),
        ),
        max_size=20,
    )
)
def test_coefficients_are_finite_and_not_negative(
    given: list[tuple[dict[str, float], float]],
) -> None:
    found = fit([Sample(units, taken) for units, taken in given], INITIAL_BYTES)
    assert all(0 <= each < float("inf") for each in found.values())
