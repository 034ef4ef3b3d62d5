"""The fabric: its sites, workers, enablers and links, as immutable data with a JSON form."""

import math
from collections.abc import Mapping
from typing import Literal

import msgspec

from mistbow.domains import Selector


class FragmentLimit(msgspec.Struct, frozen=True, kw_only=True):
    """The limit of a worker that was killed for lack of memory: the number of ``fragments``.

    ``killed_at``: the time (ms) of the kill. ``ran``: the number of fragments that ran then.
    ``until``: the time (ms) at which the limit rises.
    """

    fragments: int
    killed_at: int
    ran: int
    until: int


class Power(msgspec.Struct, frozen=True, kw_only=True):
    """The electrical power (W) of a node without load (``idle_w``) and with full load."""

    idle_w: float
    full_w: float

    def __post_init__(self) -> None:
        if not 0 <= self.idle_w <= self.full_w < math.inf:
            raise ValueError(
                f"the power at full load must be finite and at least the power without load, which "
                f"must be at least 0 W (got {self.full_w} and {self.idle_w})"
            )


class Battery(msgspec.Struct, frozen=True, kw_only=True):
    """The battery of a node: its capacity and its charge (Wh).

    ``charging_w``: the power (W) with which the battery is charged now. ``next_charge_at``: the
    time (ms) at which charging begins next; None: unknown.
    """

    capacity_wh: float
    charge_wh: float
    charging_w: float = 0.0
    next_charge_at: int | None = None

    def __post_init__(self) -> None:
        check_battery(self.capacity_wh, self.charge_wh, self.charging_w)


def check_battery(capacity_wh: float, charge_wh: float, charging_w: float) -> None:
    """Raise ``ValueError`` if the figures of a battery are impossible."""
    if not 0 < capacity_wh < math.inf:
        raise ValueError(
            f"the capacity of a battery must be finite and above 0 Wh (got {capacity_wh})"
        )
    if not 0 <= charge_wh <= capacity_wh:
        raise ValueError(
            f"the charge of a battery must be from 0 Wh to its capacity "
            f"(got {charge_wh} of {capacity_wh})"
        )
    if not 0 <= charging_w < math.inf:
        raise ValueError(f"the charging power must be finite and at least 0 W (got {charging_w})")


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """A geographic position in degrees (WGS 84)."""

    latitude: float
    longitude: float

    def __post_init__(self) -> None:
        if not (-90 <= self.latitude <= 90 and -180 <= self.longitude <= 180):
            raise ValueError(
                f"the latitude must be from -90 to 90 and the longitude from -180 to 180 "
                f"(got {self.latitude} and {self.longitude})"
            )


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """An analytics worker, as it announces itself to the agent of its site.

    ``url``: the address of the worker for other services. ``cores`` and ``memory_mb``: the present
    limits of the node. ``cores_free`` and ``memory_free_mb``: the capacity for fragments: the free
    capacity, plus the capacity that the worker's fragments use. ``clock_mhz``: the clock speed; 0
    if unknown. ``operators``: the operators of installed packages, each with its name and version.
    ``instance``: the random id of the worker's process; empty for an older worker, which has none.
    ``suspected``: whether the agent of the worker's site has received no announcement for longer
    than usual. ``reliability``: from 0 to 1; each recent failure of the worker lowers it. The agent
    of the site sets these two fields. ``limit``: the limit of fragments after a kill; None: no
    limit. ``speed``: the speed of the worker's processor relative to a reference machine, from a
    calibration at the worker's start; None: the calibration has not ended. ``power``, ``battery``,
    ``position``: of the node; None: unknown. ``price_per_core_hour``, ``price_per_gb``: the price
    of a core for an hour, and of a GB (10^9 bytes) that leaves the site; None: the labels contain
    the prices. ``drained``: whether an operator has drained the worker, so that its fragments move
    to other workers. ``own_site_only``: whether the worker's identity permits it to read and write
    at its own site only. ``has_proven_name``: whether the name belongs to its identity.
    ``identity_expires``: the time (ms) at which its identity expires; None: not known. Agents set
    these two fields. ``certificate_expires``: the time (ms) at which its TLS certificate expires;
    None: it has none. ``credential``: of its identity, in announcements only.
    """

    name: str
    url: str
    cores: float
    memory_mb: float
    cores_free: float
    memory_free_mb: float
    clock_mhz: float = 0.0
    region: str = ""
    labels: Mapping[str, str] = {}
    operators: tuple[str, ...] = ()
    instance: str = ""
    suspected: bool = False
    reliability: float = 1.0
    limit: FragmentLimit | None = None
    speed: float | None = None
    power: Power | None = None
    battery: Battery | None = None
    price_per_core_hour: float | None = None
    price_per_gb: float | None = None
    position: Position | None = None
    drained: bool = False
    own_site_only: bool = False
    has_proven_name: bool = False
    identity_expires: int | None = None
    certificate_expires: int | None = None
    credential: str = ""

    def __post_init__(self) -> None:
        if self.speed is not None and not 0 < self.speed < math.inf:
            raise ValueError(f"the speed must be finite and above 0 (got {self.speed})")
        for field in ("price_per_core_hour", "price_per_gb"):
            price = getattr(self, field)
            if price is not None and not 0 <= price < math.inf:
                raise ValueError(f"{field}: a price must be finite and at least 0 (got {price})")


