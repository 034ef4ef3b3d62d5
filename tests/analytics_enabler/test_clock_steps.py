"""An enabler whose clock is set back."""

from contextlib import closing
from pathlib import Path

import httpx

from analytics_enabler.main import create_app
from analytics_enabler.settings import EnablerSettings
from mistbow.client import AgentClient, Point
from mistbow.clock import system_clock
from tests.analytics_enabler.conftest import SharedSite
from tests.support.conditions import eventually
from tests.support.http_server import served


def test_enabler_finds_new_metrics_after_its_clock_was_set_back(
    shared_site: SharedSite, tmp_path: Path
) -> None:
    now = [system_clock()]
    settings = EnablerSettings(home=tmp_path, agent_url=shared_site.agent)

    def metrics() -> str:
        return httpx.get(f"{url}/api/metrics").text

    with (
        served(create_app(settings, lambda: now[0])) as url,
        closing(AgentClient(shared_site.agent)) as client,
    ):
        eventually(lambda: httpx.get(f"{url}/readyz").is_success, what="the enabler is ready")
        assert "set.back" not in metrics()
        now[0] -= 3_600_000
        client.put([Point("set.back", "e", system_clock(), 1.0)])
        eventually(lambda: "set.back" in metrics(), what="the new metric is found")
