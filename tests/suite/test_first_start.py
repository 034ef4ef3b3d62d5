"""The first ``mistbow run`` in a new folder, which downloads the jars of Ignite."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ignite_server.ports import free_ports
from tests.support.conditions import eventually

_START_S = 300
_PORTS = (
    *("ignite", "ignite-discovery", "ignite-communication"),
    *("agent", "worker", "enabler", "monitor"),
)


@pytest.mark.usefixtures("processes")
@pytest.mark.timeout(_START_S + 120)
def test_ignite_starts_where_its_jars_are_not_downloaded_yet(tmp_path: Path) -> None:
    home, output = tmp_path / "home", tmp_path / "run.txt"
    argv = [sys.executable, "-m", "command_line.app", "run", "--home", str(home)]
    for name, port in zip(_PORTS, free_ports(len(_PORTS)), strict=True):
        argv += [f"--{name}-port", str(port)]
    with output.open("wb") as file:
        process = psutil.Popen(argv, stdout=file, stderr=subprocess.STDOUT)
    try:
        eventually(
            lambda: "ignite is ready" in output.read_text(),
            timeout=_START_S,
            what="Ignite is ready",
        )
    finally:
        family = [process, *process.children(recursive=True)]
        process.send_signal(signal.SIGINT)
        _, left = psutil.wait_procs(family, timeout=60)
        for each in left:
            each.kill()
