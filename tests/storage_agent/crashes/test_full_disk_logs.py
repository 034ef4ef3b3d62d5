"""A site's storage on a full disk: no secret and no traceback in logs; each line has a reason."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from ignite_server.ports import free_ports
from mistbow.clock import system_clock
from suite.settings import StorageSettings
from tests.storage_agent.crashes.disks import Disk, needs_disks
from tests.storage_agent.crashes.ways_in import Way, ways_in
from tests.support.conditions import eventually

pytestmark = [needs_disks, pytest.mark.usefixtures("processes"), pytest.mark.timeout(600)]

_SECRET = "the-token-of-a-full-site"  # noqa: S105 - of no site
_HEADERS = {"Authorization": f"Bearer {_SECRET}"}
_DISK_MB = 300
_PORTS = ("ignite", "ignite-discovery", "ignite-communication", "agent")
_TRACEBACK = re.compile(r'Traceback|^ +File "|Logging error', re.MULTILINE)


@contextmanager
def storage(home: Path, output: Path) -> Iterator[str]:
    """Run ``mistbow storage`` within the ``with``; yield the URL of its agent."""
    ports = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))
    argv = [sys.executable, "-m", "command_line.app", "storage", "--home", str(home)]
    argv += ["--jars", str(StorageSettings().jars_folder)]
    for name, port in ports.items():
        argv += [f"--{name}-port", str(port)]
    with output.open("ab") as file:
        process = psutil.Popen(
            argv,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "MISTBOW_TOKEN": _SECRET, "MISTBOW_COLLECT_ROUTES": "false"},
        )
    family = [process]
    try:
        yield f"http://127.0.0.1:{ports['agent']}"
    finally:
        family += process.children(recursive=True)
        process.send_signal(signal.SIGINT)
        _, left = psutil.wait_procs(family, timeout=60)
        for each in left:
            each.kill()


def put(url: str) -> httpx.Response:
    now = system_clock()
    items = [
        {"entityID": f"e{n}", "metricID": "m", "val": n, "timestamp": now + n} for n in range(500)
    ]
    return httpx.post(f"{url}/put", json={"monitoring": items}, headers=_HEADERS, timeout=30)


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", headers=_HEADERS, timeout=10).is_success
    except httpx.TransportError:
        return False


def check_refusal(name: str, send: Way) -> None:
    """Check that a way in refuses what it cannot store, with a status after which senders retry."""
    refused = eventually(
        lambda: (answer := send()).is_error and answer, timeout=90, what=f"{name} is refused"
    )
    assert refused.status_code in (503, 507), (name, refused.text)
    assert refused.text, name
    assert not _TRACEBACK.search(refused.text), (name, refused.text)


@pytest.mark.soak
def test_logs_of_a_site_on_a_full_disk_have_no_secret_and_no_traceback(tmp_path: Path) -> None:
    output = tmp_path / "output.txt"
    with Disk(tmp_path, _DISK_MB) as disk:
        home = disk.root / "home"
        with storage(home, output) as url:
            eventually(lambda: is_ready(url), timeout=90, what="the site is ready")
            assert put(url).is_success
            disk.fill()
            refused = eventually(
                lambda: (answer := put(url)).is_error and answer,
                timeout=90,
                what="a write is refused",
            )
            assert refused.status_code in (503, 507)
            assert refused.json()["error"]["hint"]
            eventually(
                lambda: put(url).is_error and "it starts again" in output.read_text(),
                timeout=90,
                what="Ignite has ended",
            )
            for name, send in ways_in(url, _HEADERS).items():
                check_refusal(name, send)
            disk.make_room()
            eventually(lambda: put(url).is_success, timeout=120, what="points are stored again")
            for name, send in ways_in(url, _HEADERS).items():
                eventually(lambda send=send: send().is_success, timeout=60, what=f"{name} stores")
        logs = {path.name: path.read_text() for path in (home / "logs").iterdir()}
    logs["output"] = output.read_text()
    for name, text in logs.items():
        assert _SECRET not in text, name
        assert not _TRACEBACK.search(text), (name, _TRACEBACK.search(text))
    assert "No space left on device" in logs["output"]
    lines = logs["output"].splitlines()
    assert not [line for line in lines if re.search(r"\|\s+at |Caused by: |Thread \[", line)]
    assert any("mistbow: ignite: No space left on device; free space" in line for line in lines)
    print(f"{len(lines)} lines of output")


@pytest.mark.parametrize("service", ["storage_agent", "monitoring_agent", "analytics_enabler"])
def test_service_on_a_full_disk_starts_or_ends_with_one_message(
    tmp_path: Path, service: str
) -> None:
    with Disk(tmp_path, 4) as disk:
        with (disk.root / "filler").open("wb") as file:
            while True:
                try:
                    os.posix_fallocate(file.fileno(), file.seek(0, 2), 4096)
                except OSError:
                    break
        (port,) = free_ports(1)
        names = ("AGENT", "MONITOR", "ENABLER")
        process = subprocess.Popen(
            [sys.executable, "-m", service],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env={
                **os.environ,
                **{f"MISTBOW_{name}_PORT": str(port) for name in names},
                "MISTBOW_HOME": str(disk.root / "home"),
                "MISTBOW_TOKEN": _SECRET,
            },
        )

        def answers() -> bool:
            if process.poll() is not None:
                return True
            try:
                return httpx.get(f"http://127.0.0.1:{port}/healthz").is_success
            except httpx.TransportError:
                return False

        try:
            eventually(answers, timeout=60, what="it starts or ends")
        finally:
            process.terminate()
            _, text = process.communicate(timeout=30)
    assert _SECRET not in text
    assert not _TRACEBACK.search(text), text
    assert "No space left on device" in text
    assert "free space on this disk" in text
    print(json.dumps(text.splitlines()[:3]))
