"""The history of the fog: its view at earlier times, stored as a stream of changes.

A row of the stream has the key ``PART/NAME`` of an entry and the entry as JSON, or ``null`` if it
was removed. Every ``CHECKPOINT_MS``, all entries are stored again, in one append with the mark
``CHECKPOINT``. So a view is read from the last checkpoint before its time.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain, groupby, islice
from typing import Any, NamedTuple

import msgspec

from analytics.fog_models import (
    FogChange,
    FogChanges,
    FogSnapshot,
    Placement,
    PlacementChange,
    Placements,
)
from analytics_enabler.live.fog_view import MAX_LIVE_LINKS, FogView
from analytics_enabler.live.topics import FOG_KEYS, rounded
from mistbow.client.agent import AsyncAgentClient
from mistbow.clock import Clock
from mistbow.errors import ConflictError, NotFoundError, UnavailableError
from mistbow.runtime.periodic import PeriodicTask, Schedule
from mistbow.streams.events import event_rows, events_of
from mistbow.streams.schemas import EVENTS

CHECKPOINT = "="
CHECKPOINT_MS = 30 * 60_000
INTERVAL_S = 5.0
FIGURES_MS = 60_000
"""The interval (ms) at which changes of figures are stored; other changes are stored at once."""

MAX_SILENCE_MS = 2 * FIGURES_MS
_FIGURES = {
    "nodes": ("cores_free", "memory_free_mb", "reliability", "battery"),
    "links": ("latency_ms", "loss", "bandwidth_mbps", "load_mbps"),
    "fragments": ("lag_ms", "bytes_per_s"),
    "flows": ("bytes_per_s",),
    "site_states": ("series", "disk_free_mb"),
}
_REMOVED = "null"
_CONVERTED_ROWS = 1000

Row = tuple[int, str, str]
"""(time in ms, key, JSON of an entry)."""

Rows = Iterable[Row]
"""Rows in the order of the stream."""

Entries = dict[str, dict[str, Any]]
"""Key -> entry; a key is the part of the view and the fields that identify an entry of it."""


class FogHistory:
    """Stores the changes of the fog's view, and reads views of the past."""

    def __init__(
        self,
        agent: AsyncAgentClient,
        stream: str,
        view: FogView,
        is_active: Callable[[], bool],
        clock: Clock,
    ) -> None:
        """Create the history; ``is_active``: whether this enabler is active."""
        self._agent = agent
        self._stream = stream
        self._view = view
        self._is_active = is_active
        self._clock = clock
        self._entries: dict[str, dict[str, Any]] = {}
        self._checkpoint_at: int | None = None
        self._figures_at = 0
        self._task = PeriodicTask(self.store, Schedule("fog_history", INTERVAL_S))

    async def run(self) -> None:
        """Store changes until cancelled."""
        await self._task.run()

    async def store(self) -> None:
        """Store the changes since the last call; raises an error of the storage agent."""
        if not self._is_active():
            self._checkpoint_at = None
            return
        await self._view.refresh()
        try:
            entries = entries_of(self._view.snapshot(MAX_LIVE_LINKS))
        except UnavailableError:
            return
        now = self._clock()
        is_checkpoint = self._checkpoint_at is None or now - self._checkpoint_at >= CHECKPOINT_MS
        with_figures = now - self._figures_at >= FIGURES_MS
        if is_checkpoint:
            rows = {CHECKPOINT: "{}", **{key: _json(each) for key, each in entries.items()}}
            await self._agent.create_stream(self._stream, EVENTS)
        else:
            rows = changed_rows(self._entries, entries, with_figures=with_figures)
            if with_figures and not rows:
                # This row distinguishes an unchanged fog from an enabler that did not run.
                rows = {"alive": "{}"}
        if rows:
            await self._agent.append(self._stream, event_rows(now, rows))
        if is_checkpoint:
            self._checkpoint_at = now
        if with_figures or is_checkpoint:
            self._figures_at, self._entries = now, entries
        else:
            self._entries = _without_figures_of(self._entries, entries)

    async def at(self, time: int) -> FogSnapshot:
        """Return the view at a time (ms); raises ``NotFoundError`` if it is not stored."""
        rows = await self._rows(time - CHECKPOINT_MS - MAX_SILENCE_MS, time)
        return await asyncio.to_thread(_view_at, rows, time)

    async def placements_at(self, time: int) -> Placements:
        """Return the placements at a time (ms); raises ``NotFoundError`` if they are not stored."""
        fragments = (await self.at(time)).fragments
        found = [
            Placement(
                scheduler=each.group.split(".")[1],
                **each.model_dump(include={*Placement.model_fields} - {"scheduler"}),
            )
            for each in fragments
        ]
        return Placements(at=time, placements=found)

    async def changes(
        self, start: int, end: int, limit: int, *, newest: bool = False
    ) -> FogChanges:
        """Return the first ``limit`` changes in the span (ms), without changes of figures.

        ``newest``: return the last ``limit`` changes instead.
        """
        rows = await self._rows(start - CHECKPOINT_MS, end)
        return await asyncio.to_thread(changes_in, rows, start, limit, newest=newest)

    async def placement_changes(
        self, start: int, end: int, group: str | None, limit: int
    ) -> list[PlacementChange]:
        """Return the first ``limit`` changes of placements in the span (ms), the oldest first."""
        found = placement_changes_of(await self._rows(start - CHECKPOINT_MS, end), start, group)
        return await asyncio.to_thread(list, islice(found, limit))

    async def _rows(self, start: int, end: int) -> list[Row]:
        try:
            position = await self._agent.seek(self._stream, max(start, 0))
            read = await self._agent.read(self._stream, position, min_ts=start, max_ts=end)
        except (NotFoundError, ConflictError):
            return []
        # A conversion of a whole column would not give way to the event loop.
        batches = read.table.to_batches(max_chunksize=_CONVERTED_ROWS)
        return await asyncio.to_thread(list, chain.from_iterable(map(events_of, batches)))


