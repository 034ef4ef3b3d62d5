"""The Ignite nodes of one site as a whole: first activation, the baseline, going on without some.

The baseline is the set of nodes that hold the data. It grows when a new node is ready, and never
shrinks by itself: only so does a site that lost nodes wait for those that hold what it had.
"""

import logging
import subprocess
from pathlib import Path

from pyignite import Client
from pyignite.datatypes.cluster_state import ClusterState

from mistbow.errors import ConflictError, UnavailableError
from mistbow.ignite.config import CACHE_GROUP, IgniteConfig, class_path, java_argv
from mistbow.ignite.java import find_java
from mistbow.ignite.tls import client_tls
from mistbow.telemetry import get_logger

log = get_logger(__name__)

# It writes a stack trace for every refused connection, and we knock until the server answers.
logging.getLogger("pyignite").setLevel(logging.CRITICAL)

_HEAP_MB = 64
_CALL_S = 3.0
_CONTROL_S = 60.0
_UTILITY = "org.apache.ignite.internal.commandline.CommandHandler"
_LOST = "SELECT COUNT(*) FROM SYS.PARTITION_STATES WHERE STATE = 'LOST'"
_BASELINE = "SELECT CONSISTENT_ID, ONLINE FROM SYS.BASELINE_NODES"


def make_ready(config: IgniteConfig, jars: Path) -> bool:
    """Return whether the server answers, is active, and is one of those that hold the data.

    It is activated at its first start only, and then together with all nodes of its site. Later it
    becomes active by itself, as soon as all that it holds is back: to activate it before that would
    be to accept the loss of what is not.
    """
    activated = config.folder / "activated"
    try:
        client = client_of(config)
        with client.connect(config.address, config.port):
            cluster = client.get_cluster()
            active = cluster.get_state() == ClusterState.ACTIVE
            if not active and not activated.exists() and _is_whole(config, jars):
                cluster.set_state(ClusterState.ACTIVE)
                active = cluster.get_state() == ClusterState.ACTIVE
            if active:
                activated.touch()
            return active and (not config.nodes or _take_part(client, config, jars))
    except Exception:  # pyignite's have no common base; what is wrong, Ignite's log tells
        return False


def accept_loss(config: IgniteConfig, jars: Path) -> list[str]:
    """Have the nodes that are there go on without the others, for good; return who is away.

    What only those that are away held is lost. They hold nothing of this site any more: who comes
    back, with an empty folder, is a new node. Raises ``ConflictError`` if all are there, and
    ``UnavailableError`` if no node answers.
    """
    try:
        client = client_of(config)
        with client.connect(config.address, config.port):
            cluster = client.get_cluster()
            if cluster.get_state() != ClusterState.ACTIVE:
                cluster.set_state(ClusterState.ACTIVE)
            away = [name for name, online in baseline(client).items() if not online]
    except Exception as error:
        raise UnavailableError(
            f"Ignite at {config.address}:{config.port} does not do as it is told: {error}",
            hint="Is it started? Its log says what is wrong.",
        ) from error
    if not away:
        raise ConflictError("all nodes of this site are there", hint="There is no loss to accept.")
    control(config, jars, "--cache", "reset_lost_partitions", CACHE_GROUP)
    control(config, jars, "--baseline", "remove", ",".join(away))
    return away


def client_of(config: IgniteConfig) -> Client:
    """Return a client for a server; it is not connected."""
    ca = None if config.tls is None else config.tls.ca
    return Client(timeout=_CALL_S, **client_tls(ca, named=False))


def baseline(client: Client) -> dict[str, bool]:
    """Return the nodes that hold the data of an active cluster, and whether each is there."""
    with client.sql(_BASELINE) as rows:
        return dict(rows)


def control(config: IgniteConfig, jars: Path, *arguments: str) -> str:
    """Run Ignite's control utility on a server, and return what it says.

    Nothing else changes the baseline: neither SQL nor the thin client's protocol. Raises
    ``UnavailableError``.
    """
    argv = [
        *java_argv(find_java(), _HEAP_MB),
        # Otherwise it makes a folder where it is started.
        f"-DIGNITE_HOME={config.folder.absolute()}",
        *class_path(jars),
        _UTILITY,
        *("--host", config.address, "--port", str(config.port), "--yes"),
        *([] if config.tls is None else config.tls.control_flags(config.folder)),
        *arguments,
    ]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=_CONTROL_S, check=False)
    if ended.returncode != 0:
        raise UnavailableError(
            f"Ignite's control utility failed: {' '.join(arguments)}",
            details=(ended.stdout + ended.stderr).splitlines()[-10:],
        )
    return ended.stdout


def _is_whole(config: IgniteConfig, jars: Path) -> bool:
    """Tell whether all nodes that a site is to have are there; SQL does not answer that yet."""
    if not config.nodes:
        return True
    there = control(config, jars, "--system-view", "NODES")
    # One line for each node; it is no client.
    return sum(" false " in line for line in there.splitlines()) >= len(config.nodes)


def _take_part(client: Client, config: IgniteConfig, jars: Path) -> bool:
    if config.durability == "memory":
        return True
    members = baseline(client)
    if config.node not in members:
        log.info("this node is new: it gets its part of the data", node=config.node)
        control(config, jars, "--baseline", "add", config.node)
        members = baseline(client)
    with client.sql(_LOST) as rows:
        [[lost]] = rows
    if lost and all(members.values()):
        # All who ever had them are back, but Ignite keeps them closed until it is told to open.
        control(config, jars, "--cache", "reset_lost_partitions", CACHE_GROUP)
    return config.node in members
