"""Requests between services with identities: who is accepted, and what a new file changes."""

import stat
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from structlog.testing import capture_logs

from mistbow.auth.callers import current_caller
from mistbow.auth.credential import Kind
from mistbow.auth.fog_keys import FogKeys
from mistbow.auth.identity import IdentityFile, Proof
from mistbow.auth.rules import requires
from mistbow.client.credentials import ServiceCredentials
from mistbow.clock import utc_now
from mistbow.errors import ConflictError, InvalidRequestError
from mistbow.settings import ServiceSettings
from tests.support.http_server import plain_service, served

# The tests send requests to served applications.
pytestmark = pytest.mark.integration

TOKEN = "the-token-of-the-fog"  # noqa: S105 - of these tests only
END = utc_now() + timedelta(days=1)


def service(home: Path, **settings: Any) -> FastAPI:
    """Return a service that answers who calls."""
    made = ServiceSettings.model_validate({"home": home, **settings})
    app = plain_service(made)

    @app.get("/caller")
    @requires("read")
    async def caller() -> dict[str, str]:
        return {"name": current_caller().name}

    return app


def ask(url: str, proof: Proof, kind: Kind | None = None) -> str:
    assert proof is not None
    with httpx.Client(base_url=url, auth=ServiceCredentials(url, proof, kind=kind)) as client:
        answer = client.get("/caller")
        assert answer.status_code == 200, answer.text
        return str(answer.json()["name"])


def test_service_is_the_caller_of_its_requests(fog: FogKeys, tmp_path: Path) -> None:
    server = fog.issue("server", "agent", "edge", END)
    client = IdentityFile(fog.issue("w1", "worker", "edge", END))
    with served(service(tmp_path, identity_file=server)) as url:
        assert ask(url, client, "agent") == "worker w1"
        with pytest.raises(
            httpx.RequestError, match="it is the agent server, not of the kind worker"
        ):
            ask(url, client, "worker")


def test_foreign_expired_and_shared_proofs_are_refused(fog: FogKeys, tmp_path: Path) -> None:
    foreign = FogKeys(tmp_path / "foreign")
    foreign.create()
    server = fog.issue("server", "agent", "edge", END)
    client = fog.issue("w1", "worker", "edge", END)
    with served(service(tmp_path, identity_file=server)) as url:
        for proof, reason in (
            (IdentityFile(foreign.issue("w1", "worker", "edge", END)), "by the key of this fog"),
            (TOKEN, "accepts identities only"),
        ):
            with pytest.raises(httpx.RequestError, match=reason):
                ask(url, proof)
        # The clock of the client is late: for the server, its credential has expired.
        fog.issue("w1", "worker", "edge", utc_now() + timedelta(milliseconds=1))
        late = IdentityFile(client, clock=lambda: utc_now() - timedelta(days=1))
        with pytest.raises(httpx.RequestError, match="w1 expired on"):
            ask(url, late)
    # And a server of another fog learns nothing but the challenge.
    stranger = foreign.issue("server", "agent", "edge", END)
    client = fog.issue("w1", "worker", "edge", END)
    with (
        served(service(tmp_path, identity_file=stranger)) as url,
        pytest.raises(httpx.RequestError, match="by the key of this fog"),
    ):
        ask(url, IdentityFile(client))


def test_new_identity_takes_effect_without_a_restart(fog: FogKeys, tmp_path: Path) -> None:
    server = fog.issue("server", "agent", "edge", END)
    client = IdentityFile(fog.issue("w1", "worker", "edge", END))
    with served(service(tmp_path, identity_file=server)) as url:
        credentials = ServiceCredentials(url, client)
        with httpx.Client(base_url=url, auth=credentials) as open_client:
            assert open_client.get("/caller").status_code == 200
            fog.issue("server", "agent", "edge", END)
            fog.issue("w1", "worker", "edge", END)
            assert open_client.get("/caller").status_code == 200
            assert ask(url, client) == "worker w1"
            fog.revoke("w1")
            # The running session ends too, though it began with the first credential of w1.
            with pytest.raises(httpx.RequestError):
                open_client.get("/caller")


def test_fog_changes_over_from_token_to_identities(fog: FogKeys, tmp_path: Path) -> None:
    server = fog.issue("server", "agent", "edge", END)
    file = fog.issue("w1", "worker", "edge", END)
    both = IdentityFile(file, TOKEN)
    with served(service(tmp_path, token=TOKEN)) as url:
        assert ask(url, TOKEN) == "of the fog"
        assert ask(url, both) == "of the fog"
    with served(service(tmp_path, token=TOKEN, identity_file=server)) as url:
        assert ask(url, TOKEN) == "of the fog"
        assert ask(url, both) == "worker w1"
    with served(service(tmp_path, identity_file=server)) as url:
        assert ask(url, both) == "worker w1"
        assert httpx.get(f"{url}/caller", headers=bearer(TOKEN)).status_code == 401
        assert httpx.get(f"{url}/caller", headers={"Authorization": "Bearer"}).status_code == 401


