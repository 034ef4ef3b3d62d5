"""The wire models of the fog: the nodes and links that the schedulers of an enabler receive."""

from pydantic import BaseModel


class FogPower(BaseModel):
    """The electrical power (W) of a worker without load, and with full load."""

    idle_w: float
    full_w: float


class FogBattery(BaseModel):
    """The battery of a worker: its capacity and its charge (Wh).

    ``charging_w``: the power (W) with which it is charged now. ``next_charge_s``: the duration (s)
    until charging begins next; None: unknown.
    """

    capacity_wh: float
    charge_wh: float
    charging_w: float
    next_charge_s: float | None


class FogPosition(BaseModel):
    """A geographic position in degrees (WGS 84)."""

    latitude: float
    longitude: float


class FogNode(BaseModel):
    """A worker as schedulers see it.

    The free capacity includes what fragments of this enabler use already, because schedulers place
    these again. The last five figures are None if they are unknown; prices may also be labels.
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
    power: FogPower | None
    battery: FogBattery | None
    price_per_core_hour: float | None
    price_per_gb: float | None
    position: FogPosition | None


class FogLink(BaseModel):
    """One direction of a measured connection between two sites or nodes.

    ``bandwidth_mbps``: in Mbit/s; None: unknown. ``loss``: the share of packets that are lost.
    """

    source: str
    target: str
    latency_ms: float
    bandwidth_mbps: float | None
    loss: float


class FogSource(BaseModel):
    """The quality of the points of a site, each figure from 0 to 1; None: unknown."""

    site: str
    completeness: float | None
    timeliness: float | None


class FogSnapshot(BaseModel):
    """The snapshot of a fog; ``sites``: all sites of the domain, also those without a worker."""

    sites: list[str]
    nodes: list[FogNode]
    links: list[FogLink]
    sources: list[FogSource]
