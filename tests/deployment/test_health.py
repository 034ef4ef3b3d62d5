"""The health check of containers: it proves itself to a service, whose settings it shares."""

import socket
import threading
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from deploy import health
from ignite_server.ports import free_ports
from mistbow.auth.fog_keys import FogKeys
from mistbow.clock import utc_now
from mistbow.settings import ServiceSettings
from tests.support.http_server import plain_service, served


@pytest.mark.parametrize("source", ["token", "file", "identity"])
def test_health_check_is_accepted_with_each_kind_of_credentials(
    source: str, tmp_path: Path, fog_keys: FogKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MISTBOW_HOME", str(tmp_path))
    if source == "token":
        monkeypatch.setenv("MISTBOW_TOKEN", "made-for-this-test")
    elif source == "file":
        (tmp_path / "token").write_text("made-for-this-test\n")
        monkeypatch.setenv("MISTBOW_TOKEN_FILE", str(tmp_path / "token"))
    else:
        file = fog_keys.issue("edge", "agent", "edge", utc_now() + timedelta(days=1))
        monkeypatch.setenv("MISTBOW_IDENTITY_FILE", str(file))
    app = plain_service(ServiceSettings())
    with served(app) as url:
        assert httpx.get(f"{url}/readyz").status_code == 401
        port = httpx.URL(url).port
        assert port is not None
        # The entry point of services writes it.
        (tmp_path / f"probe-{port}.token").write_text(app.state.probe_token)
        health.main(port)


def test_services_are_asked_at_the_same_time_and_each_problem_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = threading.Barrier(3)
    app = FastAPI()

    @app.get("/readyz")
    def readyz(request: Request) -> JSONResponse:
        # Each answer waits until all three services are asked.
        asked.wait(3)
        port = request.url.port
        return JSONResponse({"waits for": f"the agent of {port}"}, 200 if port == ports[0] else 503)

    monkeypatch.delenv("MISTBOW_IDENTITY_FILE", raising=False)
    [closed] = free_ports(1)
    ports: list[int] = []
    with served(app) as first, served(app) as second, served(app) as third:
        ports += [httpx.URL(url).port or 0 for url in (first, second, third)]
        with pytest.raises(SystemExit) as ended:
            health.main(*ports, closed)
    text = str(ended.value.code)
    assert [f"port {port}: " in text for port in ports] == [False, True, True]
    assert [f"agent of {port}" in text for port in ports] == [False, True, True]
    assert f"no answer at port {closed}" in text


def test_check_ends_in_time_although_each_step_of_an_answer_is_fast(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MISTBOW_IDENTITY_FILE", raising=False)
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer_byte_by_byte() -> None:
            connection, _ = server.accept()
            with connection:
                while not ended.wait(0.02):
                    connection.send(b"H")

        answering = threading.Thread(target=answer_byte_by_byte)
        answering.start()
        port = server.getsockname()[1]
        try:
            with pytest.raises(SystemExit) as refused:
                health.main(port, patience_s=0.5)
        finally:
            ended.set()
            answering.join()
    assert refused.value.code == f"no answer at port {port} within 0.5 s"


def test_unreadable_authorities_are_a_problem_of_each_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MISTBOW_TLS_CERT", str(tmp_path / "service.pem"))
    monkeypatch.setenv("MISTBOW_TLS_CA", str(tmp_path / "missing.pem"))
    ports = free_ports(2)
    with pytest.raises(SystemExit) as ended:
        health.main(*ports)
    for port, line in zip(ports, str(ended.value.code).splitlines(), strict=True):
        assert line.startswith(f"no answer at port {port}: ")
