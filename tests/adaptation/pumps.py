"""Pumps at two sites with regular points, whose values can leave their declared range."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point
from mistbow.clock import system_clock
from mistbow.errors import UnavailableError

METRIC = "pressure"
STEP_MS = 100
PUMPS = 2
"""The number of pumps at a site."""

POINTS_PER_S = PUMPS * 1000 / STEP_MS
"""The points per second of a site."""

CHECK_S = 0.011
"""The CPU time (s) of the check of a point, so that all checks need more than a merge does."""

_MAX = 100
_PAUSE_S = 0.05


class Pumps:
    """Sends points from ``start`` to ``stop``; ``bad``: the sites with values out of range."""

    def __init__(self, sites: Mapping[str, AgentClient]) -> None:
        self._sites = sites
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self.bad: frozenset[str] = frozenset()

    def start(self) -> None:
        """Start to send."""
        self._thread.start()

    def stop(self) -> None:
        """Stop sending."""
        self._ended.set()
        self._thread.join()

    def _send(self) -> None:
        tick = system_clock() // STEP_MS
        while not self._ended.wait(_PAUSE_S):
            due = range(tick, system_clock() // STEP_MS)
            tick = due.stop
            for site, agent in self._sites.items():
                points = [self._point(site, pump, at) for at in due for pump in range(PUMPS)]
                while points and not self._ended.is_set():
                    try:
                        agent.put(points, idempotency_key=f"{site}-{due.start}")
                    except UnavailableError:
                        continue
                    break

    def _point(self, site: str, pump: int, tick: int) -> Point:
        value = tick % _MAX + (2 * _MAX if site in self.bad else 0)
        return Point(
            metric=METRIC,
            entity=f"{site}-{pump}",
            ts=tick * STEP_MS,
            value=float(value),
            min_val=0,
            max_val=_MAX,
        )


@contextmanager
def running_pumps(sites: Mapping[str, AgentClient]) -> Iterator[Pumps]:
    """Send within the ``with``."""
    pumps = Pumps(sites)
    pumps.start()
    try:
        yield pumps
    finally:
        pumps.stop()
