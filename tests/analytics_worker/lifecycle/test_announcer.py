"""The announcement of a worker while the lookup of operators in other packages hangs."""

import threading
from pathlib import Path

import pytest

from analytics.operators.registry import Registry, installed
from analytics_worker.lifecycle import announcer as announcer_module
from analytics_worker.lifecycle.announcer import Announcer, announcement
from analytics_worker.settings import WorkerSettings
from mistbow.client.agent import AgentClient
from tests.support.conditions import eventually
from tests.support.operators import install_example_operators


def test_worker_is_announced_while_the_lookup_of_operators_hangs(
    agent: AgentClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_example_operators(tmp_path, monkeypatch)
    goes_on = threading.Event()

    def hanging() -> Registry:
        goes_on.wait()
        return installed()

    monkeypatch.setattr(announcer_module, "installed", hanging)

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
