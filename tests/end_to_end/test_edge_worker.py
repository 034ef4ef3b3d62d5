"""A worker with the memory of an edge node runs four fragments, and the kernel kills none of its
processes.

``python -m benchmarks.edge_worker`` measures the same for ten minutes.
"""

import time
from pathlib import Path

import pytest

from mistbow.clock import system_clock
from tests.support.conditions import eventually
from tests.support.confined_site import confined_site
from tests.support.edge_insights import FRAGMENTS, INSIGHTS, LIMIT_MB, METRICS
from tests.support.memory_group import MemoryGroup, needs_memory_groups
from tests.support.oracle_results import await_results
from tests.support.sender import Sender
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
    with confined_site(tmp_path, LIMIT_MB) as site:

        def all_run() -> bool:
            return [each.state for each in site.worker.list()] == ["running"] * FRAGMENTS

        with Sender(site.agent.url, TRAFFIC):
            deployment = site.enabler.submit(INSIGHTS, name="edge").deployment_id
            eventually(all_run, timeout=180, what="four fragments run")
            most = watch(site.group, seconds)
            await_results(site.enabler, deployment, system_clock())
            eventually(all_run, timeout=60, what="four fragments run at the end")
            print(f"used at most {most:.0f} of {LIMIT_MB} MB")
            assert site.group.oom_kills == 0
