"""Checks the quality of the points that fragments read, in the shares that placements set.

Time is divided into periods. The share determines how many periods are checked. All points that
arrive in a checked period are checked, and no other points. So the CPU time of the checks is
proportional to the share, and the points of a checked period are complete.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa
from msgspec import UNSET

from analytics.plan.fragments import Fragment, Merge, Partial, StreamLocation
from analytics_worker.lifecycle.point_quality import Quality, QualityMeter, Ranges
from analytics_worker.panes.routing import metrics_needed, select_metrics
from mistbow.client.agent import AgentClient
from mistbow.clock import system_clock
from mistbow.errors import MistbowError
from mistbow.runtime.periodic import PeriodicThread, Schedule
from mistbow.streams.schemas import QUALITY, quality_stream
from mistbow.telemetry import get_logger

log = get_logger(__name__)

PERIOD_S = 5.0
"""The length (s) of a period."""

MAX_ROWS = 200_000
"""The maximum number of points that are checked in a period; later points are skipped."""

RANGES_S = 60.0
"""The age (s) at which the declared ranges of metrics are read again."""

_TOLERANCE = 1e-9
_COLUMNS = ("metric", "entity", "ts", "value", "horizon")


class CheckUsage(msgspec.Struct, frozen=True):
    """The points of a fragment that were checked so far, and the CPU time (s) of the checks."""

    points: int = 0
    cpu_s: float = 0.0


@dataclass(slots=True)
class _Source:
    """The state of the checks of one fragment."""

    meter: QualityMeter = field(default_factory=QualityMeter)
    position: int | None = None
    read_at: int = 0
    credit: float = 0.0
    ranges: Ranges = field(default_factory=dict)
    ranges_at: float | None = None
    is_failing: bool = False


class QualityChecks:
    """Checks the points of a worker's fragments from ``start`` to ``stop``.

    ``fragments``: returns the fragments that run. ``node``: the name of the worker. The quality is
    appended to the stream ``quality/SITE`` of the site of the points.
    """

    def __init__(
        self,
        agent: AgentClient,
        fragments: Callable[[], Iterable[Fragment]],
        node: str,
    ) -> None:
        self._agent = agent
        self._fragments = fragments
        self._node = node
        self._shares: dict[str, float] = {}
        self._usage: dict[str, CheckUsage] = {}
        self._sources: dict[str, _Source] = {}
        self._lock = threading.Lock()
        self._thread = PeriodicThread(
            self.check, Schedule("quality_check", PERIOD_S, delay_s=PERIOD_S)
        )

    def start(self) -> None:
        """Start to check."""
        self._thread.start()

    def stop(self) -> None:
        """Stop checking."""
        self._thread.stop()

    def set_shares(self, ordered: Iterable[str], shares: Mapping[str, float]) -> None:
        """Set the share of each of the ``ordered`` fragments; a missing share is 0."""
        with self._lock:
            self._shares.update({name: shares.get(name, 0.0) for name in ordered})

    def share(self, fragment: str) -> float:
        """Return the share of a fragment's points that are checked."""
        return self._shares.get(fragment, 0.0)

    def usage(self, fragment: str) -> CheckUsage:
        """Return the cost of the checks of a fragment since its start on this worker."""
        return self._usage.get(fragment, CheckUsage())

    def check(self) -> None:
        """Check the points that have arrived since the last call, if it is the fragment's turn."""
        running = {each.id: each for each in self._fragments()}
        with self._lock:
            self._shares = {name: share for name, share in self._shares.items() if name in running}
            shares = {name: share for name, share in self._shares.items() if share > 0}
        self._usage = {name: each for name, each in self._usage.items() if name in running}
        self._sources = {name: each for name, each in self._sources.items() if name in shares}
        for name, share in shares.items():
            fragment = running[name]
            if isinstance(fragment, Merge) or fragment.source.feed is not UNSET:
                continue
            source = self._sources.setdefault(name, _Source())
            began = time.thread_time()
            points = 0
            try:
                points = self._check(fragment, fragment.source, source, share)
                source.is_failing = False
            except MistbowError as error:
                # The next call reads the points again.
                if not source.is_failing:
                    log.warning("quality_check_failed", fragment=name, reason=error.message)
                source.is_failing = True
            former = self.usage(name)
            spent_s = time.thread_time() - began
            self._usage[name] = CheckUsage(former.points + points, former.cpu_s + spent_s)

    def _check(
        self, fragment: Fragment, location: StreamLocation, source: _Source, share: float
    ) -> int:
        """Check the points of a period; return their number."""
        agent, now = self._agent.at(location.site), system_clock()
        start, head = source.position, agent.info(location.stream).head
        credit = min(source.credit + share, 1.0)
        if start is None or credit < 1 - _TOLERANCE:
            source.meter.skip()
            source.position, source.read_at, source.credit = head, now, credit
            return 0
        metrics = _metrics_of(fragment)
        rows = agent.read(
            location.stream,
            start,
            min(head, start + MAX_ROWS),
            match=select_metrics(metrics),
            columns=_COLUMNS,
        ).table
        self._read_ranges(agent, source, metrics)
        began, source.position, source.read_at = source.read_at, head, now
        source.credit = source.credit + share - 1
        found = source.meter.read(rows, began, now, source.ranges)
        self._append(agent, location.site, fragment.id, now, found)
        return int(rows.num_rows)

    def _read_ranges(self, agent: AgentClient, source: _Source, metrics: Sequence[str]) -> None:
        now = time.monotonic()
        if source.ranges_at is not None and now - source.ranges_at < RANGES_S:
            return
        source.ranges = {
            (each.metric, each.entity): (
                -float("inf") if each.min_val is None else each.min_val,
                float("inf") if each.max_val is None else each.max_val,
            )
            for node in agent.get(list(metrics), latest=True)
            for each in node.data
            if each.min_val is not None or each.max_val is not None
        }
        source.ranges_at = now

    def _append(
        self,
        agent: AgentClient,
        site: str,
        fragment: str,
        now: int,
        found: Mapping[str, Quality],
    ) -> None:
        if not found:
            return
        name, count = quality_stream(site), len(found)
        columns = {
            "metric": list(found),
            "node": [self._node] * count,
            "fragment": [fragment] * count,
            "ts": [now] * count,
            "points": [each.points for each in found.values()],
            "completeness": [each.completeness for each in found.values()],
            "timeliness": [each.timeliness for each in found.values()],
            "accuracy": [each.accuracy for each in found.values()],
        }
        agent.create_stream(name, QUALITY)
        agent.append(name, pa.table(columns, schema=QUALITY))


def _metrics_of(fragment: Fragment) -> tuple[str, ...]:
    if isinstance(fragment, Merge):
        return ()
    panes = fragment.panes if isinstance(fragment, Partial) else fragment.plan.panes
    return metrics_needed(panes)
