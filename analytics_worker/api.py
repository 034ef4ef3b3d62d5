"""The worker's HTTP API: fragments as JSON plans."""

import anyio.to_thread
import msgspec
from fastapi import FastAPI, Request, Response

from analytics_worker.worker import Worker
from mistbow.auth.rules import requires
from mistbow.errors import InvalidRequestError
from mistbow.plan.fragments import Fragment, fragment_from_json

_JSON = "application/json"


def add_routes(app: FastAPI, worker: Worker) -> None:
    """Serve the fragments of ``worker``."""

    @app.put("/fragments/{fragment_id}", status_code=202, tags=["fragments"])
    @requires("admin")
    async def run(fragment_id: str, request: Request) -> Response:
        """Run a fragment, in place of the one of the same id if there is one."""
        fragment = _read(await request.body())
        if fragment.id != fragment_id:
            raise InvalidRequestError(
                f"the path says {fragment_id} and the body {fragment.id}",
                hint="Let the two agree.",
            )
        status = await anyio.to_thread.run_sync(worker.run, fragment)
        return Response(msgspec.json.encode(status), status_code=202, media_type=_JSON)

    @app.get("/fragments", tags=["fragments"])
    @requires("read")
    async def list_all() -> Response:
        """List the fragments that run here, and how far they are."""
        return Response(msgspec.json.encode(worker.list()), media_type=_JSON)

    @app.get("/fragments/{fragment_id}", tags=["fragments"])
    @requires("read")
    async def show(fragment_id: str) -> Response:
        """Show one fragment."""
        return Response(msgspec.json.encode(worker.show(fragment_id)), media_type=_JSON)

    @app.delete("/fragments/{fragment_id}", status_code=204, tags=["fragments"])
    @requires("admin")
    async def stop(fragment_id: str) -> None:
        """Stop a fragment and forget it."""
        await anyio.to_thread.run_sync(worker.remove, fragment_id)


def _read(body: bytes) -> Fragment:
    try:
        return fragment_from_json(body)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InvalidRequestError(f"the body is no fragment: {error}") from error
