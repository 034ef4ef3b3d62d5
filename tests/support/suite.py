"""The whole suite: ``mistbow run`` in a process of its own."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from analytics.client.enabler import EnablerClient
from analytics.client.worker import WorkerClient
from ignite_server.ports import free_ports
from mistbow.client.agent import AgentClient
from suite.services import PACKAGES
from suite.settings import RunSettings
from tests.support.conditions import eventually

_PORTS = (
    "ignite",
    "ignite-discovery",
    "ignite-communication",
    "agent",
    "worker",
    "enabler",
    "monitor",
)


@dataclass
class Suite:
    """A running suite and clients of its services."""

    process: psutil.Popen
    home: Path
    ports: dict[str, int]

    def __post_init__(self) -> None:
        self.agent = AgentClient(self.url("agent"))
        self.enabler = EnablerClient(self.url("enabler"))
        self.worker = WorkerClient(self.url("worker"))

    def url(self, service: str) -> str:
        """Return the address of a service."""
        return f"http://127.0.0.1:{self.ports[service]}"

    def find(self, service: str) -> psutil.Process:
        """Return the process of a service of the suite."""
        for child in self.process.children(recursive=True):
            try:
                words = child.cmdline()
            except psutil.Error:  # it has just ended
                continue
            if service == "ignite" and any("CommandLineStartup" in word for word in words):
                return child
            if words[-2:] == ["-m", PACKAGES.get(service)]:
                return child
        raise AssertionError(f"no process of {service}")

    def kill(self, service: str) -> None:
        """Kill a service, and wait until a new process has replaced it."""
        victim = self.find(service)
        victim.kill()
        eventually(lambda: self.find(service).pid != victim.pid, what=f"{service} is started again")


@contextmanager
def suite_process(home: Path, *options: str) -> Iterator[tuple[psutil.Popen, dict[str, int]]]:
    """Run ``mistbow run`` on free ports within the ``with``; fail if a process is left after it.

    Yield the process, and name -> port. The output is in the file ``run.txt`` of ``home``.
    """
    ports = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))
    argv = [sys.executable, "-m", "command_line.app", "run", "--home", str(home), *options]
    for name, port in ports.items():
        argv += [f"--{name}-port", str(port)]
    home.mkdir(parents=True, exist_ok=True)
    # The suite restricts the modes of its files itself.
    home.chmod(0o777)
    with (home / "run.txt").open("ab") as output:
        process = psutil.Popen(argv, stdout=output, stderr=subprocess.STDOUT, umask=0)
    try:
        yield process, ports
    finally:
        family = [process, *process.children(recursive=True)]
        process.send_signal(signal.SIGINT)
        _, left = psutil.wait_procs(family, timeout=40)
        for each in left:
            each.kill()
    assert not left, f"processes left over: {left}"


def wait_for_line(home: Path, text: str, timeout: float) -> None:
    """Wait until the output of the suite in ``home`` has a text."""
    output = home / "run.txt"
    eventually(lambda: text in output.read_text(), timeout=timeout, what=text)


@contextmanager
def running_suite(home: Path, insights: Path) -> Iterator[Suite]:
    """Run the suite within the ``with``, from its first insight value on; see ``suite_process``."""
    options = ("--jars", str(RunSettings().jars_folder), "--insights", str(insights))
    with suite_process(home, *options) as (process, ports):
        suite = Suite(process, home, ports)
        wait_for_line(home, "first insight value", 150)
        yield suite
