"""Random queries over random streams: the results of Spark equal the results of DuckDB."""

import uuid
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from analytics.plan.fragments import StreamLocation
from analytics_enabler.semantics import Checked, check
from analytics_worker.evaluate.composition import compose
from analytics_worker.panes.routing import metrics_needed, route
from analytics_worker.panes.stream_points import to_points
from analytics_worker.stateful.state_stream import StateAccess
from analytics_worker.stateful.state_table import StateTable
from mistbow.client.agent import AgentClient
from mistbow.streams.schemas import STATES
from tests.analytics_worker.spark.test_lowering import NO_SHRINKING
from tests.oracle import feeds
from tests.oracle.data import ATTRIBUTES, END_MS, METRICS, Series, Stream, streams
from tests.oracle.queries import texts
from tests.oracle.spark import Breaks, Streamed, in_a_batch, over_two_sites
from tests.oracle.trials import Trial, answers_of, cases_of, differences, plans_of, rename_metrics
from tests.support.leases import granted
from tests.support.operators import install_example_operators
from tests.support.points import points
from tests.support.windows import windows_of, windows_of_routed

_TEXTS = 50
"""The number of texts that are tried on each stream."""

_SOAK = (pytest.mark.soak, pytest.mark.timeout(1800))


@pytest.fixture(autouse=True)
def operators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_example_operators(tmp_path, monkeypatch)


def _drawn(trials: int, accepted: st.SearchStrategy[str]) -> list[Trial]:
    """Draw several trials at once, because trials together need fewer Spark jobs; return them."""
    found: list[Trial] = []

    @settings(
        max_examples=trials, phases=NO_SHRINKING, suppress_health_check=list(HealthCheck),
        database=None,
    )  # fmt: skip
    # No two texts are the same, or those that Hypothesis begins with would all be the simplest.
    @given(streams, st.lists(accepted, min_size=_TEXTS, max_size=_TEXTS, unique=True))
    def collect(stream: Stream, some: list[str]) -> None:
        found.append(Trial(stream, tuple(some)))

    collect()
    return found


def _checked(text: str) -> Checked:
    return check(text, frozenset(METRICS), attributes=ATTRIBUTES)


def _accepted(*, grouped: bool, at_points: bool = False) -> st.SearchStrategy[str]:
    return texts(grouped=grouped, at_points=at_points).filter(lambda text: _checked(text).ok)


@pytest.mark.parametrize(
    ("rounds", "trials", "grouped"),
    [(1, 2, False), pytest.param(10, 4, True, marks=_SOAK)],
)
def test_drawn_queries_equal_the_oracle(
    spark: SparkSession, rounds: int, trials: int, grouped: bool
) -> None:
    drawn = _drawn(rounds * trials, _accepted(grouped=grouped))
    for start in range(0, len(drawn), trials):
        together = drawn[start : start + trials]
        cases = cases_of(together)
        found = answers_of(in_a_batch(spark, together, plans_of(cases)))
        assert not differences(cases, found)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("at_points", [False, True])
def test_drawn_queries_over_two_sites_equal_the_oracle(
    spark: SparkSession, at_points: bool
) -> None:
    trials = _drawn(4, _accepted(grouped=True, at_points=at_points))
    cases = cases_of(trials)
    found = answers_of(over_two_sites(spark, trials, plans_of(cases)))
    assert not differences(cases, found)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_streamed_results_equal_the_oracle_through_restarts(
    spark: SparkSession, agent: AgentClient, tmp_path: Path
) -> None:
    # The effect of late points on values at points depends on the steps at which these are written.
    accepted = _accepted(grouped=False)
    at_points = _drawn(1, _accepted(grouped=False, at_points=True))
    trials = [*_drawn(2, accepted.filter(_is_at_ticks)), *map(_in_time, at_points)]
    breaks = (
        Breaks(frozenset(), frozenset()),
        Breaks(frozenset({0, 3}), frozenset({1, 5})),
        Breaks(frozenset({4}), frozenset({2, 3, 6})),
    )
    for number, (trial, each) in enumerate(zip(trials, breaks, strict=True)):
        cases = cases_of([trial])
        (plan,) = plans_of(cases)
        streamed = Streamed(spark, tmp_path / str(number), plan, _account(agent, tmp_path))
        found = answers_of(streamed.results(trial.stream, each))
        assert not differences(cases, found, streamed=True)


def _is_at_ticks(text: str) -> bool:
    insights = [each for each in text.split(";\n") if " = COMPUTE " in each]
    return all(" MS" in each.partition(" EVERY ")[2] for each in insights)


def _in_time(trial: Trial) -> Trial:
    series = tuple(replace(each, delay_ms=0) for each in trial.stream.series)
    return replace(trial, stream=Stream(series))


