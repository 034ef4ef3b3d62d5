"""What sites tell each other of replication, in their metadata: the facts, and reading them."""

import hashlib
from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

from mistbow.streams.schemas import RAW
from storage_agent.fabric.facts import Facts
from storage_agent.monitoring.bodies import Id
from storage_agent.monitoring.catalogue import SERIES, Metadata, Series, series_of
from storage_agent.replication.filters import SeriesFilter, covers, text_of
from storage_agent.streams.streams import REPLICAS

COPIES_KEY = "copies"
KEPT_KEY = "replicas"
HEALTH_KEY = "health"
RULES_KEY = "restrictions"


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What matches may be copied only to these sites, and to sites in these regions."""

    match: SeriesFilter = SeriesFilter()
    stay_in: Annotated[tuple[Id, ...], Meta(max_length=1000)]


class Copy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A copy of one of the teller's streams that ``target`` is to hold.

    ``incarnation``: how many streams of this name were deleted at the teller before this one was
    made. ``withheld``: what restrictions keep from it. ``since`` in milliseconds. ``id`` says what
    is in it: copies with other content have other ids. ``cause``: what the policy went by.
    ``move``: what is there is to be forgotten here; ``moved_to``: the time (ms) up to which that
    was begun, ``moved_in``: the replica that has it, as ``Kept`` says which it is in ``made``.
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
    move: bool = False
    moved_to: int | None = None
    moved_in: str = ""


class Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A replica that the teller holds of the site ``of``.

    ``complete``: it has once had all that there was. ``deleted``: the last deletion at its source
    that was done in it. ``reads``: how often a minute it is read there, in steps of a factor of 2.
    ``made`` names this replica: one that is made in its place has less, and another name.
    """

    of: str
    id: str
    stream: str = RAW
    filter: SeriesFilter = SeriesFilter()
    withheld: tuple[SeriesFilter, ...] = ()
    complete: bool = False
    deleted: int | None = None
    state: str = "following"
    reads: int = 0
    made: str = ""


class Health(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A site's instability at a time (ms), the room on its disk (bytes), its points a second."""

    instability: float
    at: int
    room: int
    load: float = 0.0


_COPIES = msgspec.json.Decoder(tuple[Copy, ...])
_KEPT = msgspec.json.Decoder(tuple[Kept, ...])
_HEALTH = msgspec.json.Decoder(Health)
_RULES = msgspec.json.Decoder(tuple[Rule, ...])


def copies_of(facts: Facts) -> tuple[Copy, ...]:
    """Return the copies that a site wants others to hold."""
    return _COPIES.decode(facts.get(COPIES_KEY, "[]"))


def kept_by(facts: Facts) -> tuple[Kept, ...]:
    """Return the replicas that a site holds."""
    return _KEPT.decode(facts.get(KEPT_KEY, "[]"))


def health_of(facts: Facts) -> Health | None:
    """Return how a site said that it is."""
    event = facts.get(HEALTH_KEY)
    return None if event is None else _HEALTH.decode(event)


def rules_of(facts: Facts) -> tuple[Rule, ...]:
    """Return the restrictions that were declared at a site while it ran."""
    return _RULES.decode(facts.get(RULES_KEY, "[]"))


def series_told(facts: Facts) -> Iterator[tuple[Series, Metadata]]:
    """Yield the series that a site has."""
    for key, event in facts.items():
        if key.startswith(SERIES):
            metadata = msgspec.json.decode(event)
            yield series_of(metadata), metadata


def replaces(new: Copy, old: Copy) -> bool:
    """Tell whether all that one copy holds is held by another too, and may be where the old is."""
    same = (new.stream, new.incarnation) == (old.stream, old.incarnation)
    kept_back = all(any(covers(each, rule) for each in old.withheld) for rule in new.withheld)
    return same and kept_back and covers(new.filter, old.filter)


def id_of(copy: Copy) -> str:
    """Return the id of a copy: the same for the same content."""
    texts = [copy.stream, text_of(copy.filter), *sorted(map(text_of, copy.withheld))]
    if copy.incarnation:
        texts.append(str(copy.incarnation))
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]


def name_of(site: str, copy: Copy) -> str:
    """Return the stream in which a copy of a site's stream is kept.

    >>> name_of("a", Copy(id="4f", target="b", why="", since=0))
    'replicas/a/raw'
    >>> name_of("a", Copy(id="4f", target="b", why="", since=0, filter=SeriesFilter(metric=("m",))))
    'replicas/a/raw/4f'
    """
    whole = copy.filter.all and not copy.withheld and not copy.incarnation
    return f"{REPLICAS}{site}/{copy.stream}" + ("" if whole else f"/{copy.id}")
