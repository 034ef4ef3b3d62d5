"""A service at an announced address must be of the site that announces it."""

from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from mistbow.auth.fog_keys import FogKeys
from mistbow.auth.identity import IdentityFile
from mistbow.client.credentials import ServiceCredentials
from mistbow.clock import utc_now
from mistbow.settings import ServiceSettings
from tests.support.http_server import plain_service

URL = "http://the-worker:80"
END = utc_now() + timedelta(days=1)


async def test_service_of_another_site_receives_no_request(tmp_path: Path) -> None:
    fog = FogKeys(tmp_path / "keys")
    fog.create()
    worker = fog.issue("worker-cloud", "worker", "cloud", END)
    mine = IdentityFile(fog.issue("mine", "enabler", "cloud", END, ["*"]))
    settings = {"home": tmp_path, "own_urls": URL, "identity_file": worker}
    app = plain_service(ServiceSettings.model_validate(settings))

    async def ask(site: str | None) -> int:
        auth = ServiceCredentials(URL, mine, kind="worker", site=site)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url=URL, auth=auth) as client:
            return (await client.get("/readyz")).status_code

    assert await ask("cloud") == await ask(None) == 200
    # An edge announces the address of the worker of the cloud as its own.
    with pytest.raises(httpx.RequestError, match="is of the site cloud, not of edge"):
        await ask("edge")
