"""A worker with 1 GB runs four fragments for a minute: the benchmark ``edge_worker``, guarded."""

import pytest

from benchmarks import edge_worker
from tests.support.memory_group import needs_memory_groups

pytestmark = [
    needs_memory_groups,
    pytest.mark.alone,
    pytest.mark.soak,
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("processes"),
]


def test_worker_with_1_gb_runs_four_fragments_without_a_kill() -> None:
    figures = edge_worker.run(seconds=60).figures
    missed = [f"{each.what}: {each.cells()}" for each in figures if each.missed]
    assert not missed