def test_fallback_to_the_service_key_is_logged_once_and_not_after_an_identity(
    fog: FogKeys, tmp_path: Path
) -> None:
    server = fog.issue("server", "agent", "edge", END)
    both = IdentityFile(fog.issue("w1", "worker", "edge", END), TOKEN)

    with served(service(tmp_path, token=TOKEN)) as url, capture_logs() as logs:
        credentials = ServiceCredentials(url, both)
        with httpx.Client(base_url=url, auth=credentials) as client:
            client.get("/caller").raise_for_status()
            credentials._session = None
            client.get("/caller").raise_for_status()
        port = int(url.rpartition(":")[2])
    [fallback] = [each for each in logs if each["event"] == "identity_fallback"]
    assert "has no identity" in fallback["reason"]
    # At the same address, the service had an identity, and has lost it.
    credentials = ServiceCredentials(url, both)
    with httpx.Client(base_url=url, auth=credentials) as client:
        with served(service(tmp_path, token=TOKEN, identity_file=server), port):
            client.get("/caller").raise_for_status()
        with (
            served(service(tmp_path, token=TOKEN), port),
            pytest.raises(httpx.RequestError, match="proves no identity now"),
        ):
            client.get("/caller")


def test_required_identities_refuse_services_with_the_token_only(
    fog: FogKeys, tmp_path: Path
) -> None:
    given = {
        "token": TOKEN,
        "identity_file": fog.issue("server", "agent", "edge", END),
        "identities_required": True,
    }
    strict = ServiceSettings.model_validate({"home": tmp_path, **given})
    with served(service(tmp_path, **given)) as url:
        with pytest.raises(httpx.RequestError, match="accepts identities only"):
            ask(url, TOKEN)
        # People may still have the token.
        assert httpx.get(f"{url}/caller", headers=bearer(TOKEN)).status_code == 200
    with (
        served(service(tmp_path, token=TOKEN)) as url,
        pytest.raises(httpx.RequestError, match="has no identity"),
    ):
        ask(url, strict.proof)
    with pytest.raises(ValueError, match="also needs MISTBOW_IDENTITY_FILE"):
        ServiceSettings.model_validate({"home": tmp_path, "identities_required": True})


def test_identity_that_expires_soon_is_a_warning_and_a_metric(fog: FogKeys, tmp_path: Path) -> None:
    end = utc_now() + timedelta(days=20)
    app = service(tmp_path, identity_file=fog.issue("soon", "agent", "edge", end))
    with served(app) as url:
        probe = bearer(app.state.probe_token)
        ready = httpx.get(f"{url}/readyz", headers=probe)
        assert ready.status_code == 200
        assert f"soon expires on {end:%Y-%m-%d}" in ready.json()["warnings"][0]
        metrics = httpx.get(f"{url}/metrics", headers=probe).text
        [line] = [
            each for each in metrics.splitlines() if 'expiry_timestamp_seconds{name="soon"' in each
        ]
        assert float(line.split()[-1]) == pytest.approx(end.timestamp())
        fog.issue("soon", "agent", "edge", utc_now() + timedelta(days=90))
        assert "warnings" not in httpx.get(f"{url}/readyz", headers=probe).json()


def test_health_check_reads_by_a_token_of_the_service(fog: FogKeys, tmp_path: Path) -> None:
    app = service(tmp_path, identity_file=fog.issue("server", "agent", "edge", END))
    with served(app) as url:
        headers = bearer(app.state.probe_token)
        assert httpx.get(f"{url}/readyz", headers=headers).status_code == 200
        assert httpx.get(f"{url}/readyz").status_code == 401


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_keys_are_private_and_made_once(fog: FogKeys) -> None:
    fog.issue("server", "agent", "Edge", END, ["Cloud"])
    assert {stat.S_IMODE(path.stat().st_mode) for path in fog.folder.iterdir()} == {0o600}
    assert stat.S_IMODE(fog.folder.stat().st_mode) == 0o700
    with pytest.raises(ConflictError, match="exists already"):
        fog.create()
    with pytest.raises(InvalidRequestError, match="kind"):
        fog.issue("server", "sensor", "edge", END)
