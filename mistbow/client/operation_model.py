"""Types of the operation of a storage agent: configuration, Ignite's nodes, copies, replicas."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypedDict

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mistbow.client.fields import Id, Text
from mistbow.streams.schemas import RAW

_DAY_MS = 86_400_000
_MAX_RETENTION_MS = 36_525 * _DAY_MS

WhenFull = Literal["evict", "refuse"]
_Retention = Annotated[int, Meta(ge=1000, le=_MAX_RETENTION_MS)]
_Bytes = Annotated[int, Meta(ge=2**20, le=2**60)]
_WIRE_NAMES = {"max_bytes": "most_bytes"}


class Config(msgspec.Struct, frozen=True, kw_only=True, rename=_WIRE_NAMES):
    """The configuration of an agent.

    ``retention_ms``: the age (ms) at which rows expire; None: rows do not expire. ``streams``: the
    name of a stream, or a prefix of names and ``*`` (``results/*``) -> the retention (ms) of these
    streams; None: the rows do not expire. ``max_bytes``: the limit for the total size of all
    streams; None: only the disk limits the size. ``when_full``: whether the agent evicts the oldest
    rows or rejects writes at this limit.
    """

    retention_ms: _Retention | None
    streams: dict[str, _Retention | None]
    max_bytes: _Bytes | None
    when_full: WhenFull

    def retention_of(self, stream: str) -> int | None:
        """Return the retention of a stream in milliseconds; None: its rows do not expire.

        >>> config = Config(retention_ms=5000, streams={"a/*": 2000, "a/b": None},
        ...     max_bytes=None, when_full="evict")
        >>> [config.retention_of(name) for name in ("a/b", "a/c", "b")]
        [None, 2000, 5000]
        """
        if stream in self.streams:
            return self.streams[stream]
        fitting = [
            name
            for name in self.streams
            if name.endswith("*") and stream.startswith(name.removesuffix("*"))
        ]
        return self.streams[max(fitting, key=len)] if fitting else self.retention_ms


class ConfigChange(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=_WIRE_NAMES
):
    """A change of an agent's configuration; missing fields stay unchanged.

    A null value in ``streams``: the rows of the stream do not expire.
    """

    retention_ms: _Retention | UnsetType | None = UNSET
    streams: Annotated[dict[str, _Retention | None], Meta(max_length=1000)] | UnsetType = UNSET
    max_bytes: _Bytes | UnsetType | None = UNSET
    when_full: WhenFull | UnsetType = UNSET


class ConfigFields(TypedDict, total=False):
    """The fields of a ``ConfigChange``, as arguments of a client's method."""

    retention_ms: int | None
    streams: dict[str, int | None]
    max_bytes: int | None
    when_full: WhenFull


class IgniteNode(msgspec.Struct, frozen=True):
    """An Ignite node of a site, and whether the node is online."""

    name: str
    online: bool


class RefusedStream(msgspec.Struct, frozen=True):
    """A stream that the agent refuses to read and write, because rows were lost.

    The stream's head (the position after the last segment) is smaller than a remembered head.
    ``remembered``: the greatest remembered head. ``by``: the agent or the site that remembers this
    head.
    """

    stream: str
    head: int
    remembered: int
    by: str


class SiteStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a site's agent, for operators.

    ``waiting_for``: why the agent is not ready; empty: it is. ``warnings``: problems of an agent
    that is ready. ``disk_free_bytes``, ``disk_size_bytes``: of the disk with the agent's home; 0
    before the first measurement. ``stored_bytes``: the size of all streams. ``spooled_bodies``: the
    bodies that wait for Ignite.
    """

    site: str
    node: str
    waiting_for: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    disk_free_bytes: int = 0
    disk_size_bytes: int = 0
    stored_bytes: int = 0
    spooled_bodies: int = 0


def problem_and_remedy(warning: str) -> tuple[str, str]:
    """Return the problem of a warning, and its remedy as a sentence; empty: it has none.

    >>> problem_and_remedy("the disk is almost full: remove files")
    ('the disk is almost full', 'Remove files.')
    >>> problem_and_remedy("the disk is almost full")
    ('the disk is almost full', '')
    """
    problem, _, remedy = warning.partition(": ")
    return problem, f"{remedy[:1].upper()}{remedy[1:]}." if remedy else ""


class Cluster(msgspec.Struct, frozen=True):
    """The state of a site's Ignite.

    ``copies``: the minimum number of copies of a partition. ``lost``: the number of lost
    partitions.
    """

    nodes: tuple[IgniteNode, ...]
    backups: int
    partitions: int
    copies: int
    rebalancing: bool
    lost: int
    tolerates_a_failure: bool
    refused: tuple[RefusedStream, ...]


_Ids = Annotated[tuple[Id, ...], Meta(max_length=1000)]
_Texts = Annotated[tuple[Text, ...], Meta(min_length=1, max_length=1000)]


class SeriesFilter(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A filter of points by metric, entity, group and labels.

    The values of a field are alternatives. All given fields must match. A filter without fields
    matches every point. ``labels``: labels of a point and of its node, as in ``BY`` and ``WHEN``.
    """

    metric: _Ids = ()
    entity: _Ids = ()
    group: _Ids = ()
    labels: Annotated[Mapping[Id, _Texts], Meta(max_length=64)] = {}

    @property
    def all(self) -> bool:
        """Whether the filter has no fields, so that every series matches."""
        return not (self.metric or self.entity or self.group or self.labels)


class Copy(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={"offload": "move", "offloaded_to": "moved_to", "offloaded_in": "moved_in"},
):
    """A declaration that the site ``target`` must store a stream, or a part of a stream, of the
    publishing site.

    ``id``: a hash of stream, incarnation, filter and withheld series. ``incarnation``: the number
    of earlier streams that had the same name and were deleted. ``withheld``: the series that
    restrictions exclude. ``why``: the reason as text. ``since``: the time of the first request or
    decision (ms since the epoch). ``cause``: the replication policy's name for the reason.
    ``offload``: whether points are deleted at the source after the replica has stored them.
    ``offloaded_to``: the time (ms) up to which points are offloaded; None: no points are offloaded.
    ``offloaded_in``: the ``ReplicaFact.instance`` of the replica that has the offloaded points.
    """

    id: str
    target: str
    stream: str = RAW
    incarnation: int = 0
    filter: SeriesFilter = SeriesFilter()
    withheld: tuple[SeriesFilter, ...] = ()
    why: str
    since: int
    manual: bool = False
    cause: str = ""
    offload: bool = False
    offloaded_to: int | None = None
    offloaded_in: str = ""


class ReplicaFact(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={"source": "of", "instance": "made"},
):
    """A replica of a stream of the site ``source``, stored by the site that publishes this fact.

    ``complete``: whether the replica has had all rows of the source at least once. ``deleted``: the
    number of the source's last deletion that the replica applied; None: the replica is empty.
    ``reads``: the reads per minute, rounded down to a power of 2. ``instance``: the random id of
    this replica. A replacement of this replica has another id, and lacks the rows that the source
    has offloaded.
    """

    source: str
    id: str
    stream: str = RAW
    filter: SeriesFilter = SeriesFilter()
    withheld: tuple[SeriesFilter, ...] = ()
    complete: bool = False
    deleted: int | None = None
    state: str = "following"
    reads: int = 0
    instance: str = ""


class ReplicaState(msgspec.Struct, frozen=True, rename={"source": "of", "stored_in": "kept_in"}):
    """A replica of a stream of the site ``source``, stored in the stream ``stored_in``.

    ``complete``: whether the replica has had all rows of the source at least once; a complete
    replica now lacks at most rows younger than ``stale_ms``. ``position``: the position up to which
    the source's stream was read.
    """

    source: str
    id: str
    stream: str
    stored_in: str
    filter: SeriesFilter
    withheld: tuple[SeriesFilter, ...]
    state: str
    complete: bool
    position: int
    rows: int
    stale_ms: int


class PeerState(
    msgspec.Struct, frozen=True, rename={"usual_latency_ms": "usual_ms", "free_bytes": "room"}
):
    """The state of a site, as the reporting site sees this state.

    ``stability``: 0 to 1. ``usual_latency_ms``: the minimum latency in the recent past. ``losses``:
    the lost links, as a decaying count. ``free_bytes``: the free disk space. ``load``: the rate of
    stored points (points/s).
    """

    site: str
    reachable: bool
    stability: float
    latency_ms: float | None
    usual_latency_ms: float | None
    losses: float
    free_bytes: int | None
    load: float


class ReadRate(msgspec.Struct, frozen=True):
    """The number of reads per minute, by the site ``by``, of the points that match a filter."""

    by: str
    filter: SeriesFilter
    per_minute: float


class ReplicationState(msgspec.Struct, frozen=True, rename={"other_replicas": "elsewhere"}):
    """The copies and replicas that ``site`` knows, and the inputs of its replication policy.

    ``other_replicas``: another site -> the replicas that the other site stores.
    """

    site: str
    stability: float
    copies: tuple[Copy, ...]
    replicas: tuple[ReplicaState, ...]
    other_replicas: Mapping[str, tuple[ReplicaFact, ...]]
    sites: tuple[PeerState, ...]
    reads: tuple[ReadRate, ...]


class Restriction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule: series that ``match`` selects are copied only to sites and regions in ``stay_in``."""

    match: SeriesFilter = SeriesFilter()
    stay_in: Annotated[tuple[Id, ...], Meta(max_length=1000)]


class Restrictions(msgspec.Struct, frozen=True):
    """The restrictions from the agent's settings (``fixed``), and the ``declared`` restrictions."""

    fixed: tuple[Restriction, ...]
    declared: tuple[Restriction, ...]
