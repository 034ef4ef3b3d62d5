"""Every route of every service has an access rule; a route without a rule fails the test."""

from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute, iter_route_contexts

from analytics_enabler.main import create_app as enabler
from analytics_enabler.settings import EnablerSettings
from analytics_worker.main import create_app as worker
from analytics_worker.settings import WorkerSettings
from mistbow.auth.rules import AccessRule, rule_of
from mistbow.http.documentation import DOCUMENTATION_PATHS
from monitoring_agent.main import create_app as monitor
from monitoring_agent.settings import MonitorSettings
from storage_agent.main import create_app as agent
from storage_agent.settings import AgentSettings

SERVICES: dict[str, Callable[[Path], FastAPI]] = {
    "agent": lambda home: agent(AgentSettings(home=home)),
    "enabler": lambda home: enabler(EnablerSettings(home=home)),
    "worker": lambda home: worker(WorkerSettings(home=home)),
    "monitor": lambda home: monitor(MonitorSettings(home=home)),
}

# They describe the API to anyone with a valid token.
DOCUMENTS = DOCUMENTATION_PATHS


def rules(app: FastAPI) -> dict[str, AccessRule | None]:
    """Return the access rule of each route: method and path -> rule.

    None: the route has no rule.
    """
    found = {}
    for context in iter_route_contexts(app.routes):
        if context.path not in DOCUMENTS:
            assert isinstance(context.original_route, APIRoute), f"{context.path} is another kind"
            for method in context.methods or ():
                found[f"{method} {context.path}"] = rule_of(context.original_route)
    return found


@pytest.mark.parametrize("name", SERVICES)
def test_every_route_declares_its_access_rule(name: str, tmp_path: Path) -> None:
    found = rules(SERVICES[name](tmp_path))
    assert {"GET /healthz", "GET /readyz", "GET /metrics"} <= found.keys()
    silent = [route for route, rule in found.items() if rule is None]
    assert not silent, f"mark them by @requires(…), below the route: {silent}"


def test_routes_with_effects_require_more_than_the_scope_read(tmp_path: Path) -> None:
    # Routes that only read, but take a long body and therefore use POST.
    asking = {
        "POST /api/placements/plan",
        "POST /challenge",
        "POST /get",
        "POST /query",
        "POST /query/parts",
        "POST /list",
        "POST /nodes",
        "POST /sql",
        "POST /analytics/get",
        "POST /app/get",
        "POST /app/query",
        "POST /routing/get",
        "POST /replication/get",
        "POST /replication/points",
        "POST /api/v1/query",
        "POST /api/v1/query_range",
        "POST /api/v1/labels",
        "POST /api/v1/series",
        "POST /api/insights/check",
        "POST /api/insights/explain",
        "POST /api/insights/complete",
        "POST /api/insights/format",
        "POST /api/insights/preview",
        "POST /api/promql/query",
        "POST /api/promql/query_range",
        "POST /api/sql",
    }
    # They change nothing but the session of the caller.
    own_session = {"POST /api/session", "DELETE /api/session"}
    for make in SERVICES.values():
        for route, rule in rules(make(tmp_path)).items():
            if rule is not None and rule.scope == "read":
                assert route.startswith(("GET ", "HEAD ")) or route in asking | own_session, route
