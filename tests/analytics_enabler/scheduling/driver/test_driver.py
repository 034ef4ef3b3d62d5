"""The driver of schedulers, its fog snapshots, and its estimates of traffic."""

import msgspec
import pytest

from analytics.plan.expressions import Source
from analytics.plan.fragments import Partial, StreamLocation
from analytics.plan.nodes import Pane
from analytics_enabler.catalogue import SeriesLocation
from analytics_enabler.execution.rate_meter import RateMeter
from analytics_enabler.optimizer import optimize
from analytics_enabler.scheduling.driver import driver
from analytics_enabler.scheduling.driver.driver import (
    FIGURES_MS,
    MIN_STAY_MS,
    NodesByJob,
    PlacementDriver,
)
from analytics_enabler.scheduling.driver.hysteresis import (
    LASTING_LOSS_MS,
    LastingLoss,
    stabilize,
)
from analytics_enabler.scheduling.driver.retries import RETRY_MS
from analytics_enabler.scheduling.driver.snapshot import fog_of
from analytics_enabler.scheduling.driver.traffic import (
    CARRIED_BYTES,
    DRAWN_BYTES,
    PANE_BYTES,
    estimate_pane_bytes,
)
from analytics_enabler.scheduling.model.jobs import Job
from analytics_enabler.scheduling.model.snapshot import Battery, Fog, Link, SourceQuality
from mistbow.fabric import Battery as AnnouncedBattery
from mistbow.fabric import Fabric, Position, Power, Site, SiteLink, Worker
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


def test_snapshot_has_suspected_workers_and_their_reliability() -> None:
    paused = worker("w5", suspected=True, reliability=0.5)
    lost = Site(name="lost", node="l", url="", reachable=False, suspected=True, workers=(paused,))
    away = Site(name="away", node="a", url="", reachable=False, suspected=True,
                workers=(worker("w6"), worker("w2")))  # fmt: skip
    fabric = Fabric(site="cloud", sites=(*FABRIC.sites, away, lost))
    fog = fog_of(fabric, suspected={"w3"})
    assert {name: node.suspected for name, node in fog.by_name.items()} == {
        "w1": False,
        "w2": False,
        "w3": True,
        "w5": True,
        "w6": True,
    }
    assert (fog.by_name["w5"].reliability, fog.by_name["w6"].reliability) == (0.5, 1.0)
    assert fog.by_name["w2"].site == "edge"


def test_unmeasured_direction_of_link_has_latency_of_other() -> None:
    fog = fog_of(FABRIC)
    assert fog.latency_ms("w1", "w2") == fog.latency_ms("w2", "w1") == 20


def test_memory_of_other_domains_is_not_free() -> None:
    one, other = fog_of(FABRIC, dead={"w3"}, others_mb={"w2": 360.0, "w9": 180.0}).nodes
    assert (one.memory_free_mb, other.memory_free_mb) == (1024.0, 664.0)
    [full] = fog_of(FABRIC, dead={"w1", "w3"}, others_mb={"w2": 9000.0}).nodes
    assert full.memory_free_mb == 0


def test_snapshot_has_measured_timeliness_of_sites() -> None:
    fog = fog_of(FABRIC, sources=[SourceQuality(site="edge", timeliness=0.9)])
    assert fog.sources == (SourceQuality(site="edge", timeliness=0.9),)


def test_snapshot_has_loss_and_bandwidth_of_links() -> None:
    links = (
        SiteLink(source="cloud", target="edge", latency_ms=20, loss=0.1, bandwidth_mbps=8.0),
        SiteLink(source="edge", target="cloud", latency_ms=20),
    )
    there, back = fog_of(msgspec.structs.replace(FABRIC, links=links)).links
    assert (there.loss, there.bandwidth_mbps) == (0.1, 8.0)
    assert (back.loss, back.bandwidth_mbps) == (0.0, None)


def test_snapshot_has_declared_facts_of_nodes() -> None:
    battery = AnnouncedBattery(capacity_wh=100, charge_wh=40, charging_w=5, next_charge_at=90_000)
    power, position = Power(idle_w=2, full_w=8), Position(latitude=35.1, longitude=33.4)
    declared = worker(
        "w",
        power=power,
        battery=battery,
        price_per_core_hour=0.5,
        price_per_gb=2,
        position=position,
    )
    fabric = Fabric(site="s", sites=(Site(name="s", node="n", url="", workers=(declared,)),))
    [node] = fog_of(fabric, now_ms=60_000).nodes
    assert (node.power, node.position) == (power, position)
    assert (node.price_per_core_hour, node.price_per_gb) == (0.5, 2)
    assert node.battery == Battery(capacity_wh=100, charge_wh=40, charging_w=5, next_charge_s=30.0)
    [plain] = fog_of(fabric_of_plain_worker()).nodes
    assert (plain.power, plain.battery, plain.position) == (None, None, None)


