"""The fabric as schedulers see it, and when they are asked."""

from analytics_enabler.execution.meter import Meter
from analytics_enabler.optimizer import optimize
from analytics_enabler.placing.fog import fog_of
from analytics_enabler.placing.placer import Placer
from analytics_enabler.placing.traffic import (
    CARRIED_BYTES,
    DRAWN_BYTES,
    PANE_BYTES,
    Series,
    expected_rate,
)
from mistbow.fabric import Fabric, Link, Site, Worker
from mistbow.plan.expressions import Source
from mistbow.plan.fragments import Partial, Place
from mistbow.plan.nodes import Pane
from tests.analytics_enabler.support import plan_of
from tests.schedulers import build


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
    links=(Link(source="cloud", target="edge", latency_ms=20),),
)  # fmt: skip


def test_nodes_are_the_workers_that_can_be_reached() -> None:
    fog = fog_of(FABRIC, dead={"w3"})
    assert {node.name: node.site for node in fog.nodes} == {"w1": "cloud", "w2": "edge"}
    one, other = fog.nodes
    assert (one.region, one.cores_free) == ("eu", 2.0)
    assert (other.region, other.labels) == ("north", {"a": "1", "b": "2"})


def test_a_link_of_which_one_way_is_known_is_as_long_the_other_way() -> None:
    fog = fog_of(FABRIC)
    assert fog.latency_ms("w1", "w2") == fog.latency_ms("w2", "w1") == 20


def test_what_a_partial_sends_is_expected_of_its_series() -> None:
    series = [Series("x", "cpu", f"e{number}") for number in range(100)]
    series += [Series("y", "cpu", "e"), Series("x", "mem", "e")]

    def rate(by: tuple[str, ...], entities: tuple[str, ...] = ()) -> float:
        pane = Pane(id="p", source=Source("cpu", entities), by=by, width_ms=2000)
        place = Place("x", "raw")
        partial = Partial(
            id="f",
            source=place,
            target=place,
            panes=(pane,),
            grain_ms=1,
            reach_ms=1,
            begin=0,
        )
        return expected_rate(partial, series)

    assert rate(("region",)) == 28
    assert rate(("bus",)) == 2800
    assert rate(("bus",), ("e1", "e2", "none")) == 56


def test_what_panes_carry_of_a_sample_is_expected_too() -> None:
    series = [Series("x", "cpu", f"e{number}") for number in range(100)]
    place = Place("x", "raw")

    def carried(query: str, points_per_s: float) -> float:
        """Return how many bytes a second more than that of the plain numbers of a pane."""
        panes = optimize(plan_of(f"q = COMPUTE {query}")).plan.panes
        partial = Partial(
            id="f", source=place, target=place, panes=panes, grain_ms=1, reach_ms=1, begin=0
        )
        width = panes[0].width_ms
        return round(expected_rate(partial, series, points_per_s) - PANE_BYTES * 1000 / width, 6)

    assert carried("AVG(cpu, 10 s) EVERY 5 s", 10) == 0
    assert carried("AVG(cpu, 10 s) EVERY 5 s WITH ADAM", 10) == 0
    assert carried("MEDIAN(cpu, 10 s) EVERY 5 s", 10) == 1000 * CARRIED_BYTES
    assert carried("AVG(cpu, 10 s) EVERY 5 s WITH SAMPLE 0.2", 10) == 200 * DRAWN_BYTES
    # Five of each entity in five seconds, of fifty.
    assert carried("AVG(cpu, 10 s) EVERY 5 s WITH SAMPLE 5", 10) == 100 * DRAWN_BYTES
    bounded = [
        carried(f"SUM(cpu, 10 s) EVERY 5 s WITH MAX_ERROR {error}", 10) / DRAWN_BYTES
        for error in (0.1, 0.05, 0.005)
    ]
    assert 0 < bounded[0] < bounded[1] < 1000 / 2 < bounded[2] < 1000


def test_a_meter_tells_the_rate_of_the_last_minute_and_begins_anew_with_the_counter() -> None:
    meter = Meter()
    for now in range(0, 200):
        meter.read(now, 0 if now < 100 else 10 * (now - 100))
    assert meter.rate == 10
    meter.read(200, 5)
    assert meter.rate is None


class Now:
    ms = 0

    def __call__(self) -> int:
        return self.ms


async def test_schedulers_are_asked_when_something_is_new_and_each_minute() -> None:
    now = Now()
    placer = Placer(now)
    city, job = build.city(), build.over_sites("q")
    places = await placer.place([job], city, {})
    assert set(places["q"]) == {"at-edge1", "at-edge2", "merge"}
    first = placer.outcome
    await placer.place([job], city, places)
    assert placer.outcome is first
    now.ms = 60_000
    assert await placer.place([job], city, places) == places
    assert placer.outcome is not first


async def test_schedulers_get_their_settings() -> None:
    placer = Placer(Now(), {"latency": {"margin": "wide"}})
    jobs = [build.over_sites("q", scheduler="latency")]
    await placer.place(jobs, build.city(), {})
    assert "margin must be" in placer.outcome.problems["latency"]
    outcome = await Placer(Now(), {"latency": {"margin": "wide"}}).would(jobs, build.city(), {})
    assert "margin must be" in outcome.problems["latency"]
