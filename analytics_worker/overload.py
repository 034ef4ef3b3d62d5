"""Watching how far a worker's queries are behind what they read, and shedding some if need be."""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from analytics_worker.merging.assembly import SLOW
from analytics_worker.runner import Burden, FragmentRunner
from analytics_worker.shedding import Load, Shedding
from mistbow.client.agent import AgentClient
from mistbow.clock import system_clock
from mistbow.errors import MistbowError
from mistbow.plan.fragments import Fragment, Merge, Place
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_EVERY_S = 1.0
_ASKED_AT_ONCE = 8


class Watch:
    """Looks at the runners that ``runners`` returns each second, and tells them what they are."""

    def __init__(
        self,
        agent: AgentClient,
        runners: Callable[[], Iterable[FragmentRunner]],
        shedding: Shedding,
    ) -> None:
        self._frontiers = Frontiers(agent)
        self._runners = runners
        self._shedding = shedding
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="overload", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; what rests does so until it is stopped too."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._frontiers.close()

    def _run(self) -> None:
        while not self._stopping.wait(_EVERY_S):
            try:
                self._look()
            except Exception:
                # A fault of ours: without its watch, a worker would shed nothing any more.
                log.exception("looking for overload failed")

    def _look(self) -> None:
        runners = list(self._runners())
        frontiers = self._frontiers.look(
            {place for runner in runners for place in sources_of(runner.fragment)}
        )
        loads = {runner.fragment.id: load_of(runner, frontiers) for runner in runners}
        before = self._shedding.floor
        self._shedding.look(loads)
        if self._shedding.floor != before:
            behind = {name: load.lag_ms for name, load in loads.items() if load.lag_ms}
            log.warning("overload", sheds_below=self._shedding.floor, before=before, lags=behind)
        for runner in runners:
            self._tell(runner, loads[runner.fragment.id])

    def _tell(self, runner: FragmentRunner, load: Load) -> None:
        now, former = system_clock(), runner.burden
        lags_for = self._shedding.lags_for(runner.fragment.id)
        is_shed = load.salience < self._shedding.floor
        runner.burden = Burden(
            lag_ms=load.lag_ms,
            lagging_since=None if lags_for is None else _kept(former.lagging_since, now, lags_for),
            shed_since=_kept(former.shed_since, now) if is_shed else None,
        )


class Frontiers:
    """How far streams are, by what was heard last; who does not answer keeps no other waiting."""

    def __init__(self, agent: AgentClient) -> None:
        self._agent = agent
        self._pool = ThreadPoolExecutor(_ASKED_AT_ONCE, "frontier")
        self._asked: dict[Place, Future[int | None]] = {}
        self._known: dict[Place, int] = {}

    def look(self, places: Iterable[Place]) -> Mapping[Place, int]:
        """Return what is known of these streams, and ask again."""
        wanted = set(places)
        for place, asked in list(self._asked.items()):
            if asked.done():
                del self._asked[place]
                if (frontier := asked.result()) is not None:
                    self._known[place] = frontier
        for place in wanted - self._asked.keys():
            self._asked[place] = self._pool.submit(self._ask, place)
        self._known = {place: at for place, at in self._known.items() if place in wanted}
        return self._known

    def close(self) -> None:
        """Ask no more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self, place: Place) -> int | None:
        try:
            return self._agent.at(place.site).info(place.stream).frontier
        except MistbowError:
            return None


def sources_of(fragment: Fragment) -> Sequence[Place]:
    """Return the streams that a fragment reads."""
    return fragment.sources if isinstance(fragment, Merge) else (fragment.source,)


def load_of(runner: FragmentRunner, frontiers: Mapping[Place, int]) -> Load:
    """Return how far a runner's query is by how far its sources are."""
    fragment, done = runner.fragment, runner.done
    heard = [frontiers[place] for place in sources_of(fragment) if place in frontiers]
    if done is None or not heard:
        return Load(fragment.salience, grain_ms=fragment.grain_ms)
    return Load(fragment.salience, done, overdue_ms(fragment, done, heard), fragment.grain_ms)


def overdue_ms(fragment: Fragment, done: int, heard: Collection[int]) -> int:
    """Return for how long (ms) results could have been there; they come at ticks only.

    ``heard``: the frontiers of its sources. What all of these have, it could have done. A merge
    may wait for one that is slow, but not for ever: then what the furthest has tells.
    """
    grain = fragment.grain_ms
    waits = SLOW * fragment.patience_ms if isinstance(fragment, Merge) else 0
    next_tick = (done // grain + 1) * grain
    return max(0, min(heard) - next_tick, max(heard) - next_tick - waits)


def _kept(former: int | None, now: int, seconds: float = 0.0) -> int:
    return round(now - seconds * 1000) if former is None else former
