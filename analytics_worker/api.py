"""The HTTP API of a worker, with routes for orders and single fragments, as JSON."""

import anyio
import anyio.to_thread
import msgspec
from fastapi import FastAPI, Request, Response

from analytics.plan.fragments import Fragment, fragment_from_json
from analytics.plan.orders import Order, order_from_json
from analytics.plan.preview import preview_order_from_json
from analytics_worker.api_description import FRAGMENT_BODY, ORDER_BODY, PREVIEW_BODY
from analytics_worker.lifecycle.worker import AnalyticsWorker
from mistbow.auth.rules import requires
from mistbow.domains import check_domain
from mistbow.errors import (
    CapacityError,
    FencedError,
    InvalidRequestError,
    NotFoundError,
    StartingError,
    TooLargeError,
)
from mistbow.openapi import raises
from mistbow.streams.wire import MEDIA_TYPE, encode_rows

_JSON = "application/json"
_STATUS_THREADS = 4
"""The number of threads that only read statuses.

An order or a preview uses its thread for seconds. If a worker sends no statuses meanwhile, the
enabler considers the worker dead.
"""


def add_routes(app: FastAPI, worker: AnalyticsWorker) -> None:
    """Add to ``app`` the routes that run, list, show and stop the fragments of ``worker``."""
    status_threads = anyio.CapacityLimiter(_STATUS_THREADS)

    @app.put(
        "/fragments/{fragment_id}",
        status_code=202,
        tags=["fragments"],
        openapi_extra=FRAGMENT_BODY,
    )
    @requires("order")
    @raises(CapacityError)
    async def run(fragment_id: str, request: Request) -> Response:
        """Run a fragment, in place of a running fragment with the same id.

        A new fragment that does not fit into the free memory is refused with 503 `no_capacity`; the
        message and `details` give the memory that is needed and free.
        """
        fragment = _read(await request.body())
        if fragment.id != fragment_id:
            raise InvalidRequestError(
                f"the path names the fragment {fragment_id}, but the body names {fragment.id}",
                hint="Use the same id in both.",
            )
        status = await anyio.to_thread.run_sync(worker.run, fragment)
        return Response(msgspec.json.encode(status), status_code=202, media_type=_JSON)

    @app.put(
        "/domains/{domain}/order",
        tags=["fragments"],
        openapi_extra=ORDER_BODY,
    )
    @requires("order")
    @raises(FencedError)
    async def obey(domain: str, request: Request) -> Response:
        """Run the fragments of an order, and stop the other fragments of the domain.

        The fragments of other domains are not affected. A fragment that the worker refuses is in
        `refused`, and delays no other. An order under an older lease than an earlier order of the
        domain is refused.
        """
        order = _read_order(domain, await request.body())
        answer = await anyio.to_thread.run_sync(worker.obey, domain, order)
        return Response(msgspec.json.encode(answer), media_type=_JSON)

    @app.post("/previews", tags=["fragments"], openapi_extra=PREVIEW_BODY)
    @requires("order")
    @raises(CapacityError, TooLargeError)
    async def preview(request: Request) -> Response:
        """Compute the results of a plan in a span of the past once, from stored points.

        The answer is an Arrow IPC stream of results. Its metadata has the time (ms) `after` which
        the results begin.
        """
        try:
            order = preview_order_from_json(await request.body())
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise InvalidRequestError(f"the body is not a valid preview: {error}") from error
        rows = await anyio.to_thread.run_sync(worker.preview, order)
        return Response(encode_rows(rows), media_type=MEDIA_TYPE)

    @app.get("/fragments", tags=["fragments"])
    @requires("read")
    @raises(StartingError)
    async def list_all() -> Response:
        """List the fragments of this worker with their status."""
        # An empty list would show the enabler a worker that can run fragments.
        worker.check_started()
        statuses = await anyio.to_thread.run_sync(worker.list, limiter=status_threads)
        return Response(msgspec.json.encode(statuses), media_type=_JSON)

    @app.get("/fragments/{fragment_id}", tags=["fragments"])
    @requires("read")
    @raises(NotFoundError)
    async def show(fragment_id: str) -> Response:
        """Return the status of a fragment."""
        status = await anyio.to_thread.run_sync(worker.show, fragment_id, limiter=status_threads)
        return Response(msgspec.json.encode(status), media_type=_JSON)

    @app.delete("/fragments/{fragment_id}", status_code=204, tags=["fragments"])
    @requires("order")
    @raises(NotFoundError)
    async def stop(fragment_id: str) -> None:
        """Stop and remove a fragment."""
        await anyio.to_thread.run_sync(worker.remove, fragment_id)

    @app.put("/drain", status_code=204, tags=["drain"])
    @requires("order")
    async def drain() -> None:
        """Drain this worker: its fragments move to other workers.

        The worker announces that it is drained, also after restarts. Its fragments continue until
        other workers have taken over; a fragment that no other worker can run stays.
        """
        await anyio.to_thread.run_sync(worker.drain)

    @app.delete("/drain", status_code=204, tags=["drain"])
    @requires("order")
    async def undrain() -> None:
        """Undrain this worker: it receives fragments again."""
        await anyio.to_thread.run_sync(worker.undrain)


def _read_order(domain: str, body: bytes) -> Order:
    try:
        check_domain(domain)
        return order_from_json(body)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InvalidRequestError(f"the request is not a valid order: {error}") from error


def _read(body: bytes) -> Fragment:
    try:
        return fragment_from_json(body)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InvalidRequestError(f"the body is not a valid fragment: {error}") from error
