"""The stops of queries, which are repeated when they raise an error."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from analytics.plan.fragments import Fragment
from analytics_worker.streaming_library import EngineQuery, QueryFailure, StreamingLibrary
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_STOP_PAUSE_S = 1.0
"""The time after which a query is stopped again, if its stop has raised an error."""
_LAST_STOP_PAUSES_S = (0.1, 0.3, 1.0)
"""The times after which a stopped runner tries again to stop a query; then it gives up."""


@dataclass(frozen=True, slots=True)
class _Unstopped:
    """A query whose stop has raised an error, so that it may still be writing.

    ``frontier``: the frontier (ms) of the query at that time.
    """

    query: EngineQuery
    frontier: int


class QueryStops:
    """Stops the queries of a runner; only the runner's thread calls the methods.

    ``on_late_stop``: called with the fragment of a query whose stop has raised an error, and the
    frontier (ms) of the query at that time, once the query has stopped.
    """

    def __init__(
        self,
        library: StreamingLibrary,
        on_late_stop: Callable[[Fragment, int], None] = lambda _fragment, _frontier: None,
    ) -> None:
        self._library = library
        self._on_late_stop = on_late_stop
        self._unstopped: list[_Unstopped] = []
        self._retry_at = 0.0

    def stop(self, queries: Iterable[EngineQuery]) -> list[QueryFailure]:
        """Stop queries, and return the errors of the stops, which are repeated later.

        An error must not prevent the end of the other queries, which would continue to write.
        """
        failures = [(query, failure) for query in queries if (failure := self._stop(query))]
        self._unstopped += [_Unstopped(query, query.frontier) for query, _ in failures]
        self._retry_at = time.monotonic() + _STOP_PAUSE_S
        return [failure for _, failure in failures]

    def retry(self) -> None:
        """Repeat each stop that has raised an error, after a pause."""
        if self._unstopped and time.monotonic() >= self._retry_at:
            self._retry_now()

    def finish(self) -> None:
        """Repeat the stops that have raised errors a few times, and give up then."""
        for pause_s in _LAST_STOP_PAUSES_S:
            if not (self._unstopped and self._library.is_alive()):
                return
            time.sleep(pause_s)
            self._retry_now()

    def _retry_now(self) -> None:
        before, self._unstopped = self._unstopped, []
        for each in before:
            if self._stop(each.query) is not None:
                self._unstopped.append(each)
            else:
                self._on_late_stop(each.query.fragment, each.frontier)
        self._retry_at = time.monotonic() + _STOP_PAUSE_S

    def _stop(self, query: EngineQuery) -> QueryFailure | None:
        try:
            query.stop()
        except Exception as error:
            failure = self._library.failure_of(error)
            log.warning("query_stop_failed", fragment=query.fragment.id, reason=failure.error)
            return failure
        return None