def fabric_of_plain_worker() -> Fabric:
    """Return a fabric with a worker that declares nothing."""
    return Fabric(site="s", sites=(Site(name="s", node="n", url="", workers=(worker("w"),)),))


def test_small_changes_of_a_battery_are_no_change_of_the_fog() -> None:
    def with_battery(charge_wh: float, next_charge_s: float | None) -> Fog:
        battery = Battery(capacity_wh=100, charge_wh=charge_wh, next_charge_s=next_charge_s)
        return Fog((build.node("n", battery=battery),))

    former = with_battery(50, 7200)
    assert stabilize(with_battery(47, 6700), former) == former
    assert stabilize(with_battery(44, 6700), former) == with_battery(44, 7200)
    assert stabilize(with_battery(47, 6000), former) == with_battery(50, 6000)
    assert stabilize(with_battery(50, None), former) == with_battery(50, None)
    assert stabilize(Fog((build.node("n"),)), former) == Fog((build.node("n"),))


def test_loss_of_a_link_counts_once_it_has_lasted() -> None:
    losses = LastingLoss()

    def seen(at: int, loss: float) -> float:
        fog = Fog((build.node("n"),), (Link(source="n", target="m", latency_ms=1, loss=loss),))
        losses.observe(fog, at)
        [link] = losses.lasting(fog, at).links
        return link.loss

    # An outage of 20 s is in the figure for a minute after it.
    outage = [seen(1000 * second, 0.3) for second in range(80)]
    assert {*outage, seen(81_000, 0.0)} == {0.0}
    assert seen(100_000, 0.2) == 0.0
    assert seen(100_000 + LASTING_LOSS_MS - 1, 0.4) == 0.0
    assert seen(100_000 + LASTING_LOSS_MS, 0.3) == 0.3


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


def with_memory(fog: Fog, node: str, free_mb: float) -> Fog:
    """Return a fog in which a node has another free memory."""
    nodes = [
        msgspec.structs.replace(each, memory_free_mb=free_mb) if each.name == node else each
        for each in fog.nodes
    ]
    return Fog(tuple(nodes), fog.links)


@pytest.mark.usefixtures("processes")
async def test_driver_decides_again_when_capacity_changes_but_not_for_noise() -> None:
    placement_driver = PlacementDriver(Now())
    job = build.over_sites("q")
    city = with_memory(build.city(), "edge1", 1000)
    places = await placement_driver.place([job], city, {})
    first = placement_driver.outcome
    for noise in (980, 1030, 970):
        await placement_driver.place([job], with_memory(city, "edge1", noise), places)
        assert placement_driver.outcome is first
    full = await placement_driver.place([job], with_memory(city, "edge1", 0), places)
    assert set(full["q"]) == {"at-edge2", "merge"}
    [refusal] = [each for each in placement_driver.refusals("q") if each.task == "at-edge1"]
    assert refusal.reason.endswith("MB of memory needed, 0 free")
    assert await placement_driver.place([job], city, full) == places


@pytest.mark.usefixtures("processes")
async def test_driver_explains_moves_after_it_has_placed_the_tasks() -> None:
    placement_driver = PlacementDriver(Now())
    fog = build.fog(build.node("a", cores_free=0.25), build.node("b"))
    jobs = [build.job("q", build.task("t"))]
    assert await placement_driver.place(jobs, fog, {"q": {"t": "a"}}) == {"q": {"t": "b"}}
    assert placement_driver.reasons == {}
    await placement_driver.explain()
    assert "a lacks capacity" in placement_driver.reasons["q", "t"]


@pytest.mark.usefixtures("processes")
async def test_driver_passes_settings_to_scheduler() -> None:
    placement_driver = PlacementDriver(Now(), {"latency": {"margin": "wide"}})
    jobs = [build.over_sites("q", scheduler="latency")]
    await placement_driver.place(jobs, build.city(), {})
    assert "margin: Expected" in placement_driver.outcome.problems["latency"]
    outcome = await PlacementDriver(Now(), {"latency": {"margin": "wide"}}).preview(
        jobs, build.city(), {}
    )
    assert "margin: Expected" in outcome.problems["latency"]