def entries_of(snapshot: FogSnapshot) -> dict[str, dict[str, Any]]:
    """Return key -> entry for all entries of a view, with rounded figures."""
    whole = rounded(snapshot)
    return {
        f"{part}/{_json([entry[name] for name in names])}": entry
        for part, names in FOG_KEYS.items()
        for entry in whole[part]
    }


def changed_rows(
    former: Mapping[str, Any], present: Mapping[str, Any], *, with_figures: bool
) -> dict[str, str]:
    """Return key -> JSON of the new, changed and removed entries.

    ``with_figures``: whether an entry counts as changed if only its figures have changed.
    """
    rows = dict.fromkeys(former.keys() - present.keys(), _REMOVED)
    for key, entry in present.items():
        known = former.get(key)
        if known == entry:
            continue
        if with_figures or not _has_same_structure(key, known, entry):
            rows[key] = _json(entry)
    return rows


def _without_figures_of(
    former: Mapping[str, dict[str, Any]], present: Mapping[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return the present entries. If only the figures of an entry have changed, return its former
    version, because the stream has that version.
    """
    return {
        key: former[key] if _has_same_structure(key, former.get(key), entry) else entry
        for key, entry in present.items()
    }


def _has_same_structure(
    key: str, one: Mapping[str, Any] | None, other: Mapping[str, Any] | None
) -> bool:
    """Return whether two versions of an entry differ at most by figures; None: no entry."""
    if one == other:
        return True
    if one is None or other is None:
        return False
    figures = _FIGURES.get(key.partition("/")[0], ())
    return one.keys() == other.keys() and all(
        value == other[name] for name, value in one.items() if name not in figures
    )


class State(NamedTuple):
    """The entries before and after an append.

    The entries before the first checkpoint are unknown (None). ``keys`` has all keys whose entries
    may differ.
    """

    at: int
    former: Entries | None
    present: Entries
    keys: Collection[str]


def states(rows: Rows) -> Iterator[State]:
    """Yield the state of each append, from a checkpoint on."""
    known: Entries | None = None
    for at, batch in groupby(rows, key=lambda row: row[0]):
        found = {key: text for _, key, text in batch}
        is_checkpoint = CHECKPOINT in found
        if known is None and not is_checkpoint:
            continue
        entries: Entries = {} if is_checkpoint or known is None else dict(known)
        for key, text in found.items():
            if text == _REMOVED:
                entries.pop(key, None)
            elif "/" in key:
                entries[key] = msgspec.json.decode(text)
        keys = {*(known or ()), *entries} if is_checkpoint else found
        yield State(at, known, entries, keys)
        known = entries


def _view_at(rows: Rows, time: int) -> FogSnapshot:
    """Return the view at a time (ms); raises ``NotFoundError`` if it is not stored."""
    last = max(states(rows), key=lambda each: each.at, default=None)
    if last is None or last.at < time - MAX_SILENCE_MS:
        raise NotFoundError(
            "the history of the fog has no entries for this time",
            hint="GET /api/fog/history returns the first and the last stored time.",
        )
    return snapshot_of(last.present, time)


def snapshot_of(entries: Entries, at: int) -> FogSnapshot:
    """Return the view that has these entries."""
    parts: dict[str, list[Any]] = {part: [] for part in FOG_KEYS}
    for key, entry in entries.items():
        parts[key.partition("/")[0]].append(entry)
    names = sorted(each["name"] for each in parts["site_states"])
    return FogSnapshot.model_validate({"sites": names, "sources": [], "at": at, **parts})


def changes_in(rows: list[Row], start: int, limit: int, *, newest: bool = False) -> FogChanges:
    """Return the first ``limit`` changes from a time (ms) on, and the stored times.

    ``rows``: the rows from the checkpoint before this time on. ``newest``: return the last
    ``limit`` changes instead.
    """
    found = changes_of(rows, start)
    chosen = deque(found, maxlen=limit) if newest else islice(found, limit)
    first = min((at for at, _, _ in rows if at >= start), default=None)
    last = max((at for at, _, _ in rows), default=None)
    return FogChanges(first=first, last=last, changes=list(chosen))


def changes_of(rows: Rows, start: int) -> Iterator[FogChange]:
    """Yield the changes of entries from a time (ms) on, without changes of figures only."""
    for at, former, present, keys in states(rows):
        if former is None or at < start:
            continue
        for key in sorted(keys):
            before, after = former.get(key), present.get(key)
            if _has_same_structure(key, before, after):
                continue
            change = "added" if before is None else "removed" if after is None else "changed"
            part, _, names = key.partition("/")
            shown = [str(name) for name in msgspec.json.decode(names) if name is not None]
            yield FogChange(at=at, part=part, names=shown, change=change)


def placement_changes_of(rows: Rows, start: int, group: str | None) -> Iterator[PlacementChange]:
    """Yield the changes of the nodes of tasks from a time (ms) on.

    ``group``: only the tasks of this group.
    """
    fragments = (row for row in rows if row[1] == CHECKPOINT or row[1].startswith("fragments/"))
    for at, former, present, _ in states(fragments):
        if former is None or at < start:
            continue
        before, after = _nodes(former), _nodes(present)
        for task in sorted({*before, *after}):
            old, new = before.get(task), after.get(task)
            if old != new and group in (None, task[0]):
                yield PlacementChange(at=at, group=task[0], task=task[1], node=new, former=old)


def _nodes(entries: Entries) -> dict[tuple[str, str], str | None]:
    """Return (group, task) -> node of fragments."""
    return {(entry["group"], entry["task"]): entry["node"] for entry in entries.values()}


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
