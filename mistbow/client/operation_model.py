"""What the clients say and learn of how a storage agent keeps its data, and who has copies."""

from collections.abc import Mapping
from typing import Literal, TypedDict

import msgspec

WhenFull = Literal["evict", "refuse"]


class Config(msgspec.Struct, frozen=True):
    """How long streams are kept (ms; None: for ever), in how many bytes, and what when full.

    ``streams``: the same for single streams, or for all that begin alike: ``results/*``.
    """

    retention_ms: int | None
    streams: dict[str, int | None]
    most_bytes: int | None
    when_full: WhenFull


class ConfigChange(TypedDict, total=False):
    """What of a ``Config`` to change; what is left out stays."""

    retention_ms: int | None
    streams: Mapping[str, int | None]
    most_bytes: int | None
    when_full: WhenFull


class IgniteNode(msgspec.Struct, frozen=True):
    """A node of a site's Ignite."""

    name: str
    online: bool


class RefusedStream(msgspec.Struct, frozen=True):
    """A stream that ends at ``head``, but is ``remembered`` to have been longer, by someone."""

    stream: str
    head: int
    remembered: int
    by: str


class Cluster(msgspec.Struct, frozen=True):
    """A site's Ignite: so many ``copies`` of all there are at least, and so many parts are lost."""

    nodes: tuple[IgniteNode, ...]
    backups: int
    partitions: int
    copies: int
    rebalancing: bool
    lost: int
    tolerates_a_failure: bool
    refused: tuple[RefusedStream, ...]


class SeriesFilter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Series of these metrics, entities and groups, and points with these labels.

    Several values of one are alternatives; all that are given must hold; none is everything.
    """

    metric: tuple[str, ...] = ()
    entity: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    labels: Mapping[str, tuple[str, ...]] = {}


class Copy(msgspec.Struct, frozen=True):
    """A copy of a stream of this site that ``target`` is to hold, ``since`` a time (ms).

    ``withheld``: what restrictions keep from it. ``manual``: it was asked for, not decided.
    ``move``: what the target has for sure goes from here when it is old enough.
    """

    id: str
    target: str
    why: str
    since: int
    stream: str = "raw"
    filter: SeriesFilter = SeriesFilter()
    withheld: tuple[SeriesFilter, ...] = ()
    manual: bool = False
    move: bool = False


class Replica(msgspec.Struct, frozen=True):
    """A replica of the site ``of`` that is held here in the stream ``kept_in``.

    ``complete``: it has once had all that there was; now it lacks at most what is younger than
    ``stale_ms``. ``position``: how far the source was read.
    """

    of: str
    id: str
    stream: str
    kept_in: str
    filter: SeriesFilter
    withheld: tuple[SeriesFilter, ...]
    state: str
    complete: bool
    position: int
    rows: int
    stale_ms: int


class Kept(msgspec.Struct, frozen=True):
    """A replica of the site ``of`` that another site says it holds."""

    of: str
    id: str
    stream: str = "raw"
    filter: SeriesFilter = SeriesFilter()
    withheld: tuple[SeriesFilter, ...] = ()
    complete: bool = False
    state: str = "following"


class Neighbour(msgspec.Struct, frozen=True):
    """What a site knows of another, straight from it: ``room`` in bytes, ``load`` in points/s.

    ``stability`` from 0 to 1; ``usual_ms`` is the least latency of late.
    """

    site: str
    reachable: bool
    stability: float
    latency_ms: float | None
    usual_ms: float | None
    losses: float
    room: int | None
    load: float


class ReadBy(msgspec.Struct, frozen=True):
    """How often a minute a site reads what of this site's points."""

    by: str
    filter: SeriesFilter
    per_minute: float


class ReplicationState(msgspec.Struct, frozen=True):
    """What is copied where, as far as ``site`` knows, and what its policy goes by.

    ``elsewhere``: what others hold, by site.
    """

    site: str
    stability: float
    copies: tuple[Copy, ...]
    replicas: tuple[Replica, ...]
    elsewhere: Mapping[str, tuple[Kept, ...]]
    sites: tuple[Neighbour, ...]
    reads: tuple[ReadBy, ...]


class Rule(msgspec.Struct, frozen=True):
    """What matches may be copied only to these sites, and to sites in these regions."""

    match: SeriesFilter
    stay_in: tuple[str, ...]


class Restrictions(msgspec.Struct, frozen=True):
    """The rules of the agent's settings, and those that were declared."""

    fixed: tuple[Rule, ...]
    declared: tuple[Rule, ...]
