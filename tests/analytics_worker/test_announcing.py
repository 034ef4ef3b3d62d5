"""A worker is known to be there, whatever the packages of others do."""

import threading
from pathlib import Path

import pytest

from analytics_worker import announcing
from analytics_worker.announcing import Announcer, announcement
from mistbow.client.agent import AgentClient
from mistbow.operators.installed import Found, installed
from mistbow.settings import WorkerSettings
from tests.support.operators import know_example
from tests.support.waiting import eventually


def test_a_package_that_hangs_while_it_is_looked_at_keeps_no_worker_from_being_known(
    agent: AgentClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    know_example(tmp_path, monkeypatch)
    goes_on = threading.Event()

    def hanging() -> Found:
        goes_on.wait()
        return installed()

    monkeypatch.setattr(announcing, "installed", hanging)

    def operators() -> list[tuple[str, ...]]:
        workers = [worker for site in agent.fabric().sites for worker in site.workers]
        return [tuple(worker.operators) for worker in workers]

    announcer = Announcer(agent, announcement(WorkerSettings(home=tmp_path, agent_url=agent.url)))
    announcer.start()
    try:
        eventually(lambda: operators() == [()])
        goes_on.set()
        eventually(lambda: any("gap" in name.lower() for one in operators() for name in one))
    finally:
        goes_on.set()
        announcer.stop()
