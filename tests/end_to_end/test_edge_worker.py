"""A worker with the memory of an edge node runs four fragments, and the kernel kills none of its
processes.

``python -m benchmarks.edge_worker`` measures the same for ten minutes.
"""

import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from analytics.client.enabler import EnablerClient
from analytics.client.worker import WorkerClient
from ignite_server.server import IgniteServer
from mistbow.clock import system_clock
from tests.support.conditions import eventually
from tests.support.edge_insights import FRAGMENTS, INSIGHTS, LIMIT_MB, METRICS
from tests.support.memory_group import MemoryGroup, memory_group, needs_memory_groups
from tests.support.oracle_results import await_results
from tests.support.sender import Sender
from tests.support.services import service, storage_agent
from tests.support.traffic import Traffic

pytestmark = [needs_memory_groups, pytest.mark.alone, pytest.mark.timeout(600)]

ENTITIES = tuple(f"e{number}" for number in range(10))
TRAFFIC = Traffic(metrics=METRICS, entities=ENTITIES, rate=1000)


def watch(group: MemoryGroup, seconds: float) -> float:
    """Return the most memory (MB) by which the kernel decides to kill, measured each second."""
    until, most = time.monotonic() + seconds, group.working_set_mb
    while time.monotonic() < until:
        time.sleep(1.0)
        most = max(most, group.working_set_mb)
    return most


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    "seconds",
    [pytest.param(20.0, id="short"), pytest.param(60.0, marks=pytest.mark.soak, id="long")],
)
def test_worker_with_1_gb_runs_four_fragments_at_1000_points_a_second(
    tmp_path: Path, seconds: float
) -> None:
    with ExitStack() as stack:
        group = stack.enter_context(memory_group(LIMIT_MB))
        ignite = stack.enter_context(IgniteServer(tmp_path / "site"))
        agent = stack.enter_context(storage_agent(tmp_path / "site", ignite.port, node="n1"))
        worker = stack.enter_context(
            service(
                "analytics_worker", "worker_port", home=tmp_path / "worker", node="w1",
                agent_url=agent.url, prefix=group.prefix,
            )
        )  # fmt: skip
        url = stack.enter_context(
            service(
                "analytics_enabler", "enabler_port", home=tmp_path / "enabler", agent_url=agent.url
            )
        ).url
        statuses, enabler = WorkerClient(worker.url), EnablerClient(url)
        stack.callback(statuses.close)
        stack.callback(enabler.close)

        def all_run() -> bool:
            return [each.state for each in statuses.list()] == ["running"] * FRAGMENTS

        stack.enter_context(Sender(agent.url, TRAFFIC))
        deployment = enabler.submit(INSIGHTS, name="edge").deployment_id
        eventually(all_run, timeout=180, what="four fragments run")
        most = watch(group, seconds)
        await_results(enabler, deployment, system_clock())
        eventually(all_run, timeout=60, what="four fragments run at the end")
        print(f"used at most {most:.0f} of {LIMIT_MB} MB")
        assert group.oom_kills == 0
