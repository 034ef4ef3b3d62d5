"""HTTP proxies that the environment names: which requests they may read."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from mistbow.client.credentials import ServiceCredentials
from mistbow.client.transport import Call, Transport, no_answer
from mistbow.errors import MistbowError, UnavailableError
from mistbow.trust_settings import TlsSettings
from suite.services import probe_client as supervisor_client
from tests.mistbow.client.test_credentials import TOKEN, echo, service
from tests.support.http_server import served
from tests.support.recorder import Recorder

# The tests send requests for seconds.
pytestmark = pytest.mark.integration


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    with Recorder() as proxy:
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        yield proxy


def test_proxy_reads_no_request_to_this_machine(proxy: Recorder, tmp_path: Path) -> None:
    with served(service(tmp_path)) as url:
        for token in (ServiceCredentials(url, TOKEN), TOKEN):
            client = Transport(url, token=token, attempts=1)
            assert client.send(echo())["body"] == "hello"
            client.close()
        with supervisor_client(TlsSettings()) as probe:
            credentials = ServiceCredentials(url, TOKEN)
            assert probe.get(f"{url}/readyz", auth=credentials).status_code == 200
    assert proxy.connections == []


def test_proxy_reads_no_request_between_services(proxy: Recorder) -> None:
    with Recorder() as listener:
        # This address leads to this machine too, but is not one of loopback.
        url = f"http://0.0.0.0:{httpx.URL(listener.url).port}"
        client = Transport(url, token=ServiceCredentials(url, TOKEN), attempts=1)
        with pytest.raises(UnavailableError, match="did not prove"):
            client.send(echo())
        client.close()
        assert listener.requests() == [b"POST /challenge HTTP/1.1"]
    assert proxy.connections == []


def test_user_reaches_other_machines_by_the_proxy_of_the_environment(proxy: Recorder) -> None:
    client = Transport("http://192.0.2.1:8300", token=TOKEN, attempts=1)
    with pytest.raises(MistbowError, match="status 404"):
        client.send(Call("GET", "/readyz", no_answer))
    client.close()
    assert b"GET http://192.0.2.1:8300/readyz HTTP/1.1" in proxy.received
