"""Measures the lag of a worker's fragments behind their sources, as the input of load shedding."""

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from analytics.plan.fragments import Fragment, Merge, StreamLocation
from analytics_worker.lifecycle.load_shedding import FragmentLoad, LoadShedder
from analytics_worker.lifecycle.runner import FragmentRunner
from analytics_worker.lifecycle.runner_state import LoadStatus
from analytics_worker.merge.merge_frontier import MAX_LAG_PATIENCES
from mistbow.client.agent import AgentClient
from mistbow.clock import system_clock
from mistbow.errors import MistbowError
from mistbow.runtime.periodic import PeriodicThread, Schedule
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_PERIOD_S = 1.0
_MAX_REQUESTS = 8


class LagMonitor:
    """Measures the lag of the fragments of ``runners`` each second, and sets their load status."""

    def __init__(
        self,
        agent: AgentClient,
        runners: Callable[[], Iterable[FragmentRunner]],
        shedder: LoadShedder,
    ) -> None:
        self._frontiers = FrontierPoller(agent)
        self._runners = runners
        self._shedder = shedder
        schedule = Schedule("lag_measurement", interval_s=_PERIOD_S, delay_s=_PERIOD_S)
        self._thread = PeriodicThread(self._measure, schedule)

    def start(self) -> None:
        """Start the thread that measures."""
        self._thread.start()

    def stop(self) -> None:
        """Stop measuring; shed fragments remain shed."""
        self._thread.stop()
        self._frontiers.close()

    def _measure(self) -> None:
        runners = list(self._runners())
        frontiers = self._frontiers.poll(
            {location for runner in runners for location in runner.fragment.sources}
        )
        loads = {runner.fragment.id: load_of(runner, frontiers) for runner in runners}
        before = self._shedder.floor
        self._shedder.update(loads)
        floor = self._shedder.floor
        if floor != before:
            lags = {id: load.lag_ms for id, load in loads.items() if load.lag_ms}
            log.warning("shedding_changed", floor=floor, former_floor=before, lags_ms=lags)
        for runner in runners:
            self._set_load(runner, loads[runner.fragment.id])

    def _set_load(self, runner: FragmentRunner, load: FragmentLoad) -> None:
        now, former = system_clock(), runner.load
        lagging_s = self._shedder.lagging_s(runner.fragment.id)
        is_shed = load.salience < self._shedder.floor
        lagging_since = shed_since = None
        if lagging_s is not None:
            begin = round(now - lagging_s * 1000)
            lagging_since = begin if former.lagging_since is None else former.lagging_since
        if is_shed:
            shed_since = now if former.shed_since is None else former.shed_since
        runner.set_load(LoadStatus(load.lag_ms, lagging_since, shed_since))


class FrontierPoller:
    """Reads the frontiers of streams in background threads, so a slow site delays no other site."""

    def __init__(self, agent: AgentClient) -> None:
        self._agent = agent
        self._pool = ThreadPoolExecutor(_MAX_REQUESTS, "frontier")
        self._requests: dict[StreamLocation, Future[int | None]] = {}
        self._frontiers: dict[StreamLocation, int] = {}

    def poll(self, locations: Iterable[StreamLocation]) -> Mapping[StreamLocation, int]:
        """Return stream -> the frontier (ms) that was read last, and start further reads.

        Streams whose frontier was never read are omitted.
        """
        requested = set(locations)
        for location, request in list(self._requests.items()):
            if request.done():
                del self._requests[location]
                if (frontier := request.result()) is not None:
                    self._frontiers[location] = frontier
        for location in requested - self._requests.keys():
            self._requests[location] = self._pool.submit(self._read, location)
        self._frontiers = {
            location: frontier
            for location, frontier in self._frontiers.items()
            if location in requested
        }
        return self._frontiers

    def close(self) -> None:
        """Cancel the reads that have not started."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _read(self, location: StreamLocation) -> int | None:
        try:
            return self._agent.at(location.site).info(location.stream).frontier
        except MistbowError:
            return None


def load_of(runner: FragmentRunner, frontiers: Mapping[StreamLocation, int]) -> FragmentLoad:
    """Return the progress and the lag of a runner's fragment, as the input of load shedding.

    ``frontiers``: stream -> frontier (ms). If the progress or all frontiers of the fragment's
    sources are unknown, the lag is 0.
    """
    fragment, frontier = runner.fragment, runner.frontier
    frontiers_read = [frontiers[location] for location in fragment.sources if location in frontiers]
    # Of two queries, the second one catches up to replace the first.
    is_starting = frontier is None or runner.query_count > 1
    if frontier is None or not frontiers_read:
        return FragmentLoad(fragment.salience, grain_ms=fragment.grain_ms, is_starting=is_starting)
    lag_ms = overdue_ms(fragment, frontier, frontiers_read)
    return FragmentLoad(fragment.salience, frontier, lag_ms, fragment.grain_ms, is_starting)


def overdue_ms(fragment: Fragment, frontier: int, frontiers: Collection[int]) -> int:
    """Return for how long (ms) the results of the first tick after a frontier have been overdue.

    Results are due when all sources of the fragment have passed the tick. Results of a merge are
    due earlier if a site is slow: a multiple of the merge's patience after the furthest source has
    passed the tick. ``frontier``: the time (ms) up to which results are complete.
    ``frontiers``: the frontiers (ms) of the sources.
    """
    grain = fragment.grain_ms
    patience = MAX_LAG_PATIENCES * fragment.patience_ms if isinstance(fragment, Merge) else 0
    next_tick = (frontier // grain + 1) * grain
    return max(0, min(frontiers) - next_tick, max(frontiers) - next_tick - patience)
