"""Facts: keys with JSON values that describe a site, as rows of the site's stream ``metadata``."""

import math
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping
from functools import lru_cache
from itertools import chain
from typing import Any, Literal

import msgspec
import pyarrow as pa

from mistbow.client.agent_model import Container, Pod
from mistbow.client.operation_model import Copy, ReplicaFact, Restriction
from mistbow.errors import MistbowError
from mistbow.fabric import Enabler, Worker
from mistbow.runtime.slices import Slices
from mistbow.streams.events import REMOVED, events_of
from mistbow.telemetry import get_logger
from storage_agent.addresses import is_service_url
from storage_agent.membership.enablers import check_enabler
from storage_agent.membership.fact_size import MAX_FACT_BYTES
from storage_agent.membership.worker_history import InstabilityFact
from storage_agent.membership.workers import check_worker
from storage_agent.series import SERIES_PREFIX, Metadata, Series, series_key, series_of
from storage_agent.streams import subscription
from storage_agent.streams.streams import Stream
from storage_agent.streams.subscription import RowSelection, RowSelector

log = get_logger(__name__)

SITE = "site"
FORGOTTEN = "forgotten"
_WORKER = "worker/"
_ENABLER = "enabler/"
_LINK = "link/"
_INSTABILITY = "instability/"
_CREDENTIAL = "credential/"
COPIES = "copies"
REPLICAS = "replicas"
HEALTH = "health"
RESTRICTIONS = "restrictions"

_MAX_TIME_MS = 2**53
_MAX_QUOTED = 100
_MAX_LIST_CHARACTERS = 8 * 2**20
"""The maximum length of the list of forgotten sites, and of the list of restrictions."""

_MAX_CHARACTERS_PER_SITE = 8 * 2**20
"""The maximum total length of the other facts of a site, without those about series."""

_MAX_KEYS = 1000
"""The maximum number of facts of a kind that a site may publish, except facts about series."""

_MAX_CREDENTIALS = 2 * _MAX_KEYS + 1
"""The number of credentials of 1,000 workers, 1,000 enablers and the agent."""

_APPLIED_EVENTS = 500
"""The number of events that are applied before other tasks may run."""


class Facts(MutableMapping[str, str]):
    """The facts of a site: key -> last event (JSON).

    Facts about series are in a separate dict, because a site has many series and few other facts.
    """

    def __init__(self) -> None:
        self._series: dict[str, str] = {}
        self._others: dict[str, str] = {}
        self._numbers = Counter[str]()
        self._characters = 0
        self._has_ignored = False

    def __getitem__(self, key: str) -> str:
        return self._of(key)[key]

    def __setitem__(self, key: str, event: str) -> None:
        if not key.startswith(SERIES_PREFIX):
            self._count(key, self._others.get(key), event)
        self._of(key)[key] = event

    def __delitem__(self, key: str) -> None:
        event = self._of(key).pop(key)
        if not key.startswith(SERIES_PREFIX):
            self._count(key, event, None)

    def __iter__(self) -> Iterator[str]:
        return chain(self._others, self._series)

    def __len__(self) -> int:
        return len(self._others) + len(self._series)

    def apply(self, key: str, event: str) -> None:
        """Set a key to an event, or remove the key.

        A fact that is not accepted is ignored: the site that wrote it may have been stolen.
        """
        if event == REMOVED and key.startswith(SERIES_PREFIX):
            # A deletion removes many series, and ``pop`` of the dict takes the fewest steps.
            self._series.pop(key, None)
        elif event == REMOVED:
            self.pop(key, None)
        elif self.accepts(key, event):
            self[key] = event
        elif not self._has_ignored:
            self._has_ignored = True
            log.warning("fact_ignored", key=key[:_MAX_QUOTED])

    def accepts(self, key: str, event: str) -> bool:
        """Return whether a fact is well formed, and the facts with it have no excessive size."""
        if key.startswith(SERIES_PREFIX):
            return is_well_formed(key, event)
        kind, before = _kind(key), self._others.get(key)
        limit = _MAX_CREDENTIALS if kind == _CREDENTIAL else _MAX_KEYS
        characters = 0
        if kind not in _LISTS:
            characters = self._characters + len(event) - len(before or "")
        return (
            (before is not None or self._numbers[kind] < limit)
            and characters <= _MAX_CHARACTERS_PER_SITE
            and is_well_formed(key, event)
        )

    def with_prefix(self, prefix: str) -> list[str]:
        """Return the sorted keys with a prefix; facts about series are left out."""
        return sorted(key for key in self._others if key.startswith(prefix))

    def series_events(self) -> list[tuple[str, str]]:
        """Return (key, event) of each fact about a series."""
        return list(self._series.items())

    def series_keys(self) -> list[str]:
        """Return the keys of the facts about series."""
        return list(self._series)

    def _count(self, key: str, before: str | None, after: str | None) -> None:
        """Count a change of a fact that is not about a series; None: the fact does not exist."""
        kind = _kind(key)
        self._numbers[kind] += (after is not None) - (before is not None)
        if kind not in _LISTS:
            self._characters += len(after or "") - len(before or "")

    def _of(self, key: str) -> dict[str, str]:
        return self._series if key.startswith(SERIES_PREFIX) else self._others


