"""The YCSB core workloads on ``/app``, compared with Redis (the specification, section 3.2.3).

The clients of both servers work in the same way and only send and count, so that only the servers
are compared.
"""

import random
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks.report import Figure
from benchmarks.storage import resp
from benchmarks.storage.http_clients import post, run_clients
from benchmarks.storage.storage_site import running_site
from benchmarks.storage.workloads import (
    WORKLOADS,
    KeyOperation,
    OperationSource,
    Workload,
    key_of,
    record_value,
)
from ignite_server.ports import free_ports
from tests.support.conditions import eventually

_RECORDS = 1000
_OPERATIONS = (1000, 5000, 10_000, 20_000)
_CLIENTS = 4
_DURABLE_GOALS = {"A": 0.5, "E": 0.5, "F": 0.5}


class Server(Protocol):
    """Builds the requests for a store of records, and sends these requests."""

    def read(self, key: str) -> bytes:
        """Return the request to read a record."""
        ...

    def insert(self, key: str, value: str) -> bytes:
        """Return the request to insert a record."""
        ...

    def update(self, key: str, value: str) -> bytes:
        """Return the request to update a record."""
        ...

    def scan(self, key: str, count: int) -> bytes:
        """Return the request to read ``count`` records, starting at a key."""
        ...

    def run(self, requests: Sequence[Sequence[bytes]]) -> float:
        """Send the requests of all clients; return the requests per second.

        The clients are concurrent; a client sends a request when the previous request is answered.
        """
        ...


@dataclass(frozen=True)
class Mistbow:
    """The server Mistbow: records at the route ``/app`` of a storage agent.

    ``token``: empty: the agent has no token.
    """

    url: str
    token: str = ""

    def read(self, key: str) -> bytes:
        """Return the request to read a record."""
        return post(self.url, "/app/get", {"key": [key]}, self.token)

    def insert(self, key: str, value: str) -> bytes:
        """Return the request to insert a record, or to replace one with the same key and time."""
        item = {"key": key, "val": value, "timestamp": 1}
        return post(self.url, "/app/put", {"application": [item]}, self.token)

    update = insert

    def scan(self, key: str, count: int) -> bytes:
        """Return the request to read ``count`` records, starting at a key."""
        return post(self.url, "/app/get", {"start": key, "limit": count}, self.token)

    def run(self, requests: Sequence[Sequence[bytes]]) -> float:
        """Send the requests of all clients; return the requests per second."""
        return run_clients(
            self.url,
            lambda client, number: requests[client][number],
            clients=len(requests),
            each=len(requests[0]),
        ).rate


@dataclass(frozen=True)
class Redis:
    """The server Redis: records are strings, and a sorted set of the keys is used for scans."""

    port: int

    def read(self, key: str) -> bytes:
        """Return the request to read a record."""
        return resp.command("GET", key)

    def insert(self, key: str, value: str) -> bytes:
        """Return the request to insert a record by a script, which needs a single round trip."""
        return resp.command("EVAL", _INSERT, "2", key, "keys", value)

    def update(self, key: str, value: str) -> bytes:
        """Return the request to update a record."""
        return resp.command("SET", key, value)

    def scan(self, key: str, count: int) -> bytes:
        """Return the request to read ``count`` records, starting at a key."""
        return resp.command("EVAL", _SCAN, "1", "keys", f"[{key}", str(count))

    def run(self, requests: Sequence[Sequence[bytes]]) -> float:
        """Send the requests of all clients; return the requests per second."""
        return resp.run(self.port, requests)


_INSERT = "redis.call('ZADD',KEYS[2],0,KEYS[1]) return redis.call('SET',KEYS[1],ARGV[1])"
_SCAN = (
    "return redis.call('MGET',unpack("
    "redis.call('ZRANGEBYLEX',KEYS[1],ARGV[1],'+','LIMIT',0,ARGV[2])))"
)


def figures(home: Path) -> list[Figure]:
    """Run all workloads on both servers, first in memory, then with durable storage."""
    results = []
    for words, durability, arguments, goals in (
        ("in memory", "memory", ("--appendonly", "no"), {}),
        ("durable", "fsync", ("--appendonly", "yes", "--appendfsync", "always"), _DURABLE_GOALS),
    ):
        with (
            running_site(home / durability, durability) as running,
            _redis(home, arguments) as port,
        ):
            for workload in WORKLOADS:
                ours = _rates(Mistbow(running.url), workload)
                theirs = _rates(Redis(port), workload)
                what = f"YCSB {workload.name}, {words}"
                ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
                results += [
                    Figure(f"{what}: /app", "1/s", ours),
                    Figure(f"{what}: Redis", "1/s", theirs),
                    Figure(
                        f"{what}: /app : Redis",
                        "ratio",
                        ratios,
                        at_least=goals.get(workload.name),
                    ),
                ]
    return results


def _rates(server: Server, workload: Workload) -> list[float]:
    chance = random.Random(workload.name)
    value = record_value(chance)
    load = [server.insert(key_of(number), value) for number in range(_RECORDS)]
    server.run([load])
    source = OperationSource(workload, chance, _RECORDS)
    rates = []
    for operations in _OPERATIONS:
        clients: list[list[bytes]] = [[] for _ in range(_CLIENTS)]
        for number in range(operations):
            clients[number % _CLIENTS] += _requests(server, source.next(), value)
        shortest = min(map(len, clients))
        # An operation may be two requests: the rate counts operations.
        share = operations / sum(map(len, clients))
        rates.append(server.run([each[:shortest] for each in clients]) * share)
    return rates


def _requests(server: Server, operation: KeyOperation, value: str) -> list[bytes]:
    key = operation.key
    match operation.kind:
        case "read":
            return [server.read(key)]
        case "update":
            return [server.update(key, value)]
        case "insert":
            return [server.insert(key, value)]
        case "scan":
            return [server.scan(key, operation.count)]
        case "modify":
            return [server.read(key), server.update(key, value)]


@contextmanager
def _redis(home: Path, arguments: Sequence[str]) -> Iterator[int]:
    program = shutil.which("redis-server")
    if program is None:
        raise SystemExit("redis-server is not installed: install your system's package for it")
    (port,) = free_ports(1)
    argv = [program, "--port", str(port), "--dir", str(home), "--save", "", *arguments]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    try:
        eventually(lambda: resp.is_running(port), what="Redis answers")
        yield port
    finally:
        process.terminate()
        process.wait(10)
