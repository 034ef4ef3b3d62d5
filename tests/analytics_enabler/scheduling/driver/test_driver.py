"""The driver of schedulers, its fog snapshots, and its estimates of traffic."""

import pytest

from analytics.plan.expressions import Source
from analytics.plan.fragments import Partial, StreamLocation
from analytics.plan.nodes import Pane
from analytics_enabler.catalogue import SeriesLocation
from analytics_enabler.execution.rate_meter import RateMeter
from analytics_enabler.optimizer import optimize
from analytics_enabler.scheduling.driver.driver import PlacementDriver
from analytics_enabler.scheduling.driver.snapshot import fog_of
from analytics_enabler.scheduling.driver.traffic import (
    CARRIED_BYTES,
    DRAWN_BYTES,
    PANE_BYTES,
    estimate_pane_bytes,
)
from mistbow.fabric import Fabric, Site, SiteLink, Worker
from tests.analytics_enabler.scheduling import build
from tests.analytics_enabler.support import plan_of


def worker(name: str, **more: object) -> Worker:
    room = {"cores": 2.0, "memory_mb": 2048.0, "cores_free": 1.0, "memory_free_mb": 1024.0}
    return Worker(name=name, url=f"http://{name}", **{**room, **more})  # type: ignore[arg-type]


FABRIC = Fabric(
    site="cloud",
    sites=(
        Site(name="cloud", node="c", url="", region="eu", workers=(worker("w1", cores_free=9.0),)),
        Site(name="edge", node="e", url="", labels={"a": "1", "b": "1"}, workers=(
            worker("w1"), worker("w2", labels={"b": "2"}, region="north"), worker("w3"),
        )),
        Site(name="off", node="o", url="", reachable=False, workers=(worker("w4"),)),
    ),
    links=(SiteLink(source="cloud", target="edge", latency_ms=20),),
)  # fmt: skip


def test_snapshot_has_reachable_workers() -> None:
    fog = fog_of(FABRIC, dead={"w3"})
    assert {node.name: node.site for node in fog.nodes} == {"w1": "cloud", "w2": "edge"}
    one, other = fog.nodes
    assert (one.region, one.cores_free) == ("eu", 2.0)
    assert (other.region, other.labels) == ("north", {"a": "1", "b": "2"})


def test_unmeasured_direction_of_link_has_latency_of_other() -> None:
    fog = fog_of(FABRIC)
    assert fog.latency_ms("w1", "w2") == fog.latency_ms("w2", "w1") == 20


def test_pane_bytes_are_estimated_from_series() -> None:
    series = [SeriesLocation("x", "cpu", f"e{number}") for number in range(100)]
    series += [SeriesLocation("y", "cpu", "e"), SeriesLocation("x", "mem", "e")]

    def rate(by: tuple[str, ...], entities: tuple[str, ...] = ()) -> float:
        pane = Pane(id="p", source=Source("cpu", entities), by=by, width_ms=2000)
        place = StreamLocation("x", "raw")
        partial = Partial(
            id="f",
            source=place,
            target=place,
            panes=(pane,),
            grain_ms=1,
            lookback_ms=1,
            begin=0,
        )
        return estimate_pane_bytes(partial, series)

    assert rate(("region",)) == 28
    assert rate(("bus",)) == 2800
    assert rate(("bus",), ("e1", "e2", "none")) == 56


def test_pane_bytes_include_points_and_samples() -> None:
    series = [SeriesLocation("x", "cpu", f"e{number}") for number in range(100)]
    place = StreamLocation("x", "raw")

    def carried(query: str, points_per_s: float) -> float:
        """Return the bytes per second of a query's panes, without the panes' fixed columns."""
        panes = optimize(plan_of(f"q = COMPUTE {query}")).plan.panes
        partial = Partial(
            id="f", source=place, target=place, panes=panes, grain_ms=1, lookback_ms=1, begin=0
        )
        width = panes[0].width_ms
        return round(
            estimate_pane_bytes(partial, series, points_per_s) - PANE_BYTES * 1000 / width, 6
        )

    assert carried("AVG(cpu, 10 s) EVERY 5 s", 10) == 0
    assert carried("AVG(cpu, 10 s) EVERY 5 s WITH ADAM", 10) == 0
    assert carried("MEDIAN(cpu, 10 s) EVERY 5 s", 10) == 1000 * CARRIED_BYTES
    assert carried("AVG(cpu, 10 s) EVERY 5 s WITH SAMPLE 0.2", 10) == 200 * DRAWN_BYTES
    # In five seconds, 5 of 50 points of each entity.
    assert carried("AVG(cpu, 10 s) EVERY 5 s WITH SAMPLE 5", 10) == 100 * DRAWN_BYTES
    bounded = [
        carried(f"SUM(cpu, 10 s) EVERY 5 s WITH MAX_ERROR {error}", 10) / DRAWN_BYTES
        for error in (0.1, 0.05, 0.005)
    ]
    assert 0 < bounded[0] < bounded[1] < 1000 / 2 < bounded[2] < 1000


def test_rate_meter_measures_last_minute_and_restarts_with_counter() -> None:
    meter = RateMeter()
    for now in range(0, 200):
        meter.read(now, 0 if now < 100 else 10 * (now - 100))
    assert meter.rate == 10
    meter.read(200, 5)
    assert meter.rate is None


class Now:
    ms = 0

    def __call__(self) -> int:
        return self.ms


@pytest.mark.usefixtures("processes")
async def test_driver_decides_again_on_change_and_each_minute() -> None:
    now = Now()
    placement_driver = PlacementDriver(now)
    city, job = build.city(), build.over_sites("q")
    places = await placement_driver.place([job], city, {})
    assert set(places["q"]) == {"at-edge1", "at-edge2", "merge"}
    first = placement_driver.outcome
    await placement_driver.place([job], city, places)
    assert placement_driver.outcome is first
    now.ms = 60_000
    assert await placement_driver.place([job], city, places) == places
    assert placement_driver.outcome is not first


@pytest.mark.usefixtures("processes")
async def test_driver_passes_settings_to_scheduler() -> None:
    placement_driver = PlacementDriver(Now(), {"latency": {"margin": "wide"}})
    jobs = [build.over_sites("q", scheduler="latency")]
    await placement_driver.place(jobs, build.city(), {})
    assert "margin must be" in placement_driver.outcome.problems["latency"]
    outcome = await PlacementDriver(Now(), {"latency": {"margin": "wide"}}).preview(
        jobs, build.city(), {}
    )
    assert "margin must be" in outcome.problems["latency"]
