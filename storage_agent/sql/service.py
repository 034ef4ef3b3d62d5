"""The service that runs SQL queries, with limits on concurrency, time, memory, rows and bytes."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio

from mistbow.errors import InvalidRequestError, MistbowError, TooLargeError, TooManyRequestsError
from mistbow.telemetry import get_logger
from storage_agent.settings import AgentSettings
from storage_agent.sql.messages import AnswerFollows, Format, QueryFailed, SqlQuery
from storage_agent.sql.process import FindTable, ProcessDiedError, QueryProcess

log = get_logger(__name__)

_MAX_IDLE_S = 30.0
_MAX_ANSWER_BYTES = 32 * 2**20


class SqlService:
    """Runs queries in processes; an idle process is reused, or is ended after 30 s."""

    def __init__(self, settings: AgentSettings) -> None:
        self._settings = settings
        self._limiter = anyio.CapacityLimiter(settings.sql_queries)
        self._idle: dict[QueryProcess, asyncio.TimerHandle] = {}
        self._endings: set[asyncio.Task[None]] = set()

    async def run(
        self,
        text: str,
        parameters: list[Any],
        answer_format: Format,
        find: FindTable,
        unstored: Sequence[str] = (),
    ) -> bytes:
        """Return the answer to a query over the tables that ``find`` returns.

        ``unstored``: see ``History``. Raises ``InvalidRequestError`` for an invalid query and after
        the time limit, ``TooLargeError`` if the query needs too much memory or has a too large
        answer, and ``TooManyRequestsError`` if too many queries are running.
        """
        settings = self._settings
        query = SqlQuery(
            text,
            parameters,
            answer_format,
            settings.sql_seconds,
            settings.sql_max_rows,
            _MAX_ANSWER_BYTES,
            {settings.node: "; ".join(unstored)} if unstored else {},
        )
        async with self._turn(), self._process() as process:
            try:
                async with asyncio.timeout(settings.sql_seconds):
                    answer, data = await process.run(query, find)
            except TimeoutError as error:
                raise InvalidRequestError(
                    f"the query was ended after {settings.sql_seconds:g} s",
                    hint="Select a shorter time or fewer series by WHERE, or raise "
                    "MISTBOW_SQL_SECONDS.",
                ) from error
            except ProcessDiedError as error:
                raise self._too_large(QueryFailed("memory")) from error
            if isinstance(answer, AnswerFollows):
                return data
            if answer.reason == "memory":
                raise self._too_large(answer)  # raised here, so that the process is killed
        raise self._too_large(answer) if answer.reason != "query" else _query_error(answer)

    async def close(self) -> None:
        """Kill the idle processes, and wait for the end of all killed processes."""
        idle, self._idle = self._idle, {}
        for timer in idle.values():
            timer.cancel()
        await asyncio.gather(*self._endings, *(process.end() for process in idle))

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._settings.sql_seconds):
                await self._limiter.acquire()
        except TimeoutError as error:
            raise TooManyRequestsError(
                f"{self._settings.sql_queries} queries are running already",
                hint="Try again later, or raise MISTBOW_SQL_QUERIES.",
            ) from error
        try:
            yield
        finally:
            self._limiter.release()

    @asynccontextmanager
    async def _process(self) -> AsyncIterator[QueryProcess]:
        """Yield a process for one query; kill the process if the query raises an error."""
        if self._idle:
            process, timer = self._idle.popitem()
            timer.cancel()
        else:
            process = await QueryProcess.start(self._settings.sql_memory_mb)
        try:
            yield process
        except BaseException:
            process.kill()
            self._end(process)
            raise
        loop = asyncio.get_running_loop()
        self._idle[process] = loop.call_later(_MAX_IDLE_S, self._retire, process)

    def _retire(self, process: QueryProcess) -> None:
        del self._idle[process]
        self._end(process)

    def _end(self, process: QueryProcess) -> None:
        ending = asyncio.create_task(process.end())
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)

    def _too_large(self, failed: QueryFailed) -> MistbowError:
        settings = self._settings
        match failed.reason:
            case "rows":
                return TooLargeError(
                    f"the answer has more than {settings.sql_max_rows} rows",
                    hint="Add a LIMIT, or aggregate; MISTBOW_SQL_MAX_ROWS raises the bound.",
                )
            case "bytes":
                return TooLargeError(
                    f"the answer has more than {_MAX_ANSWER_BYTES} bytes",
                    hint="Add a LIMIT, or select fewer columns.",
                )
        return TooLargeError(
            f"the query needs more than the allowed {settings.sql_memory_mb} MiB of memory",
            hint="Select fewer rows, or raise MISTBOW_SQL_MEMORY_MB.",
        )


def _query_error(failed: QueryFailed) -> MistbowError:
    position = None
    if failed.line is not None:
        position = {"line": failed.line, "column": failed.column}
    return InvalidRequestError(
        failed.message,
        hint="docs/sql.md lists the columns of the tables, and the queries that are allowed.",
        details=position,
    )
