"""The topics of live events besides results: states of deployments, fog, health, decisions."""

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from analytics.fog_models import FogSnapshot
from analytics.health_models import Health
from analytics.insight_models import Decision, DeploymentStatus
from analytics_enabler.decision_log import DecisionLog
from analytics_enabler.deployments.model import Deployment
from analytics_enabler.deployments.service import Deployments
from analytics_enabler.live.events import Changes
from analytics_enabler.live.fog_view import MAX_LIVE_LINKS, FogView
from mistbow.errors import UnavailableError

LAG_PERIOD_S = 5.0
"""The minimum time (s) between two events that only differ in the lag of insights."""

SHOWN_DECISIONS = 20
"""The number of decisions that a new client receives."""

FOG_KEYS = {
    "nodes": ("name",),
    "links": ("source", "target"),
    "site_states": ("name",),
    "fragments": ("fragment",),
    "flows": ("source", "target", "kind", "group"),
}
"""Part of the view of the fog -> the fields that identify an entry of it."""

Event = tuple[str, Any]
"""The name of an event, and its data, which are encoded as JSON."""


class Topic(Protocol):
    """A view whose changes are sent to clients; it is computed once for all of them."""

    async def poll(self) -> Sequence[Event]:
        """Compute the view, and return the events of its changes since the last call."""
        ...

    def current(self, after: int | None) -> Sequence[Event]:
        """Return the events that describe the view at the last ``poll`` to a new client.

        ``after``: the time (ms) up to which the client has seen events; None: it has seen none.
        """
        ...


class StatesTopic:
    """The states of the deployments of this enabler; ``status_of``: returns the status of one."""

    def __init__(
        self, deployments: Deployments, status_of: Callable[[Deployment], DeploymentStatus]
    ) -> None:
        self._deployments = deployments
        self._status_of = status_of
        self._changes = Changes()
        self._lags: dict[str, int | None] = {}
        self._lags_at = -LAG_PERIOD_S
        self._is_read = False

    async def poll(self) -> Sequence[Event]:
        """Return an event ``state`` for each changed deployment, and ``deleted``.

        Until the enabler has read the deployments, there are no events. Then the first events end
        with ``present``, for the clients that have connected before.
        """
        is_due = time.monotonic() - self._lags_at >= LAG_PERIOD_S
        if is_due:
            self._lags_at = time.monotonic()
        entries, lags = {}, {}
        try:
            deployments = self._deployments.all()
        except UnavailableError:
            return ()
        for deployment in deployments:
            shown = shown_state(self._status_of(deployment))
            for insight in shown["insights"]:
                uid = f"{deployment.id}/{insight['name']}"
                if not is_due and uid in self._lags:
                    insight["lag_ms"] = self._lags[uid]
                lags[uid] = insight["lag_ms"]
            entries[deployment.id] = msgspec.json.encode(shown)
        self._lags = lags
        changed, removed = self._changes.update(entries)
        is_first, self._is_read = not self._is_read, True
        return [
            *(("state", msgspec.Raw(entries[each])) for each in changed),
            *(("deleted", {"deployment_id": each}) for each in removed),
            *([self._present()] if is_first else []),
        ]

    def current(self, after: int | None) -> Sequence[Event]:
        """Return an event ``state`` for each deployment, and then ``present`` with their ids.

        By these ids, a client that resumes recognizes deployments that have been deleted meanwhile.
        """
        del after  # the states replace those that the client has
        if not self._is_read:
            return []
        states = (("state", msgspec.Raw(each)) for each in self._changes.entries.values())
        return [*states, self._present()]

    def _present(self) -> Event:
        return "present", {"deployment_ids": list(self._changes.entries)}


def shown_state(status: DeploymentStatus) -> dict[str, Any]:
    """Return when a deployment was submitted, and the fields of its status that change."""
    fields = {"deployment_id", "name", "status", "lifecycle", "error", "updated_at", "domain"}
    of_text = {"version", "created_at", "amended_at", "amended_by"}
    shown = status.model_dump(include=fields | of_text)
    of_insight = {"name", "state", "lifecycle", "lag_ms", "missing_sites", "error"}
    shown["insights"] = [each.model_dump(include=of_insight) for each in status.insights]
    return shown


