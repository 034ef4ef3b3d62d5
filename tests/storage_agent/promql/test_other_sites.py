"""PromQL of another site: one that takes long, and one that is there but cannot answer."""

from contextlib import ExitStack
from time import sleep
from typing import Any

from fastapi import FastAPI, Request

from mistbow.clock import system_clock
from mistbow.ports import free_ports
from mistbow.settings import AgentSettings
from storage_agent.main import create_app
from tests.storage_agent.replication.test_replicas import ask, copied, points, replica
from tests.support.gate import Gate
from tests.support.serving import served
from tests.support.sites import Place, knows, site_of
from tests.support.waiting import eventually

SLOW_S = 3.5
"""Longer than an agent waits for what is quick."""


def test_replicas_answer_for_a_site_without_ignite_and_one_that_only_a_hop_misses(
    places: list[Place],
) -> None:
    a, b, c = places
    [nowhere] = free_ports(1)
    with ExitStack() as stack:
        ignite, agent = (stack.enter_context(Gate(port)) for port in (b.ignite_port, b.port))
        # a reaches b by way of c only, which knows another address of it than b tells.
        told: dict[str, Any] = {
            "ignite_port": ignite.port,
            "agent_url": f"http://127.0.0.1:{nowhere}",
        }
        stack.enter_context(c.agent(peers=f"http://127.0.0.1:{agent.port}"))
        at_a = stack.enter_context(a.agent(c))

        def answer(path: str, **parameters: str) -> Any:
            return ask(at_a, "GET", f"/api/v1/{path}", params={**parameters, "site": "b"})

        with b.agent(**told) as at_b:
            knows(at_a, "b")
            knows(at_b, "a")
            at_b.put(points(0, 70))
            copied(at_b, "a")
            eventually(lambda: replica(at_a, "b")["rows"] == 70)
            time = str(system_clock() / 1000 - 50)
            query = {"query": "sum(sum_over_time(cpu[1h]))", "time": time}
            total = answer("query", **query)
        assert float(total["data"]["result"][0]["value"][1]) == sum(range(70))
        ignite.shut()
        starting = AgentSettings.model_validate({**b.settings(), **told})
        stack.enter_context(served(create_app(starting), b.port))
        of_e0 = {"query": '{entityID="e0"}', "time": time}
        cannot = "the site b cannot answer now: the agent is starting"
        eventually(lambda: cannot in answer("query", **of_e0)["warnings"][0])
        assert answer("query", **query) == total
        agent.shut()
        assert answer("query", **query) == total
        [lack] = answer("metadata")["warnings"]
        assert "metrics that it has not told of are missing" in lack


def test_labels_of_a_site_that_takes_long_are_waited_for(places: list[Place]) -> None:
    app = FastAPI()

    @app.post("/fabric/greet")
    def greet(request: Request) -> Any:
        url = str(request.base_url).rstrip("/")
        return {"site": "slow", "node": "slow", "url": url, "instance": "1"}

    @app.get("/api/v1/labels")
    def labels() -> Any:
        sleep(SLOW_S)
        return {"status": "success", "data": ["rack"]}

    with served(app) as url, places[0].agent(peers=url) as at_a:
        eventually(lambda: site_of(at_a, "slow").reachable)
        found = ask(at_a, "GET", "/api/v1/labels", params={"site": "slow"})
        assert found == {"status": "success", "data": ["rack"]}
