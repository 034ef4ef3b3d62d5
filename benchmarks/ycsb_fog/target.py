"""A store on some nodes of the fog, and the requests that operations send to it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.storage.workloads import RECORD_BYTES, KeyOperation
from benchmarks.storage.ycsb import Server
from benchmarks.ycsb_fog.clients import Address, ClientOperation, NodeRequest, ReadReply


@dataclass(frozen=True)
class Target:
    """A running store; ``nodes``: the number of all nodes, also of those with replicas only.

    ``addresses``, ``servers``: of the nodes to which clients send requests. ``owner``: key -> the
    number of the node that stores it. ``wait_replicas``: waits until the replicas have all records.
    ``pids``: the processes of the store.
    """

    store: str
    nodes: int
    replicas: bool
    addresses: Sequence[Address]
    servers: Sequence[Server]
    owner: Callable[[str], int]
    read_reply: ReadReply
    wait_replicas: Callable[[], None]
    pids: Sequence[int]

    def requests(self, operation: KeyOperation, value: str) -> ClientOperation:
        """Return the requests of an operation; an insert is an update of a new key."""
        node = self.owner(operation.key)
        server = self.servers[node]
        found = []
        if operation.kind in ("read", "modify"):
            found.append(NodeRequest(node, server.read(operation.key), RECORD_BYTES))
        if operation.kind != "read":
            found.append(NodeRequest(node, server.update(operation.key, value)))
        return found
