"""Answering /list and /nodes from what is known here: nothing is asked of other sites."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from mistbow.fabric import Site
from storage_agent.fabric.facts import series
from storage_agent.fabric.gathering import Missing, Source, chosen_sites
from storage_agent.fabric.member import Member
from storage_agent.monitoring.bodies import ListBody
from storage_agent.monitoring.catalogue import Catalogue, Metadata
from storage_agent.monitoring.extraction import choice_of, fitting

_PARTS = {
    "pod": {"podUUID": "uuid", "podName": "name", "podNamespace": "namespace"},
    "container": {"containerID": "id", "containerName": "name"},
}
"""The names by which fields of these parts of a series' metadata are asked for."""

_OWN_NAMES = {"groupName": "group"}
_ALWAYS = ("metricID", "entityID")


class _Listed(msgspec.Struct, frozen=True, omit_defaults=True):
    metric: tuple[dict[str, Any], ...]
    replicas: tuple[Source, ...] = ()
    missing: tuple[Missing, ...] = ()


def listed(body: ListBody, node: str, catalogue: Catalogue, member: Member, now: int) -> bytes:
    """Return the JSON answer: the metadata of this node's series, or of those of other nodes."""
    own = (metadata for _, metadata in catalogue.all())
    if body.nodes is None:
        return msgspec.json.encode(_Listed(tuple(_items(body, node, own))))
    sites, missing = chosen_sites(body.nodes, member)
    items: list[dict[str, Any]] = []
    stood: list[Source] = []
    for site in sites:
        told = member.told_by(site.name)
        if site.name == member.site:
            items += _items(body, site.node, own)
        elif told:
            items += _items(body, site.node, series(told))
            if not site.reachable:
                stood.append(_instead(site, member, now))
        else:
            missing = (*missing, Missing(site.node, "what it has was never heard of yet"))
    return msgspec.json.encode(_Listed(tuple(items), tuple(stood), missing))


def _instead(site: Site, member: Member, now: int) -> Source:
    """Return how old what is known here of a silent site is, if it was heard since the start."""
    known = member.neighbours.get(site.name)
    heard = None if known is None else known.heard
    stale_ms = None if heard is None else max(0, now - heard)
    return Source(node=site.node, at=member.site, stale_ms=stale_ms)


def nodes(member: Member) -> bytes:
    """Return all nodes; the head is the first by name among those that can be reached."""
    sites = member.fabric().sites
    head = min((site.node, site.name) for site in sites if site.reachable)
    told = [
        {"hostname": site.node, "cluster_head": (site.node, site.name) == head}
        for site in sorted(sites, key=lambda site: (site.node, site.name))
    ]
    return msgspec.json.encode({"nodes": told})


def _items(body: ListBody, node: str, known: Iterable[Metadata]) -> Iterator[dict[str, Any]]:
    fits = fitting(body)
    fields = choice_of(body.fields)
    for metadata in known:
        if fits(metadata):
            yield {"node": node, **(_selected(metadata, fields) if fields else metadata)}


def _selected(metadata: Metadata, fields: frozenset[str]) -> dict[str, Any]:
    item = {name: metadata[name] for name in _ALWAYS}
    for name in sorted(fields - set(_ALWAYS)):
        stored = _OWN_NAMES.get(name, name)
        if stored in metadata and stored not in _PARTS:
            item[name] = metadata[stored]
    for part, names in _PARTS.items():
        told = metadata.get(part, {})
        # The part's own name asks for all of it.
        asked = names if part in fields else {n: of for n, of in names.items() if n in fields}
        if asked:
            item[part] = {name: told[of] for name, of in asked.items() if of in told}
    return item
