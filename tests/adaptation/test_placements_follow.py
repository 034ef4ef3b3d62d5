"""Placements that follow the fog, by real workers: links, batteries, prices and load that change.

The points are at a site without a worker, so each fragment can run on two workers.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from analytics_enabler.scheduling.driver import elasticity
from mistbow.clock import system_clock
from tests.adaptation.fog import HUB, AdaptiveFog, adaptive_fog
from tests.oracle.stored_points import compact_key, expected_values, stored_points
from tests.support.conditions import eventually
from tests.support.sender import Sender
from tests.support.traffic import Traffic

pytestmark = [pytest.mark.soak, pytest.mark.alone, pytest.mark.timeout(600)]

METRIC = "flow"
TEXT = f"mean = COMPUTE AVG({METRIC}, 4 SECONDS) BY entityID EVERY 2 SECONDS"
TRAFFIC = Traffic(metrics=(METRIC,), entities=("a", "b"), rate=20)


@dataclass
class Deployment:
    """A deployment with one insight over the points of the hub."""

    fog: AdaptiveFog
    id: str
    node: str

    @property
    def group(self) -> str:
        """The id of the group of the insight."""
        return self.fog.enabler.show(self.id).insights[0].group or ""

    def await_move(self) -> str:
        """Wait until another worker runs the insight; return why it has moved."""
        self.node = self.fog.await_node(self.id, former=self.node)
        moves = [
            each
            for each in self.fog.enabler.decisions()
            if each.kind == "fragment_moved" and each.subject == self.group
        ]
        return moves[-1].why

    def check_results(self) -> None:
        """Wait until all results up to now equal the oracle's."""
        until = system_clock() // 2000 * 2000
        since = self.fog.enabler.show(self.id).insights[0].since

        def equal() -> bool:
            points = stored_points(self.fog.sites[HUB], METRIC)
            right = expected_values(TEXT, points, since, until)
            stored = self.fog.enabler.results(self.id, limit=100_000, end=until).results
            found = {(r.insight, compact_key(r.key), r.ts): r.value for r in stored}
            assert found.keys() == right.keys()
            assert found == pytest.approx(right)
            return len(right) > 5

        eventually(equal, timeout=150, pause=1.0, what="the results equal the oracle's")


@pytest.fixture(scope="module")
def fog(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdaptiveFog]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elasticity, "HOT_MS", 2000)
        patch.setattr(elasticity, "COOL_MS", 5000)
        with (
            adaptive_fog(tmp_path_factory.mktemp("fog")) as running,
            Sender(running.sites[HUB].url, TRAFFIC),
        ):
            yield running


@pytest.fixture
def deploy(fog: AdaptiveFog) -> Iterator["Deploy"]:
    deployer = Deploy(fog)
    yield deployer
    fog.enabler.delete(deployer.id)
    eventually(
        lambda: not any(worker.list() for worker in fog.workers.values()),
        timeout=120,
        what="no fragment runs",
    )


class Deploy:
    """Deploys the insight with a scheduler, and waits until it runs."""

    def __init__(self, fog: AdaptiveFog) -> None:
        self.fog = fog
        self.id = ""

    def __call__(self, scheduler: str) -> Deployment:
        text = TEXT.replace(" EVERY", f" WHEN site == '{HUB}' EVERY")
        text = f"{text} WITH SCHEDULER={scheduler}"
        self.id = self.fog.enabler.submit(text).deployment_id
        return Deployment(self.fog, self.id, self.fog.await_node(self.id))


def test_insight_leaves_a_node_whose_link_degrades(fog: AdaptiveFog, deploy: Deploy) -> None:
    running = deploy("latency")
    link = fog.links[running.node]
    link.delay_s = 0.2
    try:
        running.await_move()
        running.check_results()
    finally:
        link.delay_s = 0.0


def test_insight_leaves_a_node_whose_battery_runs_low(fog: AdaptiveFog, deploy: Deploy) -> None:
    running = deploy("energy")
    low = running.node
    fog.declare(low, node_battery_wh=100, node_charge_wh=5)
    try:
        running.await_move()
        running.check_results()
        metrics = {each.name: each.battery for each in fog.enabler.fog().nodes}
        assert metrics[low] is not None
    finally:
        fog.declare(low, node_battery_wh=-1, node_charge_wh=-1)


def test_insight_leaves_a_node_whose_price_rises(fog: AdaptiveFog, deploy: Deploy) -> None:
    running = deploy("cost(per_hour=1)")
    dear = running.node
    fog.declare(dear, node_price_per_core_hour=1000)
    try:
        running.await_move()
        running.check_results()
    finally:
        fog.declare(dear, node_price_per_core_hour=-1)


def test_insight_leaves_a_loaded_node(fog: AdaptiveFog, deploy: Deploy) -> None:
    running = deploy("latency")
    loaded = running.node
    fog.declare(loaded, node_cores_free=0.01)
    try:
        why = running.await_move()
        assert why.startswith(f"the worker {loaded} is a hot spot: its fragments need ")
        running.check_results()
    finally:
        fog.declare(loaded, node_cores_free=-1)

    def kinds() -> bool:
        found = [each.kind for each in fog.enabler.decisions() if each.subject == loaded]
        return found[-2:] == ["hotspot_found", "hotspot_ended"]

    eventually(kinds, timeout=120, what="the hot spot has ended")
