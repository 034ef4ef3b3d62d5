"""``mistbow city``: delivered and lost points, and replaced tokens."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from ignite_server.ports import free_ports
from ignite_server.server import IgniteServer
from mistbow.client import AgentClient
from mistbow.files import write_file
from tests.support.http_server import served
from tests.support.services import storage_agent

pytestmark = pytest.mark.usefixtures("processes")


def run_city(*arguments: str) -> tuple[int, int, int]:
    """Run ``mistbow city``; return its exit code, and the numbers of stored and of lost points."""
    done = subprocess.run(
        [sys.executable, "-m", "command_line.app", "city", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    counts = re.findall(r"([\d,]+) points stored, ([\d,]+) lost", done.stdout)
    stored, lost = (sum(int(pair[n].replace(",", "")) for pair in counts) for n in (0, 1))
    return done.returncode, stored, lost


def test_city_reports_stored_points_that_are_stored(tmp_path: Path) -> None:
    story = ("--rate", "300", "--seconds", "2")
    with IgniteServer(tmp_path) as ignite, storage_agent(tmp_path, ignite.port) as agent:
        code, stored, lost = run_city(agent.url, *story)
        nodes = AgentClient(agent.url).get(latest=False)
    assert (code, lost) == (0, 0)
    assert stored == sum(len(series.values) for node in nodes for series in node.data) > 400


def test_buses_of_all_regions_send_to_the_agents_that_exist(tmp_path: Path) -> None:
    senders: set[str] = set()
    app = FastAPI()

    @app.post("/put")
    def put(request: Request) -> JSONResponse:
        senders.add(request.headers["authorization"])
        return JSONResponse({"result": "OK"})

    files = [tmp_path / f"edge-{number}.token" for number in (1, 2, 3)]
    for file in files[:2]:
        write_file(file, file.stem.encode())
    with served(app) as url:
        urls = (url, url, "http://edge-3.invalid:8300")
        tokens = ",".join(map(str, files))
        code, stored, lost = run_city(
            *urls, "--seconds", "2", "--agents", "2", "--token-files", tokens
        )
    assert (code, lost) == (0, 0)
    assert stored > 200
    assert senders == {"Bearer edge-1", "Bearer edge-2"}


def test_city_reports_lost_points() -> None:
    (nobody,) = free_ports(1)
    code, stored, lost = run_city(f"http://127.0.0.1:{nobody}", "--seconds", "1")
    assert (code, stored) == (1, 0)
    assert lost > 100


class RotatingAgent:
    """An agent that replaces its token, and the sender's file, at the first accepted points."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._tokens = ["first", "second"]
        self.statuses: list[int] = []
        write_file(file, b"first")

    def app(self) -> FastAPI:
        app = FastAPI()

        @app.post("/put")
        def put(request: Request) -> JSONResponse:
            accepted = request.headers["authorization"] == f"Bearer {self._tokens[0]}"
            self.statuses.append(200 if accepted else 401)
            if not accepted:
                body = {"error": {"code": "unauthorized", "message": "the token is unknown"}}
                return JSONResponse(body, 401)
            if len(self._tokens) > 1:
                self._tokens.pop(0)
                write_file(self._file, self._tokens[0].encode())
            return JSONResponse({"result": "OK"})

        return app


def test_city_sends_the_token_of_a_replaced_file(tmp_path: Path) -> None:
    file = tmp_path / "edge-1.token"
    agent = RotatingAgent(file)
    with served(agent.app()) as url:
        code, stored, lost = run_city(
            url, "--regions", "west", "--seconds", "3", "--token-files", str(file)
        )
    assert agent.statuses == [200, 200, 200]
    assert (code, lost) == (0, 0)
    assert stored > 400
