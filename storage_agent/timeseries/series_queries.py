"""The answers to /list and /nodes, from data of this agent, without requests to other sites."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec

from mistbow.client.agent_model import ListAnswer, Missing, ReplicaSource
from mistbow.fabric import Site
from storage_agent.http.points import ListBody
from storage_agent.http.responses import Content
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.membership.facts import decode_series
from storage_agent.membership.scatter_gather import resolve_sites
from storage_agent.series import Metadata
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.grouped_points import join_chunks, join_items
from storage_agent.timeseries.point_queries import name_set, select_series, series_filter
from storage_agent.timeseries.selection import description_of, metadata_json

_NESTED = {
    "pod": {"podUUID": "uuid", "podName": "name", "podNamespace": "namespace"},
    "container": {"containerID": "id", "containerName": "name"},
}
"""The names of nested metadata in requests: object -> name in requests -> name in the object."""

_STORED_NAMES = {"groupName": "group"}
_REQUIRED = ("metricID", "entityID")
_MAX_WHOLE_SERIES = 1000
"""The maximum number of series in an answer that is sent as a whole, and not streamed."""

_MAX_CACHED = 10_000

Row = tuple[str, str, bytes]
"""A series: metric, entity, and description (JSON)."""


async def list_series(
    body: ListBody, node: str, catalogue: Catalogue, membership: FabricMembership, now: int
) -> Content:
    """Return the JSON answer to a /list.

    The answer has the series of the nodes in the body; if the body names no nodes, the series of
    this node. ``now``: the time of this agent's clock (ms).
    """
    own = await select_series(catalogue, body)
    if body.nodes is None:
        return _answer([(node, own.rows())], body, ListAnswer(()), len(own))
    sites, missing = resolve_sites(name_set(body.nodes), membership)
    matches = series_filter(body)
    parts: list[tuple[str, Iterable[Row]]] = []
    replicas: list[ReplicaSource] = []
    count = 0
    for site in sites:
        facts = membership.facts_of(site.name)
        if site.name == membership.site:
            parts.append((site.node, own.rows()))
            count += len(own)
        elif facts:
            published = facts.series_events()
            parts.append((site.node, _published_rows(published, body, matches)))
            count += len(published)
            if not site.reachable:
                replicas.append(metadata_source(site, membership, now))
        else:
            missing = (
                *missing,
                Missing(site.node, "this agent has not received the site's metadata yet"),
            )
    return _answer(parts, body, ListAnswer((), tuple(replicas), missing), count)


def _answer(
    parts: Sequence[tuple[str, Iterable[Row]]], body: ListBody, rest: ListAnswer, count: int
) -> Content:
    """Return the JSON answer with the series of several nodes, complete or in chunks.

    ``parts``: pairs of a node and its series. ``rest``: the other fields of the answer. ``count``:
    about how many series have to be read.
    """
    chunks = encode_list(parts, name_set(body.fields), rest)
    return chunks if count > _MAX_WHOLE_SERIES else b"".join(chunks)


def encode_list(
    parts: Iterable[tuple[str, Iterable[Row]]], fields: frozenset[str], rest: ListAnswer
) -> Iterator[bytes]:
    """Yield the chunks of the JSON answer to a /list.

    ``parts``: pairs of a node and its series. ``fields``: the metadata fields to return; empty: all
    fields. ``rest``: the other fields of the answer.
    """
    before, after = msgspec.json.encode(rest).split(b"[]", 1)
    items = chain.from_iterable(_items(node, rows, fields) for node, rows in parts)
    return join_chunks(chain((before, b"["), join_items(items), (b"]", after)))


def _published_rows(
    published: Sequence[tuple[str, str]], body: ListBody, matches: Callable[[Metadata], bool]
) -> Iterator[Row]:
    metrics, entities = name_set(body.metricID), name_set(body.entityID)
    for (metric, entity), metadata in decode_series(published, metrics, entities):
        if matches(metadata):
            yield metric, entity, description_of(metadata)


def metadata_source(site: Site, membership: FabricMembership, now: int) -> ReplicaSource:
    """Return an entry of the answer, which states that this agent answered for another site.

    The entry contains the age (ms) of the data: the time since the unreachable site answered last.
    """
    peer = membership.peers.get(site.name)
    answered_at = None if peer is None else peer.answered_at
    stale_ms = None if answered_at is None else max(0, now - answered_at)
    return ReplicaSource(node=site.node, at=membership.site, stale_ms=stale_ms)


def nodes(membership: FabricMembership) -> bytes:
    """Return the JSON answer to a /nodes: all nodes, sorted by name.

    The cluster head is the first reachable node in this order.
    """
    sites = membership.fabric().sites
    head = min((site.node, site.name) for site in sites if site.reachable)
    items = [
        {"hostname": site.node, "cluster_head": (site.node, site.name) == head}
        for site in sorted(sites, key=lambda site: (site.node, site.name))
    ]
    return msgspec.json.encode({"nodes": items})


def _items(node: str, rows: Iterable[Row], fields: frozenset[str]) -> Iterator[bytes]:
    """Yield the JSON object of each series, with the requested metadata fields, or all fields."""
    head = b'{"node":' + msgspec.json.encode(node) + b","
    selected: dict[bytes, bytes] = {}
    for metric, entity, description in rows:
        if fields:
            if len(selected) > _MAX_CACHED:
                selected.clear()
            if description not in selected:
                selected[description] = _select_fields(description, fields)
            description = selected[description]
        yield head + metadata_json(metric, entity, description)[1:]


def _select_fields(description: bytes, fields: frozenset[str]) -> bytes:
    """Return a description with only the given fields; both are JSON."""
    metadata = msgspec.json.decode(description)
    item: dict[str, Any] = {}
    for name in sorted(fields - set(_REQUIRED)):
        stored = _STORED_NAMES.get(name, name)
        if stored in metadata and stored not in _NESTED:
            item[name] = metadata[stored]
    for key, names in _NESTED.items():
        nested = metadata.get(key, {})
        # The name of the nested object selects all of its fields.
        selected = names if key in fields else {n: of for n, of in names.items() if n in fields}
        if selected:
            item[key] = {name: nested[of] for name, of in selected.items() if of in nested}
    return msgspec.json.encode(item)
