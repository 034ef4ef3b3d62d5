"""The API of a worker that runs in a process of its own."""

from collections.abc import Iterator

import httpx
import msgspec
import pytest

from analytics.client.worker import WorkerClient
from analytics.plan.expressions import Aggregate, Measure, Source
from analytics.plan.fragments import StreamLocation, Whole
from analytics.plan.functions import UserOperator
from analytics.plan.nodes import Insight, Pane, Plan, Window
from mistbow.client.agent import AgentClient
from mistbow.errors import InvalidRequestError, NotFoundError
from mistbow.streams.schemas import RAW, RESULT_ROWS
from tests.support.conditions import eventually
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


def fragment(plan: Plan = PLAN) -> Whole:
    return Whole(
        id="f",
        source=StreamLocation("n1", RAW),
        target=StreamLocation("n1", "results.api"),
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


def test_fragment_is_run_listed_measured_and_stopped(
    worker: WorkerClient, worker_service: Service, agent: AgentClient
) -> None:
    agent.create_stream("results.api", RESULT_ROWS)
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