def _account(agent: AgentClient, folder: Path) -> StateAccess:
    place = StreamLocation("n1", f"states/{uuid.uuid4().hex}")
    agent.create_stream(place.stream, STATES)
    lease = granted(agent.url, place, agent.claim(place.stream).epoch, folder)
    return StateAccess(agent.url, place, lease, str(folder / "lock"), "query")


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("trials", [3, pytest.param(100, marks=_SOAK)])
def test_drawn_feeds_equal_the_oracle(trials: int) -> None:
    @settings(
        max_examples=trials, phases=NO_SHRINKING, suppress_health_check=list(HealthCheck),
        database=None,
    )  # fmt: skip
    @given(feeds.trials(10))
    def compare(trial: tuple[feeds.Fed, list[str]]) -> None:
        fed, some = trial
        cases, feed = feeds.cases_of(fed, some)
        (plan,) = plans_of(cases)
        rows = to_points(fed.table, feed, metrics_needed(plan.panes), -1)
        routed = [route(batch, plan.panes) for batch in rows.combine_chunks().to_batches()]
        windows = windows_of_routed(pa.concat_tables(routed), plan)
        assert not differences(cases, answers_of(compose(windows, plan, StateTable())))

    compare()


def _series(entity: str, seed: int, **attributes: str | float | bool) -> Series:
    return Series(
        entity=entity,
        attributes=tuple(sorted(attributes.items())),
        metrics=("x", "y"),
        start=250,
        end=3000,
        step_ms=500,
        jitter_ms=0,
        idle=(0, 0),
        burst_at=0,
        delay_ms=0,
        values="whole",
        seed=seed,
    )


_STREAM = Stream(
    (
        _series("e1", 1, region="north", zone="a", rack=1.0),
        _series("e2", 2, region="south", zone="r", rack="r"),
        _series("e3", 3, region="south", spare=True),
    )
)


@pytest.mark.parametrize(
    "query",
    [
        "COUNT(x WHEN rack NOT IN (1, 2), 5 s) EVERY 1 s",
        'SUM(x) WHEN rack NOT IN (2, "a") EVERY 1 s',
        "SUM(x) BY rack, spare WHEN rack NOT IN (7) OR spare NOT IN (false) EVERY 1 s",
        "COUNT(x WHEN zone >= region) EVERY 1 s",
        "COUNT(x) BY zone, region, rack WHEN zone > region OR zone == rack EVERY 1 s",
        "1 * TOP_K[2](x BY zone) EVERY 1 s",
        "COUNT(x) BY entity WHEN DIFF(x) != 1 EVERY 500 MS",
        "COUNT(x, 1 s) WHEN GEOMETRIC_MEAN(x, 1 s) NOT IN (7)",
        "RUNNING_MAX(x) BY zone EVERY 1 s; r = COMPUTE MAX(INSIGHT q) EVERY 2 s",
    ],
)
def test_query_that_once_differed_equals_the_oracle(query: str) -> None:
    _compare(_STREAM, query)


_TIED = Stream(
    tuple(
        replace(_series(f"e{number}", number, region="north", **attributes), values="constant")
        for number, attributes in enumerate(
            ({"rack": 2.0, "zone": "r"}, {"rack": "r"}, {"rack": "2", "spare": True}), start=1
        )
    )
)


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("rhythm", [" EVERY 1 s", " EVERY 3 POINTS", ""])
@pytest.mark.parametrize(
    "allowed",
    [
        "rack <= COUNT(x, 5 s)",
        '(rack IN (1, "2", "r") OR COUNT(x, 5 s) < 2)',
        "(zone != rack OR COUNT(x, 5 s) > 6)",
        "(spare == true OR COUNT(x, 5 s) < 2)",
        '(zone IN letters("ar") OR COUNT(x, 5 s) < 2)',
    ],
)
def test_attributes_of_tied_points_equal_the_oracle(allowed: str, rhythm: str) -> None:
    _compare(_TIED, f"SUM(x, 2 s){rhythm} WITH ALLOW WHEN {allowed}")


def test_correlation_with_a_series_that_is_constant_up_to_rounding_equals_the_oracle() -> None:
    # 0.1 + 0.2 + ... has other roundings at each tick.
    constant = "AVG(x, 1 s) * 0 + 0.1 + AVG(x, 1 s) / 3 - AVG(x, 1 s) / 3"
    _compare(_STREAM, f"CORRELATION({constant}, AVG(y, 1 s), 5 s) EVERY 1 s")


def test_values_of_ticks_are_compared_up_to_the_last_tick_of_the_oracle() -> None:
    stream = Stream(tuple(replace(each, end=END_MS) for each in _STREAM.series))
    _compare(
        stream,
        "MIN((MODE((SQR(x)) + 0, 14000 MS, 7000 MS)) BY zone WHEN > 2) BY spare, site "
        "EVERY 7000 MS",
    )


def _compare(stream: Stream, query: str) -> None:
    trial = Trial(stream, (f"q = COMPUTE {query}",))
    cases = cases_of([trial])
    (plan,) = plans_of(cases)
    rows = points(rename_metrics(trial.stream.rows, 0))
    found = answers_of(compose(windows_of(rows, plan), plan, StateTable()))
    assert not differences(cases, found)
