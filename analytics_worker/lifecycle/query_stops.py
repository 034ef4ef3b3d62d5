"""The stops of queries, which are repeated when they raise an error."""

import time
from collections.abc import Iterable

from analytics_worker.streaming_library import EngineQuery, QueryFailure, StreamingLibrary
from mistbow.telemetry import get_logger

log = get_logger(__name__)

_STOP_PAUSE_S = 1.0
"""The time after which a query is stopped again, if its stop has raised an error."""
_LAST_STOP_PAUSES_S = (0.1, 0.3, 1.0)
"""The times after which a stopped runner tries again to stop a query; then it gives up."""


class QueryStops:
    """Stops the queries of a runner; only the runner's thread calls the methods."""

    def __init__(self, library: StreamingLibrary) -> None:
        self._library = library
        self._unstopped: list[EngineQuery] = []
        """The queries whose stops have raised errors, so that they may still be writing."""
        self._retry_at = 0.0

    def stop(self, queries: Iterable[EngineQuery]) -> list[QueryFailure]:
        """Stop queries, and return the errors of the stops, which are repeated later.

        An error must not prevent the end of the other queries, which would continue to write.
        """
        failures = [(query, failure) for query in queries if (failure := self._stop(query))]
        self._unstopped += [query for query, _ in failures]
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
        self._unstopped = [each for each in self._unstopped if self._stop(each) is not None]
        self._retry_at = time.monotonic() + _STOP_PAUSE_S

    def _stop(self, query: EngineQuery) -> QueryFailure | None:
        try:
            query.stop()
        except Exception as error:
            failure = self._library.failure_of(error)
            log.warning("query_stop_failed", fragment=query.fragment.id, reason=failure.error)
            return failure
        return None
