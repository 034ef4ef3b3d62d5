"""Real workers in the process of a test, which share one Spark session.

Each worker has its own API, announcements, runners and leases, and its queries are queries of
Spark. The session is shared since its start takes most of the time of a worker's start.
"""

import asyncio
import functools
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession
from starlette.types import ASGIApp, Receive, Scope, Send

from analytics.client.worker import WorkerClient
from analytics.plan.fragments import Fragment, Merge, Partial, Whole
from analytics.plan.orders import Order
from analytics.plan.status import FragmentStatus
from analytics_worker.main import create_app
from analytics_worker.settings import WorkerSettings
from analytics_worker.spark.class_archive import java_options
from analytics_worker.spark.library import SparkLibrary
from analytics_worker.spark.query import FragmentQuery
from analytics_worker.spark.session import start_session, warm_up
from analytics_worker.streaming_library import StreamingLibrary
from ignite_server.ports import free_ports
from mistbow.errors import MistbowError
from mistbow.http.graceful_shutdown import Leave
from tests.support import conditions
from tests.support.gate import Gate
from tests.support.http_server import served

MakeWorker = Callable[[str], "SparkWorker"]
"""A function that makes a worker with a name."""

TEST_TIMEOUT_S = 400
"""The limit of a test with several workers, which start many queries on a busy machine."""

eventually = functools.partial(conditions.eventually, timeout=90.0)
"""Wait for a condition that needs queries to start, which takes long on a busy machine."""


def start_shared_session() -> SparkSession:
    """Start and warm up the Spark session that the workers of a test process share."""
    session = start_session("local[2]", "768m", java_options())
    warm_up(session)
    return session


class _SharedLibrary(SparkLibrary):
    """The library of one worker over the session of all; records the fragments that it starts."""

    def __init__(self, session: SparkSession, url: str, worker: "SparkWorker") -> None:
        super().__init__(session, url)
        self._worker = worker

    def warm_up(self) -> None:
        """Do nothing: the session is warm."""

    def stop(self) -> None:
        """Leave the session to the other workers."""

    def run_whole(self, fragment: Whole, *arguments: Any) -> FragmentQuery:
        """Start a query that computes results from points."""
        return self._worker.observed(super().run_whole(fragment, *arguments))

    def run_partial(self, fragment: Partial, *arguments: Any) -> FragmentQuery:
        """Start a query that computes panes from points."""
        return self._worker.observed(super().run_partial(fragment, *arguments))

    def run_merge(self, fragment: Merge, *arguments: Any) -> FragmentQuery:
        """Start a query that computes results from panes."""
        return self._worker.observed(super().run_merge(fragment, *arguments))


