"""The whole suite as a user starts it: ``mistbow run`` in a process of its own."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from mistbow.client.agent import AgentClient
from mistbow.client.enabler import EnablerClient
from mistbow.client.worker import WorkerClient
from mistbow.ports import free_ports
from mistbow.settings import RunSettings
from tests.support.waiting import eventually

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
        """Return the process of a service."""
        for child in self.process.children(recursive=True):
            try:
                words = child.cmdline()
            except psutil.Error:  # it has just ended
                continue
            if service == "ignite" and any("CommandLineStartup" in word for word in words):
                return child
            if words[-2:] == ["mistbow.cli.app", service]:
                return child
        raise AssertionError(f"no process of {service}")

    def kill(self, service: str) -> None:
        """End a service at once, as a crash would, and wait until another process has its place."""
        victim = self.find(service)
        victim.kill()
        eventually(lambda: self.find(service).pid != victim.pid, what=f"{service} is started again")


@contextmanager
def running_suite(home: Path, insights: Path) -> Iterator[Suite]:
    """Run the suite on free ports while the ``with`` lasts; then nothing of it may be left."""
    ports = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))
    argv = [sys.executable, "-m", "mistbow.cli.app", "run", "--home", str(home)]
    argv += ["--jars", str(RunSettings().jars_folder), "--insights", str(insights)]
    for name, port in ports.items():
        argv += [f"--{name}-port", str(port)]
    home.mkdir(parents=True, exist_ok=True)
    with (home / "run.txt").open("ab") as output:
        process = psutil.Popen(argv, stdout=output, stderr=subprocess.STDOUT)
    suite = Suite(process, home, ports)
    try:
        eventually(
            lambda: "first insight value" in (home / "run.txt").read_text(),
            timeout=150,
            what="the first insight value",
        )
        yield suite
    finally:
        family = [process, *process.children(recursive=True)]
        process.send_signal(signal.SIGINT)
        _, left = psutil.wait_procs(family, timeout=40)
        for each in left:
            each.kill()
    assert not left, f"processes left over: {left}"
