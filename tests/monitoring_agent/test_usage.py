"""The use of CPU and memory of a container, in files and in a control group of the kernel."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from mistbow import control_groups
from monitoring_agent.collectors.host import HostCollector
from monitoring_agent.collectors.interface import make_collectors
from monitoring_agent.collectors.usage import ContainerUsage, MachineUsage, usage_of
from monitoring_agent.settings import MonitorScope, MonitorSettings
from tests.support.conditions import eventually
from tests.support.memory_group import memory_group, needs_cpu_groups, needs_memory_groups

MB = 2**20
LIMITED = {"cpu.max": "50000 100000", "memory.max": f"{64 * MB}", "memory.current": f"{40 * MB}"}
LOAD = f"block = b'1' * {32 * MB}\nwhile True: pass"


def seconds() -> Callable[[], float]:
    """Return a clock that is a second later at each call."""
    return iter(map(float, range(100))).__next__


@pytest.fixture
def container(tmp_path: Path) -> Path:
    """The folder of a container's group with 0.5 cores and 64 MB."""
    for name, text in LIMITED.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "memory.stat").write_text(f"anon {24 * MB}\ninactive_file {16 * MB}\n")
    use(tmp_path, 10.0)
    return tmp_path


def use(root: Path, cpu_s: float) -> None:
    (root / "cpu.stat").write_text(f"usage_usec {round(cpu_s * 1e6)}\n")


def test_cpu_of_a_container_is_the_share_of_its_limit(container: Path) -> None:
    usage = ContainerUsage(container, seconds())
    use(container, 10.25)
    assert usage.cpu_percent() == 50
    assert usage.cpu_percent() == 0


def test_changed_cpu_limit_is_read_again(container: Path) -> None:
    usage = ContainerUsage(container, seconds())
    (container / "cpu.max").write_text("25000 100000")
    use(container, 10.2)
    assert usage.cpu_percent() == pytest.approx(80)
    use(container, 11)  # used before the limit was reduced
    assert usage.cpu_percent() == 100


def test_cpu_of_a_container_without_a_limit_is_the_share_of_its_cores(container: Path) -> None:
    (container / "cpu.max").write_text("max 100000")
    usage = ContainerUsage(container, seconds())
    use(container, 10.5)
    assert usage.cpu_percent() == 50 / len(os.sched_getaffinity(0))


def test_memory_of_a_container_is_the_share_of_its_limit_without_cache(container: Path) -> None:
    memory = ContainerUsage(container).memory()
    assert (memory.percent, memory.used, memory.available) == (37.5, 24 * MB, 40 * MB)


def test_memory_of_a_container_without_a_limit_is_the_share_of_the_machine(container: Path) -> None:
    (container / "memory.max").write_text("max")
    memory, total = ContainerUsage(container).memory(), psutil.virtual_memory().total
    assert memory.used == 24 * MB
    assert memory.percent == 100 * 24 * MB / total
    assert 0 < memory.available <= total - 24 * MB


def test_usage_without_a_control_group_is_that_of_the_machine(tmp_path: Path) -> None:
    usage = ContainerUsage(tmp_path)
    assert usage.cpu_percent() is not None
    assert usage.memory().available > 0


@pytest.mark.parametrize(
    ("scope", "in_container", "expected"),
    [
        ("auto", True, ContainerUsage),
        ("auto", False, MachineUsage),
        ("machine", True, MachineUsage),
        ("container", False, ContainerUsage),
    ],
)
def test_scope_selects_what_is_measured(
    container: Path, scope: MonitorScope, expected: type, *, in_container: bool
) -> None:
    if in_container:
        (container / "cgroup.type").write_text("domain\n")
    assert type(usage_of(scope, container)) is expected


@needs_memory_groups
@needs_cpu_groups
def test_host_collector_measures_the_control_group_of_its_scope(
    processes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy loop takes all of the quarter of a core that its group has."""
    with memory_group(64, cores=0.25) as group:
        busy = psutil.Popen([*group.prefix, sys.executable, "-Sc", LOAD])
        try:
            monkeypatch.setattr(control_groups, "_MEMBERSHIP", Path(f"/proc/{busy.pid}/cgroup"))
            host, *_ = make_collectors(MonitorSettings(node="n1", monitor_scope="container"))
            assert isinstance(host, HostCollector)
            busy.cpu_percent()

            def shows_the_load() -> bool:
                found = {each.metric: float(each.value) for each in host.collect(0)}
                used, share_of_a_core = found["memory.used"], busy.cpu_percent()
                return (
                    # Without a point until the program is in the group.
                    found.get("cpu.util", 0) > 90
                    and 0 < share_of_a_core < 50
                    and 32 * MB <= used < 52 * MB
                    and found["memory.util"] == 100 * used / (64 * MB)
                    and found["memory.available"] == 64 * MB - used
                )

            # Over half a second: the kernel divides the time into parts of 0.1 s.
            eventually(shows_the_load, pause=0.5, what="the load in relation to the limits")
        finally:
            busy.kill()
            busy.wait()
