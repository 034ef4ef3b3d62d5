"""The fabric: what the sites of a fog know of each other, as immutable data, JSON both ways."""

from collections.abc import Mapping

import msgspec


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """An analytics worker as it announces itself to its site's agent.

    ``url`` is where others reach it. Free is what fragments may take of it, in cores and
    megabytes; a clock speed of 0 is unknown. ``operators`` are those of other packages that it
    has, each as its name and version.
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


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """A site: its agent's node and address, and the workers that are alive there.

    ``reachable``: whether the site that tells this reaches it now, straight or through another
    one. What is told of one that is not is as it was last heard.
    """

    name: str
    node: str
    url: str
    region: str = ""
    labels: Mapping[str, str] = {}
    reachable: bool = True
    workers: tuple[Worker, ...] = ()


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """The way from a site straight to another, half of a round trip, in milliseconds."""

    source: str
    target: str
    latency_ms: float


class Fabric(msgspec.Struct, frozen=True, kw_only=True):
    """All sites that the agent of ``site`` knows of, itself included, and the links that work.

    ``forgotten`` are those that were there, and are not by somebody's request.
    """

    site: str
    sites: tuple[Site, ...]
    links: tuple[Link, ...] = ()
    forgotten: tuple[str, ...] = ()