class SiteFact(msgspec.Struct, frozen=True, kw_only=True):
    """The fact about a site's agent: its node, its address, and the site's region and labels."""

    node: str
    url: str
    region: str = ""
    labels: Mapping[str, str] = {}


class LinkFact(msgspec.Struct, frozen=True, kw_only=True):
    """The fact about a direct link to another site; see ``mistbow.fabric.SiteLink``."""

    latency_ms: float
    loss: float | None = None
    bandwidth_mbps: float | None = None


class Health(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={"free_bytes": "room"},
):
    """The health that a site publishes about itself.

    ``instability``: the recent restarts and lost links of the site, as a decaying sum. ``at``: the
    time (ms since the epoch) at which ``instability`` had this value. ``free_bytes``: the free disk
    space. ``load``: the points that the site stores per second.
    """

    instability: float
    at: int
    free_bytes: int
    load: float = 0.0


class _SeriesFact(msgspec.Struct, frozen=True):
    """The fact about a series: its names, and the fields that reads of several sites use."""

    metric: str = msgspec.field(name="metricID")
    entity: str = msgspec.field(name="entityID")
    entity_type: str | None = msgspec.field(name="entityType", default=None)
    name: str | None = None
    units: str | None = None
    desc: str | None = None
    group: str | None = None
    min_val: float | None = msgspec.field(name="minVal", default=None)
    max_val: float | None = msgspec.field(name="maxVal", default=None)
    higher_is_better: bool | None = msgspec.field(name="higherIsBetter", default=None)
    pod: Pod = Pod()
    container: Container = Container()


_SERIES_KEY = msgspec.json.Decoder(tuple[str, str])
_FORGOTTEN = msgspec.json.Decoder(dict[str, int])
_SERIES_FACT = msgspec.json.Decoder(_SeriesFact)


def _is_instability(instability: float, at: int) -> bool:
    return 0 <= instability < math.inf and 0 <= at <= _MAX_TIME_MS


def _is_worker(name: str, worker: Worker) -> bool:
    check_worker(name, worker, on_loopback=False)
    return True


def _is_enabler(domain: str, enabler: Enabler) -> bool:
    check_enabler(domain, enabler, on_loopback=False)
    return True


def _is_link(_: str, link: LinkFact) -> bool:
    loss, bandwidth = link.loss, link.bandwidth_mbps
    return (
        0 <= link.latency_ms < math.inf
        and (loss is None or 0 <= loss <= 1)
        and (bandwidth is None or 0 < bandwidth < math.inf)
    )


def _is_any(_: str, __: Any) -> bool:
    return True


FORMS: Mapping[str, tuple[Any, Callable[[str, Any], bool]]] = {
    SITE: (SiteFact, lambda _, fact: is_service_url(fact.url)),
    FORGOTTEN: (dict[str, int], _is_any),
    _WORKER: (Worker, _is_worker),
    _ENABLER: (Enabler, _is_enabler),
    _LINK: (LinkFact, _is_link),
    _INSTABILITY: (InstabilityFact, lambda _, fact: _is_instability(fact.instability, fact.at)),
    _CREDENTIAL: (str, _is_any),
    COPIES: (tuple[Copy, ...], _is_any),
    REPLICAS: (tuple[ReplicaFact, ...], _is_any),
    HEALTH: (Health, lambda _, fact: _is_instability(fact.instability, fact.at)),
    RESTRICTIONS: (tuple[Restriction, ...], _is_any),
}
"""The kinds of facts that other sites read: a key, or the beginning of keys up to "/" ->
the type, and a check of the rest of the key with the value. Facts about series are one more kind.
"""

