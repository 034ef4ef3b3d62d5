"""PromQL queries of another site: a slow site, and an unreachable site whose replicas answer."""

import json
from contextlib import ExitStack
from time import sleep
from typing import Any

from fastapi import FastAPI, Request, Response

from ignite_server.ports import free_ports
from mistbow.auth.answer_key import answer_headers
from mistbow.auth.audiences import OwnAddresses
from mistbow.auth.authentication import Authentication
from mistbow.auth.keyring import Keyring
from mistbow.auth.service_key import ServiceKey
from mistbow.auth.service_sessions import ServiceSessions
from mistbow.clock import system_clock
from mistbow.service import add_challenge
from storage_agent.main import create_app
from storage_agent.settings import AgentSettings
from tests.storage_agent.replication.test_replicas import ask, copied, points, replica
from tests.support.conditions import eventually
from tests.support.gate import Gate
from tests.support.http_server import served
from tests.support.sites import TOKEN, AgentSite, site_of, wait_until_reached

SLOW_S = 3.5
"""A delay (s) that is longer than an agent waits for answers to quick requests."""


def test_replicas_answer_for_unreachable_site(
    places: list[AgentSite],
) -> None:
    a, b, c = places
    [nowhere] = free_ports(1)
    with ExitStack() as stack:
        ignite, agent = (stack.enter_context(Gate(port)) for port in (b.ignite_port, b.port))
        # a reaches b only through c, which has another address of b than b itself announces.
        b_settings: dict[str, Any] = {
            "ignite_port": ignite.port,
            "own_urls": f"http://127.0.0.1:{agent.port}",
            "agent_url": f"http://127.0.0.1:{nowhere}",
        }
        stack.enter_context(c.agent(peers=f"http://127.0.0.1:{agent.port}"))
        at_a = stack.enter_context(a.agent(c))

        def answer(path: str, **parameters: str) -> Any:
            return ask(at_a, "GET", f"/api/v1/{path}", params={**parameters, "site": "b"})

        with b.agent(**b_settings) as at_b:
            wait_until_reached(at_a, "b")
            wait_until_reached(at_b, "a")
            at_b.put(points(0, 70))
            copied(at_b, "a")
            eventually(lambda: replica(at_a, "b")["rows"] == 70)
            time = str(system_clock() / 1000 - 50)
            query = {"query": "sum(sum_over_time(cpu[1h]))", "time": time}
            total = answer("query", **query)
        assert float(total["data"]["result"][0]["value"][1]) == sum(range(70))
        ignite.shut()
        starting = AgentSettings.model_validate({**b.settings(), **b_settings})
        stack.enter_context(served(create_app(starting), b.port))
        of_e0 = {"query": '{entityID="e0"}', "time": time}
        cannot = "the site b cannot answer now: the agent is starting"
        eventually(lambda: cannot in answer("query", **of_e0)["warnings"][0])
        assert answer("query", **query) == total
        agent.shut()
        assert answer("query", **query) == total
        [lack] = answer("metadata")["warnings"]
        assert "metrics that the site did not publish are missing" in lack


def test_labels_of_slow_site_are_awaited(places: list[AgentSite]) -> None:
    app = FastAPI()
    sessions = ServiceSessions(ServiceKey(TOKEN), OwnAddresses([]))
    add_challenge(app, sessions)
    app.add_middleware(Authentication, keyring=Keyring(TOKEN, None), sessions=sessions)

    @app.post("/fabric/greet")
    def greet(request: Request) -> Response:
        url = str(request.base_url).rstrip("/")
        heartbeat = {"site": "slow", "node": "slow", "url": url, "instance": "1"}
        body = json.dumps(heartbeat).encode()
        return Response(body, headers=answer_headers(body), media_type="application/json")

    @app.get("/api/v1/labels")
    def labels() -> Any:
        sleep(SLOW_S)
        return {"status": "success", "data": ["rack"]}

    with served(app) as url, places[0].agent(peers=url) as at_a:
        eventually(lambda: site_of(at_a, "slow").reachable)
        found = ask(at_a, "GET", "/api/v1/labels", params={"site": "slow"})
        assert found == {"status": "success", "data": ["rack"]}