class Enabler(msgspec.Struct, frozen=True, kw_only=True):
    """An analytics enabler, as it announces itself to the agent of its site.

    ``url``: the address of the enabler for other services. ``sites``: the sites of its domain.
    ``generation``, ``epoch``: its lease on the domain. ``is_active``: False: it is a standby, which
    follows the active enabler, and takes over from it. ``own_site_only``: whether its identity
    permits it to use its own site only. ``identity_expires``: the time (ms) at which its identity
    expires; None: not known. Agents set these two fields. ``credential``: of its identity, in
    announcements only.
    """

    domain: str
    url: str
    sites: Selector = Selector()
    generation: int = 0
    epoch: int = 0
    is_active: bool = True
    own_site_only: bool = False
    identity_expires: int | None = None
    credential: str = ""


class ExpiredIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of a worker or enabler that has expired, so that other services refuse it.

    ``service``: the name of the worker, or the domain of the enabler. ``expired``: when (ms).
    """

    kind: Literal["worker", "enabler"]
    service: str
    expired: int


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """A site: the node and the address of its agent, its workers, and its enablers.

    ``reachable``: whether requests from the reporting site reach the site now, directly or through
    another site. The other fields of an unreachable site date from the last contact with the site.
    ``suspected``: whether the site has become unreachable so recently that the fault may be
    transient. ``identity_expires``: the time (ms) at which the identity of its agent expires; None:
    not known. ``expired_identities``: those of its workers and enablers, also if these have gone.
    """

    name: str
    node: str
    url: str
    region: str = ""
    labels: Mapping[str, str] = {}
    reachable: bool = True
    suspected: bool = False
    workers: tuple[Worker, ...] = ()
    enablers: tuple[Enabler, ...] = ()
    identity_expires: int | None = None
    expired_identities: tuple[ExpiredIdentity, ...] = ()


class SiteLink(msgspec.Struct, frozen=True, kw_only=True):
    """A direct link from one site to another.

    ``latency_ms``: half of the round-trip time. ``loss``: the share of heartbeats without an
    answer. ``bandwidth_mbps``: the data rate to the target (Mbit/s). None: not measured yet.
    """

    source: str
    target: str
    latency_ms: float
    loss: float | None = None
    bandwidth_mbps: float | None = None


class Fabric(msgspec.Struct, frozen=True, kw_only=True):
    """The sites and the working links that the agent of ``site`` knows, including ``site`` itself.

    ``forgotten``: the sites that users removed, and that have not returned.
    """

    site: str
    sites: tuple[Site, ...]
    links: tuple[SiteLink, ...] = ()
    forgotten: tuple[str, ...] = ()
