"""A partial fragment that reads another site's points, on real Spark."""

from collections import Counter
from collections.abc import Callable, Iterator

import msgspec
import pytest
from pyspark.sql import SparkSession

from analytics.plan.expressions import Source
from analytics.plan.fragments import Partial, StreamLocation
from analytics.plan.nodes import Pane
from analytics_worker.lifecycle.runner import FragmentRunner
from mistbow.streams.schemas import RAW, panes_stream
from tests.analytics_worker.edge_and_cloud import EdgeAndCloud, edge_and_cloud
from tests.analytics_worker.runner_context import running
from tests.support.conditions import eventually
from tests.support.traffic import Traffic

PANE = Pane(id="cpu", source=Source("cpu"), by=("entityID",), width_ms=1000)
NAME = "all.fair.v1.edge"


@pytest.fixture
def sites(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EdgeAndCloud]:
    with edge_and_cloud(tmp_path_factory) as sites:
        yield sites


def panes(sites: EdgeAndCloud) -> Counter[tuple[str, int]]:
    """Return the points in the stored panes: (key, end of the pane) -> number of points."""
    counts: Counter[tuple[str, int]] = Counter()
    for row in sites.cloud.read(panes_stream(NAME)).table.to_pylist():
        counts[row["key"], row["ts"]] += row["count"]
    return counts


def expected(sites: EdgeAndCloud, begin: int, until: int) -> Counter[tuple[str, int]]:
    """Return the points that the edge has stored, as ``panes`` does."""
    counts: Counter[tuple[str, int]] = Counter()
    for node in sites.edge.get(metric="cpu", latest=False, nodes=["edge"]):
        for series in node.data:
            key = msgspec.json.encode({"entityID": series.entity}).decode()
            for value in series.values:
                end = -(-value.ts // 1000) * 1000
                if begin < value.ts and end <= until:
                    counts[key, end] += 1
    return counts


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_each_point_is_in_one_pane_whoever_reads_it(
    spark: SparkSession, sites: EdgeAndCloud
) -> None:
    begin = sites.edge.info(RAW).frontier // 1000 * 1000
    at_edge = Partial(
        id=NAME,
        source=StreamLocation("edge", RAW),
        target=StreamLocation("cloud", panes_stream(NAME), origin="edge"),
        panes=(PANE,),
        grain_ms=1000,
        lookback_ms=20_000,
        begin=begin,
    )
    batches = Traffic(rate=100, late_every=7).batches(400)
    sent_to = [sites.edge]

    def until(condition: Callable[[], object], what: str) -> None:
        def holds() -> bool:
            batch = next(batches)
            for agent in sent_to:
                agent.put(batch)
            return bool(condition())

        eventually(holds, timeout=90, what=what)

    def goes_on(runner: FragmentRunner, what: str, ahead_ms: int = 4000) -> None:
        before = runner.status().frontier
        until(lambda: runner.status().frontier > before + ahead_ms, what)

    with running(spark, sites.cloud, at_edge) as runner:
        until(lambda: runner.status().frontier > begin, "panes of the points at their site")

    # Another worker takes over.
    with running(spark, sites.cloud, at_edge) as runner:
        goes_on(runner, "the other worker goes on")
        last = sites.edge.info(RAW).frontier // 1000 * 1000
        until(lambda: runner.status().frontier > last + 6000, "late points are in panes")
    assert sites.edge.info(RAW).late > 20, "there are late points"
    right = expected(sites, begin, last)
    # The first batch also makes panes of late points from before the beginning; no query reads
    # them.
    found = Counter({key: count for key, count in panes(sites).items() if begin < key[1] <= last})
    assert found == right, (found - right, right - found)
