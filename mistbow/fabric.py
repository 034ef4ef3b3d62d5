"""The fabric: its sites, workers and links, as immutable data with a JSON form."""

from collections.abc import Mapping

import msgspec


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """An analytics worker, as it announces itself to the agent of its site.

    ``url``: the address of the worker for other services. ``cores_free`` and ``memory_free_mb``:
    the capacity that is free for fragments. ``clock_mhz``: the clock speed; 0 if unknown.
    ``operators``: the operators of installed packages, each with its name and version.
    ``instance``: the random id of the worker's process; empty for an older worker, which has none.
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


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """A site: the node and the address of its agent, and its workers.

    ``reachable``: whether requests from the reporting site reach the site now, directly or through
    another site. The other fields of an unreachable site date from the last contact with the site.
    """

    name: str
    node: str
    url: str
    region: str = ""
    labels: Mapping[str, str] = {}
    reachable: bool = True
    workers: tuple[Worker, ...] = ()


class SiteLink(msgspec.Struct, frozen=True, kw_only=True):
    """A direct link from one site to another. ``latency_ms``: half of the round-trip time."""

    source: str
    target: str
    latency_ms: float


class Fabric(msgspec.Struct, frozen=True, kw_only=True):
    """The sites and the working links that the agent of ``site`` knows, including ``site`` itself.

    ``forgotten``: the sites that users removed, and that have not returned.
    """

    site: str
    sites: tuple[Site, ...]
    links: tuple[SiteLink, ...] = ()
    forgotten: tuple[str, ...] = ()