_LISTS: Mapping[str, float] = {
    FORGOTTEN: _MAX_LIST_CHARACTERS,
    RESTRICTIONS: _MAX_LIST_CHARACTERS,
    COPIES: math.inf,
    REPLICAS: math.inf,
}
"""The kinds of facts that are long lists -> the maximum length of the event."""

_DECODERS = {key: msgspec.json.Decoder(form) for key, (form, _) in FORMS.items()}


def is_well_formed(key: str, event: str) -> bool:
    """Return whether a fact can be read; facts of later versions have other keys."""
    try:
        if key.startswith(SERIES_PREFIX):
            series = _SERIES_FACT.decode(event)
            return (series.metric, series.entity) == series_of_key(key)
        kind = _kind(key)
        if len(key) + len(event) > _LISTS.get(kind, MAX_FACT_BYTES):
            return False
        if not kind:
            return True
        _, check = FORMS[kind]
        return check(key.removeprefix(kind), _DECODERS[kind].decode(event))
    except (msgspec.MsgspecError, MistbowError, RecursionError, UnicodeError):
        return False


def _kind(key: str) -> str:
    """Return the kind of a fact that is not about a series; empty: a kind of a later version."""
    begin, slash, _ = key.partition("/")
    kind = begin + slash
    return kind if kind in FORMS else ""


def worker_key(name: str) -> str:
    """Return the key of the fact about a worker."""
    return _WORKER + name


def enabler_key(domain: str) -> str:
    """Return the key of the fact about the enabler of a domain."""
    return _ENABLER + domain


def credential_key(key: str) -> str:
    """Return the key of the credential of the service that the fact with a key describes."""
    return _CREDENTIAL + key


def link_key(site: str) -> str:
    """Return the key of the fact about the direct link to a site."""
    return _LINK + site


def instability_key(worker: str) -> str:
    """Return the key of the fact about the instability of a worker."""
    return _INSTABILITY + worker


def encode_fact(value: Any) -> str:
    """Return the JSON event that sets a key to ``value``.

    If ``value`` is None, the event removes the key.
    """
    return msgspec.json.encode(value, order="deterministic").decode()


def encode_series(rows: Iterable[tuple[str, str, bytes]]) -> Iterator[tuple[str, str]]:
    """Yield (key, event) of the facts about series.

    ``rows``: metric, entity and description (JSON) of each series.
    """
    encode = msgspec.json.encode
    for metric, entity, description in rows:
        before, between, after = _split_event(description)
        names = encode(entity).decode(), encode(metric).decode()
        yield series_key((metric, entity)), f"{before}{names[0]}{between}{names[1]}{after}"


@lru_cache(maxsize=10_000)
def _split_event(description: bytes) -> tuple[str, str, str]:
    """Return three parts of an event: before the entity, then up to the metric, and after it.

    ``description``: the event, as JSON without the entity and the metric.
    """
    texts = {"entityID": f"{secrets.token_hex(16)} entity", "metricID": secrets.token_hex(16)}
    event = encode_fact({**msgspec.json.decode(description), **texts})
    # Names are sorted in an event, so the entity is before the metric.
    before, _, rest = event.partition(f'"{texts["entityID"]}"')
    between, _, after = rest.partition(f'"{texts["metricID"]}"')
    return before, between, after


def apply_events(facts: Facts, rows: pa.RecordBatch) -> None:
    """Apply the events in rows of a stream ``metadata`` to ``facts``.

    Ignores rows without a key or an event, which earlier versions stored for a stolen site.
    """
    for _, key, event in events_of(rows):
        if isinstance(key, str) and isinstance(event, str):
            facts.apply(key, event)


