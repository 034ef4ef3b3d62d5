"""The wire models of the fog: the nodes and links that the schedulers of an enabler receive."""

from pydantic import BaseModel


class FogNode(BaseModel):
    """A worker as schedulers see it.

    The free capacity includes what fragments of this enabler use already, because schedulers place
    these again.
    """

    name: str
    site: str
    region: str
    cores: float
    cores_free: float
    memory_mb: float
    memory_free_mb: float
    clock_mhz: float
    labels: dict[str, str]
    operators: list[str]
    suspected: bool
    reliability: float


class FogLink(BaseModel):
    """One direction of a measured connection between two sites or nodes.

    ``bandwidth_mbps``: in Mbit/s; None: unknown. ``loss``: the share of packets that are lost.
    """

    source: str
    target: str
    latency_ms: float
    bandwidth_mbps: float | None
    loss: float


class FogSnapshot(BaseModel):
    """The snapshot of a fog; ``sites``: all sites of the domain, also those without a worker."""

    sites: list[str]
    nodes: list[FogNode]
    links: list[FogLink]
