"""Queries of an agent: so many at once, each bounded in time, memory, rows and bytes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mistbow.errors import InvalidRequestError, MistbowError, TooLargeError, TooManyRequestsError
from mistbow.settings import AgentSettings
from mistbow.telemetry import get_logger
from storage_agent.sql.process import DiedError, FindTable, QueryProcess
from storage_agent.sql.wire import Answer, Failed, Format, Query

log = get_logger(__name__)

_IDLE_S = 30.0
_MOST_BYTES = 32 * 2**20


class Sql:
    """Keeps processes for a while, for further queries; ``close`` ends them."""

    def __init__(self, settings: AgentSettings) -> None:
        self._settings = settings
        self._places = asyncio.Semaphore(settings.sql_queries)
        self._idle: list[QueryProcess] = []
        self._endings: set[asyncio.Task[None]] = set()

    async def run(self, text: str, parameters: list[Any], form: Format, find: FindTable) -> bytes:
        """Return the answer to a query over the tables that ``find`` finds.

        Raises ``InvalidRequestError``, ``TooLargeError`` and ``TooManyRequestsError``.
        """
        settings = self._settings
        query = Query(
            text, parameters, form, settings.sql_seconds, settings.sql_max_rows, _MOST_BYTES
        )
        async with self._place(), self._process() as process:
            try:
                async with asyncio.timeout(settings.sql_seconds):
                    answer, data = await process.run(query, find)
            except TimeoutError as error:
                raise InvalidRequestError(
                    f"the query was ended after {settings.sql_seconds:g} s",
                    hint="Ask for less time or fewer series in WHERE, or raise "
                    "MISTBOW_SQL_SECONDS.",
                ) from error
            except DiedError as error:
                raise self._too_large(Failed("memory")) from error
            if isinstance(answer, Answer):
                return data
            if answer.reason == "memory":
                raise self._too_large(answer)  # and of this process nobody knows what it holds
        raise self._too_large(answer) if answer.reason != "query" else _wrong(answer)

    async def close(self) -> None:
        """End all processes that wait."""
        idle, self._idle = self._idle, []
        await asyncio.gather(*self._endings, *(process.end() for process in idle))

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._settings.sql_seconds):
                await self._places.acquire()
        except TimeoutError as error:
            raise TooManyRequestsError(
                f"{self._settings.sql_queries} queries are running already",
                hint="Try again later, or raise MISTBOW_SQL_QUERIES.",
            ) from error
        try:
            yield
        finally:
            self._places.release()

    @asynccontextmanager
    async def _process(self) -> AsyncIterator[QueryProcess]:
        """Give a process to a query; one whose query did not end well is ended."""
        process = (
            self._idle.pop()
            if self._idle
            else await QueryProcess.start(self._settings.sql_memory_mb)
        )
        try:
            yield process
        except BaseException:
            process.kill()
            self._end(process)
            raise
        self._idle.append(process)
        asyncio.get_running_loop().call_later(_IDLE_S, self._retire, process)

    def _retire(self, process: QueryProcess) -> None:
        if process in self._idle:
            self._idle.remove(process)
            self._end(process)

    def _end(self, process: QueryProcess) -> None:
        ending = asyncio.create_task(process.end())
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)

    def _too_large(self, failed: Failed) -> MistbowError:
        settings = self._settings
        match failed.reason:
            case "rows":
                return TooLargeError(
                    f"the answer has more than {settings.sql_max_rows} rows",
                    hint="Add a LIMIT, or aggregate; MISTBOW_SQL_MAX_ROWS raises the bound.",
                )
            case "bytes":
                return TooLargeError(
                    f"the answer has more than {_MOST_BYTES} bytes",
                    hint="Add a LIMIT, or ask for fewer columns.",
                )
        return TooLargeError(
            f"the query needs more memory than the {settings.sql_memory_mb} MiB that it may take",
            hint="Ask for less at once, or raise MISTBOW_SQL_MEMORY_MB.",
        )


def _wrong(failed: Failed) -> MistbowError:
    where = None
    if failed.line is not None:
        where = {"line": failed.line, "column": failed.column}
    return InvalidRequestError(
        failed.message, hint="docs/sql.md says what a query may be.", details=where
    )
