"""Redis Cluster on the nodes of a fog: leaders alone, or each leader with a replica."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path

import redis

from benchmarks.storage.resp import read_reply
from benchmarks.storage.ycsb import Redis
from benchmarks.ycsb_fog.plan import CLIENT, NETWORK, node_names
from benchmarks.ycsb_fog.target import Target
from fog_emulation.host import command
from fog_emulation.namespace_backend import NamespaceBackend
from tests.support.conditions import eventually

_PORT = 6379
_PROGRAMS = ("redis-server", "redis-cli")
_START_S = 60.0
_IN_MEMORY = ("--save", "", "--appendonly", "no")
_STOP_S = 10.0


def absent_programs() -> tuple[str, ...]:
    """Return the programs of Redis that are not installed here."""
    return tuple(each for each in _PROGRAMS if shutil.which(each) is None)


@contextmanager
def running_cluster(
    backend: NamespaceBackend, home: Path, count: int, *, replicas: bool
) -> Iterator[Target]:
    """Run Redis on the first ``count`` nodes within the ``with``.

    ``replicas``: half of the nodes are leaders, and each leader has a replica at another node.
    """
    names = node_names(count)
    hosts = [backend.address(name, NETWORK) for name in names]
    folder = home / f"{count}-{replicas}"
    processes: list[subprocess.Popen[bytes]] = []
    try:
        processes += (_start(backend, folder / name, name) for name in names)
        for host in hosts:
            eventually(partial(_answers, host), timeout=_START_S, what=f"Redis answers at {host}")
        _join(backend, hosts, replicas=replicas)
        yield _target(hosts, replicas, [process.pid for process in processes])
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(_STOP_S)


def _start(backend: NamespaceBackend, folder: Path, node: str) -> subprocess.Popen[bytes]:
    folder.mkdir(parents=True)
    cluster = ("--cluster-enabled", "yes", "--protected-mode", "no", "--bind", "0.0.0.0")  # noqa: S104 - in a namespace of its own
    at_once = ("--repl-diskless-sync-delay", "0")
    argv = ["redis-server", "--port", str(_PORT), "--dir", str(folder), *_IN_MEMORY, *at_once]
    argv += cluster
    return backend.spawn(node, argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def _join(backend: NamespaceBackend, hosts: list[str], *, replicas: bool) -> None:
    addresses = [f"{host}:{_PORT}" for host in hosts]
    options = ["--cluster-replicas", "1" if replicas else "0", "--cluster-yes"]
    command(backend.command_in(CLIENT, ["redis-cli", "--cluster", "create", *addresses, *options]))
    for host in hosts:
        complete = partial(_is_complete, host)
        eventually(complete, timeout=_START_S, what=f"the cluster is complete at {host}")


def _target(hosts: list[str], replicas: bool, pids: list[int]) -> Target:
    cluster = redis.RedisCluster(hosts[0], _PORT)
    primaries = cluster.get_primaries()  # type: ignore[no-untyped-call]
    leaders = sorted((node.host, node.port) for node in primaries)
    assert len(leaders) == len(hosts) // (2 if replicas else 1), leaders

    @cache
    def owner(key: str) -> int:
        node = cluster.get_node_from_key(key)  # type: ignore[no-untyped-call]
        return leaders.index((node.host, node.port))

    def wait_replicas() -> None:
        if replicas:
            for host, _ in leaders:
                eventually(partial(_has_replica, host), what=f"{host} has a complete replica")

    wait_replicas()
    return Target(
        store="Redis",
        nodes=len(hosts),
        replicas=replicas,
        addresses=leaders,
        servers=[Redis(_PORT)] * len(leaders),
        owner=owner,
        read_reply=read_reply,
        wait_replicas=wait_replicas,
        pids=pids,
    )


def _answers(host: str) -> bool:
    try:
        return bool(_connect(host).ping())
    except redis.ConnectionError:
        return False


def _is_complete(host: str) -> bool:
    return bool(_connect(host).cluster("INFO")["cluster_state"] == "ok")


def _has_replica(leader: str) -> bool:
    """Return whether the leader's replica has acknowledged all writes."""
    state = _connect(leader).info("replication")
    replica = state.get("slave0", {})
    is_online = replica.get("state") == "online"
    return is_online and bool(replica["offset"] == state["master_repl_offset"])


@cache
def _connect(host: str) -> redis.Redis:
    return redis.Redis(host, _PORT)