class SparkWorker:
    """A worker of a test, which the test starts, stalls, kills and stops.

    ``started``: the fragments whose queries the worker has started, oldest first. An unchanged list
    shows that no fragment was restarted.
    """

    def __init__(self, session: SparkSession, home: Path, name: str) -> None:
        self.name = name
        self.started: list[Fragment] = []
        self._session = session
        self._home = home
        self._catch_up = threading.Event()
        self._catch_up.set()
        self._answers = threading.Event()
        self._answers.set()
        self._running = ExitStack()
        self._gates: list[Gate] = []
        self._client: WorkerClient | None = None
        self._requests = 0
        self._leave: Leave | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, agent_url: str) -> None:
        """Start the worker at the site of an agent, and wait until it is ready."""
        (port,) = free_ports(1)
        to_agent = self._running.enter_context(Gate(urlsplit(agent_url).port or 0))
        to_worker = self._running.enter_context(Gate(port))
        self._gates = [to_agent, to_worker]
        app = create_app(
            WorkerSettings(
                home=self._home,
                node=self.name,
                agent_url=f"http://127.0.0.1:{to_agent.port}",
                worker_port=port,
                worker_url=f"http://127.0.0.1:{to_worker.port}",
                drain_s=TEST_TIMEOUT_S,
            ),
            self._start_library,
            CollectorRegistry(),
        )
        self._leave = app.state.leave
        app.add_middleware(_Stall, worker=self)
        url = self._running.enter_context(served(app, port))
        self._client = WorkerClient(url)
        self._running.callback(self._client.close)
        eventually(self._is_ready, what=f"the worker {self.name} is ready")

    def leave(self) -> None:
        """Let the worker leave as at SIGTERM, while it serves."""
        assert self._leave is not None
        asyncio.run(self._leave())

    def stop(self) -> None:
        """Stop the worker, which reports to its agent that it leaves."""
        self._client = None
        self.release_queries()
        self.wake()
        self._running.close()
        self._gates = []

    def kill(self) -> None:
        """Cut the worker off for good, as a crash would; its queries end in the background."""
        for gate in self._gates:
            gate.shut()
        self._gates = []
        running, self._running, self._client = self._running, ExitStack(), None
        ending = threading.Thread(target=running.close, daemon=True)
        ending.start()
        self._running.callback(ending.join)

    def hang(self) -> None:
        """Stop answering requests."""
        self._answers.clear()

    def wake(self) -> None:
        """Answer requests again."""
        self._answers.set()

    def obey(self, domain: str, order: Order) -> None:
        """Let the worker obey an order of an enabler that the test stands for."""
        assert self._client is not None
        self._client.obey(domain, order)

    def hold_queries(self) -> None:
        """Let no query that starts from now on catch up, as on a worker that is very slow."""
        self._catch_up.clear()

    def release_queries(self) -> None:
        """Let all queries catch up."""
        self._catch_up.set()

    def await_requests(self, number: int) -> None:
        """Wait until the worker has received this number of further requests."""
        before = self._requests
        eventually(lambda: self._requests >= before + number, what=f"{number} requests")

    def observed(self, query: FragmentQuery) -> FragmentQuery:
        """Record that a query has started; return the query."""
        self.started.append(query.fragment)
        if not self._catch_up.is_set():
            observe = query.observe
            query.observe = lambda: observe() if self._catch_up.is_set() else None  # type: ignore[method-assign]
        return query

    def is_address(self, host: bytes) -> bool:
        """Return whether a header ``Host`` has the address that the worker announces."""
        return bool(self._gates) and host == f"127.0.0.1:{self._gates[1].port}".encode()

    def note_request(self) -> None:
        """Count a request, and wait while the worker hangs."""
        self._requests += 1
        self._answers.wait()

    @property
    def statuses(self) -> dict[str, FragmentStatus]:
        """The fragments that the worker runs: id -> status; empty if it does not run itself."""
        if self._client is None:
            return {}
        try:
            return {each.id: each for each in self._client.list()}
        except MistbowError:
            return {}

    @property
    def fragments(self) -> dict[str, Fragment]:
        """The fragments whose accepted version has started: id -> fragment."""
        started = {each.fingerprint: each for each in self.started}
        return {
            each.id: started[each.fingerprint]
            for each in self.statuses.values()
            if each.fingerprint in started
        }

    def fragments_of(self, kind: type[Fragment]) -> list[Fragment]:
        """Return the fragments of type ``kind``."""
        return [each for each in self.fragments.values() if isinstance(each, kind)]

    @property
    def insights(self) -> set[str]:
        """The uids of the insights whose results the worker computes."""
        return {
            insight.uid
            for each in self.fragments.values()
            if not isinstance(each, Partial)
            for insight in each.plan.insights
        }

    def _start_library(self, settings: WorkerSettings) -> StreamingLibrary:
        return _SharedLibrary(self._session, settings.agent_url, self)

    def _is_ready(self) -> bool:
        assert self._client is not None
        return isinstance(self._client.list(), list)


class _Stall:
    """Middleware that counts the requests of others than the test, and delays them while the
    worker hangs.
    """

    def __init__(self, app: ASGIApp, worker: SparkWorker) -> None:
        self._app = app
        self._worker = worker

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._worker.is_address(dict(scope["headers"])[b"host"]):
            await asyncio.to_thread(self._worker.note_request)
        await self._app(scope, receive, send)
