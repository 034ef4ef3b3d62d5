"""What a site says of itself, key by key: the rows of its stream ``metadata``."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa

from mistbow.fabric import Worker
from mistbow.streams.events import events_of
from storage_agent.streams import reading
from storage_agent.streams.reading import Selection, Selector
from storage_agent.streams.streams import Stream

SITE = "site"
FORGOTTEN = "forgotten"
_WORKER = "worker/"
_LINK = "link/"
_SERIES = "series/"

GONE = "null"
"""The event that removes a key."""

Facts = dict[str, str]
"""The last event of each key, as JSON."""


class SiteFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A site's agent and where it is."""

    node: str
    url: str
    region: str = ""
    labels: Mapping[str, str] = {}


class LinkFacts(msgspec.Struct, frozen=True, kw_only=True):
    """How long a message takes straight to another site."""

    latency_ms: float


_FORGOTTEN = msgspec.json.Decoder(dict[str, int])


def worker_key(name: str) -> str:
    """Return the key of a worker's announcement."""
    return _WORKER + name


def link_key(site: str) -> str:
    """Return the key of the straight link to a site."""
    return _LINK + site


def as_event(value: Any) -> str:
    """Return a value as the JSON of an event; None removes the key."""
    return msgspec.json.encode(value, order="deterministic").decode()


def learn(facts: Facts, rows: pa.RecordBatch) -> None:
    """Follow some rows of the stream."""
    for _, key, event in events_of(rows):
        if event == GONE:
            facts.pop(key, None)
        else:
            facts[key] = event


async def read_facts(stream: Stream) -> Facts:
    """Return what a whole stream comes to."""
    facts: Facts = {}
    async for chunk in reading.read(stream.log, Selector(stream, Selection()), 0):
        learn(facts, chunk.rows)
    return facts


def site_facts(facts: Facts) -> SiteFacts | None:
    """Return what a site said of its agent, if it did yet."""
    event = facts.get(SITE)
    return None if event is None else msgspec.json.decode(event, type=SiteFacts)


def workers(facts: Facts) -> tuple[Worker, ...]:
    """Return a site's workers by name."""
    return tuple(
        msgspec.json.decode(facts[key], type=Worker)
        for key in sorted(facts)
        if key.startswith(_WORKER)
    )


def series(facts: Facts) -> Iterator[dict[str, Any]]:
    """Yield the metadata of a site's series."""
    for key, event in list(facts.items()):
        if key.startswith(_SERIES):
            yield msgspec.json.decode(event)


def forgotten(facts: Facts) -> dict[str, int]:
    """Return the sites that are forgotten at a site's word, and since when (ms)."""
    return _FORGOTTEN.decode(facts.get(FORGOTTEN, "{}"))


def links(facts: Facts) -> dict[str, float]:
    """Return the latencies of a site's links, in milliseconds, by the site at the other end."""
    return {
        key.removeprefix(_LINK): msgspec.json.decode(facts[key], type=LinkFacts).latency_ms
        for key in sorted(facts)
        if key.startswith(_LINK)
    }
