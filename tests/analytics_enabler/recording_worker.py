"""The worker's API without Spark: what it is asked to run, it says that it runs."""

from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response

from mistbow.plan.nodes import Fragment, fragment_from_json
from mistbow.plan.status import FragmentStatus, State


class RecordingWorker:
    """Accepts fragments; how far they are, the test decides."""

    def __init__(self) -> None:
        self.fragments: dict[str, Fragment] = {}
        self.accepted: list[Fragment] = []
        self.state: State = "running"
        self.frontier = 0
        self.error: str | None = None

    def app(self) -> FastAPI:
        """Return the API."""
        app = FastAPI()

        @app.get("/fragments")
        async def list_all() -> Response:
            return _json([self._status(fragment) for fragment in self.fragments.values()])

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

    @property
    def running(self) -> set[str]:
        """The insights that the worker computes, by uid."""
        return {i.uid for fragment in self.fragments.values() for i in fragment.plan.insights}

    def _status(self, fragment: Fragment) -> FragmentStatus:
        return FragmentStatus(
            id=fragment.id,
            fingerprint=fragment.fingerprint,
            state=self.state,
            frontier=self.frontier,
            error=self.error,
        )


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status_code=status, media_type="application/json")
