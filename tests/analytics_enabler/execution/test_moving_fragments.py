"""Fragments that move to another worker: the former worker runs them until the other one writes."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from analytics.client.enabler import EnablerClient
from tests.analytics_enabler.conftest import running_enabler
from tests.analytics_enabler.spark_worker import TEST_TIMEOUT_S, MakeWorker, SparkWorker, eventually
from tests.handovers.fog import Packages, Signpost

pytestmark = pytest.mark.timeout(TEST_TIMEOUT_S)

QUERY = "cpu_now = COMPUTE AVG(cpu, 2 s) EVERY 1 s WITH SCHEDULER=steered"


@dataclass
class Scene:
    """An enabler and two workers; the insight runs on the first worker."""

    agent_url: str
    home: Path
    first: SparkWorker
    second: SparkWorker
    steer: Signpost
    enabler: ExitStack
    client: EnablerClient
    deployment: str = ""
    fragment: str = ""

    def start_enabler(self) -> None:
        url = self.enabler.enter_context(running_enabler(self.agent_url, self.home))
        self.client = EnablerClient(url)

    def deploy(self) -> None:
        self.steer.point_to(self.first.name)
        self.deployment = self.client.submit(QUERY).deployment_id
        eventually(self.is_running, what="the insight runs")
        (self.fragment,) = self.first.fragments

    def is_running(self) -> bool:
        return self.client.show(self.deployment).status == "running"

    def start_move(self) -> None:
        """Let the fragment start on the second worker, where it does not catch up yet."""
        self.second.hold_queries()
        self.steer.point_to(self.second.name)
        eventually(lambda: self.second.fragments, what="it starts there")

    def await_end(self) -> None:
        """Let the second worker take over, and wait until the first one has ended the fragment."""
        self.second.release_queries()
        eventually(lambda: not self.first.statuses, timeout=60, what="it ends there")
        eventually(self.is_running)

    def await_rounds(self) -> None:
        """Wait until the enabler has asked both workers several times."""
        for worker in (self.first, self.second):
            worker.await_requests(4)


@pytest.fixture
def scene(
    agent_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_worker: MakeWorker
) -> Iterator[Scene]:
    folder = tmp_path / "packages"
    folder.mkdir()
    Packages(folder, monkeypatch)
    first, second, steer = make_worker("w1"), make_worker("w2"), Signpost()
    with ExitStack() as stack:
        for worker in (first, second):
            stack.enter_context(worker)
            worker.start(agent_url)
        stack.enter_context(steer.running(agent_url))
        enabler = stack.enter_context(ExitStack())
        scene = Scene(agent_url, tmp_path, first, second, steer, enabler, EnablerClient(agent_url))
        scene.start_enabler()
        scene.deploy()
        yield scene


def test_moving_fragment_runs_on_the_former_worker_until_the_new_one_writes(scene: Scene) -> None:
    scene.start_move()
    scene.await_rounds()
    assert scene.first.statuses[scene.fragment].state == "running"
    assert scene.is_running()
    scene.await_end()
    # The fenced fragment that has moved was not started again.
    assert len(scene.first.started) == 1


def test_move_goes_on_after_a_restart_of_the_enabler(scene: Scene) -> None:
    scene.start_move()
    scene.enabler.close()
    scene.start_enabler()
    scene.await_rounds()
    assert scene.first.statuses[scene.fragment].state == "running"
    scene.await_end()


def test_placement_that_changes_back_stops_the_copy_only(scene: Scene) -> None:
    scene.start_move()
    scene.steer.point_to(scene.first.name)
    eventually(lambda: not scene.second.statuses, what="the copy ends")
    assert scene.first.statuses[scene.fragment].state == "running"
    assert len(scene.first.started) == 1
