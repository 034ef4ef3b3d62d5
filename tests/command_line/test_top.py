"""``mistbow top``: the tables of a glance, and the problems."""

import re
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.responses import JSONResponse
from rich.console import Console
from typer.testing import CliRunner

from analytics.fog_models import FogSnapshot
from analytics.health_models import Health
from analytics.insight_models import DeploymentStatus
from command_line.app import app
from command_line.top import Glance, view_of
from tests.support.http_server import served

NOW = 1_795_262_400_000
NODE: dict[str, Any] = {
    **{"name": "w1", "site": "edge", "region": "", "cores": 4, "cores_free": 1.5},
    **{"memory_mb": 4096, "memory_free_mb": 1024, "clock_mhz": 0, "labels": {}, "operators": []},
    **{"suspected": False, "reliability": 1, "power": None, "battery": None, "position": None},
    **{"price_per_core_hour": None, "price_per_gb": None},
}
SITE: dict[str, Any] = {
    **{"name": "edge", "node": "edge", "region": "", "labels": {}, "reachable": True},
    **{"suspected": False, "unreachable_since": None, "position": None, "series": 3},
    **{"workers": ["w1"], "replicas": []},
}
FRAGMENT = {
    **{"group": "all.fair", "fragment": "all.fair", "task": "whole", "kind": "whole"},
    **{"node": "w1", "site": "edge", "since": NOW, "state": "running", "lag_ms": 0},
    **{"salience": 0, "bytes_per_s": 1500.0, "insights": ["d-1/a"]},
}


def fog(**site: Any) -> dict[str, Any]:
    return {
        **{"sites": ["edge"], "nodes": [NODE], "links": [], "sources": [], "at": NOW},
        **{"site_states": [{**SITE, **site}], "fragments": [FRAGMENT], "flows": []},
    }


def deployment(state: str = "running", **insight: Any) -> dict[str, Any]:
    status = {
        **{"name": "a", "uid": "d-1/a/1", "text": "a", "every_ms": 5000, "since": 0},
        **{"first_tick": 5000, "state": "running", "group": "all.fair", "lag_ms": 1234},
        **{"salience": 7},
        **{"lifecycle": {"state": state, "since": NOW - 60_000}},
    }
    return {
        **{"deployment_id": "d-1", "name": None, "status": "running", "error": None},
        **{"queries": "a", "created_at": 0, "updated_at": 0, "warnings": []},
        "owner": "token anna",
        "insights": [{**status, **insight}],
    }


def health(*problems: dict[str, Any]) -> dict[str, Any]:
    state = "failed" if problems else "ok"
    counts = {
        **{"sites": 1, "sites_reachable": 1, "workers": 1, "fragments": 1},
        **{"insights": 1, "insights_running": 1},
    }
    return {"at": NOW, "state": state, "problems": problems, "counts": counts}


def problem(what: str, action: str = "Restart it.", since: int | None = None) -> dict[str, Any]:
    return {
        **{"severity": "error", "kind": "site_silent", "subject": "edge", "site": "edge"},
        **{"what": what, "since": since, "action": action},
    }


def glance(deployed: dict[str, Any], seen: dict[str, Any], well: dict[str, Any]) -> Glance:
    deployments = [DeploymentStatus.model_validate(deployed)]
    return Glance(NOW, deployments, FogSnapshot.model_validate(seen), Health.model_validate(well))


def shown(of: Glance) -> str:
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(view_of(of))
    return console.export_text()


def test_healthy_fog_is_shown_with_state_lag_and_rate() -> None:
    text = shown(glance(deployment(), fog(), health()))
    assert "1 of 1 sites reachable, 1 worker, 1 of 1 insights run" in text
    for part in ("d-1/a", "running", "for 60 s", "1.2 s", "5 s", "1.5 kB/s", "1.5 of 4"):
        assert part in text, part
    assert "no problems" in text
    head, row = (
        [each.strip(" │┃") for each in re.split("[│┃]", line)[1:-1]]
        for line in text.splitlines()
        if "salience" in line or "d-1/a" in line
    )
    found = dict(zip(head, row, strict=True))
    assert (found["salience"], found["owner"]) == ("7", "token anna")


@pytest.mark.parametrize(
    ("trigger", "every"),
    [({"each_point": True}, "point"), ({"each_point": True, "every_points": 1000}, "1,000 points")],
)
def test_insight_without_ticks_has_no_interval(trigger: dict[str, Any], every: str) -> None:
    text = shown(glance(deployment(**trigger), fog(), health()))
    row = next(line for line in text.splitlines() if "d-1/a" in line)
    assert [each.strip() for each in row.split("│")][5] == every


def test_problem_is_shown_with_its_age_and_its_remedy() -> None:
    well = health(problem("the site edge does not answer", "Start it.", NOW - 5000))
    text = shown(glance(deployment(), fog(), well))
    assert "the site edge does not answer (for 5 s)" in text
    assert "Start it." in text
    assert text.index("Start it.") < text.index("d-1/a") < text.index("free cores")


def test_further_problems_are_counted() -> None:
    text = shown(glance(deployment(), fog(), health(*[problem("it fails")] * 15)))
    assert text.count("it fails") == 12
    assert "(3 more)" in text


def test_without_terminal_the_state_is_printed_once_without_control_characters() -> None:
    service = FastAPI()
    name = "[/red]\x1b[2J\u202e<img>"

    @service.get("/api/insights")
    def deployments() -> JSONResponse:
        return JSONResponse({"deployments": [deployment(name=name)]})

    @service.get("/api/fog")
    def snapshot() -> JSONResponse:
        return JSONResponse(fog())

    @service.get("/api/health")
    def well() -> JSONResponse:
        return JSONResponse(health(problem(name)))

    with served(service) as url:
        done = CliRunner().invoke(app, ["top", "--url", url], env={"COLUMNS": "160"})
        assert done.exit_code == 0, done.output
        assert "[/red]" in done.stdout
        assert "<img>" in done.stdout
        assert not {"\x1b", "\u202e"} & set(done.stdout)
        as_json = CliRunner().invoke(app, ["top", "--once", "--json", "--url", url])
        assert '"site_states"' in as_json.stdout


def test_unreachable_enabler_is_an_error() -> None:
    done = CliRunner().invoke(app, ["top", "--once", "--url", "http://127.0.0.1:9"])
    assert done.exit_code == 1
    assert "does not answer" in done.stderr
