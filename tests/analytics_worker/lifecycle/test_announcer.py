"""The announcement of a worker while the lookup of operators in other packages hangs."""

import threading
from pathlib import Path

import msgspec
import pytest

from analytics.operators.registry import Registry, installed
from analytics_worker.lifecycle import announcer as announcer_module
from analytics_worker.lifecycle.announcer import Announcer, announcement
from analytics_worker.settings import WorkerSettings
from mistbow.client.agent import AgentClient
from mistbow.fabric import Worker
from tests.support.conditions import eventually
from tests.support.operators import install_example_operators


def unchanged(worker: Worker) -> Worker:
    """Return an announcement with the capacity that it has."""
    return worker


def test_refused_worker_reports_why_until_the_name_is_free(
    agent: AgentClient, tmp_path: Path
) -> None:
    def settings(port: int) -> WorkerSettings:
        url = f"http://127.0.0.1:{port}"
        return WorkerSettings(home=tmp_path, agent_url=agent.url, node="twin", worker_url=url)

    def addresses() -> list[str]:
        sites = agent.fabric().sites
        return [each.url for site in sites for each in site.workers if each.name == "twin"]

    first, second = (
        Announcer(agent, announcement(settings(port)), unchanged) for port in (8101, 8102)
    )
    first.start()
    try:
        eventually(lambda: addresses() == ["http://127.0.0.1:8101"])
        second.start()
        refusal = eventually(lambda: second.refusal)
        assert "http://127.0.0.1:8101" in refusal
        assert "MISTBOW_NODE" in refusal
        assert (first.refusal, addresses()) == (None, ["http://127.0.0.1:8101"])
        first.stop()
        eventually(lambda: addresses() == ["http://127.0.0.1:8102"])
        eventually(lambda: second.refusal is None)
    finally:
        for announcer in (first, second):
            announcer.stop()


def test_refused_worker_does_not_remove_the_other_when_it_stops(
    agent: AgentClient, tmp_path: Path
) -> None:
    settings = WorkerSettings(home=tmp_path, agent_url=agent.url, node="twin")
    other = msgspec.structs.replace(announcement(settings), url="http://127.0.0.1:8109")
    agent.announce(other)
    refused = Announcer(agent, announcement(settings), unchanged)
    refused.start()
    eventually(lambda: refused.refusal)
    agent.announce(other)
    refused.stop()
    assert other in [each for site in agent.fabric().sites for each in site.workers]
    agent.leave("twin", other.instance)


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

    settings = WorkerSettings(home=tmp_path, agent_url=agent.url)
    announcer = Announcer(agent, announcement(settings), unchanged)
    announcer.start()
    try:
        eventually(lambda: operators() == [()])
        goes_on.set()
        eventually(lambda: any("gap" in name.lower() for one in operators() for name in one))
    finally:
        goes_on.set()
        announcer.stop()
