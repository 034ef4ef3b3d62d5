"""The worker's API without Spark: what it is asked to run, it says that it runs."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import msgspec
from fastapi import FastAPI, Request, Response

from mistbow.fabric import Worker
from mistbow.plan.fragments import Fragment, Partial, fragment_from_json
from mistbow.plan.status import FragmentStatus, State
from tests.support.serving import served

_HEARTBEAT_S = 0.5


class RecordingWorker:
    """Accepts fragments; how far they are, the test decides."""

    def __init__(self, name: str = "w1") -> None:
        self.name = name
        self.fragments: dict[str, Fragment] = {}
        self.accepted: list[Fragment] = []
        self.state: State = "running"
        self.frontier = 0
        self.error: str | None = None
        self.active: dict[str, str] = {}
        """Of fragments whose newest version has not taken over yet: the one that runs."""
        self.burdens: dict[str, dict[str, Any]] = {}
        """Of fragments, by id: what else their status says."""
        self.operators: tuple[str, ...] = ()
        """Those of other packages that it announces."""
        self.asked = threading.Event()
        self._lock = threading.Event()
        self._lock.set()

    def app(self) -> FastAPI:
        """Return the API."""
        app = FastAPI()

        @app.get("/fragments")
        def list_all() -> Response:
            self.asked.set()
            self._lock.wait()
            return _json([self._status(fragment) for fragment in list(self.fragments.values())])

        @app.put("/fragments/{fragment_id}")
        async def run(fragment_id: str, request: Request) -> Response:
            fragment = fragment_from_json(await request.body())
            assert fragment.id == fragment_id
            self.fragments[fragment_id] = fragment
            self.accepted.append(fragment)
            return _json(self._status(fragment), 202)

        @app.delete("/fragments/{fragment_id}")
        async def stop(fragment_id: str) -> Response:
            del self.fragments[fragment_id]
            return Response(status_code=204)

        return app

    @contextmanager
    def running(self, agent_url: str) -> Iterator[str]:
        """Serve the API and announce it to an agent, as a worker does; then it is dead."""
        stopped = threading.Event()
        with served(self.app()) as url:
            worker = Worker(
                name=self.name,
                url=url,
                cores=2,
                memory_mb=2048,
                cores_free=2,
                memory_free_mb=2048,
            )

            def announce() -> None:
                told = msgspec.structs.replace(worker, operators=self.operators)
                httpx.put(
                    f"{agent_url}/workers/{self.name}", content=msgspec.json.encode(told)
                ).raise_for_status()

            def repeat() -> None:
                while not stopped.wait(_HEARTBEAT_S):
                    try:
                        announce()
                    except httpx.HTTPError:
                        continue

            announce()
            threading.Thread(target=repeat, daemon=True).start()
            try:
                yield url
            finally:
                stopped.set()

    def hang(self) -> None:
        """Answer nothing any more."""
        self._lock.clear()

    def wake(self) -> None:
        """Answer again."""
        self._lock.set()

    @property
    def insights(self) -> set[str]:
        """The insights whose results the worker computes, by uid."""
        fragments = list(self.fragments.values())
        return {
            i.uid for each in fragments if not isinstance(each, Partial) for i in each.plan.insights
        }

    def _status(self, fragment: Fragment) -> FragmentStatus:
        status = FragmentStatus(
            id=fragment.id,
            fingerprint=fragment.fingerprint,
            active=self.active.get(fragment.id, fragment.fingerprint),
            state=self.state,
            frontier=self.frontier,
            error=self.error,
        )
        return msgspec.structs.replace(status, **self.burdens.get(fragment.id, {}))


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status_code=status, media_type="application/json")
