"""A worker without Spark, which reports each received fragment with the status that a test sets."""

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import msgspec
from fastapi import FastAPI, Request, Response

from analytics.plan.fragments import Fragment, Partial, fragment_from_json
from analytics.plan.orders import Order, OrderAnswer, order_from_json, surplus
from analytics.plan.status import FragmentState, FragmentStatus
from mistbow.auth.audiences import OwnAddresses
from mistbow.auth.service_key import ServiceKey
from mistbow.auth.service_sessions import ServiceSessions
from mistbow.domains import DEFAULT_DOMAIN
from mistbow.fabric import Worker
from mistbow.service import add_challenge
from tests.support.http_server import served

_HEARTBEAT_S = 0.5


class RecordingWorker:
    """A worker that accepts and records fragments; the test sets the status of the fragments."""

    def __init__(self, name: str = "w1") -> None:
        self.name = name
        self.fragments: dict[str, Fragment] = {}
        self.accepted: list[Fragment] = []
        self.stopped: list[str] = []
        self.orders: list[Order] = []
        self.domains: dict[str, str] = defaultdict(lambda: DEFAULT_DOMAIN)
        """Fragment id -> the domain of the order with this fragment."""
        self.state: FragmentState = "running"
        self.frontier = 0
        self.error: str | None = None
        self.active: dict[str, str] = {}
        """Fragment id -> fingerprint of the version that runs before the handover."""
        self.status_fields: dict[str, dict[str, Any]] = {}
        """Fragment id -> further fields of the status that the worker reports for this fragment."""
        self.operators: tuple[str, ...] = ()
        """The operators of other packages that the worker announces."""
        self.drained = False
        self.announces_drain = True
        """Whether the worker announces that it is drained."""
        self.asked = threading.Event()
        self._lock = threading.Event()
        self._lock.set()

    def app(self) -> FastAPI:
        """Return the worker's API."""
        app = FastAPI()
        add_challenge(app, ServiceSessions(ServiceKey(""), OwnAddresses([])))

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

        @app.put("/domains/{domain}/order")
        async def obey(domain: str, request: Request) -> Response:
            order = order_from_json(await request.body())
            self.orders.append(order)
            for fragment_id, encoded in order.fragments.items():
                fragment = fragment_from_json(encoded)
                assert fragment.id == fragment_id
                known = self.fragments.get(fragment_id)
                if (
                    known is None
                    or known.fingerprint != fragment.fingerprint
                    or self._status(known).state == "fenced"
                ):
                    self.fragments[fragment_id] = fragment
                    self.accepted.append(fragment)
                self.domains[fragment_id] = domain
            own = [each for each in self.fragments if self.domains[each] == domain]
            for fragment_id in surplus(own, order.fragments, order.retained, order.moving):
                del self.fragments[fragment_id]
                self.stopped.append(fragment_id)
            statuses = [self._status(each) for each in list(self.fragments.values())]
            ordered = [each for each in statuses if each.domain == domain]
            return _json(OrderAnswer(fragments=ordered))

        @app.delete("/fragments/{fragment_id}")
        async def stop(fragment_id: str) -> Response:
            del self.fragments[fragment_id]
            return Response(status_code=204)

        @app.put("/drain")
        async def drain() -> Response:
            self.drained = True
            return Response(status_code=204)

        return app

    @contextmanager
    def running(self, agent_url: str) -> Iterator[str]:
        """Serve the worker's API within the ``with``, and announce the worker to an agent.

        Yield its URL.
        """
        stopped = threading.Event()
        with served(self.app()) as url:
            worker = Worker(
                name=self.name,
                url=url,
                cores=2,
                memory_mb=16384,
                cores_free=2,
                memory_free_mb=16384,
            )

            def announce() -> None:
                announced = msgspec.structs.replace(
                    worker,
                    operators=self.operators,
                    drained=self.drained and self.announces_drain,
                )
                httpx.put(
                    f"{agent_url}/workers/{self.name}", content=msgspec.json.encode(announced)
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
        """Stop answering requests."""
        self._lock.clear()

    def wake(self) -> None:
        """Answer requests again."""
        self._lock.set()

    def fragments_of(self, kind: type[Fragment]) -> list[Fragment]:
        """Return the current fragments of type ``kind``.

        Requests may change the fragments during the call.
        """
        return [each for each in list(self.fragments.values()) if isinstance(each, kind)]

    @property
    def insights(self) -> set[str]:
        """The uids of the insights whose results the worker computes."""
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
            domain=self.domains[fragment.id],
        )
        return msgspec.structs.replace(status, **self.status_fields.get(fragment.id, {}))


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status_code=status, media_type="application/json")