@pytest.mark.usefixtures("third_party")
async def test_driver_retries_failed_request_with_back_off() -> None:
    now = Now()
    placement_driver = PlacementDriver(now)
    jobs = [build.over_sites("q", scheduler="raising"), build.over_sites("r", scheduler="fair")]
    calls = []
    places: NodesByJob = {}
    former = placement_driver.outcome
    for now.ms in range(0, 20_000, 500):
        places = await placement_driver.place(jobs, build.city(), places)
        if placement_driver.outcome is not former:
            former = placement_driver.outcome
            calls.append(now.ms)
    assert calls == [0, RETRY_MS, 3 * RETRY_MS, 7 * RETRY_MS]
    assert "the stars stand badly" in former.problems["raising"]
    assert set(places["r"]) == {"at-edge1", "at-edge2", "merge"}
    # Other jobs are another request.
    other = [build.over_sites("s", scheduler="raising")]
    await placement_driver.place(other, build.city(), places)
    assert placement_driver.outcome is not former


@pytest.mark.usefixtures("third_party")
async def test_driver_sends_failed_request_of_a_lost_node_again_at_once() -> None:
    now = Now()
    placement_driver = PlacementDriver(now)
    jobs = [build.job("q", build.task("t"), scheduler="raising")]
    fog, without = build.fog(build.node("a"), build.node("b")), build.fog(build.node("b"))
    places: NodesByJob = {"q": {"t": "a"}}
    calls = []
    former = placement_driver.outcome
    for now.ms in (0, RETRY_MS, 3 * RETRY_MS, 4 * RETRY_MS, 4 * RETRY_MS + 500, 5 * RETRY_MS):
        present = fog if now.ms < 4 * RETRY_MS else without
        places = await placement_driver.place(jobs, present, places)
        if placement_driver.outcome is not former:
            former = placement_driver.outcome
            calls.append(now.ms // RETRY_MS)
    assert calls == [0, 1, 3, 4, 5]
    assert places == {}


def beside(to_a: float, to_b: float) -> Fog:
    """Return a fog of a small node ``edge``, and two nodes a and b at these latencies (ms)."""
    small = build.node("edge", cores=1)
    links = {("edge", "a"): to_a, ("edge", "b"): to_b}
    return build.fog(small, build.node("a"), build.node("b"), links=links)


@pytest.mark.usefixtures("processes")
async def test_moved_job_stays_unless_its_node_is_lost() -> None:
    now = Now()
    placement_driver = PlacementDriver(now)
    data, merge = build.task("data", "edge"), build.task("merge")
    job = build.job("q", data, merge, streams="data>merge", sink="edge", scheduler="latency")
    places: NodesByJob = {}

    async def merge_after(ms: int, fog: Fog) -> str:
        nonlocal places
        now.ms = ms
        places = await placement_driver.place([job], fog, places)
        return places["q"]["merge"]

    assert await merge_after(0, beside(10, 60)) == "a"
    # The first placement is no move.
    assert await merge_after(FIGURES_MS, beside(60, 10)) == "b"
    assert await merge_after(2 * FIGURES_MS, beside(10, 60)) == "b"
    assert await merge_after(MIN_STAY_MS, beside(10, 60)) == "b"
    assert await merge_after(FIGURES_MS + MIN_STAY_MS, beside(10, 60)) == "a"
    lost = beside(10, 60)
    without_a = msgspec.structs.replace(lost, nodes=(lost.nodes[0], lost.nodes[2]))
    assert await merge_after(FIGURES_MS + 1_000 + MIN_STAY_MS, without_a) == "b"


async def placed_at(
    placement_driver: PlacementDriver, now: Now, steps: dict[int, tuple[Job, Fog]]
) -> list[int]:
    """Place a job in a fog at each time (ms); return the times at which this took a decision."""
    places: NodesByJob = {}
    decided = []
    former = placement_driver.outcome
    for now.ms, (job, fog) in steps.items():
        places = await placement_driver.place([job], fog, places)
        if placement_driver.outcome is not former:
            former = placement_driver.outcome
            decided.append(now.ms)
    return decided


@pytest.mark.usefixtures("processes")
async def test_figures_that_change_each_second_take_a_decision_each_ten_seconds() -> None:
    now = Now()
    job = build.job("q", build.task("data", "edge"), sink="edge", scheduler="latency")
    steps = {at: (job, beside(10 + at % 100_000 / 20, 60)) for at in range(0, 21_000, 1000)}
    assert await placed_at(PlacementDriver(now), now, steps) == [0, 10_000, 20_000]


@pytest.mark.usefixtures("processes")
async def test_changes_of_nodes_and_jobs_take_a_decision_at_once() -> None:
    now = Now()
    fog = beside(10, 60)
    job = build.job("q", build.task("data", "edge"), build.task("merge"), streams="data>merge",
        sink="edge")  # fmt: skip
    scaled = msgspec.structs.replace(
        fog, nodes=(msgspec.structs.replace(fog.nodes[0], cores=2), *fog.nodes[1:])
    )
    without_a = msgspec.structs.replace(scaled, nodes=(scaled.nodes[0], scaled.nodes[2]))
    moved = msgspec.structs.replace(job, sink="b")
    steps = {
        0: (job, fog),
        1_000: (job, scaled),
        2_000: (job, without_a),
        3_000: (moved, without_a),
        4_000: (moved, beside(10, 61)),
    }
    assert await placed_at(PlacementDriver(now), now, steps) == [0, 1_000, 2_000, 3_000, 4_000]


@pytest.mark.usefixtures("processes")
async def test_free_memory_takes_a_decision_at_once_if_it_is_too_little_or_a_task_waits() -> None:
    now = Now()
    job, fog = build.over_sites("q"), build.city()
    steps = {
        at: (job, with_memory(fog, "edge1", free_mb))
        for at, free_mb in {0: 2048, 1_000: 1500, 2_000: 500, 3_000: 400, 4_000: 1000}.items()
    }
    # At 500 MB, a task of 512 MB lacks memory; at 1000 MB, it is placed again.
    assert await placed_at(PlacementDriver(now), now, steps) == [0, 2_000, 3_000, 4_000]


@pytest.mark.usefixtures("processes")
async def test_task_leaves_a_drained_node_as_soon_as_another_one_has_memory() -> None:
    now = Now()
    placement_driver = PlacementDriver(now)
    jobs = [build.job("q", build.task("t"))]
    places: NodesByJob = {"q": {"t": "drained"}}
    found = []
    for now.ms, free_mb in ((0, 100), (1_000, 300), (2_000, 600)):
        fog = build.fog(build.node("a", memory_free_mb=free_mb))
        found.append(await placement_driver.place(jobs, fog, places, {"drained"}))
    assert found == [{}, {}, {"q": {"t": "a"}}]


@pytest.mark.usefixtures("processes")
async def test_job_of_a_lost_node_does_not_move_back_at_once() -> None:
    now = Now()
    placement_driver = PlacementDriver(now)
    job = build.job("q", build.task("data", "edge"), build.task("merge"), streams="data>merge",
        sink="edge", scheduler="latency")  # fmt: skip
    near_a = beside(10, 60)
    without_a = msgspec.structs.replace(near_a, nodes=(near_a.nodes[0], near_a.nodes[2]))
    places: NodesByJob = {}
    found = []
    for now.ms, fog in (
        (0, near_a),
        (1_000, without_a),
        (2_000, near_a),
        (1_000 + MIN_STAY_MS, near_a),
    ):
        places = await placement_driver.place([job], fog, places)
        found.append(places["q"]["merge"])
    assert found == ["a", "b", "b", "a"]


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("scheduler", ["fair", "latency", "energy", "cost", "quality"])
async def test_reader_of_a_lost_worker_s_site_does_not_move_home_at_once(scheduler: str) -> None:
    now = Now()
    placement_driver = PlacementDriver(now)
    data = build.task("data", "edge", remotely_readable=True)
    merge = build.task("merge")
    job = build.job("q", data, merge, streams="data>merge", sink="cloud", scheduler=scheduler)
    cloud, edge = build.node("c", site="cloud"), build.node("e", site="edge")
    links = {("cloud", "edge"): 10.0}
    complete, without = build.fog(cloud, edge, links=links), build.fog(cloud, links=links)
    places: NodesByJob = {}
    found = []
    for now.ms, fog in (
        (0, complete),
        (1_000, without),
        (2_000, complete),
        (1_000 + MIN_STAY_MS, complete),
    ):
        places = await placement_driver.place([job], fog, places)
        found.append(places["q"]["data"])
    assert found == ["e", "c", "c", "e"]


@pytest.mark.usefixtures("processes")
async def test_failure_of_the_reasons_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("a")

    monkeypatch.setattr(driver, "reasons_of_moves", fail)
    placement_driver = PlacementDriver(Now())
    fog = build.fog(build.node("a", cores_free=0.25), build.node("b"))
    jobs = [build.job("q", build.task("t"))]
    assert await placement_driver.place(jobs, fog, {"q": {"t": "a"}}) == {"q": {"t": "b"}}
    for _ in range(2):
        await placement_driver.explain()
    [record] = caplog.records
    assert "move_reasons_failed" in record.getMessage()
    assert placement_driver.reasons == {}
