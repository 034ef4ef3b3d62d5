"""Manages one site's Ignite cluster: activates it, reads its baseline, and accepts data loss.

The baseline is the set of nodes that store the data. A new node joins the baseline when the node is
ready. The baseline never shrinks by itself; a site that lost nodes waits for their data.
"""

import logging
import subprocess
from pathlib import Path

from pyignite import Client
from pyignite.datatypes.cluster_state import ClusterState

from ignite_server.config import ENVIRONMENT, IgniteConfig, class_path, java_argv
from mistbow.errors import ConflictError, UnavailableError
from mistbow.java import find_java
from mistbow.runtime.environment import inherited_environment
from mistbow.telemetry import get_logger
from storage_agent.ignite.client import CACHE_GROUP
from storage_agent.ignite.tls import client_tls

log = get_logger(__name__)

# pyignite logs a stack trace for every refused connection, and start-up is a loop of such.
logging.getLogger("pyignite").setLevel(logging.CRITICAL)

_HEAP_MB = 64
_CALL_S = 3.0
_CONTROL_S = 60.0
_UTILITY = "org.apache.ignite.internal.commandline.CommandHandler"
_LOST = "SELECT COUNT(*) FROM SYS.PARTITION_STATES WHERE STATE = 'LOST'"
_BASELINE = "SELECT CONSISTENT_ID, ONLINE FROM SYS.BASELINE_NODES"


def make_ready(config: IgniteConfig, jars: Path) -> bool:
    """Advance the start of a server, if possible; return whether the server is ready.

    A ready server is reachable and active, and belongs to the baseline. This function activates a
    cluster at the first start only, once all nodes of the site are present. Later, Ignite activates
    the cluster when the whole baseline is back: an earlier activation would accept the loss of the
    missing nodes' data.
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
    except Exception:  # pyignite's errors have no common base; Ignite's log has the cause
        return False


def accept_loss(config: IgniteConfig, jars: Path) -> list[str]:
    """Remove the absent nodes from the baseline; return the names of these nodes.

    Data that only absent nodes stored is lost. An absent node may return with an empty folder, as a
    new node. Raises ``ConflictError`` if no node is absent, and ``UnavailableError`` if Ignite does
    not answer.
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
            f"Ignite at {config.address}:{config.port} cannot be controlled: {error}",
            hint="Check that Ignite runs; the cause is in its log.",
        ) from error
    if not away:
        raise ConflictError(
            "no Ignite node of this site is absent, so there is no node to remove",
            hint="To accept lost rows of a stream: mistbow storage repair STREAM --accept-loss.",
        )
    control(config, jars, "--cache", "reset_lost_partitions", CACHE_GROUP)
    control(config, jars, "--baseline", "remove", ",".join(away))
    return away


def client_of(config: IgniteConfig) -> Client:
    """Return a client for a server; the client is not connected yet."""
    ca = None if config.tls is None else config.tls.ca
    return Client(timeout=_CALL_S, **client_tls(ca, named=False))


def baseline(client: Client) -> dict[str, bool]:
    """Return the baseline of an active cluster: node name -> whether the node is online."""
    with client.sql(_BASELINE) as rows:
        return dict(rows)


def control(config: IgniteConfig, jars: Path, *arguments: str) -> str:
    """Run Ignite's control utility on a server; return the output of the utility.

    Only this utility can change the baseline; SQL and the thin client cannot. Raises
    ``UnavailableError`` with the end of the output if the utility fails.
    """
    argv = [
        *java_argv(find_java(), _HEAP_MB),
        # Without this option, the utility creates a folder in the current folder.
        f"-DIGNITE_HOME={config.folder.absolute()}",
        *class_path(jars),
        _UTILITY,
        *("--host", config.address, "--port", str(config.port), "--yes"),
        *([] if config.tls is None else config.tls.control_flags(config.folder)),
        *arguments,
    ]
    ended = subprocess.run(
        argv,
        env=inherited_environment(ENVIRONMENT),
        capture_output=True,
        text=True,
        timeout=_CONTROL_S,
        check=False,
    )
    if ended.returncode != 0:
        raise UnavailableError(
            f"Ignite's control utility failed: {' '.join(arguments)}",
            details=(ended.stdout + ended.stderr).splitlines()[-10:],
        )
    return ended.stdout


def _is_whole(config: IgniteConfig, jars: Path) -> bool:
    """Return whether all nodes of the site are present.

    This function uses the control utility, because an inactive cluster answers no SQL.
    """
    if not config.nodes:
        return True
    there = control(config, jars, "--system-view", "NODES")
    # One line for each node; "false" stands in the column that marks clients.
    return sum(" false " in line for line in there.splitlines()) >= len(config.nodes)


def _take_part(client: Client, config: IgniteConfig, jars: Path) -> bool:
    if config.durability == "memory":
        return True
    members = baseline(client)
    if config.node not in members:
        log.info("baseline_node_added", node=config.node)
        control(config, jars, "--baseline", "add", config.node)
        members = baseline(client)
    with client.sql(_LOST) as rows:
        [[lost]] = rows
    if lost and all(members.values()):
        # All owners are back, but Ignite blocks lost partitions until they are reset.
        control(config, jars, "--cache", "reset_lost_partitions", CACHE_GROUP)
    return config.node in members
