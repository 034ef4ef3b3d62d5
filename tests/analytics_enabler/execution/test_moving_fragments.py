"""Fragments that move to another worker: the former worker runs them until the other one writes."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from analytics.client.enabler import EnablerClient
from tests.analytics_enabler.conftest import running_enabler
from tests.analytics_enabler.recording_worker import RecordingWorker
from tests.handovers.fog import Packages
from tests.handovers.steered_scheduler import STEER
from tests.support.conditions import eventually

QUERY = "cpu_now = COMPUTE AVG(cpu, 10 s) EVERY 5 s WITH SCHEDULER=steered"
STARTING = {"active": None, "state": "starting"}
FENCED = {"active": None, "state": "fenced"}


@dataclass
class Scene:
    """An enabler and two workers; the insight runs on the first worker."""

    agent_url: str
    home: Path
    first: RecordingWorker
    second: RecordingWorker
    steer: RecordingWorker
    enabler: ExitStack
    client: EnablerClient
    deployment: str = ""
    fragment: str = ""

    def start_enabler(self) -> None:
        url = self.enabler.enter_context(running_enabler(self.agent_url, self.home))
        self.client = EnablerClient(url)

    def deploy(self) -> None:
        self.steer_to(self.first)
        self.deployment = self.client.submit(QUERY).deployment_id
        eventually(lambda: self.first.fragments, what="the insight runs")
        (self.fragment,) = self.first.fragments
        self.first.frontier = self.client.show(self.deployment).insights[0].first_tick
        self.second.frontier = self.first.frontier

    def steer_to(self, worker: RecordingWorker) -> None:
        self.steer.operators = (f"{worker.name} 1.0",)

    def start_move(self) -> None:
        """Let the fragment start on the second worker, which does not write its results yet."""
        self.second.status_fields[self.fragment] = STARTING
        self.steer_to(self.second)
        eventually(lambda: self.second.fragments, what="it starts there")

    def await_rounds(self) -> None:
        """Wait until the enabler has asked both workers several times."""
        for _ in range(4):
            for worker in (self.first, self.second):
                worker.asked.clear()
                assert worker.asked.wait(30)


@pytest.fixture
def scene(agent_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    folder = tmp_path / "packages"
    folder.mkdir()
    Packages(folder, monkeypatch)
    workers = [RecordingWorker(name) for name in ("w1", "w2", STEER)]
    with ExitStack() as stack:
        for worker in workers:
            stack.enter_context(worker.running(agent_url))
        enabler = stack.enter_context(ExitStack())
        scene = Scene(agent_url, tmp_path, *workers, enabler, EnablerClient(agent_url))
        scene.start_enabler()
        scene.deploy()
        yield scene


def test_moving_fragment_runs_on_the_former_worker_until_the_new_one_writes(scene: Scene) -> None:
    scene.start_move()
    scene.await_rounds()
    assert scene.fragment in scene.first.fragments
    assert scene.client.show(scene.deployment).status == "running"
    scene.second.status_fields.clear()
    eventually(lambda: scene.fragment not in scene.first.fragments, what="it ends there")
    assert scene.client.show(scene.deployment).status == "running"


def test_fenced_fragment_that_has_moved_is_not_started_again(scene: Scene) -> None:
    scene.start_move()
    accepted = len(scene.first.accepted)
    scene.first.status_fields[scene.fragment] = FENCED
    scene.await_rounds()
    assert scene.fragment in scene.first.fragments
    assert len(scene.first.accepted) == accepted


def test_move_goes_on_after_a_restart_of_the_enabler(scene: Scene) -> None:
    scene.start_move()
    scene.enabler.close()
    scene.start_enabler()
    scene.await_rounds()
    assert scene.fragment in scene.first.fragments
    scene.second.status_fields.clear()
    eventually(lambda: scene.fragment not in scene.first.fragments, what="it ends there")


def test_placement_that_changes_back_stops_the_copy_only(scene: Scene) -> None:
    scene.start_move()
    accepted = len(scene.first.accepted)
    scene.steer_to(scene.first)
    eventually(lambda: scene.fragment not in scene.second.fragments, what="the copy ends")
    assert scene.fragment in scene.first.fragments
    assert len(scene.first.accepted) == accepted