async def apply_many_events(facts: Facts, rows: pa.RecordBatch) -> None:
    """Apply the events in rows of a stream ``metadata``; other tasks may run in between."""
    slices = Slices()
    for begin in range(0, rows.num_rows, _APPLIED_EVENTS):
        apply_events(facts, rows.slice(begin, _APPLIED_EVENTS))
        await slices.pause()


async def read_facts(stream: Stream) -> Facts:
    """Return the facts that result from all rows of a stream ``metadata``."""
    facts = Facts()
    async for chunk in subscription.read(stream.log, RowSelector(stream, RowSelection()), 0):
        await apply_many_events(facts, chunk.rows)
    return facts


def site_fact(facts: Facts) -> SiteFact | None:
    """Return the fact about a site's agent; None: the site has not published this fact yet."""
    event = facts.get(SITE)
    return None if event is None else msgspec.json.decode(event, type=SiteFact)


def workers(facts: Facts) -> tuple[Worker, ...]:
    """Return a site's workers, ordered by name."""
    return tuple(msgspec.json.decode(facts[key], type=Worker) for key in facts.with_prefix(_WORKER))


def enablers(facts: Facts) -> tuple[Enabler, ...]:
    """Return a site's enablers, ordered by domain."""
    keys = facts.with_prefix(_ENABLER)
    return tuple(msgspec.json.decode(facts[key], type=Enabler) for key in keys)


def worker_of(facts: Facts, name: str) -> Worker | None:
    """Return a site's worker with a name; None: the site has no such worker."""
    event = facts.get(worker_key(name))
    return None if event is None else msgspec.json.decode(event, type=Worker)


def credential(facts: Facts, key: str) -> str:
    """Return the credential of the service that the fact with a key describes; empty: none."""
    event = facts.get(credential_key(key))
    return "" if event is None else msgspec.json.decode(event, type=str)


def credentials(facts: Facts) -> Iterator[tuple[Literal["worker", "enabler"], str, str]]:
    """Yield (kind, name of a worker or domain of an enabler, credential) of a site's services."""
    for key in facts.with_prefix(_CREDENTIAL):
        kind, slash, service = key.removeprefix(_CREDENTIAL).partition("/")
        match kind:
            case "worker" | "enabler" if slash:
                yield kind, service, msgspec.json.decode(facts[key], type=str)


def instabilities(facts: Facts) -> dict[str, InstabilityFact]:
    """Return the instability of each worker of a site with recent failures, by name."""
    return {
        key.removeprefix(_INSTABILITY): msgspec.json.decode(facts[key], type=InstabilityFact)
        for key in facts.with_prefix(_INSTABILITY)
    }


def published_series(facts: Facts) -> Iterator[tuple[Series, Metadata]]:
    """Yield (series, metadata) for each series that a site has published."""
    return decode_series(facts.series_events())


def series_of_key(key: str) -> Series:
    """Return the series that the fact with a key describes.

    >>> series_of_key(series_key(("cpu", "vm1")))
    ('cpu', 'vm1')
    """
    return _SERIES_KEY.decode(key.removeprefix(SERIES_PREFIX))


def decode_series(
    events: Iterable[tuple[str, str]],
    metrics: Collection[str] = (),
    entities: Collection[str] = (),
) -> Iterator[tuple[Series, Metadata]]:
    """Yield (series, metadata) of facts about series, with the given metrics and entities.

    ``events``: pairs of key and event. An empty collection selects all metrics or all entities.
    """
    for key, event in events:
        if metrics or entities:
            # The key is shorter than the event.
            metric, entity = series_of_key(key)
            if (metrics and metric not in metrics) or (entities and entity not in entities):
                continue
        metadata = msgspec.json.decode(event)
        yield series_of(metadata), metadata


def forgotten_sites(facts: Facts) -> dict[str, int]:
    """Return the sites that users removed at a site: removed site -> time of the removal (ms)."""
    return _FORGOTTEN.decode(facts.get(FORGOTTEN, "{}"))


def links(facts: Facts) -> dict[str, LinkFact]:
    """Return the direct links of a site: other site -> fact about the link."""
    return {
        key.removeprefix(_LINK): msgspec.json.decode(facts[key], type=LinkFact)
        for key in facts.with_prefix(_LINK)
    }
