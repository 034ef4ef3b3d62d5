"""The command that ``make up`` prints to send a point, run by a shell as it is printed."""

import json
import os
import subprocess
from pathlib import Path
from shutil import which

import pytest
from fastapi import FastAPI, Request

from deploy.curls import Curls
from mistbow.client.agent import AgentClient
from tests.support.http_server import served
from tests.support.programs import needs


@needs("curl")
def test_printed_command_sends_a_point_to_an_agent(
    url: str, client: AgentClient, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("of-nobody\n")  # this agent has no token, and ignores any
    curls = Curls(url, "http://127.0.0.1:1", sender=str(token), reader=str(token))
    command = curls.post("delay", 42.5)
    done = subprocess.run(("sh", "-c", command), capture_output=True, text=True, check=False)
    assert json.loads(done.stdout)["result"] == "OK", done.stderr
    [node] = client.get(metric="delay")
    [found] = node.data
    assert (found.entity, found.values[0].value) == ("by-hand", 42.5)


@needs("curl")
@pytest.mark.usefixtures("processes")
def test_printed_command_sends_the_token_but_not_as_an_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    senders: list[str] = []
    app = FastAPI()

    @app.post("/put")
    def put(request: Request) -> dict[str, str]:
        senders.append(request.headers["authorization"])
        return {"result": "OK"}

    (tmp_path / "token").write_text("of-a-sender\n")
    # It records its arguments, and then runs the real curl.
    recorder = tmp_path / "bin" / "curl"
    recorder.parent.mkdir()
    recorder.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/arguments\nexec {which("curl")} "$@"\n'
    )
    recorder.chmod(0o700)
    monkeypatch.setenv("PATH", f"{recorder.parent}:{os.environ['PATH']}")
    with served(app) as url:
        token = str(tmp_path / "token")
        command = Curls(url, url, sender=token, reader=token).post("delay", 42.5)
        subprocess.run(("sh", "-c", command), check=True, capture_output=True)
    assert senders == ["Bearer of-a-sender"]
    assert "delay" in (tmp_path / "arguments").read_text()
    assert "of-a-sender" not in (tmp_path / "arguments").read_text() + command
