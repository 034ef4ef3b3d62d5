"""The facts of replication: copies, replicas, restrictions and health, as sites publish them."""

import hashlib

import msgspec

from mistbow.client.operation_model import Copy, ReplicaFact, Restriction
from storage_agent.membership.facts import COPIES, HEALTH, REPLICAS, RESTRICTIONS, Facts, Health
from storage_agent.replication.filters import canonical_text, covers
from storage_agent.streams.streams import REPLICA_PREFIX

MAX_COPIES = 200
"""The maximum number of copies that a site requests, and that a target accepts from one source."""

RESTRICTIONS_DECODER = msgspec.json.Decoder(tuple[Restriction, ...])

_COPIES = msgspec.json.Decoder(tuple[Copy, ...])
_REPLICAS = msgspec.json.Decoder(tuple[ReplicaFact, ...])
_HEALTH = msgspec.json.Decoder(Health)


def copies_of(facts: Facts) -> tuple[Copy, ...]:
    """Return the copies that a site has published of its own streams."""
    return _COPIES.decode(facts.get(COPIES, "[]"))


def replica_facts(facts: Facts) -> tuple[ReplicaFact, ...]:
    """Return the facts that a site published about the replicas that it stores."""
    return _REPLICAS.decode(facts.get(REPLICAS, "[]"))


def is_requested(replica: ReplicaFact, site: str, of_source: Facts) -> bool:
    """Return whether the source of a replica at a site has requested the replica's copy.

    ``of_source``: the facts of the source.
    """
    return any((each.target, each.id) == (site, replica.id) for each in copies_of(of_source))


def health_of(facts: Facts) -> Health | None:
    """Return the health that a site has published; None if the site has published no health."""
    event = facts.get(HEALTH)
    return None if event is None else _HEALTH.decode(event)


def restrictions_of(facts: Facts) -> tuple[Restriction, ...]:
    """Return the restrictions that users declared through a site's API."""
    return RESTRICTIONS_DECODER.decode(facts.get(RESTRICTIONS, "[]"))


def replaces(new: Copy, old: Copy) -> bool:
    """Return whether the copy ``new`` selects all rows that the copy ``old`` selects.

    The targets of the two copies may differ.
    """
    same = (new.stream, new.incarnation) == (old.stream, old.incarnation)
    withheld = all(any(covers(each, rule) for each in old.withheld) for rule in new.withheld)
    return same and withheld and covers(new.filter, old.filter)


def content_id(copy: Copy) -> str:
    """Return the id of a copy: a hash of its stream, incarnation, filter and withheld series."""
    texts = [copy.stream, canonical_text(copy.filter), *sorted(map(canonical_text, copy.withheld))]
    if copy.incarnation:
        texts.append(str(copy.incarnation))
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]


def replica_stream_name(site: str, copy: Copy) -> str:
    """Return the name of the stream in which the target of a copy stores the replica.

    ``site``: the source of the copy.

    >>> replica_stream_name("a", Copy(id="4f", target="b", why="", since=0))
    'replicas/a/raw'
    >>> from mistbow.client.operation_model import SeriesFilter
    >>> cpu = SeriesFilter(metric=("cpu",))
    >>> replica_stream_name("a", Copy(id="4f", target="b", why="", since=0, filter=cpu))
    'replicas/a/raw/4f'
    """
    whole = copy.filter.all and not copy.withheld and not copy.incarnation
    return f"{REPLICA_PREFIX}{site}/{copy.stream}" + ("" if whole else f"/{copy.id}")
