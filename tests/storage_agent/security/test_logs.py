"""Logs contain no token, whichever part of a request contains a token."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import httpx

from ignite_server.ports import free_ports
from ignite_server.server import IgniteServer
from mistbow.auth.token_file import new_token_file, write_token_file
from tests.storage_agent.security.conftest import FOG
from tests.support.conditions import eventually
from tests.support.ignite import empty


def send_token_everywhere(client: httpx.Client, url: str, token: str) -> None:
    """Send requests with a token in unexpected places, some also with a valid header."""
    good = {"Authorization": f"Bearer {token}"}
    for path in (
        f"/streams/{token}",
        f"/streams/{token}/info?access_token={token}",
        f"/streams/raw?from={token}&match={token}",
        f"/streams/raw?columns={token}&follow={token}",
        f"/streams?site={token}",
        f"/{token}",
        f"/fabric?token={token}&api_key={token}",
    ):
        for headers in (good, {}, {"Authorization": token}, {"X-Token": token, **good}):
            client.get(url + path, headers=headers)
    point = {"entityID": token, "metricID": token, "val": token, "timestamp": token}
    bodies = (
        b"{" + token.encode(),
        f'{{"monitoring": [{{"entityID": "{token}"}}]}}'.encode(),
        token.encode() + b"\xff",
    )
    headers = {**good, "Idempotency-Key": token, "Content-Type": token, "Mistbow-Via": token}
    for path in ("/put", "/get", "/sql", "/fabric/greet", "/query", f"/put?site={token}"):
        client.post(url + path, json={"monitoring": [point], "query": token}, headers=headers)
        for body in bodies:
            client.post(url + path, content=body, headers=headers)
    worker = {"name": token, "url": f"http://{token}@h:1", "cores": 1, "memory_mb": 1}
    client.put(f"{url}/workers/{token}", json=worker, headers=good)
    known = {"site": "x", "node": token, "url": "http://127.0.0.1:9", "instance": token}
    client.post(f"{url}/fabric/greet", json={**known, "knows": [known]}, headers=good)
    client.request(token, url, headers=good)
    # No HTTP at all, and HTTP with something odd about it.
    for text in (
        f"{token}\r\n\r\n",
        f"GET /{token} HTTP/1.1\r\n{token}\r\nAuthorization {token}\r\n",
    ):
        target = httpx.URL(url)
        with socket.create_connection((target.host, target.port or 0)) as connection:
            connection.sendall(f"{text}\r\n".encode())


def test_logs_contain_no_token(ignite_server: IgniteServer, tmp_path: Path) -> None:
    empty(ignite_server)
    file = tmp_path / "tokens.json"
    content, token = new_token_file().with_token("reader", frozenset({"read"}), "", None)
    write_token_file(file, content)
    port, silent = free_ports(2)
    own = {
        "HOME": str(tmp_path),
        "TOKEN": FOG,
        "TOKENS_FILE": str(file),
        "AGENT_PORT": str(port),
        "AGENT_URL": f"http://127.0.0.1:{port}",
        # It is greeted each second, with the token, and never answers.
        "PEERS": f"http://127.0.0.1:{silent}",
        "IGNITE_PORT": str(ignite_server.port),
        "LOG_LEVEL": "debug",
    }
    printed = tmp_path / "printed"
    url = f"http://127.0.0.1:{port}"
    with printed.open("wb") as output:
        agent = subprocess.Popen(
            [sys.executable, "-m", "command_line.app", "agent"],
            env={**os.environ, **{f"MISTBOW_{name}": value for name, value in own.items()}},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            good = {"Authorization": f"Bearer {FOG}"}
            eventually(lambda: _is_ready(url, good), what="the agent is ready")
            with httpx.Client() as client:
                for secret in (FOG, token):
                    send_token_everywhere(client, url, secret)
            assert _is_ready(url, good)
        finally:
            agent.terminate()
            agent.wait(20)
    written = [printed, *(tmp_path / "logs").iterdir()]
    log_text = "".join(path.read_text(errors="replace") for path in written)
    assert "ready" in log_text
    # The filter had nothing to hide: it is the last resort for unforeseen secrets.
    assert "[hidden]" not in log_text
    assert FOG not in log_text
    assert token not in log_text
    # The file of tokens has hashes only, and the other files of the agent have no token either.
    others = [path for path in tmp_path.rglob("*") if path.is_file() and path not in written]
    assert not [path for path in others if token.encode() in path.read_bytes()]


def _is_ready(url: str, headers: dict[str, str]) -> bool:
    try:
        return httpx.get(f"{url}/readyz", headers=headers).is_success
    except httpx.HTTPError:
        return False
