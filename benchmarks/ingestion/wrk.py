"""Sends bodies with wrk, a load generator that takes less CPU than a client in Python."""

import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

_SCRIPT = Path(__file__).with_name("bodies.lua")
_MAX_S = 120


@dataclass(frozen=True, slots=True)
class Way:
    """A way in: the path and the headers of its requests."""

    path: str
    headers: Mapping[str, str]


class Load(msgspec.Struct, frozen=True):
    """The outcome of one run; percentiles are of the times of requests, in ms."""

    requests: int
    seconds: float
    refused: int
    broken: int
    p50_ms: float
    p99_ms: float

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds


def send(url: str, way: Way, bodies: Iterable[bytes], connections: int) -> Load:
    """Send each body once, over ``connections`` connections; return the outcome.

    A connection sends a body when its previous request is answered. Raises ``SystemExit`` if wrk is
    not installed, and ``AssertionError`` if the server refuses a request or breaks a connection.
    """
    program = shutil.which("wrk")
    if program is None:
        raise SystemExit("wrk is not installed: install your system's package for it")
    with tempfile.NamedTemporaryFile(prefix="mistbow-bodies-") as file:
        for body in bodies:
            file.write(struct.pack("<I", len(body)) + body)
        file.flush()
        headers = [word for header in way.headers.items() for word in header]
        argv = [program, "-t1", f"-c{connections}", f"-d{_MAX_S}s", "--timeout", "30s"]
        argv += ["-s", str(_SCRIPT), url, "--", file.name, way.path, *headers]
        output = subprocess.run(argv, check=True, capture_output=True, text=True)
    load = msgspec.json.decode(output.stdout.splitlines()[-1], type=Load)
    assert load.refused == load.broken == 0, (load, output.stderr[:1000])
    return load