class FogTopic:
    """The fog; figures are rounded, so that small changes cause no events."""

    def __init__(self, view: FogView) -> None:
        self._view = view
        self._parts = {part: Changes() for part in FOG_KEYS}
        self._whole: dict[str, Any] | None = None

    async def poll(self) -> Sequence[Event]:
        """Return the event ``fog_changed`` with the changed entries, or nothing."""
        await self._view.refresh()
        try:
            whole = rounded(self._view.snapshot(MAX_LIVE_LINKS))
        except UnavailableError:
            return ()
        is_first, self._whole = self._whole is None, whole
        changed: dict[str, Any] = {}
        removed: dict[str, list[Any]] = {}
        for part, keys in FOG_KEYS.items():
            entries = {
                _encode_key([entry[key] for key in keys]): msgspec.json.encode(entry)
                for entry in whole[part]
            }
            updated, gone = self._parts[part].update(entries)
            if updated:
                changed[part] = [msgspec.Raw(entries[key]) for key in updated]
            if gone:
                removed[part] = [_decode_key(key) for key in gone]
        if is_first or not (changed or removed):
            return ()
        return [("fog_changed", {"at": whole["at"], **changed, "removed": removed})]

    def current(self, after: int | None) -> Sequence[Event]:
        """Return the event ``fog`` with the whole view; nothing while it is unknown."""
        del after  # the view replaces the one that the client has
        return [] if self._whole is None else [("fog", self._whole)]


def _encode_key(values: list[Any]) -> str:
    return msgspec.json.encode(values).decode()


def _decode_key(key: str) -> Any:
    values = msgspec.json.decode(key)
    return values[0] if len(values) == 1 else values


def rounded(snapshot: FogSnapshot) -> dict[str, Any]:
    """Return a snapshot as JSON data with rounded figures."""
    data = snapshot.model_dump()
    for node in data["nodes"]:
        node["cores_free"] = round(node["cores_free"], 1)
        node["memory_free_mb"] = round(node["memory_free_mb"], -1)
        node["reliability"] = round(node["reliability"], 2)
        if node["battery"] is not None:
            node["battery"]["charge_wh"] = round(node["battery"]["charge_wh"])
            node["battery"]["next_charge_s"] = None
    for link in data["links"]:
        link["latency_ms"] = _two_digits(link["latency_ms"])
        link["loss"] = round(link["loss"], 2)
        for name in ("bandwidth_mbps", "load_mbps"):
            link[name] = _two_digits(link[name])
    for site in data["site_states"]:
        for name in ("disk_free_mb", "disk_size_mb"):
            site[name] = _two_digits(site[name])
    for source in data["sources"]:
        for name in ("completeness", "timeliness"):
            source[name] = None if source[name] is None else round(source[name], 2)
    for each in (*data["fragments"], *data["flows"]):
        each["bytes_per_s"] = _two_digits(each["bytes_per_s"])
    for fragment in data["fragments"]:
        # A fragment without lag reports the small time since its last batch.
        lag = fragment["lag_ms"]
        fragment["lag_ms"] = None if lag is None else lag // 5000 * 5000
    return data


def _two_digits(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.2g}")


class HealthTopic:
    """The health of the domain; ``report``: computes it."""

    def __init__(self, report: Callable[[], Awaitable[Health]]) -> None:
        self._report = report
        self._latest: dict[str, Any] | None = None

    async def poll(self) -> Sequence[Event]:
        """Return the event ``health`` with the whole report, if it has changed."""
        former, self._latest = self._latest, (await self._report()).model_dump()
        if former is None or _without_time(former) == _without_time(self._latest):
            return ()
        return [("health", self._latest)]

    def current(self, after: int | None) -> Sequence[Event]:
        """Return the event ``health``."""
        del after  # the report replaces the one that the client has
        return [] if self._latest is None else [("health", self._latest)]


def _without_time(report: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in report.items() if name != "at"}


class DecisionsTopic:
    """The decisions of the enabler."""

    def __init__(self, decisions: DecisionLog) -> None:
        self._decisions = decisions
        self._newest: list[Mapping[str, Any]] = []
        self._is_polled = False

    async def poll(self) -> Sequence[Event]:
        """Return an event ``decision`` for each new decision."""
        found = [_shown(each) for each in self._decisions.newest(1000)]
        known = {_identity(each) for each in self._newest}
        new = [each for each in found if _identity(each) not in known]
        self._newest, is_first, self._is_polled = found, not self._is_polled, True
        return [] if is_first else [("decision", each) for each in new]

    def current(self, after: int | None) -> Sequence[Event]:
        """Return the newest decisions, or those since the client's last event."""
        if after is None:
            return [("decision", each) for each in self._newest[-SHOWN_DECISIONS:]]
        return [("decision", each) for each in self._newest if each["at"] >= after]


def _shown(decision: Any) -> Mapping[str, Any]:
    return Decision.model_validate(decision, from_attributes=True).model_dump()


def _identity(decision: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(decision[key] for key in ("at", "kind", "subject", "what"))


def topic_names(text: str) -> Iterator[str]:
    """Yield the names in a list ``states,fog``."""
    yield from (name for each in text.split(",") if (name := each.strip()))
