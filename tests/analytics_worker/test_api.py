"""The API of a worker that runs in a process of its own."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import anyio.to_thread
import httpx
import msgspec
import pytest
from fastapi import FastAPI

from analytics.client.worker import WorkerClient
from analytics.plan.expressions import Aggregate, Measure, Source
from analytics.plan.fragments import StreamLocation, Whole
from analytics.plan.functions import UserOperator
from analytics.plan.nodes import Insight, Pane, Plan, Window
from analytics.plan.orders import Lease, Order, order_of
from analytics_worker.api import add_routes
from analytics_worker.lifecycle.worker import AnalyticsWorker
from mistbow.client.agent import AgentClient
from mistbow.domains import DEFAULT_DOMAIN
from mistbow.errors import FencedError, InvalidRequestError, NotFoundError
from mistbow.streams.schemas import RAW, RESULT_ROWS
from tests.support.conditions import aeventually, eventually
from tests.support.services import Service, service
from tests.support.traffic import Traffic

PLAN = Plan(
    insights=(Insight(uid="i", expression=Measure("SUM", "w"), by=(), every_ms=1000, since=0),),
    windows=(Window(id="w", pane="p", size_ms=2000, every_ms=1000),),
    panes=(Pane(id="p", source=Source("cpu"), by=(), width_ms=1000),),
)

GAP = Measure(UserOperator("GAP", "9"), "w")
CALLING = Plan(
    insights=(msgspec.structs.replace(PLAN.insights[0], expression=GAP),),
    windows=(msgspec.structs.replace(PLAN.windows[0], contents=("points",)),),
    panes=(msgspec.structs.replace(PLAN.panes[0], contents=("points",)),),
)


def fragment(plan: Plan = PLAN, name: str = "f") -> Whole:
    return Whole(
        id=name,
        source=StreamLocation("n1", RAW),
        target=StreamLocation("n1", f"results.{name}"),
        plan=plan,
    )


@pytest.fixture(scope="module")
def worker_service(
    processes: None, agent_service: Service, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    home = tmp_path_factory.mktemp("worker")
    with service(
        "analytics_worker", "worker_port", home=home, agent_url=agent_service.url
    ) as running:
        yield running


@pytest.fixture
def worker(worker_service: Service) -> Iterator[WorkerClient]:
    client = WorkerClient(worker_service.url)
    yield client
    client.close()


@dataclass
class BusyWorker:
    """A worker whose orders take until the end of the test."""

    ends: threading.Event = field(default_factory=threading.Event)

    def check_started(self) -> None:
        pass

    def obey(self, domain: str, order: Order) -> dict[str, str]:
        del order
        self.ends.wait(30)
        return {"domain": domain}

    def list(self) -> list[bool]:
        return [True]

    def show(self, fragment_id: str) -> dict[str, bool]:
        return {fragment_id: True}


async def test_statuses_are_read_while_orders_use_all_threads_of_anyio() -> None:
    app, worker = FastAPI(), BusyWorker()
    add_routes(app, cast("AnalyticsWorker", worker))
    threads = anyio.to_thread.current_default_thread_limiter()
    order = msgspec.json.encode(order_of(Lease(1, 1), [], frozenset()))

    async def all_in_use() -> bool:
        return threads.available_tokens == 0

    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://worker") as client:
        paths = [f"/domains/d{number}/order" for number in range(int(threads.total_tokens) + 1)]
        async with asyncio.TaskGroup() as tasks:
            orders = [tasks.create_task(client.put(path, content=order)) for path in paths]
            try:
                await aeventually(all_in_use)
                async with asyncio.timeout(10):
                    assert (await client.get("/fragments")).json() == [True]
                    assert (await client.get("/fragments/f")).json() == {"f": True}
            finally:
                worker.ends.set()
        assert {each.result().status_code for each in orders} == {200}


@dataclass
class SlowWorker:
    """A worker whose statuses wait until the API serves another request."""

    has_served: threading.Event = field(default_factory=threading.Event)

    def check_started(self) -> None:
        pass

    def list(self) -> list[bool]:
        return [self.has_served.wait(5)]

    def show(self, fragment_id: str) -> dict[str, bool]:
        return {fragment_id: self.has_served.wait(5)}


@pytest.mark.parametrize(("path", "found"), [("/fragments", [True]), ("/fragments/f", {"f": True})])
async def test_other_requests_are_served_while_a_status_is_collected(path: str, found: Any) -> None:
    app, worker = FastAPI(), SlowWorker()
    add_routes(app, cast("AnalyticsWorker", worker))

    @app.get("/other")
    async def other() -> None:
        worker.has_served.set()

    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://worker") as client:
        status, _ = await asyncio.gather(client.get(path), client.get("/other"))
    assert status.json() == found


def test_fragment_is_run_listed_measured_and_stopped(
    worker: WorkerClient, worker_service: Service, agent: AgentClient
) -> None:
    agent.create_stream("results.f", RESULT_ROWS)
    assert worker.run(fragment()).fingerprint == fragment().fingerprint
    for batch in Traffic().batches(3):
        agent.put(batch)
    eventually(lambda: worker.show("f").state == "running", timeout=60, what="the fragment runs")

    metrics = httpx.get(worker_service.url + "/metrics").text
    assert 'mistbow_fragment_running{id="f"} 1.0' in metrics
    assert [status.id for status in worker.list()] == ["f"]
    worker.stop("f")
    assert worker.list() == []
    with pytest.raises(NotFoundError):
        worker.show("f")


def running(worker: WorkerClient) -> dict[str, str]:
    """Return fragment id -> domain, for all fragments of a worker."""
    return {status.id: status.domain for status in worker.list()}


def test_order_changes_the_fragments_of_its_domain_only(
    worker: WorkerClient, agent: AgentClient
) -> None:
    for name in "fgh":
        agent.create_stream(f"results.{name}", RESULT_ROWS)
    lease = Lease(1, 1)
    worker.obey("north", order_of(lease, [fragment(name="f")], frozenset()))
    worker.run(fragment(name="g"))
    assert running(worker) == {"f": "north", "g": DEFAULT_DOMAIN}

    answer = worker.obey("north", order_of(lease, [fragment(name="h")], frozenset()))
    assert [(each.id, each.domain) for each in answer.fragments] == [("h", "north")]
    worker.obey(DEFAULT_DOMAIN, order_of(lease, [], frozenset()))
    assert running(worker) == {"h": "north"}
    worker.obey("north", order_of(lease, [], frozenset()))
    assert running(worker) == {}


def test_refused_fragment_of_an_order_delays_no_other(
    worker: WorkerClient, agent: AgentClient
) -> None:
    for name in "fgh":
        agent.create_stream(f"results.{name}", RESULT_ROWS)
    lease = Lease(1, 1)
    worker.obey("south", order_of(lease, [fragment(name="h")], frozenset()))
    order = order_of(
        lease, [fragment(CALLING), fragment(name="h"), fragment(name="g")], frozenset()
    )
    unknown = msgspec.structs.replace(order, fragments={"k": msgspec.Raw(b"{}"), **order.fragments})
    answer = worker.obey("west", unknown)
    assert [status.id for status in answer.fragments] == ["g"]
    assert answer.refused.keys() == {"k", "f", "h"}
    assert "not installed" in answer.refused["f"]
    assert "belongs to the domain south" in answer.refused["h"]
    for domain in ("south", "west"):
        worker.obey(domain, order_of(lease, [], frozenset()))
    assert running(worker) == {}


def test_order_under_an_older_lease_changes_nothing(
    worker: WorkerClient, agent: AgentClient
) -> None:
    agent.create_stream("results.f", RESULT_ROWS)
    worker.obey("east", order_of(Lease(2, 1), [fragment()], frozenset()))
    with pytest.raises(FencedError, match="generation 1, epoch 9"):
        worker.obey("east", order_of(Lease(1, 9), [], frozenset()))
    assert running(worker) == {"f": "east"}
    worker.obey("east", order_of(Lease(2, 2), [], frozenset()))
    assert running(worker) == {}


def test_malformed_order_is_refused(worker_service: Service) -> None:
    far = b'{"generation":%d,"epoch":1}' % 10**18
    for domain, body in (
        ("east", b"{"),
        ("east", b"{}"),
        ("east", far),
        ("EAST", b'{"generation":1,"epoch":1}'),
    ):
        answer = httpx.put(f"{worker_service.url}/domains/{domain}/order", content=body)
        assert answer.status_code == 400, (domain, body)


def test_worker_whose_name_is_taken_is_not_ready(
    worker_service: Service, agent: AgentClient
) -> None:
    own = eventually(lambda: [each for site in agent.fabric().sites for each in site.workers])[0]
    other = msgspec.structs.replace(own, instance="other")

    def reasons() -> str:
        agent.announce(other)
        return httpx.get(worker_service.url + "/readyz").text

    eventually(lambda: "MISTBOW_NODE" in reasons())
    agent.leave(other.name, other.instance)
    eventually(lambda: httpx.get(worker_service.url + "/readyz").is_success)


def test_fragment_that_cannot_run_is_refused(worker: WorkerClient, worker_service: Service) -> None:
    bare = Insight(
        uid="i", expression=Aggregate("SUM", Source("cpu"), 1000, 1000), by=(), every_ms=1, since=0
    )
    with pytest.raises(InvalidRequestError, match="i needs Aggregate: an aggregate must"):
        worker.run(fragment(Plan(insights=(bare,))))
    with pytest.raises(InvalidRequestError, match="i calls GAP 9, which is not installed"):
        worker.run(fragment(CALLING))

    dangling = msgspec.to_builtins(fragment())
    dangling["plan"]["windows"] = []
    for body in (b"", b"{", b"[1]", b"\xff", b"[" * 5000, msgspec.json.encode(dangling)):
        answer = httpx.put(worker_service.url + "/fragments/f", content=body)
        assert answer.status_code == 400, body[:20]
        assert answer.json()["error"]["code"] == "invalid_request"
    answer = httpx.put(worker_service.url + "/fragments/g", content=msgspec.json.encode(fragment()))
    assert answer.status_code == 400
    assert "same id" in answer.json()["error"]["hint"]
