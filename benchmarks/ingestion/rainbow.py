"""Runs the storage of RAINBOW in a network namespace; the jar is the user's.

That storage binds to an address with a host name, and not to the loopback address. In a namespace,
it meets neither the ports nor the names of this machine.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from ignite_server.config import java_argv
from tests.support.conditions import eventually

JAR = "RAINBOW_JAR"
"""The environment variable with the path of the jar, with all its dependencies."""

_NAME = "rainbow-node"
_OURS, _THEIRS = "10.231.7.1", "10.231.7.2"
_PORT = 50000
_OPENED = [option for option in java_argv(Path("java"), 256) if option.startswith("--add-opens")]
"""The options with which its Ignite, made for Java 8, runs on Java 17."""


@contextmanager
def running_rainbow(home: Path, jar: Path) -> Iterator[str]:
    """Run the storage within the ``with``; yield its URL. Requires root."""
    home.mkdir(parents=True)
    hosts = Path("/etc/netns") / _NAME / "hosts"
    with ExitStack() as stack:
        hosts.parent.mkdir(parents=True, exist_ok=True)
        stack.callback(shutil.rmtree, hosts.parent)
        hosts.write_text(f"127.0.0.1 localhost\n{_THEIRS} {_NAME}\n")
        _ip("netns", "add", _NAME)
        stack.callback(_ip, "netns", "del", _NAME)
        _connect()
        argv = ["ip", "netns", "exec", _NAME, "java", "-Xms256m", "-Xmx256m", *_OPENED]
        variables = {"HOSTNAME": _NAME, "CLUSTER_HEAD": "true", "PLACEMENT": "false"}
        process = subprocess.Popen(
            [*argv, "-jar", str(jar)],
            cwd=home,
            env={**os.environ, **variables},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
        )
        stack.callback(process.wait)
        stack.callback(process.kill)
        url = f"http://{_THEIRS}:{_PORT}"
        eventually(lambda: _stores(url), timeout=60, what="RAINBOW's storage answers")
        yield url


def _connect() -> None:
    _ip("link", "add", "rainbow0", "type", "veth", "peer", "name", "rainbow1")
    _ip("link", "set", "rainbow1", "netns", _NAME)
    _ip("address", "add", f"{_OURS}/30", "dev", "rainbow0")
    _ip("link", "set", "rainbow0", "up")
    for line in (
        f"address add {_THEIRS}/30 dev rainbow1",
        "link set rainbow1 up",
        "link set lo up",
    ):
        _ip("-n", _NAME, *line.split())


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def _stores(url: str) -> bool:
    try:
        answer = httpx.post(f"{url}/put", json={"monitoring": []}, timeout=5)
    except httpx.TransportError:
        return False
    return answer.is_success
