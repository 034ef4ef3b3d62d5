"""The wire models of the fog: the nodes and links that the schedulers of an enabler receive."""

from pydantic import BaseModel, Field

from analytics.health_models import Problem


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

    The free capacity includes the capacity that fragments of this enabler already use, because
    schedulers place these fragments again. Power, battery, prices and position are None if they are
    unknown; prices may also be labels. ``own_site_only``: whether the node may read and write only
    at its own site.
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
    drained: bool = False
    own_site_only: bool = False


class NodeDrain(BaseModel):
    """Whether a node is drained, and its remaining fragments."""

    node: str = Field(description="The name of the node's worker.")
    drained: bool = Field(description="Whether the worker announces that it is drained.")
    fragments: list[str] = Field(
        description="The ids of the fragments that the worker runs, in all domains."
    )


class FogLink(BaseModel):
    """One direction of a measured connection between two sites or nodes.

    ``bandwidth_mbps``: in Mbit/s; None: unknown. ``loss``: the share of packets that are lost.
    ``load_mbps``: the data rate of the flows from ``source`` to ``target`` in Mbit/s; None: no flow
    has a known rate.
    """

    source: str
    target: str
    latency_ms: float
    bandwidth_mbps: float | None
    loss: float
    load_mbps: float | None = None


class FogSource(BaseModel):
    """The quality of the points of a site, each figure from 0 to 1; None: unknown."""

    site: str
    completeness: float | None
    timeliness: float | None
    accuracy: float | None = None


class FogSite(BaseModel):
    """The state of a site of the domain."""

    name: str = Field(description="The name of the site.")
    node: str = Field(description="The node of the site's agent.")
    region: str = Field(description="The region; empty: unknown.")
    labels: dict[str, str] = Field(description="The labels of the site.")
    reachable: bool = Field(description="Whether the site is reachable now.")
    suspected: bool = Field(description="Whether the site is silent, perhaps by a transient fault.")
    unreachable_since: int | None = Field(
        description="The time (ms) since which the site is unreachable; null: it is reachable."
    )
    position: FogPosition | None = Field(description="The position of a worker; null: unknown.")
    series: int | None = Field(description="The number of its series; null: not read yet.")
    workers: list[str] = Field(description="The workers of the site.")
    replicas: list[str] = Field(description="The sites that store replicas of its points.")
    disk_free_mb: float | None = Field(
        None, description="The free space (MB) of the agent's disk; null: not read yet."
    )
    disk_size_mb: float | None = Field(
        None, description="The size (MB) of the agent's disk; null: not read yet."
    )
    problems: list[Problem] = Field([], description="The problems of the site.")


class FogFragment(BaseModel):
    """A fragment, its placement, and the report of its worker."""

    group: str = Field(description="The id of the group.")
    fragment: str = Field(description="The id of the fragment.")
    task: str = Field(description="The task of the group: whole, merge, or at- and a site.")
    kind: str = Field(description="whole, partial, or merge.")
    node: str | None = Field(description="The worker; null: no worker can run the fragment.")
    site: str | None = Field(description="The site of the worker; null: unknown.")
    since: int | None = Field(description="The time (ms) of the placement; null: unknown.")
    state: str | None = Field(description="The state that the worker reports; null: none.")
    lag_ms: int | None = Field(description="The lag (ms) that the worker reports; null: none.")
    salience: int = Field(description="The salience.")
    bytes_per_s: float | None = Field(description="The bytes written per second; null: unknown.")
    insights: list[str] = Field(description="The insights (ID/NAME) of the group.")


class FogFlow(BaseModel):
    """The data flow from one site to another."""

    source: str = Field(description="The site that sends.")
    target: str = Field(description="The site that receives.")
    kind: str = Field(description="points, panes, results, or replica.")
    group: str | None = Field(description="The id of the group; null: a replica.")
    bytes_per_s: float | None = Field(description="The bytes per second; null: unknown.")


class FogSnapshot(BaseModel):
    """The snapshot of a fog; ``sites``: all sites of the domain, also those without a worker."""

    sites: list[str]
    nodes: list[FogNode]
    links: list[FogLink]
    sources: list[FogSource]
    at: int | None = Field(None, description="The time (ms) of the snapshot.")
    site_states: list[FogSite] = Field([], description="The states of the sites.")
    fragments: list[FogFragment] = Field([], description="The placed fragments.")
    flows: list[FogFlow] = Field([], description="The data flows between sites.")


class Placement(BaseModel):
    """The placement of a fragment."""

    group: str = Field(description="The id of the group.")
    scheduler: str = Field(description="The scheduler of the group.")
    task: str = Field(description="The task of the group: whole, merge, or at- and a site.")
    fragment: str = Field(description="The id of the fragment.")
    kind: str = Field(description="whole, partial, or merge.")
    node: str | None = Field(description="The worker; null: no worker can run the fragment.")
    site: str | None = Field(description="The site of the worker; null: unknown.")
    since: int | None = Field(description="The time (ms) of the placement; null: unknown.")


class Placements(BaseModel):
    """The placements of all fragments at a time."""

    at: int = Field(description="The time, in ms since the epoch.")
    placements: list[Placement] = Field(description="The placements, by group and task.")


class FogChange(BaseModel):
    """A change of the view of a fog; changes of figures only, such as free memory, are left out."""

    at: int = Field(description="The time, in ms since the epoch.")
    part: str = Field(description="nodes, links, site_states, fragments, or flows.")
    names: list[str] = Field(description="The names that identify the entry.")
    change: str = Field(description="added, changed, or removed.")


class FogChanges(BaseModel):
    """The stored history of a fog in a span of time."""

    first: int | None = Field(description="The first stored time (ms) in the span; null: none.")
    last: int | None = Field(description="The last stored time (ms) in the span; null: none.")
    changes: list[FogChange] = Field(description="The changes, the oldest first.")


class PlacementChange(BaseModel):
    """A fragment that was placed, moved, or stopped."""

    at: int = Field(description="The time, in ms since the epoch.")
    group: str = Field(description="The id of the group.")
    task: str = Field(description="The task of the group: whole, merge, or at- and a site.")
    node: str | None = Field(description="The worker from then on; null: none.")
    former: str | None = Field(description="The worker before; null: none.")


class PlacementChanges(BaseModel):
    """The stored changes of placements in a span of time."""

    changes: list[PlacementChange] = Field(description="The changes, the oldest first.")
